package aggregator

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"tidemark/event"
)

// TestAnyRestart is the model: whatever the batches, crashes and hand-overs
// between two members, the totals are the straight fold of the log, byte for
// byte, and the counts add up to the records consumed.
func TestAnyRestart(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint("seed", seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			r := newRig(t, 1)
			values := mixed(rnd, 600)
			r.tuning.ApplyRecords = 1 + rnd.IntN(40)
			batches := rand.New(rand.NewPCG(seed, 2))
			r.log.batches = func(n int) int { return 1 + batches.IntN(min(n, 90)) } // under the log's lock
			for at := 0; at < len(values); {
				n := min(len(values)-at, rnd.IntN(150))
				r.start(0)
				r.log.produce(0, values[at:at+n]...)
				at += n
				stopAt := rnd.Int64N(int64(at + 1))
				r.until(0, "there", func(s PartitionStatus) bool { return s.Position >= stopAt })
				crash := rnd.IntN(2) == 0
				r.stop()
				if crash { // as if the last applies had never reached the disk
					s := r.states.states[0]
					s.durable = 1 + rnd.IntN(len(s.applies))
					r.states.crash(0, func(n int) int { return 0 })
				}
			}
			r.start(0)
			r.caughtUp(0)
			status := r.p.Status()[0]
			r.stop()
			r.straight(0, r.states.states[0], status.Counts)
		})
	}
}

// TestReadsDuringApplies: a reader never sees a record twice, nor an answer go
// back, while deltas are frozen and applied beneath it.
func TestReadsDuringApplies(t *testing.T) {
	r := newRig(t, 1)
	r.tuning.ApplyRecords = 3
	r.start(0)
	r.caughtUp(0)
	const n = 2000
	go func() {
		for range n {
			r.log.produce(0, sale(1, "1"))
		}
	}()
	var last int64
	for last < n {
		got, err := r.p.Get(context.Background(), 0, []byte("1"))
		if err != nil {
			t.Fatal(err)
		}
		var count, revenue int64
		if row := render(t, r.program, []byte("1"), got.Total); row != "" {
			if _, err := fmt.Sscanf(row, `{"userId":1,"sales":%d,"revenue":%d}`, &count, &revenue); err != nil {
				t.Fatalf("%s: %v", row, err)
			}
		}
		if count != got.Position || revenue != count {
			t.Fatalf("at position %d: %d sales with revenue %d", got.Position, count, revenue)
		}
		if count < last {
			t.Fatalf("%d sales after %d", count, last)
		}
		last = count
		page, err := r.p.Scan(context.Background(), 0, nil, nil, 10)
		if err != nil {
			t.Fatal(err)
		}
		if page.Position > 0 {
			want := fmt.Sprintf(`{"userId":1,"sales":%d,"revenue":%d}`, page.Position, page.Position)
			if len(page.Entries) != 1 || render(t, r.program, []byte("1"), page.Entries[0].Total) != want {
				t.Fatalf("scan at %d: %v", page.Position, page.Entries)
			}
		}
	}
}

// TestScanMergesStoreAndDeltas: keys come once, in order, whatever holds them.
func TestScanMergesStoreAndDeltas(t *testing.T) {
	r := newRig(t, 1)
	r.start(0)
	for i := range 300 {
		r.log.produce(0, sale(100+i%100, "1"))
	}
	r.caughtUp(0)
	var keys []string
	from := []byte("12")
	for {
		page, err := r.p.Scan(context.Background(), 0, from, []byte("1"), 7)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Entries {
			keys = append(keys, string(e.Key))
			if row := render(t, r.program, e.Key, e.Total); row != fmt.Sprintf(`{"userId":%s,"sales":3,"revenue":3}`, e.Key) {
				t.Errorf("row %s", row)
			}
			from = append(e.Key, 0)
		}
		if !page.More {
			break
		}
	}
	if len(keys) != 80 || !slices.IsSorted(keys) || keys[0] != "120" {
		t.Errorf("got %d keys: %v", len(keys), keys)
	}
}

