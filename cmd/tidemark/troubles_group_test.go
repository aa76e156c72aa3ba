package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/internal/testkit"
)

const countQuery = "SELECT userId, sum(revenue) AS revenue, count(*) AS sales FROM sales GROUP BY userId"

// one is an event of 1.00.
const one = `{"userId":"U-1","revenue":1.00}`

func ones(n int) string { return fmt.Sprintf(`{"userId":"U-1","revenue":%d,"sales":%[1]d}`, n) }

// committed is the offset that the group shows of partition 0, -1 without one.
func committed(t *testing.T, b *testkit.Broker) int64 {
	t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group = "g"
	topic := kmsg.NewOffsetFetchRequestTopic()
	topic.Topic, topic.Partitions = "sales", []int32{0}
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(b.Context(), b.Client())
	if err != nil {
		t.Fatal(err)
	}
	for _, topic := range resp.Topics {
		return topic.Partitions[0].Offset
	}
	for _, g := range resp.Groups {
		for _, topic := range g.Topics {
			return topic.Partitions[0].Offset
		}
	}
	return -1
}

// TestK02SnapshotOlderThanTheLog: the newest snapshot is at 50, the log begins
// at 75 and the disk is lost. It stands, says 25, is not ready, and answers
// nothing old as if it were new; with the operator's word it goes on, and the
// number stays in the state.
func TestK02SnapshotOlderThanTheLog(t *testing.T) {
	t.Parallel()
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: "sales"})
	h := newHome(t, b, countQuery)
	h.rest = "snapshots: {url: 'file://" + t.TempDir() + "'}\n"
	h.write()
	b.Produce("sales", 0, repeated(50, one)...)
	s := h.serve()
	s.caughtUp()
	s.stop()
	if err := os.RemoveAll(h.dir); err != nil {
		t.Fatal(err)
	}
	b.Produce("sales", 0, repeated(50, one)...)
	b.DeleteRecords("sales", 0, 75)
	s = h.serve()
	s.until("a gap", func() bool { return s.part(0).State == "gap" })
	if p := s.part(0); !strings.Contains(p.Reason, "retention removed 25 records") || p.Position != 50 {
		t.Errorf("the gap is %+v", p)
	}
	if code, body, _ := s.ask("/readyz"); code != 503 || !strings.Contains(body, "25 records") {
		t.Errorf("/readyz: %d %s", code, body)
	}
	if code, body, _ := s.ask("/v1/aggregates/U-1"); code != 503 {
		t.Errorf("it answers %d %s", code, body)
	}
	if code, _, _ := s.ask("/healthz"); code != 200 {
		t.Errorf("/healthz: %d", code)
	}
	if lines := s.series("tidemark_gap_records_total"); len(lines) != 1 || !strings.HasSuffix(lines[0], " 25") {
		t.Errorf("the metric says %v", lines)
	}
	s.stop()
	h.rest += "on_gap: accept\n"
	h.write()
	s = h.serve()
	s.caughtUp()
	s.expect("U-1", ones(75))
	s.stop()
	_, stdout, _ := tidemark(t, nil, "inspect", "--json", h.dir)
	if !strings.Contains(stdout, `"gap_records": 25`) && !strings.Contains(stdout, `"gap_records":25`) {
		t.Errorf("the state does not tell of the gap: %s", stdout)
	}
}

// TestK18K19GroupDeleted: the group shows the next offset; when the group is
// deleted, a restart changes no total and shows it again.
func TestK18K19GroupDeleted(t *testing.T) {
	t.Parallel()
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: "sales"})
	h := newHome(t, b, countQuery)
	h.rest = "snapshots: {interval: 1s}\n"
	h.write()
	b.Produce("sales", 0, repeated(10, one)...)
	s := h.serve()
	s.caughtUp()
	s.stop()
	if at := committed(t, b); at != 10 {
		t.Errorf("ten events, 0 to 9, and the group shows %d", at)
	}
	req := kmsg.NewPtrDeleteGroupsRequest()
	req.Groups = []string{"g"}
	resp, err := req.RequestWith(b.Context(), b.Client())
	if err == nil {
		err = kerr.ErrorForCode(resp.Groups[0].ErrorCode)
	}
	if err != nil {
		t.Fatal(err)
	}
	if at := committed(t, b); at != -1 {
		t.Fatalf("the deleted group shows %d", at)
	}
	s = h.serve()
	s.caughtUp()
	s.expect("U-1", ones(10))
	s.until("the group is told again", func() bool { return committed(t, b) == 10 })
	b.Produce("sales", 0, repeated(1, one)...)
	s.caughtUp()
	s.expect("U-1", ones(11))
}

