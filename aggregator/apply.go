package aggregator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tidemark/internal/crashpoint"
)

// lastApply bounds the apply at a hand-over or at the end of the process: what
// it does not write in this time is folded again from the log.
const lastApply = 8 * time.Second

// applyLoop applies what was folded, after enough records or time, and makes
// it durable now and then. While the partition catches up or its stream is heavy,
// manyRecords an interval, time alone calls for an apply when it is to be made
// durable: keys come again, and each is then written once. When ctx ends it applies
// the rest, once folded is closed: a batch that is being folded is folded to its
// end. What does not go in then stays to be seen, since answers must not go back,
// until the totals are closed.
func (t *task) applyLoop(ctx context.Context, folded <-chan struct{}) error {
	store := t.totals.store
	applies := t.rota(t.p.options.ApplyInterval, 0)
	defer applies.Stop()
	flushes := t.rota(t.p.options.FlushInterval, 0)
	defer flushes.Stop()
	looks := time.NewTicker(lookInterval)
	defer looks.Stop()
	// An apply that is under way when ctx ends has as long as the last one.
	applying, cancel := outlasting(ctx, lastApply)
	defer cancel()
	for {
		var err error
		select {
		case <-ctx.Done():
			<-folded
			err := t.apply(applying, store)
			if err != nil && (applying.Err() != nil || errors.Is(err, errUnsent)) {
				t.log.Warn("the rest could not be applied; it will be folded again", "err", err, "after", lastApply)
				return nil
			}
			return err
		case <-t.kick:
			err = t.apply(applying, store)
		case done := <-t.settles:
			err = t.apply(applying, store)
			close(done)
		case <-applies.C:
			applies.again()
			if !t.catchingUp() && t.totals.gathered() < manyRecords {
				err = t.apply(applying, store)
			}
		case <-looks.C:
			if t.vouch(ctx) {
				err = t.apply(applying, store) // and says what is wrong
			}
		case <-flushes.C:
			flushes.again()
			if err = t.apply(applying, store); err == nil {
				err = t.flush(ctx, store)
			}
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// manyRecords in an apply interval make a stream heavy.
const manyRecords = 2_000

// flush makes durable what is applied.
func (t *task) flush(ctx context.Context, store Store) error {
	crashpoint.Hit("flush")
	if err := t.insist(ctx, holdSpace, store.Flush); err != nil {
		return fmt.Errorf("flush the state of partition %d: %w", t.partition, err)
	}
	crashpoint.Hit("flushed")
	return nil
}

// catchingUp says whether the partition has not reached the end of the log yet.
func (t *task) catchingUp() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.phase == CatchingUp
}

// apply writes what is folded by now. The order is what makes it exact: the bad
// records among them are stored first; then the topic is seen to be still the
// one of the state, where that is not sure already, so that nothing of another
// topic gets in; then totals and position go down in one batch.
func (t *task) apply(ctx context.Context, store Store) error {
	t.applying.Lock()
	defer t.applying.Unlock()
	for end := t.totals.position(); ; {
		delta, next := t.totals.freeze()
		if delta == nil {
			return nil
		}
		if t.p.letters != nil && delta.Counts.Results[Bad] > 0 {
			if !t.sent() {
				return errUnsent
			}
			if err := t.insist(ctx, holdLetter, func() error { return t.p.letters.Flush(ctx) }); err != nil {
				return err
			}
			crashpoint.Hit("letters written")
		}
		if delta.Next > t.vouched.Load() {
			if err := t.sameTopic(ctx); err != nil {
				return err
			}
		}
		began := time.Now()
		crashpoint.Hit("apply")
		if err := t.insist(ctx, holdSpace, func() error { return store.Apply(ctx, delta.Sorted(nil), next) }); err != nil {
			return fmt.Errorf("apply batch [%d,%d) of partition %d: %w", delta.First, delta.Next, t.partition, err)
		}
		crashpoint.Hit("applied")
		if t.p.observer != nil {
			t.p.observer.Applied(int(delta.Counts.Consumed()), time.Since(began).Seconds())
		}
		t.totals.thaw(next)
		if !t.catchingUp() {
			t.totals.letGo()
		}
		if next.Position >= end {
			return nil // what came meanwhile is for the next apply
		}
	}
}

// errUnsent: the partition is let go of, and the dead letter took not all of the
// bad records.
var errUnsent = errors.New("the dead letter has not taken all bad records")

// sent waits until the bad records that are folded are handed to the dead
// letter; false where some were not, since the partition is let go of.
func (t *task) sent() bool {
	t.sending.Lock()
	defer t.sending.Unlock()
	return !t.unsent
}

// lookInterval is how often, and lookTimeout for how long, it is looked whether
// what was folded is of the state's topic: between applies, so that a topic
// that is deleted takes nothing with it that was seen to be good before.
const (
	lookInterval = 250 * time.Millisecond
	lookTimeout  = time.Second
)

// vouch notes up to where the log was folded while the topic was surely the
// one of the state. It says whether the topic is another one now: what was folded
// since is not to be answered with until the next apply. What else goes wrong
// here, that says.
func (t *task) vouch(ctx context.Context) (another bool) {
	position := t.totals.position()
	if position == t.vouched.Load() {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	topic, err := t.p.topic.since(ctx)
	if err != nil || topic.ID != t.identity.TopicID {
		return err == nil
	}
	t.vouched.Store(position)
	return false
}

// insist repeats f, with folding stopped and the partition paused for h, until
// it succeeds or ctx ends. For holdSpace only ErrNoSpace is repeated.
func (t *task) insist(ctx context.Context, h hold, f func() error) error {
	for {
		err := f()
		if err == nil {
			t.totals.stop(false)
			t.pause(h, "")
			return nil
		}
		if h == holdSpace && !errors.Is(err, ErrNoSpace) {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		t.totals.stop(true)
		t.pause(h, err.Error())
		t.measure(ctx)
		if err := sleep(ctx, time.Second); err != nil {
			return err
		}
	}
}

// measure asks how far the log has gone on while nothing is read of it, so that
// the lag of a partition that is paused is seen to grow.
func (t *task) measure(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	if start, end, err := t.p.source.Bounds(ctx, t.partition); err == nil {
		t.bounds(start, end)
	}
}