// TestK01Gap and its acceptance: retention passed the position.
func TestK01Gap(t *testing.T) {
	r := newRig(t, 1)
	r.log.produce(0, sale(1, "1"), sale(1, "1"), sale(1, "1"))
	r.start(0)
	r.caughtUp(0)
	r.stop()
	r.log.produce(0, sale(1, "10"), sale(1, "10"), sale(1, "1"))
	r.log.trim(0, 5)
	r.start(0)
	s := r.until(0, "a gap", func(s PartitionStatus) bool { return s.State == Gap })
	if s.Gap != 2 || s.Answers || !strings.Contains(s.Reason, "removed 2 records") || !strings.Contains(s.Reason, "on_gap: accept") {
		t.Errorf("gap %d, answers %v: %s", s.Gap, s.Answers, s.Reason)
	}
	r.stop()
	r.tuning.AcceptGap = true
	r.start(0)
	r.caughtUp(0)
	r.expect(0, "1", `{"userId":1,"sales":4,"revenue":4}`)
	r.stop()
	r.start(0)
	r.caughtUp(0)
	if s := r.p.Status()[0]; s.Gap != 2 || s.Position != 6 {
		t.Errorf("after a restart: gap %d, position %d", s.Gap, s.Position)
	}
}

// TestK01GapWhileRunning: retention overtakes a feed.
func TestK01GapWhileRunning(t *testing.T) {
	r := newRig(t, 1)
	r.log.produce(0, sale(1, "1"))
	r.start(0)
	r.caughtUp(0)
	r.log.edit(func() {
		p := r.log.parts[0]
		p.start, p.next, p.records = 40, 40, nil
	})
	if s := r.until(0, "a gap", func(s PartitionStatus) bool { return s.State == Gap }); s.Gap != 39 {
		t.Errorf("gap %d: %s", s.Gap, s.Reason)
	}
}

// TestPositionAboveEnd: never earliest, and on it goes once the end has passed.
func TestPositionAboveEnd(t *testing.T) {
	r := newRig(t, 1)
	r.log.produce(0, sale(1, "1"), sale(1, "1"), sale(1, "1"))
	r.start(0)
	r.caughtUp(0)
	r.stop()
	lost := r.log.parts[0].records
	r.log.edit(func() { r.log.parts[0].records, r.log.parts[0].next = nil, 1 })
	r.start(0)
	r.until(0, "paused", func(s PartitionStatus) bool { return s.State == Paused && strings.Contains(s.Reason, "above the end") })
	r.log.edit(func() { r.log.parts[0].records, r.log.parts[0].next = lost, 3 })
	r.log.produce(0, sale(1, "1"))
	r.caughtUp(0)
	r.expect(0, "1", `{"userId":1,"sales":4,"revenue":4}`)
}

// TestK04TopicRecreated: at start, while it runs, and when the new end is higher.
func TestK04TopicRecreated(t *testing.T) {
	recreate := func(r *rig) {
		r.log.edit(func() {
			r.log.topic.ID = "id-2"
			r.log.parts[0] = &fakePartition{}
		})
		for range 10 {
			r.log.produce(0, sale(2, "100"))
		}
	}
	paused := func(s PartitionStatus) bool {
		return s.State == Paused && strings.Contains(s.Reason, "deleted and created again")
	}
	t.Run("while stopped", func(t *testing.T) {
		r := newRig(t, 1)
		r.log.produce(0, sale(1, "1"))
		r.start(0)
		r.caughtUp(0)
		r.stop()
		recreate(r)
		r.start(0)
		if s := r.until(0, "paused", paused); s.Answers {
			t.Error("it answers, though it was never live in this claim")
		}
		r.until(0, "where the state stands", func(s PartitionStatus) bool { return s.Position == 1 && s.Counts.Results[Folded] == 1 })
	})
	t.Run("while running", func(t *testing.T) {
		r := newRig(t, 1)
		r.log.produce(0, sale(1, "1"))
		r.start(0)
		r.caughtUp(0)
		r.until(0, "applied", func(PartitionStatus) bool { return r.stored(0) == 1 })
		recreate(r)
		r.until(0, "paused", paused)
		r.until(0, "back at what is of the old topic", func(s PartitionStatus) bool { return s.Position == 1 })
		r.expect(0, "1", `{"userId":1,"sales":1,"revenue":1}`)
		r.expect(0, "2", "")
		r.stop()
		if at := r.stored(0); at != 1 {
			t.Errorf("the state went to %d", at)
		}
	})
}

