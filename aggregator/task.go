package aggregator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"tidemark/internal/crashpoint"
)

// task carries one partition from the claim to the hand-over: it opens,
// restores or makes the state, folds the log from the state's own position,
// applies, publishes, and lets go. It outlives group sessions and ends when the
// partition is revoked, when the process stops, or with an error that ends the
// process. Where another member takes the partition without that, it closes,
// and asks again whose it is.
//
// Three goroutines: run (open, then fold), apply and publish. Reads come from
// anywhere.
type task struct {
	p         *Processor
	partition int32
	log       *slog.Logger
	totals    *totals
	kick      chan struct{}      // an apply is wanted now
	settles   chan chan struct{} // an apply is wanted, and to be told of
	asks      chan chan error    // a publish is wanted, and to be told of
	unread    error              // why no snapshot could be read; of run alone
	told      Commit             // of the newest snapshot, as the group took it last; of whoever publishes

	sending sync.Mutex // held from when records are folded until the bad ones are handed to the dead letter
	unsent  bool       // some were not; under sending

	applying sync.Mutex // one apply at a time: the loop's, or that before a gap is skipped

	vouched atomic.Int64 // all before this offset is surely of the state's topic

	mu          sync.Mutex // guards what status shows
	identity    Identity
	phase       State  // Restoring, Bootstrapping, CatchingUp or Live
	gap         string // why it stands in state gap, "" where it does not
	holds       [numHolds]string
	waiting     string        // what is being waited for, without being paused for it
	answers     bool          // has been live
	missing     int64         // records that retention took, in state gap
	readsLogged time.Duration // into the reading of the history, at its last log line
	target      int64         // the readable end when it was claimed: live from there on
	owner       Publisher     // nil before the claim
	restores    *Restore      // while one runs
	working     chan struct{} // closed while nothing is folded, applied and published
	end         int64
	logStart    int64

	session *sessionCounts // of this process, kept over claims
	recent  badShare       // of the folding goroutine; share is atomic
	share   atomic.Uint64  // bits of recent.share()
}

// hold is a kind of reason to be paused; several may hold at once.
type hold int

const (
	holdState  hold = iota // the state cannot be taken as it is
	holdTopic              // the topic is gone, or is another one
	holdEnd                // the position is above the log end
	holdSpace              // too little free disk
	holdLetter             // the dead letter takes nothing
	numHolds
)

func newTask(p *Processor, partition int32) *task {
	working := make(chan struct{})
	close(working)
	t := &task{
		p:         p,
		partition: partition,
		log:       p.log.With("topic", p.options.Topic, "partition", partition),
		totals:    newTotals(p.program),
		kick:      make(chan struct{}, 1),
		settles:   make(chan chan struct{}),
		asks:      make(chan chan error),
		working:   working,
		phase:     Restoring,
		session:   p.sessionCounts(partition),
	}
	t.totals.rankRoom = p.rankRoom
	return t
}

// errPaused ends run's work without ending the process: the task stays,
// paused, and answers with what it has until it is revoked.
var errPaused = errors.New("paused")

// run is the task's life. Its error ends the process; what it folded is
// applied and the store closed when it returns.
func (t *task) run(ctx context.Context) error {
	for {
		err := t.hold(ctx)
		if errors.Is(err, ErrFenced) {
			if ctx.Err() != nil {
				t.late(err)
				return nil //nolint:nilerr // it was to be let go of all the same
			}
			t.fenced(err)
			err = sleep(ctx, fencedWait)
			if err == nil {
				continue
			}
		}
		if errors.Is(err, context.Canceled) {
			return nil
		}
		return err
	}
}

// fencedWait is how long a partition that another member has taken is left
// alone before the group is asked whose it is.
const fencedWait = time.Second

