package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tidemark/internal/testkit"
)

// TestK01K04K05GroupsAtTheirEdges: what happens to topic, group and snapshots
// between two runs; each folder and each group is that of the run before.
func TestK01K04K05GroupsAtTheirEdges(t *testing.T) {
	for _, c := range []struct {
		name      string
		kafka     string // of the configuration
		shared    bool   // snapshots outside of state.dir
		meanwhile func(t *testing.T, h *home)
		state     string // of partition 0 in the second run, "" where it waits for the topic
		reason    string
		row       string // of U-1, "" where it is not asked
	}{
		{"nothing happens", "", false, func(*testing.T, *home) {}, "live", "", ones(10)},
		{"retention takes all that is folded", "", false, func(_ *testing.T, h *home) { h.broker.DeleteRecords("sales", 0, 5) }, "live", "", ones(10)},
		{"retention takes a part of what is folded", "", false, func(_ *testing.T, h *home) { h.broker.DeleteRecords("sales", 0, 3) }, "live", "", ones(10)},
		{"retention takes one that is not folded", "", false, func(_ *testing.T, h *home) {
			h.broker.Produce("sales", 0, repeated(3, one)...)
			h.broker.DeleteRecords("sales", 0, 6)
		}, "gap", "retention removed 1 records", ""},
		{"partitions are added while it is away", "auto.offset.reset: latest", false, func(_ *testing.T, h *home) {
			h.broker.SetPartitions("sales", 4)
			h.broker.Produce("sales", 3, repeated(7, one)...)
		}, "live", "", ones(7)},
		{"the topic is gone", "", false, func(_ *testing.T, h *home) { h.broker.DeleteTopic("sales") }, "", "", ""},
		{"the topic is made again, and is empty", "", false, func(_ *testing.T, h *home) {
			h.broker.DeleteTopic("sales")
			h.broker.CreateTopic("sales", 2)
		}, "paused", "was deleted and created again", ""},
		{"the topic is made again, and the state is lost", "", true, func(t *testing.T, h *home) {
			h.broker.DeleteTopic("sales")
			h.broker.CreateTopic("sales", 2)
			h.broker.Produce("sales", 0, repeated(2, one)...)
			remove(t, h.dir)
		}, "paused", "there is no state here, and the group's commit names snapshot", ""},
		{"the disk is lost", "", true, func(t *testing.T, h *home) { remove(t, h.dir) }, "live", "", ones(10)},
		{"disk and snapshots are lost", "", false, func(t *testing.T, h *home) { remove(t, h.dir) }, "paused", "there is no state here, and the group's commit names snapshot", ""},
		{"the snapshots are lost, the disk is not", "", true, func(t *testing.T, h *home) {
			remove(t, strings.TrimSuffix(strings.TrimPrefix(h.rest, "snapshots: {url: 'file://"), "'}\n"))
		}, "live", "", ones(10)},
		{"one partition's folder is lost", "", true, func(t *testing.T, h *home) { remove(t, filepath.Join(h.dir, "partitions", "0")) }, "live", "", ones(10)},
		{"the reset is changed", "", false, func(_ *testing.T, h *home) { h.kafka = ", auto.offset.reset: latest"; h.write() }, "live", "", ones(10)},
		{"another group on the same folder", "", false, func(t *testing.T, h *home) {
			text := strings.Replace(fileText(t, h.file), "group.id: g", "group.id: other", 1)
			if err := os.WriteFile(h.file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "live", "", ones(10)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: "sales", Partitions: 2})
			h := newHome(t, b, countQuery)
			if c.kafka != "" {
				h.kafka = ", " + c.kafka
			}
			if c.shared {
				h.rest = "snapshots: {url: 'file://" + t.TempDir() + "'}\n"
			}
			h.write()
			for p := range int32(2) {
				b.Produce("sales", p, repeated(5, one)...)
			}
			s := h.serve()
			s.caughtUp()
			s.stop()
			c.meanwhile(t, h)
			s = h.serve()
			if c.state == "" {
				s.until("alive, and waiting for the topic", func() bool { code, body, _ := s.ask("/readyz"); return code == 503 && body != "" })
				s.until("it says so", func() bool { return strings.Contains(s.errs.String(), "does not exist") })
				return
			}
			s.until(c.state, func() bool {
				p := s.part(0)
				return p.State == c.state
			})
			if p := s.part(0); !strings.Contains(p.Reason, c.reason) {
				t.Errorf("it is %s: %s", p.State, p.Reason)
			}
			if c.row != "" {
				s.caughtUp()
				s.expect("U-1", c.row)
			}
		})
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}