// TestK04TopicRecreatedBeforeAnApply: what was seen to be of the old topic
// stays, though it had not been applied.
func TestK04TopicRecreatedBeforeAnApply(t *testing.T) {
	r := newRig(t, 1)
	r.tuning.ApplyInterval, r.tuning.ApplyRecords = time.Hour, 1_000_000
	r.log.produce(0, sale(1, "1"), sale(1, "1"))
	r.start(0)
	r.caughtUp(0)
	task, err := r.p.find(0)
	if err != nil {
		t.Fatal(err)
	}
	r.until(0, "looked at", func(PartitionStatus) bool { return task.vouched.Load() == 2 })
	r.log.edit(func() { r.log.missing = true })
	r.until(0, "without a topic", func(s PartitionStatus) bool { return s.State == Paused })
	r.log.edit(func() { r.log.missing, r.log.topic.ID, r.log.parts[0] = false, "id-2", &fakePartition{} })
	for range 10 {
		r.log.produce(0, sale(2, "100"))
	}
	s := r.until(0, "paused", func(s PartitionStatus) bool { return strings.Contains(s.Reason, "created again") })
	if !s.Answers {
		t.Error("it was live, and does not answer with what it has")
	}
	r.expect(0, "1", `{"userId":1,"sales":2,"revenue":2}`)
	r.stop()
	if at := r.stored(0); at != 2 {
		t.Errorf("the state went to %d", at)
	}
}

// TestTopicAppearsLater: a topic that does not exist yet is waited for.
func TestTopicAppearsLater(t *testing.T) {
	r := newRig(t, 1)
	r.log.missing = true
	r.start(0)
	r.until(0, "paused", func(s PartitionStatus) bool { return s.State == Paused && strings.Contains(s.Reason, "does not exist") })
	r.log.edit(func() { r.log.missing = false })
	r.log.produce(0, sale(1, "2.50"))
	r.caughtUp(0)
	r.expect(0, "1", `{"userId":1,"sales":1,"revenue":2.5}`)
}

// TestOtherDefinition ends the process and names the clause.
func TestOtherDefinition(t *testing.T) {
	r := newRig(t, 3)
	r.start(0, 1, 2)
	for p := range int32(3) {
		r.caughtUp(p)
	}
	r.stop()
	r.program = compile(t, strings.Replace(salesQuery, "sum(revenue)", "max(revenue)", 1))
	r.start(0, 1, 2)
	err := r.end()
	if text := err.Error(); strings.Contains(text, "\n") || strings.Count(text, "another definition") != 1 {
		t.Errorf("not one sentence: %s", text)
	}
	if !errors.Is(err, ErrOtherDefinition) || !strings.Contains(err.Error(), "sum(revenue)") || !strings.Contains(err.Error(), "max(revenue)") {
		t.Errorf("got %v", err)
	}
}

// TestForeignOffset: an offset that something else committed is no start.
func TestForeignOffset(t *testing.T) {
	r := newRig(t, 1)
	r.commits.commits[0] = Commit{Offset: 17}
	r.log.produce(0, sale(1, "1"))
	r.start(0)
	s := r.until(0, "paused", func(s PartitionStatus) bool { return s.State == Paused })
	if !strings.Contains(s.Reason, "offset 17") || !strings.Contains(s.Reason, "group.id") {
		t.Errorf("reason: %s", s.Reason)
	}
	if r.states.states[0] != nil {
		t.Error("a state was made")
	}
}

// TestB14LatestIsResolvedOnce: a crash before any event, or a partition that
// goes to a member without its state, begins at the offset resolved first.
func TestB14LatestIsResolvedOnce(t *testing.T) {
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprint("state lost ", lost), func(t *testing.T) {
			r := newRig(t, 1)
			r.snapshots.refuses = errors.New("nothing is published yet")
			r.seeder.latest = true
			r.log.produce(0, sale(1, "50"))
			r.start(0)
			r.caughtUp(0)
			r.stop()
			r.log.produce(0, sale(1, "1.00"), sale(1, "1.00"), sale(1, "1.00"))
			if lost {
				delete(r.states.states, 0)
			}
			r.start(0)
			r.caughtUp(0)
			r.expect(0, "1", `{"userId":1,"sales":3,"revenue":3}`)
		})
	}
}

