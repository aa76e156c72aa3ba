package snapshot

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"

	"tidemark/aggregator"
)

// Owner is the right to publish snapshots of one partition, until another
// owner claims it. Its methods may be called from any goroutine; those that
// write wait for each other.
type Owner struct {
	store   *Store
	lineage Lineage
	epoch   int64
	writer  string // random: tells its own manifests from those of another of the same epoch

	turn   chan struct{} // holds one token: the right to write
	next   int64         // number of the next manifest
	unsure bool          // whether newest is the newest there is could not be asked
	// unsettled: a manifest was created, or may have been, and whether all its
	// files stayed was not seen to the end.
	unsettled bool
	fenced    *FencedError // nil until another owner is found
	sums      sums

	mu     sync.Mutex
	newest *Manifest // nil where there is none
}

// Claim takes the partition over. Where it has a snapshot, one of the next
// number and a higher epoch is created over the same files, after which every
// earlier owner's publish is refused. The epoch is above that of all snapshots
// and above after, which is what the caller knows of earlier ownerships: that
// of the local state. Owner.Newest is what there is to restore.
//
// Of two that claim at the same time the later one is the owner, and the other
// finds out at its next publish. Without any snapshot nothing is created: then
// the first publish decides, and the other one gets aggregator.ErrFenced.
//
// What a caller must be sure of before (that the snapshots are of its own
// definition) it sees with Newest: a claim stops the owner of now.
func (s *Store) Claim(ctx context.Context, l Lineage, after int64) (*Owner, error) {
	o := &Owner{store: s, lineage: l, epoch: after, writer: rand.Text(), turn: make(chan struct{}, 1)}
	o.turn <- struct{}{}
	for round := 0; ; round++ {
		done, err := o.claim(ctx)
		if err != nil {
			return nil, fmt.Errorf("claim %s: %w", l, err)
		}
		if done {
			return o, nil
		}
		if round == maxRounds {
			return nil, fmt.Errorf("claim %s: %w: others went first %d times", l, aggregator.ErrFenced, maxRounds)
		}
	}
}

// maxRounds bounds how often somebody else may go first.
const maxRounds = 20

// claim is one attempt: false where somebody else went first.
func (o *Owner) claim(ctx context.Context) (bool, error) {
	s := o.store
	m, highest, err := s.newest(ctx, o.lineage)
	if errors.Is(err, ErrNoSnapshot) {
		o.epoch++
		o.next = highest + 1
		return true, nil
	}
	if err != nil {
		return false, err
	}
	o.epoch = max(o.epoch, m.Epoch) + 1
	over := *m
	over.Seq, over.Epoch, over.Parent = highest+1, o.epoch, m.Seq
	over.Writer, over.Created = o.writer, s.opts.Clock().UTC()
	if err := s.opts.step("claim"); err != nil {
		return false, err
	}
	err = o.put(ctx, &over)
	var taken *takenError
	if errors.As(err, &taken) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	o.next = over.Seq + 1
	o.setNewest(&over)
	if err := s.opts.step("claimed"); err != nil {
		return false, err
	}
	if err := o.last(ctx, &over); err != nil {
		if errors.Is(err, aggregator.ErrFenced) {
			return false, nil
		}
		return false, err
	}
	s.log.Info("partition is claimed", "topic", o.lineage.Topic, "partition", o.lineage.Partition,
		"seq", over.Seq, "epoch", o.epoch, "position", over.Position())
	return true, nil
}

// put creates m's object: *takenError where its number is taken.
func (o *Owner) put(ctx context.Context, m *Manifest) error {
	body, err := m.encode()
	if err != nil {
		return err
	}
	if err := o.store.create(ctx, o.lineage.manifest(m.Seq), body); err != nil {
		return fmt.Errorf("create the manifest of snapshot %d: %w", m.Seq, err)
	}
	return nil
}

// last makes sure that m, which was just created, is the newest. It is not
// where others have gone on since, or where its number was free because it had
// been cleaned up, while this owner slept: then the error is a FencedError.
func (o *Owner) last(ctx context.Context, m *Manifest) error {
	s := o.store
	numbers, err := s.numbers(ctx, o.lineage)
	o.unsure = err != nil
	if err != nil {
		return fmt.Errorf("make sure that snapshot %d is the newest: %w", m.Seq, err)
	}
	if len(numbers) == 0 || numbers[len(numbers)-1] <= m.Seq {
		return nil
	}
	seq := numbers[len(numbers)-1]
	fenced := &FencedError{Lineage: o.lineage, Own: o.epoch, Seq: seq, Epoch: -1}
	if theirs, err := s.manifest(ctx, o.lineage, seq); err == nil {
		fenced.Epoch, fenced.Writer = theirs.Epoch, theirs.Writer
	}
	return fenced
}

// Lineage is what it owns.
func (o *Owner) Lineage() Lineage { return o.lineage }

// Epoch is the number of this ownership.
func (o *Owner) Epoch() int64 { return o.epoch }

// Newest is the newest snapshot as this owner knows it, nil where there is
// none. It asks nobody.
func (o *Owner) Newest() *Manifest {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.newest
}

func (o *Owner) setNewest(m *Manifest) {
	o.mu.Lock()
	o.newest = m
	o.mu.Unlock()
}

// begin waits for this owner's other writes; the function returned ends the
// turn. An owner that was fenced stays so.
func (o *Owner) begin(ctx context.Context) (func(), error) {
	select {
	case <-o.turn:
		if o.fenced != nil {
			defer func() { o.turn <- struct{}{} }()
			return nil, o.fenced
		}
		return func() { o.turn <- struct{}{} }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