// TestK13TwoServicesWithOneID: the one that is fenced ends with status 1, and
// its message names the id.
func TestK13TwoServicesWithOneID(t *testing.T) {
	t.Parallel()
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: "sales"})
	h := newHome(t, b, countQuery)
	h.kafka = ", group.instance.id: agg-0"
	h.write()
	first := h.serve()
	first.caughtUp()
	second := h.beside().serve()
	if said := first.ends(exitFailed); !strings.Contains(said, `group.instance.id \"agg-0\"`) && !strings.Contains(said, `group.instance.id "agg-0"`) {
		t.Errorf("it says %s", said)
	}
	second.until("it goes on", func() bool { return len(second.status().Partitions) == 1 })
}

// TestK15ExpiredTopicHasNoLag: all 40 records were folded, and retention removed
// them: no lag, no gap, ready; also where the snapshot is all there is.
func TestK15ExpiredTopicHasNoLag(t *testing.T) {
	t.Parallel()
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: "sales"})
	h := newHome(t, b, countQuery)
	h.rest = "snapshots: {url: 'file://" + t.TempDir() + "'}\n"
	h.write()
	b.Produce("sales", 0, repeated(40, one)...)
	s := h.serve()
	s.caughtUp()
	s.stop()
	b.DeleteRecords("sales", 0, 40)
	for _, wipe := range []bool{false, true} {
		if wipe {
			if err := os.RemoveAll(h.dir); err != nil {
				t.Fatal(err)
			}
		}
		s = h.serve()
		s.until("live", func() bool { return s.part(0).State == "live" })
		if p := s.part(0); p.Position != 40 || p.Lag != 0 || p.LogStart != 40 {
			t.Errorf("the partition is %+v", p)
		}
		if lines := s.series("tidemark_lag_records"); len(lines) != 1 || !strings.HasSuffix(lines[0], " 0") {
			t.Errorf("the metric says %v", lines)
		}
		s.expect("U-1", ones(40))
		s.stop()
	}
}

// TestK15S17MarkersEndTheLog: the last three offsets are markers of
// transactions. A restart in sync, and a restore from the snapshot before them,
// are live at once.
func TestK15S17MarkersEndTheLog(t *testing.T) {
	t.Parallel()
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: "sales"})
	h := newHome(t, b, countQuery)
	h.rest = "snapshots: {url: 'file://" + t.TempDir() + "'}\n"
	h.write()
	x := b.NewTransactions("tx")
	ended := func(n int, end func()) {
		x.Begin()
		x.Produce("sales", 0, repeated(n, one)...)
		end()
	}
	ended(10, x.Commit)
	s := h.serve()
	s.caughtUp()
	s.expect("U-1", ones(10))
	s.stop() // at 11
	ended(3, x.Abort)
	ended(1, x.Abort)
	_, end := b.Bounds("sales", 0)
	for _, wipe := range []bool{true, false} {
		if wipe {
			if err := os.RemoveAll(h.dir); err != nil {
				t.Fatal(err)
			}
		}
		s = h.serve()
		s.until("live at the end", func() bool { p := s.part(0); return p.State == "live" && p.Lag == 0 && p.Position == end })
		s.expect("U-1", ones(10))
		s.stop()
	}
}