// TestChangedCut: a partition that the group began by another cut than the
// configuration's is not begun anew with it: events that the history holds
// would be folded again, or events that it does not hold left out. A state
// keeps its cut; one without a history does not get one later.
func TestChangedCut(t *testing.T) {
	noon, one := event.Time{Sec: 43200}, event.Time{Sec: 46800}
	at := func(start int64) *Cut { return &Cut{Mode: CutOffsets, Start: start} }
	for _, c := range []struct {
		was, is *Cut
		history bool // in the configuration now
		lost    bool // the state
		want    []string
	}{
		{&Cut{}, &Cut{Mode: CutLatest, Start: -1}, true, true, []string{"began without a history", "says with history.cut.mode latest", "group.id"}},
		{&Cut{}, &Cut{Mode: CutLatest, Start: -1}, true, false, []string{"made without a history", "never be loaded", "state.dir"}},
		{&Cut{Mode: CutGuard}, &Cut{Start: -1}, false, true, []string{"began with history.cut.mode guard", "says without a history"}},
		{&Cut{Mode: CutGuard}, &Cut{Start: -1}, false, false, nil}, // loaded, it is not needed again
		{&Cut{Mode: CutGuard, EventTime: event.Path{"at"}}, &Cut{Mode: CutGuard, Start: -1, EventTime: event.Path{"sale", "at"}}, true, true, []string{"guard by at,", "guard by sale.at;"}},
		{&Cut{Mode: CutTimestamp, Before: &noon}, &Cut{Mode: CutTimestamp, Start: -1, Before: &one}, true, true, []string{"1970-01-01T12:00:00", "1970-01-01T13:00:00"}},
		{&Cut{Mode: CutTimestamp, Before: &noon}, &Cut{Mode: CutTimestamp, Start: -1, Before: &noon}, true, true, nil},
		{at(1), at(2), true, true, []string{"at offset 1", "at offset 2"}},
		{at(1), at(2), true, false, nil}, // the cut was taken once, and is kept
		{at(1), at(1), true, true, nil},
	} {
		t.Run(fmt.Sprintf("%v to %v, state lost %v", c.was, c.is, c.lost), func(t *testing.T) {
			r := newRig(t, 1)
			r.seeder.cut = func() (Cut, error) { return *c.was, nil }
			r.snapshots.refuses = errors.New("nothing is published yet")
			r.log.produce(0, sale(1, "50"), sale(1, "7"))
			r.start(0)
			r.caughtUp(0)
			r.stop()
			if c.lost {
				delete(r.states.states, 0)
			}
			r.snapshots.refuses = nil
			r.seeder.configured = c.is
			if c.history {
				r.seeder.history = []string{}
			}
			r.start(0)
			if c.want == nil {
				r.caughtUp(0)
				return
			}
			s := r.until(0, "paused", func(s PartitionStatus) bool { return s.State == Paused })
			for _, want := range c.want {
				if !strings.Contains(s.Reason, want) {
					t.Errorf("the reason does not say %q: %s", want, s.Reason)
				}
			}
			if c.lost && r.states.states[0] != nil {
				t.Error("a state was made")
			}
		})
	}
}

// TestK05LaterPartitions begin at their beginning, also with latest.
func TestK05LaterPartitions(t *testing.T) {
	r := newRig(t, 3)
	r.seeder.latest = true
	r.start(0, 1, 2)
	for p := range int32(3) {
		r.caughtUp(p)
	}
	r.log.edit(func() { r.log.topic.Partitions = 4; r.log.parts[3] = &fakePartition{} })
	for range 20 {
		r.log.produce(3, sale(1, "1"))
	}
	r.p.Assign(3)
	r.caughtUp(3)
	r.expect(3, "1", `{"userId":1,"sales":20,"revenue":20}`)
}

// TestK18GroupForgotten: the state decides, and the group is told again.
func TestK18GroupForgotten(t *testing.T) {
	r := newRig(t, 1)
	r.log.produce(0, sale(1, "1"))
	r.start(0)
	r.caughtUp(0)
	r.stop()
	was := r.commits.commits[0]
	clear(r.commits.commits)
	r.start(0)
	r.caughtUp(0)
	r.expect(0, "1", `{"userId":1,"sales":1,"revenue":1}`)
	if got := r.commits.commits[0]; got != was || got.Metadata == "" {
		t.Errorf("commit %+v, want %+v", got, was)
	}
}

