package api

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"tidemark/aggregator"
	"tidemark/event"
)

func TestStatusAsInTheContract(t *testing.T) {
	m := one(t, "SELECT userId, count(*) AS n FROM sales GROUP BY userId", 4, Options{Version: "v1.2.3", HistoryMode: "latest"})
	for p := range int32(3) {
		m.reader.drop(p)
	}
	m.group.set(func(v *View) {
		v.Members = []Member{{"member-0", "http://10.0.0.1:8080", []int32{3}}, {"idle", "http://10.0.0.2:8080", nil}}
	})
	m.reader.change(3, func(s *aggregator.PartitionStatus) {
		s.Position, s.End, s.LogStart, s.Epoch = 1042, 1050, 5, 2
		s.Counts.Results[aggregator.Folded], s.Counts.Results[aggregator.Bad] = 1040, 2
		s.Counts.Reasons[event.NotJSON] = 2
		s.Documents, s.Keys, s.Bytes = 2, 7, 4096
	})
	want := `{"member":"member-0","group":"tidemark-sales","generation":3,"version":"v1.2.3",` +
		`"definition":{"sql":"SELECT userId, count(*) AS n FROM sales GROUP BY userId","fingerprint":"` + m.program.Definition().Fingerprint + `",` +
		`"keys":["userId"],"columns":[{"name":"userId","expression":"userId"},{"name":"n","expression":"count(*)"}]},"topic":{"name":"sales","partitions":4},` +
		`"partitions":[{"topic":"sales","partition":3,"state":"live","reason":"","position":1042,"high_watermark":1050,"log_start":5,"lag":8,"epoch":2,` +
		`"counts":{"bad":2,"before_cut":0,"filtered":0,"folded":1040,"tombstone":0},"bad_reasons":{"not_json":2},"gap_records":0,"keys":7,"state_bytes":4096,` +
		`"snapshot":null,"restore":null}],` +
		`"members":[{"member":"member-0","address":"http://10.0.0.1:8080","partitions":[3]},{"member":"idle","address":"http://10.0.0.2:8080","partitions":[]}],` +
		`"history":{"mode":"latest","documents":2,"complete":true}}` + "\n"
	if got := m.get("/v1/status"); got.body != want {
		t.Errorf("got\n%s\nwant\n%s", got.body, want)
	}
	none := one(t, salesQuery, 1, Options{})
	none.group.set(func(v *View) { *v = View{Group: "g"} })
	none.reader.drop(0)
	if got := none.get("/v1/status").body; !strings.Contains(got, `"partitions":[],"members":[],"history":null}`) {
		t.Errorf("got %s", got)
	}
}

// What is not known is not complete.
func TestHistoryIsCompleteOnceItIsKnown(t *testing.T) {
	m := one(t, salesQuery, 2, Options{HistoryMode: "latest"})
	for _, c := range []struct {
		view View
		want string
	}{
		{View{}, "false"},
		{View{Assigned: true, Own: []int32{0, 1, 2}}, "false"}, // 2 has not begun
		{View{Assigned: true, Own: []int32{0, 1}}, "true"},
	} {
		m.reader.change(0, func(s *aggregator.PartitionStatus) { s.Seeded = true })
		m.reader.change(1, func(s *aggregator.PartitionStatus) { s.Seeded = true })
		m.group.set(func(v *View) { *v = c.view })
		if got := m.get("/v1/status").body; !strings.Contains(got, `"complete":`+c.want+`}}`) {
			t.Errorf("%+v: want complete %s: %s", c.view, c.want, got)
		}
	}
}