// TestS01TwoServicesOnOneDirectory: the second waits, and ends with the path and
// who holds it; the first goes on, and the lock file stays.
func TestS01TwoServicesOnOneDirectory(t *testing.T) {
	t.Parallel()
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: "sales"})
	h := newHome(t, b, countQuery)
	s := h.serve()
	s.caughtUp()
	other := h.beside()
	other.dir = h.dir
	other.write()
	said := other.serve().ends(exitFailed)
	if !strings.Contains(said, "state directory is in use: "+h.dir+" is held by process ") || !strings.Contains(said, "use another state.dir") {
		t.Errorf("it says %s", said)
	}
	if _, err := os.Stat(filepath.Join(h.dir, "LOCK")); err != nil {
		t.Error(err)
	}
	b.Produce("sales", 0, repeated(1, one)...)
	s.caughtUp()
	s.expect("U-1", ones(1))
}

// TestS04NoRoom: below state.min_free nothing is applied or committed, the
// service is alive and not ready and says why, and answers go on with what the
// state has; with room again, after a restart, all is folded, once.
func TestS04NoRoom(t *testing.T) {
	t.Parallel()
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: "sales"})
	h := newHome(t, b, countQuery)
	b.Produce("sales", 0, repeated(5, one)...)
	s := h.serve()
	s.caughtUp()
	s.stop()
	h.state = ", min_free: 1000000GiB"
	h.write()
	b.Produce("sales", 0, repeated(5, one)...)
	s = h.serve()
	s.until("paused", func() bool { return s.part(0).State == "paused" })
	if p := s.part(0); !strings.Contains(p.Reason, "state.min_free is") {
		t.Errorf("the partition is %+v", p)
	}
	if code, body, _ := s.ask("/readyz"); code != 503 || !strings.Contains(body, "state.min_free") {
		t.Errorf("/readyz: %d %s", code, body)
	}
	if code, _, _ := s.ask("/healthz"); code != 200 {
		t.Errorf("/healthz: %d", code)
	}
	s.stop()
	if at := committed(t, b); at != 5 {
		t.Errorf("the group is told of %d", at)
	}
	h.state = ""
	h.write()
	s = h.serve()
	s.caughtUp()
	s.expect("U-1", ones(10))
	if c := s.part(0).Counts; c["folded"] != 10 {
		t.Errorf("counts %v", c)
	}
}

// TestS08OnlyTheTailIsFetched: 30,000 events of 5,000 users, a snapshot, and an
// empty disk: what a new member asks Kafka for begins behind the snapshot.
func TestS08OnlyTheTailIsFetched(t *testing.T) {
	t.Parallel()
	const users, events, tail = 5000, 30_000, 7
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: "sales"})
	var all []testkit.Message
	for i := range events {
		all = append(all, testkit.Text("", fmt.Sprintf(`{"userId":"U-%d","revenue":1}`, i%users)))
	}
	b.Produce("sales", 0, all...)
	h := newHome(t, b, countQuery)
	h.rest = "snapshots: {url: 'file://" + t.TempDir() + "'}\n"
	h.write()
	s := h.serve()
	s.caughtUp()
	s.stop()
	b.Produce("sales", 0, repeated(tail, one)...)
	asked := make(chan int64, 1000)
	b.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		for _, topic := range req.(*kmsg.FetchRequest).Topics {
			for _, p := range topic.Partitions {
				select {
				case asked <- p.FetchOffset:
				default:
				}
			}
		}
		return nil, nil, false
	})
	if err := os.RemoveAll(h.dir); err != nil {
		t.Fatal(err)
	}
	s = h.serve()
	s.caughtUp()
	s.expect("U-1", ones(events/users+tail))
	s.expect("U-4999", strings.ReplaceAll(ones(events/users), "U-1", "U-4999"))
	if lines := s.series("tidemark_events_total", `result="folded"`); len(lines) != 1 || !strings.HasSuffix(lines[0], fmt.Sprint(" ", tail)) {
		t.Errorf("the process folded %v", lines)
	}
	if len(asked) == 0 {
		t.Fatal("nothing was fetched")
	}
	for range len(asked) {
		if at := <-asked; at < events {
			t.Errorf("the log is read from %d, and the snapshot is at %d", at, events)
		}
	}
}
