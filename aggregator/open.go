package aggregator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tidemark/internal/crashpoint"
)

// openState finds the state of the partition, or makes it, and takes the
// partition over. It returns errPaused where there is a state that cannot be
// taken: the reason is shown.
func (t *task) openState(ctx context.Context) (Store, error) {
	store, err := t.seek(ctx)
	if errors.Is(err, ErrNewer) && !errors.Is(err, ErrFenced) {
		t.pause(holdState, fmt.Sprintf("a newer version has published snapshots of the partition, and this one cannot read them: %v; "+
			"run that version here, or choose another group.id to start over", err))
		err = errPaused
	}
	return store, err
}

// seek is openState, with ErrNewer where a newer version has the snapshots.
func (t *task) seek(ctx context.Context) (Store, error) {
	if err := t.awaitTopic(ctx); err != nil {
		return nil, err
	}
	for {
		store, err := t.find(ctx)
		if store != nil || err != nil {
			return store, err
		}
		id, err := t.newIdentity(ctx)
		if err != nil {
			return nil, err
		}
		t.note(id)
		if !id.HasHistory {
			return t.create(ctx, id)
		}
		t.set(Bootstrapping)
		if err := t.awaitSeed(ctx, id); err != nil {
			return nil, err
		}
	}
}

// find takes the local state or the newest snapshot, whichever is further on;
// nil where there is neither.
func (t *task) find(ctx context.Context) (store Store, err error) {
	local, err := t.openLocal(ctx)
	damage := err
	if err != nil && !errors.Is(err, ErrDamaged) {
		return nil, err
	}
	defer func() {
		switch {
		case err == nil || local == nil:
		case err == errPaused:
			t.totals.open(local, 0) // it is not gone on with, and can be looked at: as it stood
		default:
			t.totals.show(local.Progress())
			err = errors.Join(err, local.Close())
		}
	}()
	newest, err := t.newest(ctx)
	if err != nil || local == nil && newest == nil {
		return nil, errors.Join(damage, err)
	}
	if damage != nil {
		t.log.Error("the state is damaged; the newest snapshot takes its place", "err", damage)
	}
	id, err := t.agree(ctx, local, newest)
	if err != nil {
		return nil, err
	}
	t.note(id)
	after := int64(0)
	if local != nil {
		after = local.Progress().Epoch
	}
	// The group is asked first whether the partition is this member's, by
	// committing what is published: one that has lost it without knowing takes
	// nothing from its heir.
	crashpoint.Hit("announce")
	if err := t.commit(ctx, id, newest); err != nil {
		return nil, err
	}
	crashpoint.Hit("announced")
	owner, err := t.claim(ctx, after)
	if err != nil {
		return nil, err
	}
	crashpoint.Hit("taken")
	published, ok := owner.Newest()
	if local != nil && (!ok || local.Progress().Position >= published.Progress.Position) {
		return local, nil
	}
	was := int64(-1)
	if local != nil {
		was = local.Progress().Position
		closing := local
		local = nil
		if err := closing.Close(); err != nil {
			return nil, fmt.Errorf("close the state of partition %d before its restore: %w", t.partition, err)
		}
	}
	return t.restore(ctx, was)
}

// openLocal opens the local state; nil where there is none.
func (t *task) openLocal(ctx context.Context) (store Store, err error) {
	err = t.insist(ctx, holdSpace, func() (err error) {
		store, err = t.p.states.Open(t.partition)
		return err
	})
	if errors.Is(err, ErrNoState) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open the state of partition %d: %w", t.partition, err)
	}
	return store, nil
}

// newest describes the newest snapshot; nil where there is none.
func (t *task) newest(ctx context.Context) (newest *Snapshot, err error) {
	err = t.retry(ctx, "ask the snapshot store", func() error {
		s, err := t.p.snapshots.Newest(ctx, t.p.topic.last(), t.partition)
		if err == nil {
			newest = &s
			return nil
		}
		if errors.Is(err, ErrNoSnapshot) {
			t.unread = err
			return nil
		}
		return err
	})
	return newest, err
}