// A key of several columns is asked for in the order of GROUP BY, wherever the
// columns stand in a row.
func TestStatusTellsTheColumns(t *testing.T) {
	m := one(t, "SELECT sum(paid) AS paid, `shop.id`, user.id FROM sales GROUP BY user.id, `shop.id`", 1, Options{})
	want := `"keys":["id","shop.id"],"columns":[{"name":"paid","expression":"sum(paid)"},{"name":"shop.id","expression":"` + "`shop.id`" + `"},{"name":"id","expression":"user.id"}]`
	if got := m.get("/v1/status").body; !strings.Contains(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestBadRecords(t *testing.T) {
	m := one(t, salesQuery, 1, Options{})
	if got := m.get("/v1/bad-records"); got.code != 200 || got.body != `{"records":[]}`+"\n" {
		t.Errorf("got %d: %s", got.code, got.body)
	}
	m.reader.mu.Lock()
	m.reader.bad = []aggregator.BadSample{{
		Reason: event.NullField, Field: "totalRevenue", Error: "the field is null", Topic: "sales", Partition: 3, Offset: 1042,
		Seen: time.Date(2015, 7, 29, 11, 17, 12, 5_900_000, time.FixedZone("", 7200)),
	}}
	m.reader.mu.Unlock()
	want := `{"records":[{"reason":"null_field","field":"totalRevenue","error":"the field is null","topic":"sales","partition":3,"offset":1042,` +
		`"seen":"2015-07-29T09:17:12.005Z"}]}` + "\n"
	if got := m.get("/v1/bad-records"); got.body != want {
		t.Errorf("got %s, want %s", got.body, want)
	}
	m.get("/v1/bad-records?limit=1").problem(t, 400, typeBadRequest)
}

// fakeSnapshots has one snapshot.
type fakeSnapshots struct{ err error }

var taken = Snapshot{"sales", 0, 4, 2, 1040, 123, time.Date(2015, 7, 29, 9, 17, 12, 0, time.UTC)}

func (f *fakeSnapshots) List(context.Context) ([]Snapshot, error)    { return []Snapshot{taken}, f.err }
func (f *fakeSnapshots) Publish(context.Context) ([]Snapshot, error) { return []Snapshot{taken}, f.err }

func TestSnapshots(t *testing.T) {
	f := &fakeSnapshots{}
	m := one(t, salesQuery, 2, Options{Snapshots: f})
	want := `{"snapshots":[{"topic":"sales","partition":0,"seq":4,"epoch":2,"position":1040,"bytes":123,"created":"2015-07-29T09:17:12Z"}]}` + "\n"
	for _, method := range []string{"GET", "POST"} {
		if got := m.do(method, "/v1/snapshots", ""); got.code != 200 || got.body != want {
			t.Errorf("%s: got %d: %s", method, got.code, got.body)
		}
	}
	m.reader.change(0, func(s *aggregator.PartitionStatus) {
		s.Snapshot = &aggregator.Snapshot{Seq: 4, Progress: aggregator.Progress{Position: 1040}, Created: taken.Created}
	})
	m.reader.change(1, func(s *aggregator.PartitionStatus) {
		s.Restore = &aggregator.Restore{Have: 5, Need: 10, Remaining: 1500 * time.Millisecond}
	})
	got := m.get("/v1/status").body
	if !strings.Contains(got, `"snapshot":{"seq":4,"position":1040,"age_seconds":`) || !strings.Contains(got, `"restore":{"have":5,"need":10,"remaining_seconds":1.5}`) {
		t.Errorf("got %s", got)
	}
	f.err = errors.New("the store is away")
	for _, method := range []string{"GET", "POST"} {
		p := m.do(method, "/v1/snapshots", "").problem(t, 503, typeUnreachable)
		if strings.Contains(p.Title, "owner") || !strings.Contains(p.Detail, "the store is away") {
			t.Errorf("%s: %q, %q: no owner is unreachable, the store is", method, p.Title, p.Detail)
		}
	}
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	if p := storeProblem(late, "not all could be published", f.err); p.Type != typeBusy {
		t.Errorf("a publish that takes too long is %s", p.Type)
	}

	none := one(t, salesQuery, 1, Options{})
	if got := none.get("/v1/snapshots").body; got != `{"snapshots":[]}`+"\n" {
		t.Errorf("got %s", got)
	}
	none.do("POST", "/v1/snapshots", "").problem(t, 503, typeNotLoaded)
}

func TestReadiness(t *testing.T) {
	m := one(t, salesQuery, 2, Options{MaxBadShare: 0.25})
	ready := func(code int, status string, reasons ...string) {
		t.Helper()
		got := m.get("/readyz")
		var body readiness
		if err := json.Unmarshal([]byte(got.body), &body); err != nil {
			t.Fatal(err)
		}
		if got.code != code || body.Status != status || len(body.Reasons) != len(reasons) {
			t.Fatalf("got %d: %s", got.code, got.body)
		}
		for i, want := range reasons {
			if !strings.Contains(body.Reasons[i], want) {
				t.Errorf("reason %d is %q, want %q", i, body.Reasons[i], want)
			}
		}
		if got := m.get("/healthz"); got.code != 200 || got.body != `{"status":"ok"}`+"\n" {
			t.Errorf("health is %d: %s", got.code, got.body)
		}
	}
	ready(200, "ready")
	m.reader.change(1, func(s *aggregator.PartitionStatus) { s.BadShare = 0.25 })
	ready(200, "ready")
	m.reader.change(1, func(s *aggregator.PartitionStatus) { s.BadShare = 0.251 })
	ready(200, "degraded", "partition 1: 25.1 %")
	m.reader.change(0, func(s *aggregator.PartitionStatus) { s.State, s.End = aggregator.CatchingUp, 90 })
	m.reader.change(1, func(s *aggregator.PartitionStatus) { s.State, s.Reason = aggregator.Paused, "the disk is full" })
	ready(503, "not_ready", "partition 0 is catching up: 90 records behind", "partition 1 is paused: the disk is full")
	m.reader.drop(0)
	m.reader.drop(1)
	// A static member that came back is in the table under the id of its former
	// self.
	m.group.set(func(v *View) { v.Own, v.Members = []int32{0, 1}, []Member{{ID: "former", Partitions: []int32{0, 1}}} })
	ready(503, "not_ready", "partition 0 has not begun", "partition 1 has not begun")
	m.group.set(func(v *View) { v.Problem = "no broker answers" })
	ready(503, "not_ready", "partition 0 has not begun: no broker answers", "partition 1 has not begun: no broker answers")
	m.group.set(func(v *View) { v.Own, v.Members, v.Problem = nil, []Member{{ID: v.Member}}, "" })
	ready(200, "ready") // a member without partitions
	m.group.set(func(v *View) { v.Silent = true })
	ready(503, "not_ready", "no heartbeat")
	m.group.set(func(v *View) { v.Assigned, v.Problem = false, "no broker answers" })
	ready(503, "not_ready", "the first assignment has not come: no broker answers")
	m.group.set(func(v *View) { v.Problem = "" })
	ready(503, "not_ready", "the first assignment has not come: the group may be waiting for a member")
}
