package kafka

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"
)

// holding is what the handler has of the topic. A partition is held from the
// assignment that names it until one comes that does not: the end of a session
// with the group takes nothing away. Its methods may be called from any
// goroutine; begin comes before all but owned and has.
type holding struct {
	log   *slog.Logger
	stirs chan struct{} // poked when a partition was let go of
	h     Handler
	run   context.Context // of Run: its end shortens what Revoke may take

	mu    sync.Mutex
	ended bool // nothing is taken any more
	held  map[int32]*hold
}

// hold is one partition.
type hold struct {
	leaving bool          // Revoke was called
	gone    chan struct{} // closed when it has returned
	lost    bool          // another member may have the partition
	again   bool          // it was assigned again while leaving
}

func newHolding(log *slog.Logger, stirs chan struct{}) *holding {
	return &holding{log: log, stirs: stirs, held: make(map[int32]*hold)}
}

// begin takes what Run was given.
func (x *holding) begin(run context.Context, h Handler) { x.run, x.h = run, h }

// assigned takes an assignment: it lets go of what is not in it, and gives the
// handler what is. It returns at once. lapsed says that others may have had what
// is held, so that all of it is let go of, and taken anew. lost says of a
// partition that is not in the assignment whether another member may have it
// already.
func (x *holding) assigned(partitions []int32, lapsed bool, lost func(int32) bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for p, is := range x.held {
		if !slices.Contains(partitions, p) {
			is.lost = is.lost || lost(p)
			x.letGo(p, is)
		} else if lapsed {
			x.letGo(p, is)
		}
	}
	if x.ended {
		return
	}
	for _, p := range partitions {
		if is := x.held[p]; is != nil && is.leaving {
			is.again, is.lost = true, false
		} else {
			x.take(p)
		}
	}
}

// take gives the handler a partition, which it may have. x.mu is held.
func (x *holding) take(p int32) {
	if x.held[p] == nil {
		x.held[p] = &hold{gone: make(chan struct{})}
	}
	x.h.Assign(p)
}

// letGo begins to let a partition go, where that has not begun. x.mu is held.
func (x *holding) letGo(p int32, is *hold) {
	is.again = false
	if is.leaving {
		return
	}
	is.leaving = true
	go func() {
		x.revoke(p)
		x.mu.Lock()
		defer x.mu.Unlock()
		delete(x.held, p)
		if is.again && !x.ended {
			x.take(p)
		}
		poke(x.stirs)
		close(is.gone)
	}()
}

func (x *holding) revoke(p int32) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.run), revokeTimeout)
	defer cancel()
	defer context.AfterFunc(x.run, func() { time.AfterFunc(shutdownTimeout, cancel) })()
	x.h.Revoke(ctx, p)
	if ctx.Err() != nil {
		x.log.Warn("a partition was not let go of in time", "partition", p)
	}
}

// release lets go of all partitions, at once, and returns when they are gone.
func (x *holding) release() {
	x.mu.Lock()
	var leaving []*hold
	for p, is := range x.held {
		x.letGo(p, is)
		leaving = append(leaving, is)
	}
	x.mu.Unlock()
	for _, is := range leaving {
		<-is.gone
	}
}

// end is release for good: nothing is taken after it.
func (x *holding) end() {
	x.mu.Lock()
	x.ended = true
	x.mu.Unlock()
	x.release()
}

// has says whether a partition is this member's: it is held or about to be let
// go of, and nobody else can have it.
func (x *holding) has(p int32) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.held[p] != nil && !x.held[p].lost
}

// owned lists the partitions for which has is true, by number.
func (x *holding) owned() []int32 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.DeleteFunc(slices.Sorted(maps.Keys(x.held)), func(p int32) bool { return x.held[p].lost })
}

// gone is closed when the partition was let go of.
func (x *holding) gone(p int32) <-chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	if is := x.held[p]; is != nil {
		return is.gone
	}
	gone := make(chan struct{})
	close(gone)
	return gone
}
