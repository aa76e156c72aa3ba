package aggregator

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestK07AnyHandOver is the model: a partition goes between three members that
// are stopped, killed, lose their disks, or go on as if nothing had happened,
// and the last owner's state is the straight fold of the log, byte for byte.
func TestK07AnyHandOver(t *testing.T) {
	for seed := range uint64(16) {
		t.Run(fmt.Sprint("seed", seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 7))
			one := newRig(t, 1)
			one.tuning.ApplyRecords = 1 + rnd.IntN(40)
			one.tuning.SnapshotInterval = time.Millisecond
			one.tuning.Keep = 1 + rnd.IntN(3)
			members := []*rig{one, one.beside(), one.beside()}
			values := mixed(rnd, 900)
			zombies := map[*rig]bool{}
			for at := 0; at < len(values); {
				owner := members[rnd.IntN(len(members))]
				if zombies[owner] {
					owner.stop()
					delete(zombies, owner)
				}
				owner.commits.edit(func() { owner.commits.out = false })
				owner.start(0)
				n := min(len(values)-at, rnd.IntN(150))
				owner.log.produce(0, values[at:at+n]...)
				at += n
				stopAt := rnd.Int64N(int64(at + 1))
				owner.until(0, "there", func(s PartitionStatus) bool { return s.Position >= stopAt })
				switch rnd.IntN(4) {
				case 0: // handed over
					owner.stop()
				case 1: // killed, and the last applies never reached the disk
					owner.commits.edit(func() { owner.commits.out = true })
					owner.stop()
					if s := owner.states.states[0]; s != nil {
						s.durable = 1 + rnd.IntN(len(s.applies))
						owner.states.crash(0, func(int) int { return 0 })
					}
				case 2: // killed with its disk
					owner.commits.edit(func() { owner.commits.out = true })
					owner.stop()
					owner.states.mu.Lock()
					delete(owner.states.states, 0)
					owner.states.mu.Unlock()
				case 3: // it goes on, though the group knows it no more
					owner.commits.edit(func() { owner.commits.out = true })
					zombies[owner] = true
				}
				one.notBeyondSnapshots(0)
			}
			for z := range zombies {
				z.stop()
			}
			last := members[rnd.IntN(len(members))]
			last.commits.edit(func() { last.commits.out = false })
			last.start(0)
			last.caughtUp(0)
			status := last.p.Status()[0]
			last.stop()
			last.straight(0, last.states.states[0], status.Counts)
			if at := one.snapshots.position(0); at != int64(len(values)) {
				t.Errorf("the newest snapshot is at %d, want %d", at, len(values))
			}
		})
	}
}

// TestZombieNeitherAnswersNorPublishes: a member that the group has given up on
// goes on folding; once its heir has claimed the partition nothing of it counts.
func TestZombieNeitherAnswersNorPublishes(t *testing.T) {
	a := newRig(t, 1)
	a.tuning.SnapshotInterval = time.Millisecond
	b := a.beside()
	a.start(0)
	a.log.produce(0, sale(1, "1"))
	a.caughtUp(0)
	a.until(0, "published", func(s PartitionStatus) bool { return s.Snapshot != nil && s.Snapshot.Progress.Position == 1 })
	a.commits.edit(func() { a.commits.out = true })
	b.start(0)
	b.caughtUp(0)
	b.expect(0, "1", `{"userId":1,"sales":1,"revenue":1}`)
	b.log.produce(0, sale(1, "1"))
	s := a.until(0, "without the partition", func(s PartitionStatus) bool {
		return s.State == Restoring && !s.Answers && strings.Contains(s.Reason, "another member")
	})
	if s.Snapshot != nil {
		t.Errorf("it shows snapshot %+v as its own", s.Snapshot)
	}
	got, err := a.p.Get(context.Background(), 0, []byte("1"))
	if err != nil || got.Answers {
		t.Errorf("it answers: %+v, %v", got, err)
	}
	b.caughtUp(0)
	b.until(0, "published", func(s PartitionStatus) bool { return s.Snapshot != nil && s.Snapshot.Progress.Position == 2 })
	// The group takes it back: it goes on from what its heir has published.
	b.commits.edit(func() { b.commits.out = true; a.commits.out = false })
	a.caughtUp(0)
	a.expect(0, "1", `{"userId":1,"sales":2,"revenue":2}`)
	b.until(0, "without the partition", func(s PartitionStatus) bool { return s.State == Restoring && !s.Answers })
}