// agree checks that the local state and the newest snapshot, of which one may
// be nil, are of this definition, topic and cut, and returns their identity.
func (t *task) agree(ctx context.Context, local Store, newest *Snapshot) (id Identity, err error) {
	if newest != nil {
		id = newest.Identity
		if err := t.vet(id, "newest snapshot"); err != nil {
			return id, err
		}
	}
	if local != nil {
		id = local.Identity()
		if err := t.vet(id, "state"); err != nil {
			return id, err
		}
	}
	if local != nil && newest != nil && !id.Same(newest.Identity) {
		t.pause(holdState, fmt.Sprintf("the state here began %s at offset %d, the newest snapshot %s at offset %d: they are not of one history; "+
			"choose another state.dir to go on with the snapshot, or another snapshots.url and group.id to go on with the state",
			id.Cut, id.Cut.Start, newest.Identity.Cut, newest.Identity.Cut.Start))
		return id, errPaused
	}
	commits, err := t.committed(ctx)
	if err != nil {
		return id, err
	}
	// The state decides, whatever offset is committed. But if it is this
	// program's it must have begun the partition alike.
	if note, ours := readNote(commits[t.partition]); ours && !sameCut(note.Cut, id.Cut) {
		t.pause(holdState, fmt.Sprintf("the state here begins at offset %d, the group's at %d: they are not of one history; "+
			"choose another state.dir, or delete the group's offsets to keep this one", id.Cut.Start, note.Cut.Start))
		return id, errPaused
	}
	return id, nil
}

// vet checks that what has the identity is the state of this definition, topic
// and cut.
func (t *task) vet(id Identity, what string) error {
	topic := t.p.topic.last()
	if err := t.p.program.Vet(id, what); err != nil {
		return err
	}
	if id.Topic != topic.Name || id.TopicID != topic.ID {
		t.pause(holdTopic, Recreated(id, topic))
		return errPaused
	}
	if is := t.p.seeder.Configured(t.partition); t.p.seeder.HasHistory() && !id.configured(is) {
		if id.Cut.Mode == "" && hasSeed(id) {
			t.pause(holdState, fmt.Sprintf("the %s was made %s, and the configuration has one, which would never be loaded; "+
				"take it out, or choose another state.dir and group.id to start over", what, id.Cut))
			return errPaused
		}
		t.log.Warn("the configuration's cut is not the one that the state was made with, which counts", "state", id.Cut.String(), "configuration", is.String())
	}
	return nil
}

// claim takes the partition over from its last owner, under an epoch above after.
func (t *task) claim(ctx context.Context, after int64) (owner Publisher, err error) {
	err = t.retry(ctx, "claim the partition in the snapshot store", func() (err error) {
		owner, err = t.p.snapshots.Claim(ctx, t.p.topic.last(), t.partition, after)
		return err
	})
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	t.owner = owner
	t.mu.Unlock()
	return owner, nil
}

// restore makes the newest snapshot beyond position the local state and opens
// it. Where none is whole, the local state, if there is one, stays.
func (t *task) restore(ctx context.Context, position int64) (Store, error) {
	t.set(Restoring)
	var none error
	err := t.retry(ctx, "restore the newest snapshot", func() error {
		began := time.Now()
		_, err := t.p.snapshots.Restore(ctx, t.p.topic.last(), t.partition, position, func(have, need int64) {
			t.restoring(have, need, time.Since(began))
		})
		if errors.Is(err, ErrNoSnapshot) {
			none, err = err, nil
		}
		if errors.Is(err, ErrNoSpace) {
			t.pause(holdSpace, err.Error())
		} else {
			t.pause(holdSpace, "")
		}
		return err
	})
	crashpoint.Hit("restored")
	t.restored()
	if err != nil {
		return nil, err
	}
	if none != nil {
		t.log.Error("no snapshot could be restored", "err", none)
		if position < 0 {
			t.pause(holdState, fmt.Sprintf("there is no state here, and no snapshot could be restored: %v", none))
			return nil, errPaused
		}
	}
	store, err := t.openLocal(ctx)
	if store == nil && err == nil {
		err = fmt.Errorf("the state of partition %d is gone after its restore: %w", t.partition, ErrNoState)
	}
	return store, err
}

