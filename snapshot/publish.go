package snapshot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"tidemark/aggregator"
)

// Published is what a publish did.
type Published struct {
	*Manifest       // the newest snapshot
	New       bool  // it is new; otherwise nothing had changed
	Uploaded  int64 // bytes of files that the store did not have
}

// Publish makes a snapshot of what c holds. now is the state as the caller
// knows it: where the newest snapshot is of the same position and identity it
// is returned, and nothing is written. Otherwise c makes a checkpoint at dir,
// on the state's own file system; what is at dir before is removed, and so is
// the checkpoint when Publish returns.
//
// On return the snapshot is durable, and can be restored by anybody.
// aggregator.ErrFenced, as a FencedError, where another owner has claimed the
// partition: this one must not publish again. After any other error it may;
// what was uploaded is used then. ErrOtherState where the snapshots there are
// of another definition, topic or cut. Where ctx has a deadline, as at a
// hand-over, it does not wait in line behind those that have none.
func (o *Owner) Publish(ctx context.Context, now State, c Checkpointer, dir string) (Published, error) {
	end, err := o.begin(ctx)
	if err != nil {
		return Published{}, err
	}
	defer end()
	began := time.Now()
	p, err := o.publish(ctx, now, c, dir)
	if errors.As(err, &o.fenced) {
		err = o.fenced
	}
	if err != nil {
		return Published{}, fmt.Errorf("publish a snapshot of %s: %w", o.lineage, err)
	}
	if p.New {
		seconds := time.Since(began).Seconds()
		o.store.opts.Observer.Published(p.Uploaded, seconds)
		o.store.log.Debug("snapshot is published", "topic", o.lineage.Topic, "partition", o.lineage.Partition, "seq", p.Seq,
			"position", p.Position(), "bytes", p.Bytes(), "uploaded", p.Uploaded, "seconds", seconds)
	}
	return p, nil
}

func (o *Owner) publish(ctx context.Context, now State, c Checkpointer, dir string) (Published, error) {
	newest := o.Newest()
	if o.unsure && newest != nil {
		if err := o.last(ctx, newest); err != nil {
			return Published{}, err
		}
	}
	if err := o.fits(now, newest); err != nil {
		return Published{}, err
	}
	if newest != nil && newest.holds(now) && !o.unsettled {
		return Published{Manifest: newest}, nil
	}
	state, files, err := o.checkpoint(ctx, now, c, dir)
	defer os.RemoveAll(dir) // what cannot be removed now is by the next publish
	if err != nil {
		return Published{}, err
	}
	up := &upload{owner: o, dir: dir, files: files}
	if err := up.run(ctx); err != nil {
		return Published{}, err
	}
	m := &Manifest{
		Lineage: o.lineage, Epoch: o.epoch, Writer: o.writer, Created: o.store.opts.Clock().UTC(),
		Format: state.Format, Identity: state.Identity, Progress: state.Progress, Files: up.files,
	}
	o.unsettled = true
	if err := o.number(ctx, m); err != nil {
		return Published{}, err
	}
	if err := up.settle(ctx); err != nil {
		return Published{}, err
	}
	o.unsettled = false
	return Published{m, true, up.bytes.Load()}, nil
}

// fits refuses a state that must not follow the newest snapshot.
func (o *Owner) fits(s State, newest *Manifest) error {
	id := s.Identity
	if of := (Lineage{o.lineage.Group, id.Topic, id.TopicID, id.Partition}); !of.same(o.lineage) {
		return fmt.Errorf("%w: the state is of %s", ErrOtherState, of)
	}
	if !s.Progress.Seeded {
		return errors.New("the history is not in yet: half of it is none")
	}
	if newest == nil {
		return nil
	}
	if was, is := newest.Identity.Definition, id.Definition; !was.Equal(is) {
		return fmt.Errorf("%w: of a definition with fingerprint %s, this one has %s", ErrOtherState, was.Fingerprint, is.Fingerprint)
	}
	if !newest.Identity.Same(id) {
		return fmt.Errorf("%w: same topic and definition, but another cut or history", ErrOtherState)
	}
	return nil
}