// TestSeedingIsSharedAndWhole: one pass for all partitions that open together;
// a pass that fails leaves nothing of it.
func TestB12SeedingIsSharedAndWhole(t *testing.T) {
	r := newRig(t, 3)
	r.seeder.history = []string{
		`{"userId":1,"sales":10,"revenue":100.10}`, `{"userId":2,"sales":1,"revenue":0.20}`,
		`{"userId":3,"sales":2,"revenue":5}`, `{"userId":4,"revenue":7}`,
	}
	hopeless := fmt.Errorf("a document too bad: %w", ErrHopeless)
	r.seeder.seed = func(context.Context) error { return hopeless }
	r.start(0, 1, 2)
	if err := r.end(); !errors.Is(err, ErrHopeless) {
		t.Fatalf("got %v", err)
	}
	for p, s := range r.states.states {
		if s.progress().Seeded {
			t.Errorf("partition %d passes for seeded", p)
		}
	}
	// The process is killed halfway through a pass.
	half := make(chan struct{})
	r.seeder.seed = func(ctx context.Context) error { close(half); <-ctx.Done(); return ctx.Err() }
	r.start(0, 1, 2)
	<-half
	if s := r.p.Status(); s[0].State != Bootstrapping || s[0].Answers {
		t.Errorf("during the pass: %+v", s[0])
	}
	r.stop()
	r.seeder.passes, r.seeder.seed = nil, nil
	r.start(0, 1, 2)
	for p := range int32(3) {
		r.caughtUp(p)
	}
	if want := [][]int32{{0, 1, 2}}; fmt.Sprint(r.seeder.passes) != fmt.Sprint(want) {
		t.Errorf("passes %v, want %v", r.seeder.passes, want)
	}
	docs := int64(0)
	for _, s := range r.p.Status() {
		docs += s.Documents
	}
	if docs != 4 {
		t.Errorf("%d documents in the seeds", docs)
	}
	one := Murmur2.Partition([]byte("1"), 3)
	r.log.produce(one, sale(1, "0.90"))
	r.caughtUp(one)
	r.expect(one, "1", `{"userId":1,"sales":11,"revenue":101}`)
	r.stop()
	r.start(0, 1, 2) // and it is not read again
	r.caughtUp(one)
	r.expect(one, "1", `{"userId":1,"sales":11,"revenue":101}`)
	if len(r.seeder.passes) != 1 {
		t.Errorf("passes %v", r.seeder.passes)
	}
}

// TestS04NoSpace: folding stops, reads go on, and it resumes by itself.
func TestS04NoSpace(t *testing.T) {
	r := newRig(t, 1)
	r.tuning.ApplyRecords = 10
	r.log.produce(0, sale(1, "1"))
	r.start(0)
	r.caughtUp(0)
	r.states.mu.Lock()
	r.states.noSpace = true
	r.states.mu.Unlock()
	r.log.produce(0, sale(1, "1"))
	s := r.until(0, "paused", func(s PartitionStatus) bool { return s.State == Paused && strings.Contains(s.Reason, "0 bytes") })
	if !s.Answers {
		t.Error("a partition that was live does not answer while it is paused")
	}
	for range 200 {
		r.log.produce(0, sale(1, "1"))
	}
	r.expect(0, "1", r.row(0, "1"))
	if at := r.p.Status()[0].Position; at != 2 {
		t.Errorf("folding went on to %d", at)
	}
	r.until(0, "seen to fall behind", func(s PartitionStatus) bool { return s.End == 202 && s.State == Paused })
	r.states.mu.Lock()
	r.states.noSpace = false
	r.states.mu.Unlock()
	r.caughtUp(0)
	r.expect(0, "1", `{"userId":1,"sales":202,"revenue":202}`)
}