// TestTakenBeforeItIsLetGo: a member that was frozen beyond its session hears of
// the loss by having to let go. It is counted as a partition that was lost, and
// one that is handed over is not.
func TestTakenBeforeItIsLetGo(t *testing.T) {
	for name, want := range map[string]int64{"handed over": 0, "taken": 1} {
		t.Run(name, func(t *testing.T) {
			a := newRig(t, 1)
			a.tuning.SnapshotInterval = time.Hour
			var seen failures
			a.observer = &seen
			b := a.beside()
			b.observer = nil
			a.log.produce(0, sale(1, "1"))
			a.start(0)
			a.caughtUp(0)
			if _, err := a.p.PublishSnapshots(context.Background()); err != nil {
				t.Fatal(err)
			}
			a.log.produce(0, sale(1, "1"))
			a.caughtUp(0)
			if want > 0 {
				b.start(0)
				b.caughtUp(0)
			}
			a.stop()
			if want == 0 {
				b.start(0)
				b.caughtUp(0)
			}
			b.expect(0, "1", `{"userId":1,"sales":2,"revenue":2}`)
			if got := seen.fenced.Load(); got != want {
				t.Errorf("%d partitions were lost, want %d", got, want)
			}
			if failed := seen.published.Load(); failed != 0 {
				t.Errorf("%d publishes failed", failed)
			}
		})
	}
}

// TestFurtherOnIsTaken: of the local state and the newest snapshot.
func TestFurtherOnIsTaken(t *testing.T) {
	for _, c := range []struct {
		name            string
		local, snapshot int // records each holds; 0 for none
		restored        bool
	}{{"the state", 5, 3, false}, {"the snapshot", 3, 5, true}, {"no state", 0, 4, true}, {"no snapshot", 4, 0, false}, {"alike", 4, 4, false}} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, 1)
			b := r.beside()
			fold := func(m *rig, n int, publish bool) {
				if n == 0 {
					return
				}
				m.snapshots.edit(func() { m.snapshots.refuses = errors.New("not now") })
				if publish {
					m.snapshots.edit(func() { m.snapshots.refuses = nil })
				}
				m.log.produce(0, make([]string, max(0, n-int(m.log.parts[0].next)))...)
				m.log.edit(func() { m.log.parts[0].next, m.log.parts[0].records = int64(n), m.log.parts[0].records[:n] })
				m.start(0)
				m.caughtUp(0)
				m.stop()
			}
			if c.local <= c.snapshot { // the one that is behind first
				fold(r, c.local, false)
				fold(b, c.snapshot, true)
			} else {
				fold(b, c.snapshot, true)
				fold(r, c.local, false)
			}
			r.snapshots.refuses = nil
			r.log.produce(0, sale(1, "1"))
			before := r.states.states[0]
			r.start(0)
			r.caughtUp(0)
			if n := r.p.Status()[0].Counts.Consumed(); n != r.log.parts[0].next {
				t.Errorf("%d records counted, want %d", n, r.log.parts[0].next)
			}
			if restored := r.states.states[0] != before; restored != c.restored {
				t.Errorf("restored: %v, want %v", restored, c.restored)
			}
		})
	}
}

// TestS10DamagedSnapshot: the newest cannot be restored; the one before is, and
// the log gives the rest.
func TestS10DamagedSnapshot(t *testing.T) {
	r := newRig(t, 1)
	for range 3 {
		r.log.produce(0, sale(1, "1"))
		r.start(0)
		r.caughtUp(0)
		r.stop()
	}
	r.snapshots.damaged = true
	delete(r.states.states, 0)
	r.start(0)
	r.caughtUp(0)
	r.expect(0, "1", `{"userId":1,"sales":3,"revenue":3}`)
	r.stop()
	// None is whole, and no state is here: it does not start over.
	r.snapshots.lines[0] = r.snapshots.lines[0][len(r.snapshots.lines[0])-1:]
	delete(r.states.states, 0)
	r.start(0)
	r.until(0, "paused", func(s PartitionStatus) bool {
		return s.State == Paused && strings.Contains(s.Reason, "no snapshot could be restored")
	})
}

