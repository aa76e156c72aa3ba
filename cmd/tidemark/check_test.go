package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/config"
	"tidemark/internal/testkit"
	"tidemark/store"
)

// connected runs check --connect and returns the steps of some kinds.
func connected(t *testing.T, file string, kinds ...string) (status int, steps []checked) {
	t.Helper()
	status, stdout, stderr := tidemark(t, nil, "check", "--connect", "--json", "-c", file)
	var all []checked
	if err := json.Unmarshal([]byte(stdout), &all); err != nil {
		t.Fatalf("%v: %s%s", err, stdout, stderr)
	}
	for _, s := range all {
		for _, kind := range kinds {
			if s.Step == kind {
				steps = append(steps, s)
			}
		}
	}
	return status, steps
}

// TestO08CheckShowsTheEvents: the newest events as rows, or why each is bad, by
// the cut that is configured; no group is joined.
func TestO08CheckShowsTheEvents(t *testing.T) {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "sales", "empty", "bad"))
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	broker.ControlKey(int16(kmsg.JoinGroup), func(kmsg.Request) (kmsg.Response, error, bool) {
		t.Error("the group is joined")
		return nil, nil, false
	})
	producer, err := kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	for topic, values := range map[string][]string{
		"sales": {
			`{"userId":23,"revenue":12.330,"at":"2015-07-29T09:17:12Z"}`, `{"userId":24,"revenue":"x","at":"2015-07-29T09:17:12Z"}`, "",
			`{"userId":25,"revenue":1,"channel":"test","at":"2015-07-29T09:17:12Z"}`, `{"userId":26,"revenue":1,"at":"2014-07-29T09:17:12Z"}`,
		},
		"bad": {`{`, `{"user":1}`},
	} {
		for _, v := range values {
			r := &kgo.Record{Topic: topic, Value: []byte(v)}
			if v == "" {
				r.Key, r.Value = []byte("24"), nil
			}
			if err := producer.ProduceSync(t.Context(), r).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	configure := func(topic, cut string) string {
		dir := t.TempDir()
		history := filepath.Join(dir, "history.ndjson")
		if err := os.WriteFile(history, []byte(`{"userId":1,"revenue":1,"latest":"2015-07-29T09:17:12Z"}`), 0o600); err != nil {
			t.Fatal(err)
		}
		return writeConfig(t, fmt.Sprintf("query: SELECT userId, sum(revenue) AS revenue FROM %s WHERE channel IS NULL GROUP BY userId\n"+
			"kafka:\n  bootstrap.servers: [%q]\n  group.id: g\nhistory: {file: %q, cut: %s}\nstate: {dir: %q}\nhttp: {listen: '127.0.0.1:0'}\n",
			topic, broker.ListenAddrs()[0], history, cut, filepath.Join(dir, "a", "state")))
	}
	status, steps := connected(t, configure("sales", "{mode: timestamp, timestamp: 2015-01-01T00:00:00Z, event_time: at}"), "events", "event")
	if status != exitDone {
		t.Errorf("status %d, %+v", status, steps)
	}
	wantSteps(t, steps, "events true of the newest 5: 1 folded, 1 filtered, 1 bad, 1 tombstone, 1 before_cut: bad_number of revenue in 1",
		`event true {"userId":23,"revenue":12.33}`, "event true is bad: bad_number of revenue", "event true is a tombstone", "event true is filtered")
	if len(steps) > 1 && steps[1].Object != "sales/0@0" {
		t.Errorf("the first event is %s", steps[1].Object)
	}
	_, steps = connected(t, configure("empty", "{mode: latest}"), "events", "event")
	wantSteps(t, steps, "events true there are none yet")
	status, steps = connected(t, configure("bad", "{mode: guard, event_time: at, guard_field: latest}"), "events", "event")
	wantSteps(t, steps, "events false of the newest 2: 2 bad: missing_field of", "event true is bad: not_json", "event true is bad: missing_field of")
	if status != exitFailed {
		t.Errorf("status %d where all events are bad", status)
	}
}

// TestO08CheckMakesTheCut: where each partition would begin, or why the cut
// cannot be made; nothing is said once there is one.
func TestO08CheckMakesTheCut(t *testing.T) {
	b := testkit.NewBroker(t, testkit.BrokerOptions{})
	b.CreateTopic("sales", 2)
	for p, n := range []int{3, 1} {
		for range n {
			b.Produce("sales", int32(p), testkit.Text("1", `{"userId":1}`))
		}
	}
	history := filepath.Join(t.TempDir(), "history.ndjson")
	if err := os.WriteFile(history, []byte(`{"userId":1,"n":1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	configure := func(kafka, cut string) string {
		if cut != "" {
			cut = fmt.Sprintf("history: {file: %q, cut: %s}\n", history, cut)
		}
		return writeConfig(t, fmt.Sprintf("query: SELECT userId, count(*) AS n FROM sales GROUP BY userId\n"+
			"kafka: {bootstrap.servers: [%q], group.id: g%s}\n%sstate: {dir: %q}\nhttp: {listen: '127.0.0.1:0'}\n",
			b.Addrs()[0], kafka, cut, filepath.Join(t.TempDir(), "state")))
	}
	for name, c := range map[string]struct{ kafka, cut, want string }{
		"no history":  {"", "", "reset true made now, partitions begin at offsets 0:0, 1:0"},
		"reset":       {", auto.offset.reset: latest", "", "reset true made now, partitions begin at offsets 0:3, 1:1"},
		"no reset":    {", auto.offset.reset: error", "", "reset false"},
		"latest":      {"", "{mode: latest}", "cut true made now, partitions begin at offsets 0:3, 1:1"},
		"offsets":     {"", `{mode: offsets, offsets: {"0": 2, "1": 0}}`, "cut true made now, partitions begin at offsets 0:2, 1:0"},
		"one missing": {"", `{mode: offsets, offsets: {"0": 2}}`, "cut false cannot succeed: the cut's offsets have none for partition 1"},
		"one beyond":  {"", `{mode: offsets, offsets: {"0": 2, "1": 7}}`, "cut false cannot succeed: the cut's offset 7 of partition 1 of sales is above 1"},
	} {
		t.Run(name, func(t *testing.T) {
			_, steps := connected(t, configure(c.kafka, c.cut), "reset", "cut")
			wantSteps(t, steps, c.want)
		})
	}
	file := configure("", "{mode: latest}")
	if status, out, stderr := tidemark(t, nil, "bootstrap", "-c", file); status != exitDone {
		t.Fatalf("bootstrap: status %d: %s%s", status, out, stderr)
	}
	_, steps := connected(t, file, "reset", "cut")
	wantSteps(t, steps)
}

// TestO08CheckTriesTheHost: an address in use, a state directory in use or that
// cannot be written, fail their step; nothing stays.
func TestO08CheckTriesTheHost(t *testing.T) {
	home := t.TempDir()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	plain := filepath.Join(home, "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	configure := func(dir, listen string) string {
		return writeConfig(t, fmt.Sprintf("query: SELECT userId, sum(revenue) AS revenue FROM sales GROUP BY userId\n"+
			"kafka: {bootstrap.servers: ['127.0.0.1:1'], group.id: g}\nstate: {dir: %q}\nhttp: {listen: %q}\nsnapshots: {url: %q}\n", dir, listen, "file://"+t.TempDir()))
	}
	used := filepath.Join(home, "used")
	file := configure(used, "127.0.0.1:0")
	cfg, err := config.Load(file, os.LookupEnv, config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	states, err := store.Open(used, store.Options{Program: cfg.Program, MinFree: -1, Fatal: func(reason string) { t.Error(reason) }})
	if err != nil {
		t.Fatal(err)
	}
	_, steps := connected(t, file, "state", "listen")
	wantSteps(t, steps, "state false is held by process", "listen true is free to answer at")
	if err := states.Close(); err != nil {
		t.Fatal(err)
	}
	_, steps = connected(t, file, "state")
	wantSteps(t, steps, "state true can be written and locked")
	empty := filepath.Join(home, "empty")
	if err := os.Mkdir(empty, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{empty, filepath.Join(home, "new", "state")} {
		_, steps = connected(t, configure(dir, l.Addr().String()), "state", "listen")
		wantSteps(t, steps, "state true can be made, written and locked", "listen false another process listens at it")
		if left, _ := os.ReadDir(dir); len(left) > 0 || strings.Contains(fmt.Sprint(left), "check") {
			t.Errorf("%s holds %v", dir, left)
		}
	}
	_, steps = connected(t, configure(filepath.Join(plain, "state"), "127.0.0.1:0"), "state")
	wantSteps(t, steps, "state false see state.dir")
	if left, err := os.ReadDir(home); err != nil || len(left) != 3 {
		t.Errorf("the folder holds %v (%v)", left, err)
	}
}
