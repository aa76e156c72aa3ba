package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tidemark/internal/testkit"
)

// home is a service's configuration and folders, on a test's own brokers. What
// a test does not say is filled in.
type home struct {
	t      *testing.T
	broker *testkit.Broker
	topic  string
	file   string // the configuration
	dir    string // state.dir
	url    string
	kafka  string // more of section kafka, in flow style, each with a comma before it
	state  string // likewise
	http   string // likewise
	rest   string // more sections
	sql    string
}

// newHome is a home for a query of the topic sales.
func newHome(t *testing.T, b *testkit.Broker, sql string) *home {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir := t.TempDir()
	h := &home{t: t, broker: b, topic: "sales", file: filepath.Join(dir, "tidemark.yaml"), dir: filepath.Join(dir, "state"), url: "http://" + l.Addr().String()}
	h.query(sql)
	return h
}

// query takes another query.
func (h *home) query(sql string) {
	h.t.Helper()
	h.sql = sql
	h.write()
}

// write writes the configuration, after its parts were changed.
func (h *home) write() {
	h.t.Helper()
	if !strings.Contains(h.state, "min_free") {
		h.state += ", min_free: 1MiB"
	}
	text := fmt.Sprintf("query: |\n  %s\nkafka: {bootstrap.servers: [%q], group.id: g, session.timeout.ms: 6000%s}\nstate: {dir: %q, apply_interval: 50ms%s}\nhttp: {listen: %q%s}\nlog: {format: json}\n%s",
		strings.ReplaceAll(h.sql, "\n", "\n  "), h.broker.Addrs()[0], h.kafka, h.dir, h.state, strings.TrimPrefix(h.url, "http://"), h.http, h.rest)
	if err := os.WriteFile(h.file, []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// beside is another member of the same group, with folders of its own.
func (h *home) beside() *home {
	h.t.Helper()
	other := newHome(h.t, h.broker, h.sql)
	other.kafka, other.state, other.http, other.rest = h.kafka, h.state, h.http, h.rest
	other.write()
	return other
}

// running is one run of serve.
type running struct {
	*home
	sigterm context.CancelFunc
	ended   chan int
	errs    *output
	over    bool
}

// serve starts a run, which ends with the test.
func (h *home) serve() *running {
	h.t.Helper()
	ctx, cancel := context.WithCancel(h.t.Context())
	r := &running{home: h, sigterm: cancel, ended: make(chan int, 1), errs: newOutput()}
	go func() { r.ended <- run(ctx, []string{"serve", "-c", h.file}, os.LookupEnv, io.Discard, r.errs) }()
	h.t.Cleanup(func() {
		cancel()
		if !r.over {
			<-r.ended
		}
		if h.t.Failed() {
			log := r.errs.String()
			h.t.Logf("log of %s:\n%s", h.url, log[max(0, len(log)-6000):])
		}
	})
	return r
}

// ends waits for the end of the run, which has the status, and returns its log.
func (r *running) ends(status int) string {
	r.t.Helper()
	select {
	case is := <-r.ended:
		r.over = true
		if is != status {
			r.t.Errorf("serve ends with %d, want %d: %s", is, status, r.errs)
		}
	case <-time.After(25 * time.Second):
		r.t.Fatalf("serve does not end within 25 s: %s", r.errs)
	}
	return r.errs.String()
}

// stop is SIGTERM and a clean end.
func (r *running) stop() string {
	r.t.Helper()
	r.sigterm()
	return r.ends(exitDone)
}

// until waits until what holds.
func (r *running) until(what string, cond func() bool) {
	r.t.Helper()
	testkit.Eventually(r.t, 60*time.Second, func() bool {
		if !r.over && len(r.ended) > 0 {
			r.t.Fatalf("waiting for %s: serve has ended: %s", what, r.errs)
		}
		return cond()
	}, "%s", what)
}

// ask asks for a path; a service that does not answer yet gives status 0.
func (r *running) ask(path string) (code int, body string, header http.Header) {
	resp, err := http.Get(r.url + path)
	if err != nil {
		return 0, err.Error(), nil
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error(), nil
	}
	return resp.StatusCode, string(text), resp.Header
}

// part is what the status tells of a partition.
type part struct {
	Partition int32
	State     string
	Reason    string
	Position  int64
	Lag       int64
	LogStart  int64 `json:"log_start"`
	Counts    map[string]int64
	Snapshot  *struct{ Seq, Position int64 }
}

// told is the status.
type told struct {
	Member     string
	Generation int32
	Partitions []part
	Members    []struct {
		Member, Address string
		Partitions      []int32
	}
}

func (r *running) status() (s told) {
	code, body, _ := r.ask("/v1/status")
	if code == http.StatusOK {
		if err := json.Unmarshal([]byte(body), &s); err != nil {
			r.t.Errorf("%v: %s", err, body)
		}
	}
	return s
}

// part is partition n in the status, zero where it is not there.
func (r *running) part(n int32) part {
	for _, p := range r.status().Partitions {
		if p.Partition == n {
			return p
		}
	}
	return part{}
}

// has waits until this member holds partitions, all live and at the end that is
// readable now.
func (r *running) has(partitions ...int32) {
	r.t.Helper()
	ends := map[int32]int64{}
	for _, p := range partitions {
		_, ends[p] = r.broker.Bounds(r.topic, p)
	}
	r.until(fmt.Sprintf("partitions %v caught up", partitions), func() bool {
		var live []int32
		for _, p := range r.status().Partitions {
			if p.State == "live" && p.Lag == 0 && p.Position >= ends[p.Partition] {
				live = append(live, p.Partition)
			}
		}
		slices.Sort(live)
		return slices.Equal(live, partitions)
	})
}

// caughtUp is has of all partitions.
func (r *running) caughtUp() {
	r.t.Helper()
	var all []int32
	for n := range int32(len(r.broker.PartitionInfos(r.topic))) {
		all = append(all, n)
	}
	r.has(all...)
}

// row is the row of a key as it is answered, or the problem.
func (r *running) row(path string) string {
	code, body, _ := r.ask("/v1/aggregates/" + path)
	if code != http.StatusOK {
		return fmt.Sprintf("%d %s", code, body)
	}
	var answer struct{ Row json.RawMessage }
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		return err.Error()
	}
	return string(answer.Row)
}

// expect compares a row.
func (r *running) expect(key, want string) {
	r.t.Helper()
	if have := r.row(key); have != want {
		r.t.Errorf("key %s: %s, want %s", key, have, want)
	}
}

// series are the lines of /metrics with a name and all of some labels.
func (r *running) series(name string, labels ...string) (lines []string) {
	_, body, _ := r.ask("/metrics")
	for line := range strings.Lines(body) {
		has := strings.HasPrefix(line, name+"{") || strings.HasPrefix(line, name+" ")
		for _, l := range labels {
			has = has && strings.Contains(line, l)
		}
		if has {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// messages are messages without a Kafka key.
func messages(values ...string) (all []testkit.Message) {
	for _, v := range values {
		all = append(all, testkit.Message{Value: []byte(v)})
	}
	return all
}

// repeated is a message n times.
func repeated(n int, value string) []testkit.Message {
	return slices.Repeat(messages(value), n)
}

// lineCount is the number of lines of a log that have what.
func lineCount(log, what string) int {
	return bytes.Count([]byte(log), []byte(what))
}
