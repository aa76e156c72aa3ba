package aggregator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
)

// TestS14NewerSnapshots: what a newer version has published is neither waited
// for nor folded again: the partition says what to do, whichever step finds it.
func TestS14NewerSnapshots(t *testing.T) {
	for _, step := range []string{"newest", "restore"} {
		t.Run(step, func(t *testing.T) {
			r := newRig(t, 1)
			r.log.produce(0, sale(1, "1"))
			r.start(0)
			r.caughtUp(0)
			r.stop()
			delete(r.states.states, 0)
			newer := fmt.Errorf("manifest 7: %w: it is 2, this program reads up to 1", ErrNewer)
			r.snapshots.edit(func() {
				if step == "newest" {
					r.snapshots.away = newer
				} else {
					r.snapshots.stuck = newer
				}
			})
			r.start(0)
			s := r.until(0, "paused", func(s PartitionStatus) bool { return s.State == Paused })
			for _, want := range []string{"a newer version", "it is 2, this program reads up to 1", "run that version here"} {
				if !strings.Contains(s.Reason, want) {
					t.Errorf("the reason does not say %q: %s", want, s.Reason)
				}
			}
			r.stop()
			if r.states.states[0] != nil {
				t.Error("a state was made")
			}
		})
	}
}

// TestS04NoSpaceForARestore: it is waited for, paused, and goes on by itself.
func TestS04NoSpaceForARestore(t *testing.T) {
	r := newRig(t, 1)
	r.log.produce(0, sale(1, "1"))
	r.start(0)
	r.caughtUp(0)
	r.stop()
	delete(r.states.states, 0)
	r.snapshots.stuck = fmt.Errorf("%w: 7 bytes are free", ErrNoSpace)
	r.start(0)
	r.until(0, "paused", func(s PartitionStatus) bool {
		return s.State == Paused && !s.Answers && strings.Contains(s.Reason, "no space left: 7 bytes are free")
	})
	r.snapshots.edit(func() { r.snapshots.stuck = nil })
	r.caughtUp(0)
	r.expect(0, "1", `{"userId":1,"sales":1,"revenue":1}`)
}

// failures counts what could not be done.
type failures struct{ published, reaped, fenced atomic.Int64 }

func (f *failures) Folded(int, float64)  {}
func (f *failures) Applied(int, float64) {}
func (f *failures) Fenced()              { f.fenced.Add(1) }
func (f *failures) Unpublished()         { f.published.Add(1) }
func (f *failures) Unreaped()            { f.reaped.Add(1) }

// TestS11FailedCleanUp: a snapshot is published, and the group told of it, also
// where those before it cannot be removed.
func TestS11FailedCleanUp(t *testing.T) {
	r := newRig(t, 1)
	var failed failures
	r.observer = &failed
	r.tuning.Keep = 1
	r.snapshots.unclean = errors.New("it may not delete")
	r.start(0)
	for n := range int64(3) {
		r.log.produce(0, sale(1, "1"))
		r.caughtUp(0)
		list, err := r.p.PublishSnapshots(context.Background())
		if err != nil || len(list) != 1 || list[0].Progress.Position != n+1 {
			t.Fatalf("%+v, %v", list, err)
		}
		commits, err := r.commits.Committed(context.Background())
		if err != nil || commits[0].Offset != n+1 {
			t.Errorf("the group has %+v, %v; want offset %d", commits[0], err, n+1)
		}
	}
	if p, c := failed.published.Load(), failed.reaped.Load(); p != 0 || c != 3 {
		t.Errorf("%d publishes and %d clean-ups failed, want none and 3", p, c)
	}
	r.snapshots.edit(func() { r.snapshots.unclean = nil })
	r.log.produce(0, sale(1, "1"))
	r.caughtUp(0)
	if _, err := r.p.PublishSnapshots(context.Background()); err != nil {
		t.Fatal(err)
	}
	r.snapshots.edit(func() {
		if n := len(r.snapshots.lines[0]); n != 1 {
			t.Errorf("%d snapshots are kept, want 1", n)
		}
	})
}
