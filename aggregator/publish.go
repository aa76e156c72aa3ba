package aggregator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tidemark/internal/crashpoint"
)

const (
	// lastPublish bounds the publish at a hand-over: where it does not end in
	// this time the snapshot before it stands, and the next owner folds the rest
	// from the log. As a deadline it goes before publishes that have none.
	lastPublish = 8 * time.Second
	// commitTimeout bounds how long the group is told of a snapshot; the next
	// publish tells it again.
	commitTimeout = 10 * time.Second
)

// publishLoop publishes what was applied, at each interval and when asked.
// Its error is ErrFenced: another member has taken the partition. Whatever else
// goes wrong is logged, and tried again the next time: folding goes on.
func (t *task) publishLoop(ctx context.Context, owner Publisher, store Store) error {
	// Behind the apply and the flush of the same turn, where the intervals are one.
	due := t.rota(t.p.options.SnapshotInterval, t.p.options.SnapshotInterval/16)
	defer due.Stop()
	for {
		var asked chan error
		select {
		case <-ctx.Done():
			return nil
		case <-due.C:
			due.again()
		case asked = <-t.asks:
			t.settle(ctx)
		}
		err := t.publish(ctx, owner, store)
		if asked != nil {
			asked <- err
		}
		switch {
		case errors.Is(err, ErrFenced):
			return err
		case err != nil && ctx.Err() == nil:
			t.turnAway(err)
			if t.p.observer != nil {
				t.p.observer.Unpublished()
			}
			t.log.Warn("no snapshot could be published; it is tried again", "err", err, "in", t.p.options.SnapshotInterval)
		}
	}
}

// turnAway answers who asked for a publish while one was under way that failed:
// the next would fail alike, and a store that says nothing takes a minute to
// show it.
func (t *task) turnAway(err error) {
	for {
		select {
		case asked := <-t.asks:
			asked <- err
		default:
			return
		}
	}
}

// settle waits until what is folded is applied, or ctx ends.
func (t *task) settle(ctx context.Context) {
	done := make(chan struct{})
	select {
	case t.settles <- done:
	case <-ctx.Done():
		return
	}
	<-done
}

// publish makes what is applied the newest snapshot, tells the group, and
// removes snapshots that are older than those to keep, which the next publish
// tries again where it fails. One at a time.
func (t *task) publish(ctx context.Context, owner Publisher, store Store) error {
	snapshot, err := owner.Publish(ctx, store)
	if err != nil {
		return err
	}
	commit := commitOf(snapshot.Identity, &snapshot)
	if commit == t.told {
		return nil
	}
	crashpoint.Hit("published")
	telling, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	if err := t.p.commits.Commit(telling, t.partition, commit); err != nil {
		return fmt.Errorf("tell the group of snapshot %d of partition %d: %w", snapshot.Seq, t.partition, err)
	}
	t.told = commit
	crashpoint.Hit("committed")
	err = owner.Reap(ctx, t.p.options.Keep)
	crashpoint.Hit("reaped")
	if err == nil || errors.Is(err, ErrFenced) {
		return err
	}
	if ctx.Err() == nil {
		if t.p.observer != nil {
			t.p.observer.Unreaped()
		}
		t.log.Warn("old snapshots could not be removed; it is tried again with the next snapshot", "err", err)
	}
	return nil
}

// handOver publishes what is applied after folding has ended, for the next
// owner. Its error is ErrFenced: that owner is there already. Whatever else goes
// wrong is logged.
func (t *task) handOver(ctx context.Context, owner Publisher, store Store) error {
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastPublish)
	defer cancel()
	crashpoint.Hit("hand over")
	err := t.publish(last, owner, store)
	if err != nil && !errors.Is(err, ErrFenced) {
		t.log.Warn("the last snapshot was not published; the next owner folds the rest again", "err", err)
		err = nil
	}
	crashpoint.Hit("handed over")
	return err
}

// publishNow publishes what is folded now and returns the newest snapshot, nil
// where there is none, as with a partition that has no state yet.
func (t *task) publishNow(ctx context.Context) (*Snapshot, error) {
	t.mu.Lock()
	working := t.working
	t.mu.Unlock()
	asked := make(chan error, 1)
	var err error
	select {
	case t.asks <- asked:
		select {
		case err = <-asked:
		case <-ctx.Done(): // it is published all the same
			err = ctx.Err()
		}
	case <-working: // it has no state yet, or is being let go of and publishes by itself
	case <-ctx.Done():
		err = ctx.Err()
	}
	return t.published(), err
}