// checkpoint makes the copy and says what it is. All partitions publish at the
// same time, and each keeps a core busy: half of the processors do, or folding
// would wait behind them all for its turn. Those that have a deadline are not
// kept waiting by them: what they copy is folded no more, and they are in line
// among themselves, so that the first of many are in time.
func (o *Owner) checkpoint(ctx context.Context, now State, c Checkpointer, dir string) (State, []File, error) {
	s := o.store
	line := s.copies
	if _, ends := ctx.Deadline(); ends {
		line = s.lastCopies
	}
	select {
	case line <- struct{}{}:
		defer func() { <-line }()
	case <-ctx.Done():
		return now, nil, context.Cause(ctx)
	}
	if err := os.RemoveAll(dir); err != nil {
		return now, nil, fmt.Errorf("remove the last checkpoint: %w", err)
	}
	if err := s.opts.step("checkpoint"); err != nil {
		return now, nil, err
	}
	if err := c.Checkpoint(dir); err != nil {
		return now, nil, err
	}
	if err := s.opts.step("inspect"); err != nil {
		return now, nil, err
	}
	state := now
	if s.opts.Inspect != nil {
		var err error
		if state, err = s.opts.Inspect(dir); err != nil {
			return now, nil, fmt.Errorf("open the checkpoint: %w", err)
		}
		if state.Progress.Position < now.Progress.Position {
			return now, nil, fmt.Errorf("the checkpoint is at position %d, before %d, where the state was already", state.Progress.Position, now.Progress.Position)
		}
	}
	newest := o.Newest()
	if err := o.fits(state, newest); err != nil {
		return now, nil, err
	}
	if newest != nil && state.Progress.Position < newest.Position() {
		s.log.Warn("a snapshot is published that is behind the newest", "topic", o.lineage.Topic, "partition", o.lineage.Partition,
			"position", state.Progress.Position, "newest", newest.Position(), "seq", newest.Seq)
	}
	files, err := o.sums.scan(ctx, dir)
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("it has no files")
	}
	if err != nil {
		return now, nil, fmt.Errorf("read the checkpoint: %w", err)
	}
	return state, files, nil
}

// number creates m under the next free number, and makes sure that it is the
// newest.
func (o *Owner) number(ctx context.Context, m *Manifest) error {
	s := o.store
	for round := 0; ; round++ {
		m.Seq, m.Parent = o.next, -1
		if newest := o.Newest(); newest != nil {
			m.Parent = newest.Seq
		}
		if err := s.opts.step("manifest"); err != nil {
			return err
		}
		err := o.put(ctx, m)
		var taken *takenError
		if err == nil {
			break
		}
		if !errors.As(err, &taken) || round == maxRounds {
			return err
		}
		if err := o.passed(m, taken.body); err != nil {
			return err
		}
	}
	o.setNewest(m)
	o.next = m.Seq + 1
	if err := s.opts.step("created"); err != nil {
		o.unsure = true
		return err
	}
	err := o.last(ctx, m)
	if errors.Is(err, aggregator.ErrFenced) {
		// Nobody needs it, and its files may be gone.
		err = errors.Join(err, s.remove(ctx, o.lineage.manifest(m.Seq)))
	}
	return err
}

// passed is told that the number of m is taken. It goes on to the next one
// where this owner comes after the one who took it; otherwise the error is a
// FencedError.
func (o *Owner) passed(m *Manifest, body []byte) error {
	s, seq := o.store, m.Seq
	theirs, err := decode(o.lineage, seq, body)
	switch {
	case errors.Is(err, ErrDamaged):
		s.log.Error("a snapshot is damaged and passed over", "topic", o.lineage.Topic, "partition", o.lineage.Partition, "seq", seq, "err", err)
	case err != nil:
		return errors.Join(&FencedError{Lineage: o.lineage, Own: o.epoch, Seq: seq, Epoch: -1}, err)
	case theirs.Epoch > o.epoch || theirs.Epoch == o.epoch && theirs.Writer != o.writer:
		return &FencedError{Lineage: o.lineage, Own: o.epoch, Seq: seq, Epoch: theirs.Epoch, Writer: theirs.Writer}
	case theirs.Writer == o.writer:
		s.log.Info("an earlier publish had succeeded, though its answer did not come", "topic", o.lineage.Topic, "partition", o.lineage.Partition, "seq", seq)
		o.setNewest(theirs)
	default:
		s.log.Warn("an earlier owner published after this one came; going on after it", "topic", o.lineage.Topic, "partition", o.lineage.Partition,
			"seq", seq, "epoch", theirs.Epoch)
		if !theirs.Identity.Same(m.Identity) {
			return fmt.Errorf("%w: snapshot %d, which an earlier owner wrote", ErrOtherState, seq)
		}
		o.setNewest(theirs)
	}
	o.next = seq + 1
	return nil
}