// TestDamagedState: the newest snapshot takes its place; without one it ends the
// process, and stays.
func TestDamagedState(t *testing.T) {
	for _, published := range []bool{true, false} {
		t.Run(fmt.Sprint("published ", published), func(t *testing.T) {
			r := newRig(t, 1)
			if !published {
				r.snapshots.refuses = errors.New("not now")
			}
			r.log.produce(0, sale(1, "1"))
			r.start(0)
			r.caughtUp(0)
			r.stop()
			r.log.produce(0, sale(1, "1"))
			damaged := r.states.states[0]
			damaged.damaged = true
			r.start(0)
			if published {
				r.caughtUp(0)
				r.expect(0, "1", `{"userId":1,"sales":2,"revenue":2}`)
				return
			}
			if err := r.end(); !errors.Is(err, ErrDamaged) {
				t.Errorf("got %v", err)
			}
			if r.states.states[0] != damaged {
				t.Error("the state is gone")
			}
		})
	}
}

// TestSnapshotLost: neither state nor snapshot, while the group names one.
func TestSnapshotLost(t *testing.T) {
	r := newRig(t, 1)
	r.log.produce(0, sale(1, "1"))
	r.start(0)
	r.caughtUp(0)
	r.stop()
	r.snapshots.edit(func() { clear(r.snapshots.lines) })
	delete(r.states.states, 0)
	r.start(0)
	s := r.until(0, "paused", func(s PartitionStatus) bool { return s.State == Paused })
	for _, want := range []string{"snapshot 0 at offset 1", "snapshots.url", "group.id", "delete the group's offsets"} {
		if !strings.Contains(s.Reason, want) {
			t.Errorf("the reason does not say %q: %s", want, s.Reason)
		}
	}
	if r.states.states[0] != nil {
		t.Error("a state was made")
	}
}

// TestSnapshotStoreAway: folding goes on without it, and what starts meanwhile
// waits and says so.
func TestSnapshotStoreAway(t *testing.T) {
	r := newRig(t, 1)
	r.tuning.SnapshotInterval = time.Millisecond
	r.start(0)
	r.log.produce(0, sale(1, "1"))
	r.caughtUp(0)
	r.snapshots.edit(func() { r.snapshots.away = errors.New("no route to the store") })
	r.log.produce(0, sale(1, "1"))
	r.caughtUp(0)
	r.expect(0, "1", `{"userId":1,"sales":2,"revenue":2}`)
	if _, err := r.p.PublishSnapshots(context.Background()); err == nil || !strings.Contains(err.Error(), "no route") {
		t.Errorf("a publish that was asked for: %v", err)
	}
	r.stop()
	r.start(0)
	r.until(0, "waiting for it", func(s PartitionStatus) bool {
		return s.State == Restoring && !s.Answers && strings.Contains(s.Reason, "no route to the store")
	})
	r.snapshots.edit(func() { r.snapshots.away = nil })
	r.caughtUp(0)
	r.until(0, "published", func(s PartitionStatus) bool { return s.Snapshot != nil && s.Snapshot.Progress.Position == 2 })
}

// TestPublishNow publishes what is folded and not applied yet, and the group
// hears of it.
func TestPublishNow(t *testing.T) {
	r := newRig(t, 2)
	r.tuning.ApplyInterval, r.tuning.ApplyRecords = time.Hour, 1_000_000
	r.start(0, 1)
	r.log.produce(0, sale(1, "1"), sale(2, "1"))
	r.caughtUp(0)
	r.caughtUp(1)
	for range 2 { // the second finds nothing new
		list, err := r.p.PublishSnapshots(context.Background())
		if err != nil || len(list) != 2 || list[0].Progress.Position != 2 || list[0].Seq != 0 || list[1].Progress.Position != 0 {
			t.Fatalf("%+v, %v", list, err)
		}
	}
	if c := r.commits.commits[0]; c.Offset != 2 || !strings.Contains(c.Metadata, `"snapshot":{"seq":0,"epoch":1}`) {
		t.Errorf("commit %+v", c)
	}
	r.p.Revoke(context.Background(), 0)
	if list, err := r.p.PublishSnapshots(context.Background()); err != nil || len(list) != 1 {
		t.Errorf("after a revoke: %+v, %v", list, err)
	}
}

