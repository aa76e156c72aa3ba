package aggregator

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// TestK01GapDuringAnApply: an apply is under way while retention overtakes the reader: the delta goes down once.
func TestK01GapDuringAnApply(t *testing.T) {
	r := newRig(t, 1)
	r.tuning.AcceptGap = true
	r.start(0)
	r.caughtUp(0)
	stall := make(chan struct{})
	r.states.mu.Lock()
	r.states.stalled = stall
	r.states.mu.Unlock()
	r.log.produce(0, sale(1, "1"), sale(1, "1"), sale(1, "1"))
	r.until(0, "folded", func(s PartitionStatus) bool { return s.Position == 3 })
	task, err := r.p.find(0)
	if err != nil {
		t.Fatal(err)
	}
	r.until(0, "being applied", func(PartitionStatus) bool {
		task.totals.mu.Lock()
		defer task.totals.mu.Unlock()
		return task.totals.frozen != nil && task.totals.active.Counts.Consumed() == 0
	})
	r.log.trim(0, 10)
	r.until(0, "seen to have a gap", func(s PartitionStatus) bool { return s.LogStart == 10 })
	r.states.mu.Lock()
	r.states.stalled = nil
	r.states.mu.Unlock()
	close(stall)
	r.until(0, "beyond the gap", func(s PartitionStatus) bool { return s.Position == 10 })
	r.expect(0, "1", `{"userId":1,"sales":3,"revenue":3}`)
	r.log.produce(0, sale(1, "1"))
	r.until(0, "on", func(s PartitionStatus) bool { return s.Position == 11 })
	r.stop()
}

// TestB12NothingLeftToLoad: somebody else has published everything before the retry: nothing is left to load.
func TestB12NothingLeftToLoad(t *testing.T) {
	r := newRig(t, 2)
	r.withHistory(10)
	fails := make(chan struct{})
	first := true
	r.seeder.seed = func(ctx context.Context) error {
		if first {
			first = false
			close(fails)
			return errors.New("connection reset")
		}
		return nil
	}
	r.start(0, 1)
	<-fails
	// a zombie, or `tidemark bootstrap`, ends its load in the wait of 5 s
	commits, _ := r.commits.Committed(t.Context())
	var ids []Identity
	for p := range int32(2) {
		note, _ := readNote(commits[p])
		ids = append(ids, Identity{Topic: "sales", TopicID: "id-1", Partition: p, Partitions: 2, SeedPartitions: 2,
			Definition: r.program.Definition(), HasHistory: true, Cut: note.Cut})
	}
	if _, err := r.ahead().Seeds.Publish(t.Context(), ids, untold); err != nil {
		t.Fatal(err)
	}
	r.caughtUp(0)
	r.stop()
}

