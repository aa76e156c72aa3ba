package aggregator

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

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
