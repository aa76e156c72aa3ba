package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"tidemark/internal/testkit"
)

// TestB12B14HistoriesAtTheirEdges: what becomes of the history and its cut
// between two runs: it is never read twice, never counted with events that it
// holds, and never left out unseen.
func TestB12B14HistoriesAtTheirEdges(t *testing.T) {
	const at = `"at":"2015-07-29T0%d:00:00Z"`
	event := func(hour int) string { return fmt.Sprintf(`{"userId":"U-1","revenue":1,`+at+`}`, hour) }
	document := func(n int, more string) string {
		return fmt.Sprintf(`{"userId":"U-1","revenue":%d,"sales":%[1]d%s}`, n, more)
	}
	row := func(n int) string { return fmt.Sprintf(`{"userId":"U-1","revenue":%d,"sales":%[1]d}`, n) }
	for _, c := range []struct {
		name      string
		document  string
		cut       string // "" without a history
		first     string // the row of the first run, of which four events came before it
		meanwhile func(t *testing.T, h *home, file string)
		state     string // of the partition in the second run, before which one event comes
		reason    string
		second    string
	}{
		{"latest, and it goes on", document(10, ""), "mode: latest", row(10), nil, "live", "", row(11)},
		{"earliest, and it goes on", document(10, ""), "mode: earliest", row(14), nil, "live", "", row(15)},
		{"offsets, and it goes on", document(10, ""), "mode: offsets, offsets: {0: 3}", row(11), nil, "live", "", row(12)},
		{"timestamp by the event", document(10, ""), "mode: timestamp, timestamp: 2015-07-29T02:00:00Z, event_time: at", row(12), nil, "live", "", row(13)},
		{"guard by the key", document(10, `,"latest":"2015-07-29T02:00:00Z"`), "mode: guard, event_time: at, guard_field: latest", row(11), nil, "live", "", row(12)},
		{"the file has grown", document(10, ""), "mode: latest", row(10), func(t *testing.T, _ *home, file string) { rewrite(t, file, document(99, "")) }, "live", "", row(11)},
		{"the file is gone", document(10, ""), "mode: latest", row(10), func(t *testing.T, _ *home, file string) { remove(t, file) }, "live", "", row(11)},
		{"the file is broken", document(10, ""), "mode: latest", row(10), func(t *testing.T, _ *home, file string) { rewrite(t, file, "{") }, "live", "", row(11)},
		{"the cut is another", document(10, ""), "mode: latest", row(10), func(t *testing.T, h *home, _ string) {
			h.rest = strings.Replace(h.rest, "mode: latest", "mode: earliest", 1)
			h.write()
		}, "live", "", row(11)},
		{"the history is taken out", document(10, ""), "mode: latest", row(10), func(_ *testing.T, h *home, _ string) { h.rest = ""; h.write() }, "live", "", row(11)},
		{"a history is put in", document(10, ""), "", row(4), func(_ *testing.T, h *home, file string) {
			h.rest = fmt.Sprintf("history: {file: %q, cut: {mode: latest}}\n", file)
			h.write()
		}, "paused", "which would never be loaded", ""},
		{"the disk is lost, the history is not", document(10, ""), "mode: latest", row(10), func(t *testing.T, h *home, _ string) { remove(t, h.dir) }, "paused", "the group's commit names snapshot", ""},
		{"the disk is lost, and the cut is another", document(10, ""), "mode: latest", row(10), func(t *testing.T, h *home, _ string) {
			h.rest = strings.Replace(h.rest, "mode: latest", "mode: earliest", 1)
			h.write()
			remove(t, h.dir)
		}, "paused", "there is no state here", ""},
		{"the disk is lost, the snapshots and the file are elsewhere", document(10, ""), "mode: latest", row(10), func(t *testing.T, h *home, file string) {
			remove(t, h.dir)
			remove(t, file)
		}, "live", "", row(11)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: "sales"})
			for hour := range 4 {
				b.Produce("sales", 0, messages(event(hour))...)
			}
			h := newHome(t, b, countQuery)
			file := h.file + ".ndjson"
			rewrite(t, file, c.document)
			if c.cut != "" {
				h.rest = fmt.Sprintf("history: {file: %q, cut: {%s}}\n", file, c.cut)
			}
			if strings.Contains(c.name, "elsewhere") {
				h.rest += "snapshots: {url: 'file://" + t.TempDir() + "'}\n"
			}
			h.write()
			s := h.serve()
			s.caughtUp()
			s.expect("U-1", c.first)
			s.stop()
			if c.meanwhile != nil {
				c.meanwhile(t, h, file)
			}
			b.Produce("sales", 0, messages(event(9))...)
			s = h.serve()
			s.until(c.state, func() bool { return s.part(0).State == c.state })
			if p := s.part(0); !strings.Contains(p.Reason, c.reason) {
				t.Errorf("it is %s: %s", p.State, p.Reason)
			}
			if c.second != "" {
				s.caughtUp()
				s.expect("U-1", c.second)
			}
		})
	}
}

func rewrite(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestK07K17GroupsThatShare: two groups, and two members, on one topic and one
// store of snapshots.
func TestK07K17GroupsThatShare(t *testing.T) {
	t.Parallel()
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: "sales", Partitions: 2})
	x := b.NewTransactions("tx")
	for p := range int32(2) {
		b.Produce("sales", p, repeated(5, one)...)
	}
	x.Begin()
	x.Produce("sales", 0, repeated(3, one)...)
	x.Abort()
	h := newHome(t, b, countQuery)
	h.rest = "snapshots: {url: 'file://" + t.TempDir() + "', interval: 1s}\n"
	h.write()
	first := h.serve()
	first.caughtUp()
	first.expect("U-1", ones(10))

	// Another group of another query goes its own way in the same folder.
	other := h.beside()
	other.query("SELECT userId, count(*) AS n FROM sales GROUP BY userId")
	text := strings.Replace(fileText(t, other.file), "group.id: g", "group.id: other", 1)
	rewrite(t, other.file, text)
	second := other.serve()
	second.caughtUp()
	second.expect("U-1", `{"userId":"U-1","n":10}`)
	first.expect("U-1", ones(10))

	// One that reads what is not committed counts what was aborted too.
	dirty := h.beside()
	dirty.kafka = ", isolation.level: read_uncommitted"
	dirty.write()
	rewrite(t, dirty.file, strings.Replace(fileText(t, dirty.file), "group.id: g", "group.id: dirty", 1))
	third := dirty.serve()
	third.caughtUp()
	third.expect("U-1", ones(13))

	// A member of the same group with another query is told so, and the one
	// that was there goes on.
	stray := h.beside()
	stray.query("SELECT userId, count(*) AS n FROM sales GROUP BY userId")
	fourth := stray.serve()
	if said := fourth.ends(exitFailed); !strings.Contains(said, "another definition") || !strings.Contains(said, "was sum(revenue), is gone") {
		t.Errorf("it says %s", said)
	}
	b.Produce("sales", 1, repeated(1, one)...)
	first.caughtUp()
	first.expect("U-1", ones(11))
}