// TestS04DiskFillsBehindAnApply: what is applied cannot become durable. That
// pauses the partition, as where nothing can be applied; with room again it goes
// on, and a partition that is let go of meanwhile closes without the rest, which
// the log still has.
func TestS04DiskFillsBehindAnApply(t *testing.T) {
	r := newRig(t, 1)
	r.tuning.FlushInterval = time.Millisecond
	full := func(is bool) {
		r.states.mu.Lock()
		defer r.states.mu.Unlock()
		r.states.full = is
	}
	paused := func(s PartitionStatus) bool {
		return s.State == Paused && strings.Contains(s.Reason, "the disk is full")
	}
	r.log.produce(0, sale(1, "1"))
	r.start(0)
	r.caughtUp(0)
	for n := 2; n <= 3; n++ {
		full(true)
		r.log.produce(0, sale(1, "1"))
		if s := r.until(0, "paused", paused); !s.Answers {
			t.Error("a partition that was live does not answer while it is paused")
		}
		if n == 3 {
			r.stop()
			full(false)
			r.start(0)
		}
		full(false)
		r.caughtUp(0)
		r.expect(0, "1", fmt.Sprintf(`{"userId":1,"sales":%d,"revenue":%d}`, n, n))
	}
}

// TestS04NoSpaceAtStart: a state that cannot be opened or made for want of
// room is waited for.
func TestS04NoSpaceAtStart(t *testing.T) {
	r := newRig(t, 1)
	room := func(none bool) {
		r.states.mu.Lock()
		defer r.states.mu.Unlock()
		r.states.noSpace = none
	}
	paused := func(s PartitionStatus) bool { return s.State == Paused && strings.Contains(s.Reason, "0 bytes") }
	r.log.produce(0, sale(1, "1"))
	for range 2 { // made, then opened
		room(true)
		r.start(0)
		r.until(0, "paused", paused)
		room(false)
		r.caughtUp(0)
		r.expect(0, "1", `{"userId":1,"sales":1,"revenue":1}`)
		r.stop()
	}
}

// TestApplyFails: a store that fails ends the process; nothing is skipped.
func TestApplyFails(t *testing.T) {
	r := newRig(t, 1)
	r.states.failing = errors.New("the disk is gone")
	r.start(0)
	r.log.produce(0, sale(1, "1"))
	if err := r.end(); err == nil || !strings.Contains(err.Error(), "the disk is gone") {
		t.Errorf("got %v", err)
	}
}

// TestDeadLetterBeforePosition: no position is stored that is past a bad
// record which the dead letter has not stored.
func TestDeadLetterBeforePosition(t *testing.T) {
	r := newRig(t, 1)
	r.letters.refuses = errors.New("no leader")
	r.start(0)
	r.log.produce(0, sale(1, "5.00"), "", `{"userId":"U-1"`, sale(1, "7.00"))
	r.until(0, "paused", func(s PartitionStatus) bool { return s.State == Paused && strings.Contains(s.Reason, "no leader") })
	if at := r.stored(0); at != 0 {
		t.Errorf("position %d is stored", at)
	}
	r.letters.mu.Lock()
	r.letters.refuses = nil
	r.letters.mu.Unlock()
	r.caughtUp(0)
	r.expect(0, "1", `{"userId":1,"sales":2,"revenue":12}`)
	r.stop()
	if len(r.letters.sent) != 1 || r.letters.stored != 1 || r.letters.sent[0].Record.Offset != 2 || r.letters.sent[0].Error == "" {
		t.Errorf("dead letters: %+v", r.letters.sent)
	}
}

// TestDeadLetterWhileItIsSent: an apply that comes between the folding of a bad
// record and its letter waits for the letter.
func TestDeadLetterWhileItIsSent(t *testing.T) {
	r := newRig(t, 2)
	sending, goOn := make(chan struct{}), make(chan struct{})
	r.letters.takes = func() error {
		close(sending)
		<-goOn
		return nil
	}
	r.start(0, 1)
	r.caughtUp(0)
	r.caughtUp(1)
	r.log.produce(0, sale(1, "5.00"), `{"userId":"U-1"`)
	<-sending
	for n := range int64(20) { // the other one applies again and again meanwhile
		r.log.produce(1, sale(1, "1"))
		r.until(1, "stored", func(PartitionStatus) bool { return r.stored(1) > n })
	}
	if at := r.stored(0); at != 0 {
		t.Errorf("position %d is stored, and the letter of record 1 is not sent", at)
	}
	close(goOn)
	r.caughtUp(0)
	r.until(0, "stored", func(PartitionStatus) bool { return r.stored(0) == 2 })
	r.stop()
	if r.letters.stored != 1 {
		t.Errorf("%d letters are stored, want 1", r.letters.stored)
	}
}

