package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// logEvery is how often one kind of message of one partition, or of the disk, is logged.
const logEvery = 10 * time.Second

// events takes what one database reports: it logs, counts, notes a full disk,
// and hands what must end the process to fatal. It is also Pebble's logger.
// Pebble calls it with locks held, so nothing here blocks.
type events struct {
	log   *slog.Logger
	fatal func(reason string)
	ready atomic.Bool // the state was found good: damage found before is an error of Open

	fullAt atomic.Int64  // when a write last failed for want of space, 0 after one that did not; nanoseconds
	full   chan struct{} // of capacity 1: a write has failed for want of space

	errors  atomic.Int64 // background errors so far
	stalls  atomic.Int64 // times that applies had to wait
	stalled stopwatch
	eased   chan struct{} // of capacity 1: a compaction has ended, or failed

	background, stall throttle

	low func(pebble.LowDiskSpaceInfo) // little of the disk is free
}

func newEvents(log *slog.Logger, fatal func(reason string), low func(pebble.LowDiskSpaceInfo)) *events {
	return &events{log: log, fatal: fatal, low: low, full: make(chan struct{}, 1), eased: make(chan struct{}, 1)}
}

func (e *events) listener() *pebble.EventListener {
	return &pebble.EventListener{
		BackgroundError: func(err error) {
			if errors.Is(err, pebble.ErrCancelledCompaction) {
				return // of a flush that a close has ended
			}
			e.errors.Add(1)
			if isFull(err) {
				e.fullAt.Store(time.Now().UnixNano())
				signal(e.full)
				signal(e.eased)
			}
			e.background.do(func(held int) {
				e.log.Error("writing the state fails and is tried again", "err", err.Error(), "held_back", held)
			})
		},
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			if e.ready.Load() {
				e.fatal(fmt.Sprintf("%s is damaged: %v", info.Path, info.Details))
			}
		},
		FlushEnd: func(info pebble.FlushInfo) {
			if info.Err == nil {
				e.fullAt.Store(0)
			}
		},
		CompactionEnd: func(info pebble.CompactionInfo) {
			if info.Err == nil {
				e.fullAt.Store(0)
			}
			signal(e.eased)
		},
		WriteStallBegin: func(info pebble.WriteStallBeginInfo) { e.stallBegins(info.Reason) },
		WriteStallEnd:   e.stalled.stop,
		LowDiskSpace:    e.low,
	}
}

func (e *events) stallBegins(reason string) {
	e.stalls.Add(1)
	e.stalled.start()
	e.stall.do(func(held int) {
		e.log.Info("applies wait for compaction", "reason", reason, "held_back", held)
	})
}

// signal puts a token into a channel of capacity 1 that has none.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// await returns true once good is, which it asks after each compaction, and false
// where the disk is found full meanwhile, or ctx ends.
func (e *events) await(ctx context.Context, good func() bool) bool {
	if good() {
		return true
	}
	e.stallBegins("too many tables wait for it")
	defer e.stalled.stop()
	for !good() {
		if e.diskFull() {
			return false
		}
		select {
		case <-e.eased:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// recentlyFull is how long after a failure for want of space the disk is taken
// to be full. A full disk makes Pebble's retries fail about every second.
const recentlyFull = 3 * time.Second

// diskFull says whether writes fail for want of space at present.
func (e *events) diskFull() bool {
	at := e.fullAt.Load()
	return at != 0 && time.Since(time.Unix(0, at)) < recentlyFull
}

// Infof implements pebble.Logger.
func (e *events) Infof(format string, args ...any) {
	e.log.Debug(fmt.Sprintf(format, args...))
}

// Errorf implements pebble.Logger.
func (e *events) Errorf(format string, args ...any) {
	e.log.Error(fmt.Sprintf(format, args...))
}

// Fatalf implements pebble.Logger. It must not return: what called it has left
// the database halfway. Where fatal returns, while the process ends, the
// goroutine stays here.
func (e *events) Fatalf(format string, args ...any) {
	e.fatal(fmt.Sprintf(format, args...))
	select {}
}

// throttle lets one message through in a while and counts the others.
type throttle struct {
	mu   sync.Mutex
	last time.Time
	held int
}

// do calls f, with the number of calls held back since the last, or holds the
// call back.
func (t *throttle) do(f func(held int)) {
	t.mu.Lock()
	now := time.Now()
	if !t.last.IsZero() && now.Sub(t.last) < logEvery {
		t.held++
		t.mu.Unlock()
		return
	}
	held := t.held
	t.last, t.held = now, 0
	t.mu.Unlock()
	f(held)
}

// stopwatch adds up stretches of time.
type stopwatch struct {
	mu    sync.Mutex
	since time.Time // zero while it stands
	sum   time.Duration
}

func (s *stopwatch) start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since = time.Now()
}

func (s *stopwatch) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.since.IsZero() {
		s.sum += time.Since(s.since)
		s.since = time.Time{}
	}
}

// read returns the sum, with the stretch that is under way.
func (s *stopwatch) read() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.since.IsZero() {
		return s.sum
	}
	return s.sum + time.Since(s.since)
}