// fenced closes the partition to reads: another member has taken it. What paused
// it here is over; what still does shows when it comes back.
func (t *task) fenced(err error) {
	t.mu.Lock()
	lost := t.owner != nil
	t.owner, t.phase, t.answers = nil, Restoring, false
	t.gap, t.missing = "", 0
	t.holds = [numHolds]string{}
	t.mu.Unlock()
	if lost && t.p.observer != nil {
		t.p.observer.Fenced()
	}
	t.wait(fmt.Sprintf("another member has the partition: %v", err))
}

// late notes that another member had taken the partition before this one heard
// that it is to let go of it.
func (t *task) late(err error) {
	t.mu.Lock()
	lost := t.owner != nil
	t.mu.Unlock()
	if !lost {
		return
	}
	t.log.Warn("another member had taken the partition before it was let go of; it folds what is not published here", "err", err)
	if t.p.observer != nil {
		t.p.observer.Fenced()
	}
}

// hold has the partition until ctx ends, or another member takes it.
func (t *task) hold(ctx context.Context) error {
	store, err := t.openState(ctx)
	if err == nil {
		err = t.work(ctx, store)
	}
	if errors.Is(err, errPaused) && !errors.Is(err, ErrFenced) {
		t.totals.discard() // what could not be applied before it paused
		<-ctx.Done()
		err = nil
	}
	if s := t.totals.close(); s != nil {
		t.totals.discard() // what could not be applied in time
		switch cerr := s.Close(); {
		case errors.Is(cerr, ErrNoSpace):
			t.log.Warn("the state was closed without the last applies; they will be folded again", "err", cerr)
		case cerr != nil:
			cerr = fmt.Errorf("close the state of partition %d: %w", t.partition, cerr)
			if errors.Is(err, context.Canceled) {
				err = nil
			}
			err = errors.Join(err, cerr)
		}
		crashpoint.Hit("state closed")
	}
	return err
}

// work folds, applies and publishes until ctx ends, then applies what is folded
// and publishes it.
func (t *task) work(ctx context.Context, store Store) error {
	working := make(chan struct{})
	t.vouched.Store(0)
	t.mu.Lock()
	owner := t.owner
	t.working = working
	t.mu.Unlock()
	t.sending.Lock()
	t.unsent = false
	t.sending.Unlock()
	store.CatchUp(true)
	t.totals.open(store, owner.Epoch())
	t.set(CatchingUp)
	folding, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(folding, t.totals.wake)()

	folded := make(chan struct{}) // closed once no more is folded
	others := make(chan error, 2)
	beside := func(loop func(context.Context) error) {
		go func() {
			err := loop(folding)
			cancel() // folding waits for room that will not come
			others <- err
		}()
	}
	beside(func(ctx context.Context) error { return t.applyLoop(ctx, folded) })
	beside(func(ctx context.Context) error { return t.publishLoop(ctx, owner, store) })
	err := t.foldLoop(folding, store)
	close(folded)
	if errors.Is(err, errPaused) {
		<-folding.Done() // what was folded is applied all the same
	}
	cancel()
	if errors.Is(err, context.Canceled) {
		err = nil // by ctx, or by another loop whose error says more
	}
	err = errors.Join(err, <-others, <-others)
	close(working)
	if err == nil || errors.Is(err, errPaused) {
		err = errors.Join(err, t.handOver(ctx, owner, store))
	}
	return err
}

// set puts the task into a phase.
func (t *task) set(phase State) {
	t.mu.Lock()
	t.phase = phase
	t.mu.Unlock()
	t.totals.wake()
}

// pause notes a reason to be paused, "" lifts it. It logs a change once.
func (t *task) pause(h hold, reason string) {
	t.mu.Lock()
	was := t.holds[h]
	t.holds[h] = reason
	t.mu.Unlock()
	if was == reason {
		return
	}
	if reason != "" {
		t.log.Warn("partition is paused", "reason", reason)
	} else {
		t.log.Info("partition goes on", "was", was)
	}
	t.totals.wake()
}

