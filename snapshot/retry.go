package snapshot

import (
	"context"
	"errors"
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

	callTimeout = time.Minute     // for a request that moves little
	listTimeout = 5 * time.Minute // for all pages
	// A transfer of bytes ends when it takes longer than callTimeout and what
	// slowest, in bytes a second, allows; a download when nothing comes for
	// callTimeout.
	slowest = 64 << 10
)

// retry calls f until it succeeds, with growing waits. Errors that no
// repetition mends, and those that say something about the object, are
// returned at once.
func (s *Store) retry(ctx context.Context, f func() error) error {
	wait := firstWait
	for attempt := 1; ; attempt++ {
		err := f()
		if err == nil || decided(err) || attempt == attempts {
			return err
		}
		if ctx.Err() != nil {
			return errors.Join(context.Cause(ctx), err)
		}
		if serr := sleep(ctx, wait/2+rand.N(wait)); serr != nil {
			return errors.Join(serr, err)
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
			return errors.Join(serr, err)
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
func transferTime(bytes int64) time.Duration {
	return callTimeout + time.Duration(bytes/slowest)*time.Second
}

// watched is a reader that ends its context when nothing comes for
// callTimeout.
type watched struct {
	io.Reader
	stalled *time.Timer
}

// watch reads r; cancel ends the request behind it. stop must be called.
func watch(r io.Reader, cancel context.CancelCauseFunc) (_ io.Reader, stop func() bool) {
	timer := time.AfterFunc(callTimeout, func() { cancel(errStalled) })
	return &watched{r, timer}, timer.Stop
}

var errStalled = errors.New("nothing came for a minute")

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	w.stalled.Reset(callTimeout)
	return n, err
}
