package aggregator

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tidemark/event"
)

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
		r.expect(0, "1", `{"userId":1,"sales":1,"revenue":1}`) // for who asks for what there is
		r.stop()
		if at := r.stored(0); at != 1 {
			t.Errorf("the state went to %d", at)
		}
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

// TestK04TopicDeletedBeforeAnApply: what was seen to be of the topic goes into the
// state though the topic is gone: no log gives it again.
func TestK04TopicDeletedBeforeAnApply(t *testing.T) {
	for _, c := range []struct {
		name  string
		apply time.Duration
		end   bool // the process
	}{
		{"the process ends", time.Hour, true},
		{"the process goes on", time.Minute, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, 1)
				r.tuning.ApplyInterval, r.tuning.ApplyRecords = c.apply, 1_000_000
				r.start(0)
				r.caughtUp(0)
				r.log.produce(0, sale(1, "1"), sale(1, "1"))
				<-time.After(2 * lookInterval)
				r.log.edit(func() { r.log.missing = true })
				if <-time.After(2 * lookInterval); c.end {
					r.stop()
				} else {
					<-time.After(2 * c.apply)
				}
				if at := r.stored(0); at != 2 {
					t.Errorf("the state went to %d", at)
				}
			})
		})
	}
}

// TestK04TopicRecreatedLongBeforeAnApply: another topic, whose end is higher, is
// seen at the next look, not at the next apply: answers have its records no longer.
func TestK04TopicRecreatedLongBeforeAnApply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		r.tuning.ApplyInterval, r.tuning.ApplyRecords = time.Hour, 1_000_000
		r.log.produce(0, sale(1, "1"))
		r.start(0)
		r.caughtUp(0)
		r.log.edit(func() { r.log.topic.ID, r.log.parts[0] = "id-2", &fakePartition{} })
		r.log.produce(0, slices.Repeat([]string{sale(2, "100")}, 10)...)
		<-time.After(2 * lookInterval)
		if s := r.p.Status()[0]; s.State != Paused || !strings.Contains(s.Reason, "created again") {
			t.Errorf("it goes on: %+v", s)
		}
		r.expect(0, "2", "")
	})
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
