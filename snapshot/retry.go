package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"
)

const (
	// attempts at a call. The drivers repeat requests themselves, so this is
	// for what they do not: bodies that break off, outcomes that are unknown.
	attempts  = 4
	firstWait = 100 * time.Millisecond
	maxWait   = 2 * time.Second

	// giveUp is after how long no further attempt begins: who asked can say what
	// is wrong then, and asks again.
	giveUp = 30 * time.Second

	callTimeout = 20 * time.Second // default of Options.patience
	// A transfer of bytes ends when it takes longer than Options.patience and
	// what slowest, in bytes a second, allows; a download when nothing comes for
	// Options.patience.
	slowest = 64 << 10
)

// retry calls f until it succeeds, with growing waits. Errors that no
// repetition mends, and those that say something about the object, are
// returned at once.
func (s *Store) retry(ctx context.Context, f func() error) error {
	began, wait := time.Now(), firstWait
	for attempt := 1; ; attempt++ {
		err := f()
		if err == nil || decided(err) || attempt == attempts || time.Since(began) > giveUp {
			return err
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
		if serr := sleep(ctx, wait/2+rand.N(wait)); serr != nil {
			return fmt.Errorf("%w: %w", serr, err)
		}
		wait = min(2*wait, maxWait)
	}
}

// decided says that another try would end alike.
func decided(err error) bool {
	var taken *takenError
	return errors.As(err, &taken) || errors.Is(err, errNotFound) || errors.Is(err, errExists) || errors.Is(err, errRefused) ||
		errors.Is(err, errWrongSum) || errors.Is(err, errStep)
}

// errStep ends a call where a test wants it to.
var errStep = errors.New("stopped")

// settle calls f for as long as it returns errNotFound, up to Options.Settle.
func (s *Store) settle(ctx context.Context, f func() error) error {
	wait := firstWait
	for waited := time.Duration(0); ; waited += wait {
		err := f()
		if !errors.Is(err, errNotFound) || waited >= s.opts.Settle {
			return err
		}
		wait = min(2*wait, maxWait, max(s.opts.Settle-waited, time.Millisecond))
		if serr := sleep(ctx, wait); serr != nil {
			return fmt.Errorf("%w: %w", serr, err)
		}
	}
}

// sleep waits d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// transferTime is how long a transfer of bytes may take.
func (s *Store) transferTime(bytes int64) time.Duration {
	return s.opts.patience + time.Duration(bytes/slowest)*time.Second
}

// watch ends a request when nothing comes for too long, from before the request
// is sent.
type watch struct {
	patience time.Duration
	stalled  *time.Timer
}

// startWatch begins a watch; cancel ends the request. stop must be called.
func (s *Store) startWatch(cancel context.CancelCauseFunc) *watch {
	patience := s.opts.patience
	return &watch{patience, time.AfterFunc(patience, func() { cancel(fmt.Errorf("%w for %s", errStalled, patience)) })}
}

// came notes that something came.
func (w *watch) came() { w.stalled.Reset(w.patience) }

func (w *watch) stop() { w.stalled.Stop() }

// over is r, watched.
func (w *watch) over(r io.Reader) io.Reader {
	return readerFunc(func(p []byte) (int, error) {
		n, err := r.Read(p)
		w.came()
		return n, err
	})
}

type readerFunc func([]byte) (int, error)

func (r readerFunc) Read(p []byte) (int, error) { return r(p) }

var errStalled = errors.New("nothing came")