// note keeps the identity for status and folding.
func (t *task) note(id Identity) {
	t.mu.Lock()
	t.identity = id
	t.mu.Unlock()
}

// Recreated says that the topic is another one than that of the state.
func Recreated(id Identity, topic Topic) string {
	return fmt.Sprintf("topic %q was deleted and created again: the state is of the topic with id %s, now it is %s; "+
		"choose another state.dir and group.id to start over", id.Topic, id.TopicID, topic.ID)
}

// committed asks for the group's commits.
func (t *task) committed(ctx context.Context) (commits map[int32]Commit, err error) {
	err = t.retry(ctx, "ask for the group's offsets", func() (err error) {
		commits, err = t.p.commits.Committed(ctx)
		return err
	})
	return commits, err
}

// commit tells the group the partition's cut and newest snapshot, and so makes
// sure that the partition is this member's.
func (t *task) commit(ctx context.Context, id Identity, newest *Snapshot) error {
	return t.retry(ctx, "commit to the group", func() error {
		return t.p.commits.Commit(ctx, t.partition, commitOf(id, newest))
	})
}

// newIdentity decides where a partition without state begins. The group is
// told before anything is read, so that any member begins it at the same cut.
func (t *task) newIdentity(ctx context.Context) (Identity, error) {
	topic := t.p.topic.last()
	commits, err := t.committed(ctx)
	if err != nil {
		return Identity{}, err
	}
	var begins beginning
	err = t.retry(ctx, "resolve where the stream takes over", func() (err error) {
		begins, err = beginsAt(ctx, t.p.seeder, t.p.program.Definition(), topic, t.partition, commits)
		return err
	})
	if err != nil {
		return begins.id, err
	}
	if why := begins.refused; why != "" {
		if begins.lost {
			why += fmt.Sprintf(" (%v)", t.unread)
		}
		t.pause(holdState, "there is no state here, and "+why)
		return begins.id, errPaused
	}
	if begins.told {
		return begins.id, nil
	}
	crashpoint.Hit("cut resolved")
	err = t.commit(ctx, begins.id, nil)
	crashpoint.Hit("cut committed")
	return begins.id, err
}

// create makes the state of a partition without a history.
func (t *task) create(ctx context.Context, id Identity) (Store, error) {
	if _, err := t.claim(ctx, 0); err != nil {
		return nil, err
	}
	crashpoint.Hit("state wanted")
	var store Store
	err := t.insist(ctx, holdSpace, func() (err error) {
		store, err = t.p.states.Create(id, Progress{Position: id.Cut.Start, Seeded: true, Placement: allPartitioners})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("make the state of partition %d: %w", t.partition, err)
	}
	crashpoint.Hit("state made")
	return store, nil
}

// awaitTopic waits until the topic exists and describes it anew. Where the
// state is of another topic it returns errPaused.
func (t *task) awaitTopic(ctx context.Context) error {
	err := t.retry(ctx, "describe the topic", func() error {
		_, err := t.p.topic.since(ctx)
		if errors.Is(err, ErrNoTopic) {
			t.pause(holdTopic, fmt.Sprintf("topic %q does not exist; it is waited for", t.p.options.Topic))
		}
		return err
	})
	if err != nil {
		return err
	}
	return t.compareTopic()
}

// sameTopic makes sure, by asking now, that the topic is the one of the state.
func (t *task) sameTopic(ctx context.Context) error { return t.awaitTopic(ctx) }

// compareTopic compares the topic as last described with the state's.
func (t *task) compareTopic() error {
	t.mu.Lock()
	id := t.identity
	t.mu.Unlock()
	topic := t.p.topic.last()
	if id.Topic != "" && id.TopicID != topic.ID {
		t.pause(holdTopic, Recreated(id, topic))
		return errPaused
	}
	t.pause(holdTopic, "")
	return nil
}