// TestDeadLetterNotSent: a partition that is let go of while the dead letter
// takes nothing stores no position past what it did not take.
func TestDeadLetterNotSent(t *testing.T) {
	r := newRig(t, 1)
	r.letters.takes = func() error { return errors.New("not now") }
	r.start(0)
	r.log.produce(0, sale(1, "5.00"), `{"userId":"U-1"`)
	r.until(0, "paused", func(s PartitionStatus) bool { return s.State == Paused && strings.Contains(s.Reason, "not now") })
	r.stop()
	if at := r.stored(0); at != 0 {
		t.Errorf("position %d is stored, and the letter of record 1 is not", at)
	}
	r.letters.takes = nil
	r.start(0)
	r.caughtUp(0)
	r.expect(0, "1", `{"userId":1,"sales":1,"revenue":5}`)
	r.stop()
	if len(r.letters.sent) != 1 || r.letters.stored != 1 {
		t.Errorf("dead letters: %+v", r.letters.sent)
	}
}

// TestK12StalledApply: a write that takes very long holds up neither answers nor
// other partitions; what is folded meanwhile is bounded, and nothing is lost.
func TestK12StalledApply(t *testing.T) {
	r := newRig(t, 2)
	r.tuning.ApplyRecords = 10
	r.log.batches = func(n int) int { return min(n, 5) }
	r.start(0, 1)
	r.caughtUp(0)
	stalled := make(chan struct{})
	r.states.mu.Lock()
	r.states.stalled = stalled
	r.states.mu.Unlock()
	task, err := r.p.find(0)
	if err != nil {
		t.Fatal(err)
	}
	r.log.produce(0, sale(1, "1"))
	r.until(0, "stalled", func(PartitionStatus) bool {
		task.totals.mu.Lock()
		defer task.totals.mu.Unlock()
		return task.totals.frozen != nil
	})
	for range 299 {
		r.log.produce(0, sale(1, "1"))
	}
	full := r.until(0, "full", func(s PartitionStatus) bool { return s.Position >= 20 }).Position
	r.log.produce(1, sale(1, "1")) // folded in memory
	r.caughtUp(1)
	r.expect(1, "1", `{"userId":1,"sales":1,"revenue":1}`)
	if s := r.p.Status()[0]; s.Position > 50 || s.Position < full {
		t.Errorf("folded up to %d while one apply of 10 records stalls", s.Position)
	}
	close(stalled)
	r.caughtUp(0)
	r.expect(0, "1", `{"userId":1,"sales":300,"revenue":300}`)
}

// TestD14NullKafkaKey: the value decides, whatever the record's own key is.
func TestD14NullKafkaKey(t *testing.T) {
	r := newRig(t, 1)
	r.log.produce(0, `{"userId":"U-14","revenue":4.00}`, `{"revenue":4.00}`)
	r.log.edit(func() { r.log.parts[0].records[1].Key = []byte("U-14") })
	r.start(0)
	r.caughtUp(0)
	r.expect(0, "U-14", `{"userId":"U-14","sales":1,"revenue":4}`)
	if s := r.p.Status()[0]; s.Counts.Results[Bad] != 1 || s.Counts.Reasons[event.MissingField] != 1 {
		t.Errorf("counts %+v", s.Counts)
	}
}

// TestRevokeAppliesAndCloses: what was folded is on disk when Revoke returns,
// and reads are told that the partition is gone.
func TestRevokeAppliesAndCloses(t *testing.T) {
	r := newRig(t, 2)
	r.tuning.ApplyInterval, r.tuning.ApplyRecords = time.Hour, 1_000_000
	r.start(0, 1)
	r.log.produce(0, sale(1, "1"), sale(2, "1"))
	r.caughtUp(0)
	r.p.Revoke(context.Background(), 0)
	if at := r.stored(0); at != 2 {
		t.Errorf("position %d on disk", at)
	}
	if _, err := r.p.Get(context.Background(), 0, []byte("1")); !errors.Is(err, ErrNotOwned) {
		t.Errorf("got %v", err)
	}
	r.caughtUp(1)
	r.p.Assign(0)
	r.caughtUp(0)
	r.expect(0, "1", `{"userId":1,"sales":1,"revenue":1}`)
}