// TestPublishNowWhileTheStoreIsSilent: who asks while a publish waits for a
// store that says nothing hears what became of that one, and does not wait for
// the next.
func TestPublishNowWhileTheStoreIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		r.snapshots.silent = make(chan struct{})
		r.start(0)
		r.log.produce(0, sale(1, "1"))
		r.caughtUp(0)
		r.snapshots.edit(func() { r.snapshots.away = errors.New("no route to the store") })
		answers := make(chan error)
		for range 3 { // one is under way, two wait
			go func() {
				_, err := r.p.PublishSnapshots(context.Background())
				answers <- err
			}()
			synctest.Wait()
		}
		r.snapshots.silent <- struct{}{}
		synctest.Wait()
		for i := range 3 {
			select {
			case err := <-answers:
				if err == nil || !strings.Contains(err.Error(), "no route to the store") {
					t.Errorf("an answer: %v", err)
				}
			default:
				t.Errorf("%d of 3 have an answer", i)
			}
			synctest.Wait()
		}
		close(r.snapshots.silent)
		r.stop()
	})
}

// TestOtherDefinitionPublished ends the process, as one of the local state does.
func TestOtherDefinitionPublished(t *testing.T) {
	r := newRig(t, 1)
	r.start(0)
	r.log.produce(0, sale(1, "1"))
	r.caughtUp(0)
	r.stop()
	b := r.beside()
	b.program = compile(t, strings.Replace(salesQuery, "sum(revenue)", "max(revenue)", 1))
	epoch := r.snapshots.lines[0][len(r.snapshots.lines[0])-1].Epoch
	b.start(0)
	if err := b.end(); !errors.Is(err, ErrOtherDefinition) || !strings.Contains(err.Error(), "max(revenue)") {
		t.Errorf("got %v", err)
	}
	if line := r.snapshots.lines[0]; line[len(line)-1].Epoch != epoch {
		t.Error("the partition was claimed")
	}
}