// wait says what is being waited for, "" for nothing.
func (t *task) wait(reason string) {
	t.mu.Lock()
	was := t.waiting
	t.waiting = reason
	t.mu.Unlock()
	if reason != was && reason != "" {
		t.log.Info("partition waits", "for", reason)
	}
}

// sleep waits d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error { return sleepOr(ctx, d, nil) }

// sleepOr is sleep that ends early where early is closed; it may be nil.
func sleepOr(ctx context.Context, d time.Duration, early <-chan struct{}) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	case <-early:
		return nil
	}
}

// outlasting returns a context that ends d after ctx has; end ends it before.
func outlasting(ctx context.Context, d time.Duration) (late context.Context, end func()) {
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		_ = sleep(late, d) // its error is that end was called
		cancel()
	})
	return late, func() {
		cancel()
		if !stop() {
			<-ended
		}
	}
}

// retry calls f until it succeeds or ctx ends, with growing waits; what it
// waits for is shown meanwhile.
func (t *task) retry(ctx context.Context, what string, f func() error) error {
	for d := minWait; ; d = min(2*d, maxWait) {
		err := f()
		if err == nil {
			t.wait("")
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, errPaused) || errors.Is(err, ErrHopeless) || errors.Is(err, ErrFenced) || errors.Is(err, ErrNewer) {
			return err
		}
		t.wait(fmt.Sprintf("%s: %v", what, err))
		if err := sleep(ctx, d); err != nil {
			return err
		}
	}
}

const (
	minWait = 200 * time.Millisecond
	maxWait = 5 * time.Second
)

// status is the task at this moment.
func (t *task) status() PartitionStatus {
	sum := t.totals.summary()
	keys, bytes := t.totals.size()
	state, reason, answers := t.standing()
	published := t.published()
	t.mu.Lock()
	defer t.mu.Unlock()
	return PartitionStatus{
		Topic: t.p.options.Topic, Partition: t.partition,
		State: state, Reason: reason, Answers: answers,
		Position: sum.Position, End: t.end, LogStart: t.logStart,
		Epoch: sum.Epoch, Gap: sum.Gap + t.missing, Counts: sum.Counts,
		Placement: sum.Placement, Partitions: t.identity.Partitions,
		Keys: keys, Bytes: bytes,
		Cut: t.identity.Cut, Documents: sum.Documents, Seeded: sum.Seeded,
		Session: t.session.get(), BadShare: math.Float64frombits(t.share.Load()),
		Snapshot: published, Restore: t.restores,
	}
}

// stands is the part of status that a read goes by.
func (t *task) stands() Standing {
	st := Standing{Partition: t.partition}
	st.Position, st.Placement, st.Holds = t.totals.hold()
	st.State, st.Reason, st.Answers = t.standing()
	t.mu.Lock()
	defer t.mu.Unlock()
	st.Partitions = t.identity.Partitions
	return st
}

// published is the newest snapshot as far as it is known; nil where there is
// none.
func (t *task) published() *Snapshot {
	t.mu.Lock()
	owner := t.owner
	t.mu.Unlock()
	if owner == nil {
		return nil
	}
	if s, ok := owner.Newest(); ok {
		return &s
	}
	return nil
}

// restoring notes how far a restore has come, in bytes.
func (t *task) restoring(have, need int64, took time.Duration) {
	r := &Restore{Have: have, Need: need}
	if have > 0 {
		r.Remaining = time.Duration(float64(took) * float64(need-have) / float64(have))
	}
	t.mu.Lock()
	t.restores = r
	t.mu.Unlock()
}

// restored ends what restoring began.
func (t *task) restored() {
	t.mu.Lock()
	t.restores = nil
	t.mu.Unlock()
}

// standing is what a read must know besides the totals.
func (t *task) standing() (state State, reason string, answers bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.gap != "" {
		return Gap, t.gap, false
	}
	for _, reason := range t.holds {
		if reason != "" {
			return Paused, reason, t.answers
		}
	}
	return t.phase, t.waiting, t.answers
}