// TestO03O04O09StartsAtTheirEdges: surroundings in which serve is started. It
// ends with a status and a sentence, or is alive and says what it waits for.
func TestO03O04O09StartsAtTheirEdges(t *testing.T) {
	t.Parallel()
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { busy.Close() })
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: "sales"})
	b.Produce("sales", 0, append(repeated(2, one), messages("{")...)...)
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		change func(h *home)
		status int // with which it ends; -1 where it goes on
		says   string
		ready  bool
	}{
		{"all is well", func(*home) {}, -1, "", true},
		{"the port is taken", func(h *home) { h.url = "http://" + busy.Addr().String() }, exitFailed, "listen at http.listen " + busy.Addr().String(), false},
		{"the state directory is a file", func(h *home) { h.dir = plain }, exitFailed, "see state.dir", false},
		{"the state directory lies below a file", func(h *home) { h.dir = filepath.Join(plain, "state") }, exitFailed, "see state.dir", false},
		{"the snapshots lie below a file", func(h *home) { h.rest = "snapshots: {url: 'file://" + plain + "/x'}\n" }, -1, "snapshot store", false},
		{"the dead letters lie below a file", func(h *home) { h.rest = "events: {dead_letter: {file: '" + plain + "/x.ndjson'}}\n" }, exitFailed, "dead letter file", false},
		{"the folder of the dead letters is not there", func(h *home) { h.rest = "events: {dead_letter: {file: '" + h.dir + "-more/x.ndjson'}}\n" }, -1, "", true},
		{"the topic of the dead letters is not there", func(h *home) { h.rest = "events: {dead_letter: {topic: nowhere}}\n" }, -1, "dead letter topic nowhere: nowhere: kafka server: Request was for a topic or partition that does not exist", false},
		{"the dead letters go where they come from", func(h *home) { h.rest = "events: {dead_letter: {topic: sales}}\n" }, exitUsage, "is the topic of the query", false},
		{"a certificate is not there", func(h *home) { h.http = ", tls: {cert_file: nowhere.pem, key_file: nowhere.pem}" }, exitUsage, "nowhere.pem", false},
		{"a token's file is not there", func(h *home) { h.http = ", tokens: ['file:nowhere']" }, exitUsage, "nowhere", false},
		{"the history is not there", func(h *home) { h.rest = "history: {file: nowhere.ndjson, cut: {mode: earliest}}\n" }, exitFailed, "load the history", false},
		{"the history is of another shape", func(h *home) {
			h.rest = fmt.Sprintf("history: {file: %q, cut: {mode: earliest}}\n", h.file)
		}, exitFailed, "max_missing_share", false},
		{"a cut that the topic does not have", func(h *home) { h.rest = history(h, "mode: offsets, offsets: {0: 99}") }, exitFailed, "is above", false},
		{"a cut for a partition that is not there", func(h *home) { h.rest = history(h, "mode: offsets, offsets: {0: 0, 7: 1}") }, exitFailed, "name partition 7", false},
		{"nothing says where to begin", func(h *home) { h.kafka = ", auto.offset.reset: error" }, exitFailed, "auto.offset.reset is error", false},
		{"a topic that is not there", func(h *home) { h.sql = strings.Replace(h.sql, "sales GROUP", "nowhere GROUP", 1) }, -1, "does not exist", false},
		{"a key is given twice", func(h *home) { h.kafka = ", bootstrap.servers: x" }, exitUsage, "is given twice", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t, b, countQuery)
			c.change(h)
			h.write()
			text := strings.Replace(fileText(t, h.file), "group.id: g", "group.id: "+strings.ReplaceAll(t.Name(), "/", "-"), 1)
			if err := os.WriteFile(h.file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			s := h.serve()
			if c.status >= 0 {
				log := s.ends(c.status)
				if last := log[strings.LastIndex(strings.TrimSpace(log), "\n")+1:]; !strings.HasPrefix(last, "tidemark: ") || !strings.Contains(log, c.says) {
					t.Errorf("it says %s, want %s", log, c.says)
				}
				return
			}
			s.until("alive", func() bool { code, _, _ := s.ask("/healthz"); return code == 200 })
			if c.ready {
				s.until("ready", func() bool { code, _, _ := s.ask("/readyz"); return code == 200 })
				s.expect("U-1", ones(2))
			} else {
				s.until(c.says, func() bool {
					_, body, _ := s.ask("/readyz")
					return strings.Contains(body, c.says) || strings.Contains(s.errs.String(), c.says)
				})
				if code, body, _ := s.ask("/readyz"); code != 503 {
					t.Errorf("/readyz: %d %s", code, body)
				}
			}
			s.stop()
		})
	}
}

// history configures a history of one document with a cut.
func history(h *home, cut string) string {
	file := h.file + ".ndjson"
	if err := os.WriteFile(file, []byte(`{"userId":"U-9","revenue":1,"sales":1}`), 0o600); err != nil {
		h.t.Fatal(err)
	}
	return fmt.Sprintf("history: {file: %q, cut: {%s}}\n", file, cut)
}

// TestO03EndsAtAnyMoment: a SIGTERM at any moment of a start is a clean end, and
// the start after it has all.
func TestO03EndsAtAnyMoment(t *testing.T) {
	t.Parallel()
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: "sales", Partitions: 3})
	for p := range int32(3) {
		b.Produce("sales", p, repeated(100, one)...)
	}
	h := newHome(t, b, countQuery)
	for i := range 25 {
		s := h.serve()
		<-time.After(time.Duration(i*i) * time.Millisecond)
		s.stop()
	}
	s := h.serve()
	s.caughtUp()
	s.expect("U-1", ones(300))
}