// TestB12OneLoadsForAll: the history is read once, by the owner of the first
// partition; others wait, and say so, and restore what it has published.
func TestB12OneLoadsForAll(t *testing.T) {
	a := newRig(t, 2)
	one := Murmur2.Partition([]byte("1"), 2)
	a.seeder.history = []string{`{"userId":1,"sales":10,"revenue":100.10}`, `{"userId":2,"sales":1,"revenue":0.20}`, `{"userId":3,"revenue":7}`}
	let := make(chan struct{})
	a.seeder.seed = func(ctx context.Context) error {
		select {
		case <-let:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	b := a.beside()
	b.start(1)
	b.until(1, "waiting", func(s PartitionStatus) bool {
		return s.State == Bootstrapping && strings.Contains(s.Reason, "owner of partition 0")
	})
	a.start(0)
	a.until(0, "loading", func(s PartitionStatus) bool { return s.State == Bootstrapping })
	if _, ok := a.snapshots.newest(one); ok {
		t.Error("half a history is published")
	}
	close(let)
	a.caughtUp(0)
	b.caughtUp(1)
	if want := "[[0 1]]"; fmt.Sprint(a.seeder.passes) != want {
		t.Errorf("passes %v, want %s", a.seeder.passes, want)
	}
	if a.p.Status()[0].Documents+b.p.Status()[0].Documents != 3 {
		t.Errorf("documents: %+v %+v", a.p.Status(), b.p.Status())
	}
	a.stop()
	b.stop()
	// Both disks are gone, and the history with them.
	a.seeder.seed = func(context.Context) error { return errors.New("it is read again") }
	c := a.beside()
	c.start(0, 1)
	c.caughtUp(0)
	c.caughtUp(1)
	c.expect(one, "1", `{"userId":1,"sales":10,"revenue":100.1}`)
}

// TestB12BuilderDies: a builder that dies between two publishes is followed by
// one that builds the rest, with the same cuts.
func TestB12BuilderDies(t *testing.T) {
	a := newRig(t, 3)
	a.seeder.latest = true
	a.seeder.history = []string{}
	for user := range 30 {
		a.seeder.history = append(a.seeder.history, fmt.Sprintf(`{"userId":%d,"sales":1,"revenue":%d.50}`, user, user))
	}
	a.log.produce(1, sale(1, "1000")) // in the history already
	full := func(n int) {             // the store takes n snapshots more
		a.snapshots.edit(func() { a.snapshots.takes = &n })
	}
	full(1)
	a.start(0, 1, 2)
	a.until(0, "half done", func(s PartitionStatus) bool {
		return s.State == Bootstrapping && strings.Contains(s.Reason, "publish the history")
	})
	a.stop()
	if _, ok := a.snapshots.newest(0); ok {
		t.Fatal("the first partition is published before the others")
	}
	for p := range int32(3) {
		a.log.produce(p, sale(1, "0.25")) // after the cut
	}
	a.snapshots.edit(func() { a.snapshots.takes = nil })
	b := a.beside()
	b.start(0, 1, 2)
	sum := ""
	for p := range int32(3) {
		b.caughtUp(p)
		sum += b.row(p, "1")
	}
	if n := strings.Count(sum, `"sales":1,`) + 2*strings.Count(sum, `"sales":2,`); n != 4 {
		t.Errorf("%d sales of user 1, want one of the history and three of the log: %s", n, sum)
	}
	if got := fmt.Sprint(a.seeder.passes); got != "[[0 1 2] [0 1]]" {
		t.Errorf("passes %s", got)
	}
}

// TestK02SnapshotBehindTheLogStart: what lies between is a gap, in numbers, and
// the operator decides.
func TestK02SnapshotBehindTheLogStart(t *testing.T) {
	r := newRig(t, 1)
	r.log.produce(0, make([]string, 49)...)
	r.log.produce(0, sale(1, "1"))
	r.start(0)
	r.caughtUp(0)
	r.stop()
	delete(r.states.states, 0)
	r.log.produce(0, make([]string, 30)...)
	r.log.produce(0, sale(1, "10"))
	r.log.trim(0, 75)
	r.start(0)
	s := r.until(0, "a gap", func(s PartitionStatus) bool { return s.State == Gap })
	if s.Gap != 25 || s.Position != 50 || s.Answers || !strings.Contains(s.Reason, "removed 25 records") {
		t.Errorf("gap %d at %d, answers %v: %s", s.Gap, s.Position, s.Answers, s.Reason)
	}
	r.stop()
	r.tuning.AcceptGap = true
	r.start(0)
	r.caughtUp(0)
	r.expect(0, "1", `{"userId":1,"sales":2,"revenue":11}`)
	r.stop()
	delete(r.states.states, 0)
	r.start(0) // what is missing is told by the next owner too
	r.caughtUp(0)
	if s := r.p.Status()[0]; s.Gap != 25 || s.Counts.Consumed() != 56 {
		t.Errorf("gap %d, %d records counted", s.Gap, s.Counts.Consumed())
	}
}

// TestS08OnlyTheTailIsRead: a member without a disk restores, and reads from
// Kafka what follows the snapshot alone.
func TestS08OnlyTheTailIsRead(t *testing.T) {
	r := newRig(t, 1)
	r.log.produce(0, mixed(rand.New(rand.NewPCG(1, 8)), 500)...)
	r.start(0)
	r.caughtUp(0)
	r.stop()
	r.log.produce(0, sale(1, "1"))
	r.log.edit(func() { r.log.opened = nil })
	b := r.beside()
	b.start(0)
	b.caughtUp(0)
	if fmt.Sprint(r.log.opened) != "[500]" {
		t.Errorf("the log was read from %v, want 500 alone", r.log.opened)
	}
	if n := b.p.Status()[0].Session.Consumed(); n != 1 {
		t.Errorf("%d records were folded", n)
	}
	status := b.p.Status()[0]
	b.stop()
	b.straight(0, b.states.states[0], status.Counts)
}

// TestO01RestoringIsSeen: while a restore runs it is shown how far it has come,
// other partitions go on, and the partition can be let go of.
func TestO01RestoringIsSeen(t *testing.T) {
	r := newRig(t, 2)
	r.start(0, 1)
	for p := range int32(2) {
		r.log.produce(p, sale(1, "1"))
		r.caughtUp(p)
	}
	r.stop()
	delete(r.states.states, 0)
	r.snapshots.slow = make(chan struct{})
	r.start(0, 1)
	r.caughtUp(1)
	s := r.until(0, "restoring", func(s PartitionStatus) bool { return s.Restore != nil })
	if s.State != Restoring || s.Answers || s.Restore.Have != 25 || s.Restore.Need != 100 {
		t.Errorf("state %s, restore %+v", s.State, s.Restore)
	}
	r.log.produce(1, sale(1, "1"))
	r.caughtUp(1)
	r.p.Revoke(context.Background(), 0)
	r.p.Assign(0)
	r.until(0, "restoring", func(s PartitionStatus) bool { return s.Restore != nil })
	close(r.snapshots.slow)
	r.caughtUp(0)
	if s := r.p.Status()[0]; s.Restore != nil {
		t.Errorf("it shows a restore: %+v", s.Restore)
	}
}