// TestB12TopicGrowsBeforePartition0: the topic grows between the first owner's commit and that of partition 0's.
func TestB12TopicGrowsBeforePartition0(t *testing.T) {
	r := newRig(t, 4)
	r.withHistory(40)
	other := r.beside()
	other.start(1, 2, 3)
	other.until(1, "waits", func(s PartitionStatus) bool { return s.State == Bootstrapping })
	other.until(2, "waits", func(s PartitionStatus) bool { return s.State == Bootstrapping })
	other.until(3, "waits", func(s PartitionStatus) bool { return s.State == Bootstrapping })
	r.log.edit(func() {
		r.log.topic.Partitions = 6
		r.log.parts[4], r.log.parts[5] = &fakePartition{}, &fakePartition{}
	})
	late := r.beside()
	late.start(4, 5)
	late.caughtUp(4)
	late.caughtUp(5)
	if _, err := late.p.PublishSnapshots(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.start(0)
	r.caughtUp(0)
	for p := int32(1); p < 4; p++ {
		other.caughtUp(p)
	}
	if n := r.sales(40) + other.sales(40) + late.sales(40); n != 40 {
		t.Errorf("%d sales of the history, want 40", n)
	}
	r.stop()
	other.stop()
	late.stop()
}

// TestK04RecreatedWhileTheHistoryLoads: the topic is created again while the history is read; Kafka drops its offsets.
func TestK04RecreatedWhileTheHistoryLoads(t *testing.T) {
	r := newRig(t, 2)
	r.withHistory(10)
	var once bool
	r.seeder.seed = func(ctx context.Context) error {
		if once {
			return nil
		}
		once = true
		r.log.edit(func() { r.log.topic.ID = "id-2" })
		r.commits.edit(func() { clear(r.commits.commits) })
		return errors.New("connection reset")
	}
	r.start(0, 1)
	r.until(0, "over it", func(s PartitionStatus) bool { return s.State == Live || s.State == Paused })
	r.until(1, "over it", func(s PartitionStatus) bool { return s.State == Live || s.State == Paused })
}

// TestPausesEndWithAnOwnership: a partition that is paused, since the dead letter
// takes nothing, is taken by another member, which folds on, and comes back: it
// is not paused any more, and folds.
func TestPausesEndWithAnOwnership(t *testing.T) {
	r := newRig(t, 1)
	r.tuning.SnapshotInterval = 5 * time.Millisecond
	r.letters.takes = func() error { return errors.New("no leader") }
	r.start(0)
	r.log.produce(0, sale(1, "1"))
	r.caughtUp(0)
	r.until(0, "published", func(s PartitionStatus) bool { return s.Snapshot != nil })
	r.log.produce(0, "{", sale(1, "1"))
	r.until(0, "paused", func(s PartitionStatus) bool { return s.State == Paused })

	other := r.beside()
	other.letters = &fakeLetters{}
	r.commits.edit(func() { r.commits.out = true })
	r.snapshots.edit(func() { r.snapshots.out = errors.New("another member's") }) // the group gives it nothing
	other.start(0)
	other.until(0, "published", func(s PartitionStatus) bool { return s.Snapshot != nil && s.Snapshot.Progress.Position == 3 })
	r.until(0, "fenced", func(s PartitionStatus) bool { return s.Snapshot == nil })
	other.stop()
	r.commits.edit(func() { r.commits.out = false })
	r.snapshots.edit(func() { r.snapshots.out = nil })
	r.until(0, "back", func(s PartitionStatus) bool { return s.Position == 3 && s.Snapshot != nil })
	r.log.produce(0, sale(1, "1"))
	r.caughtUp(0)
	r.expect(0, "1", `{"userId":1,"sales":3,"revenue":3}`)
	r.stop()
}

// TestK04RecreatedWhileItWaitsForTheEnd: the log has lost its tail, and while the
// partition waits for it the topic is created again, and grows past the position:
// nothing of it is folded, not for a moment, and the reason is the right one.
func TestK04RecreatedWhileItWaitsForTheEnd(t *testing.T) {
	r := newRig(t, 1)
	r.tuning.ApplyInterval, r.tuning.ApplyRecords = time.Hour, 1_000_000
	r.log.produce(0, sale(1, "1"), sale(1, "1"), sale(1, "1"))
	r.start(0)
	r.caughtUp(0)
	r.stop()
	r.log.edit(func() { r.log.parts[0].records, r.log.parts[0].next = nil, 1 })
	r.start(0)
	r.until(0, "paused", func(s PartitionStatus) bool { return s.State == Paused && strings.Contains(s.Reason, "above the end") })
	r.log.edit(func() {
		r.log.topic.ID = "id-2"
		r.log.parts[0] = &fakePartition{}
	})
	for range 10 {
		r.log.produce(0, sale(2, "100"))
	}
	s := r.until(0, "paused for it", func(s PartitionStatus) bool {
		return s.Position > 3 || s.State == Paused && strings.Contains(s.Reason, "deleted and created again")
	})
	if s.Position != 3 {
		t.Errorf("%d records of another topic are folded", s.Position-3)
	}
	r.expect(0, "2", "")
	r.stop()
}