// TestPlacementFollowsKeys: what the status says of partitioners includes keys
// that are folded and not applied.
func TestPlacementFollowsKeys(t *testing.T) {
	r := newRig(t, 3)
	r.tuning.ApplyInterval, r.tuning.ApplyRecords = time.Hour, 1_000_000
	r.start(1)
	r.caughtUp(1)
	if s := r.p.Status()[0]; s.Placement != allPartitioners {
		t.Errorf("empty: %b", s.Placement)
	}
	for user := range 60 {
		if Murmur2.Partition(fmt.Append(nil, user), 3) == 1 {
			r.log.produce(1, sale(user, "1"))
		}
	}
	r.caughtUp(1)
	if s := r.p.Status()[0]; s.Placement != 1<<Murmur2 {
		t.Errorf("murmur2 keys: %b", s.Placement)
	}
}

// TestQ08ScansHoldUpNoFolding: while ten listings stand in the middle of the
// state, records are folded, applied and answered; each listing is of one
// moment all the same.
func TestQ08ScansHoldUpNoFolding(t *testing.T) {
	const listings, users = 10, 100
	r := newRig(t, 1)
	r.tuning.ApplyRecords = 10
	for user := range users {
		r.log.produce(0, sale(user, "1"))
	}
	r.start(0)
	r.caughtUp(0)
	r.stop() // all of it is in the store
	in, release := make(chan struct{}, listings), make(chan struct{})
	r.states.mu.Lock()
	r.states.scanned = func() {
		select {
		case in <- struct{}{}:
			<-release
		default: // one that is tried again
		}
	}
	r.states.mu.Unlock()
	r.start(0)
	r.caughtUp(0)
	pages := make(chan Page, listings)
	for range listings {
		go func() {
			page, err := r.p.Scan(context.Background(), 0, nil, nil, 1000)
			if err != nil {
				t.Error(err)
			}
			pages <- page
		}()
	}
	deadline := time.After(20 * time.Second)
	for len(in) < listings {
		select {
		case <-time.After(time.Millisecond):
		case <-deadline:
			t.Fatalf("%d listings have begun", len(in))
		}
	}
	for range 5000 {
		r.log.produce(0, sale(1, "1"))
	}
	r.caughtUp(0)
	r.expect(0, "1", `{"userId":1,"sales":5001,"revenue":5001}`)
	r.until(0, "applied while listings stand", func(PartitionStatus) bool { return r.stored(0) == users+5000 })
	close(release)
	for range listings {
		page := <-pages
		var sales int64
		for _, e := range page.Entries {
			var n, revenue int64
			var user int
			if _, err := fmt.Sscanf(render(t, r.program, e.Key, e.Total), `{"userId":%d,"sales":%d,"revenue":%d}`, &user, &n, &revenue); err != nil {
				t.Fatal(err)
			}
			sales += n
		}
		if len(page.Entries) != users || sales != page.Position {
			t.Errorf("a listing of %d keys and %d sales at position %d", len(page.Entries), sales, page.Position)
		}
	}
}

// TestK07AssignAndRevokeInAnyOrder: grants and revocations that come as fast as
// they can, twice, and for partitions that are not held, change no total.
func TestK07AssignAndRevokeInAnyOrder(t *testing.T) {
	for seed := range uint64(10) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		r := newRig(t, 2)
		r.tuning.ApplyRecords = 1 + rnd.IntN(20)
		r.start()
		for range 30 {
			p := rnd.Int32N(2)
			r.log.produce(p, mixed(rnd, rnd.IntN(20))...)
			switch rnd.IntN(4) {
			case 0:
				r.p.Revoke(context.Background(), p)
			case 1:
				r.p.Revoke(context.Background(), p)
				r.p.Assign(p)
			default:
				r.p.Assign(p)
				r.p.Assign(p)
			}
		}
		r.p.Assign(0)
		r.p.Assign(1)
		for p := range int32(2) {
			r.caughtUp(p)
		}
		status := r.p.Status()
		r.stop()
		for p := range int32(2) {
			r.straight(p, r.states.states[p], status[p].Counts)
			r.notBeyondSnapshots(p)
		}
	}
}
