package aggregator

import (
	"context"
	"errors"
	"fmt"
)

// openState opens the partition's state, or makes it. It returns errPaused
// where there is one that cannot be taken: the reason is shown.
//
// decided is called once it is known whether the partition wants a seed.
func (t *task) openState(ctx context.Context, decided func()) (store Store, err error) {
	defer decided()
	if err := t.awaitTopic(ctx); err != nil {
		return nil, err
	}
	err = t.insist(ctx, holdSpace, func() (err error) {
		store, err = t.p.states.Open(t.partition)
		return err
	})
	if errors.Is(err, ErrNoState) {
		id, err := t.newIdentity(ctx)
		if err != nil {
			return nil, err
		}
		return t.create(ctx, id, decided)
	}
	if err != nil {
		return nil, fmt.Errorf("open the state of partition %d: %w", t.partition, err)
	}
	id := store.Identity()
	if err := t.take(ctx, store); err != nil {
		t.totals.show(store.Progress()) // it stands where it stood, though it is not gone on with
		return nil, errors.Join(err, store.Close())
	}
	if store.Progress().Seeded {
		t.note(id)
		return store, nil
	}
	// The process ended while the history was loaded: half of it is none. The
	// cut stays.
	t.log.Info("the history was not whole when the process ended; it is loaded again")
	if err := store.Close(); err != nil {
		return nil, fmt.Errorf("close the unfinished seed of partition %d: %w", t.partition, err)
	}
	if err := t.p.states.Drop(t.partition); err != nil {
		return nil, fmt.Errorf("drop the unfinished seed of partition %d: %w", t.partition, err)
	}
	return t.create(ctx, id, decided)
}

// note keeps the identity for status and folding.
func (t *task) note(id Identity) {
	t.mu.Lock()
	t.identity = id
	t.mu.Unlock()
}

// take checks that a state found here is the one of this definition, topic and
// cut, and that the group knows the cut.
func (t *task) take(ctx context.Context, store Store) error {
	id, topic := store.Identity(), t.p.topic.last()
	if is := t.p.program.Definition(); !id.Definition.Equal(is) {
		return fmt.Errorf("the state of partition %d is of %w: %s; choose another state.dir and group.id to start over, or go back to the query",
			t.partition, ErrOtherDefinition, Differs(id.Definition, is))
	}
	if id.Topic != topic.Name || id.TopicID != topic.ID {
		t.pause(holdTopic, recreated(id, topic))
		return errPaused
	}
	if is := t.p.seeder.Configured(t.partition); t.p.seeder.HasHistory() && !id.configured(is) {
		if id.Cut.Mode == "" && hasSeed(id) {
			t.pause(holdState, fmt.Sprintf("the state here was made %s, and the configuration has one, which would never be loaded; "+
				"take it out, or choose another state.dir and group.id to start over", id.Cut))
			return errPaused
		}
		t.log.Warn("the configuration's cut is not the one that the state was made with, which counts", "state", id.Cut.String(), "configuration", is.String())
	}
	commits, err := t.committed(ctx)
	if err != nil {
		return err
	}
	c, ok := commits[t.partition]
	note, ours := readNote(c)
	switch {
	case ok && ours && !sameCut(note.Cut, id.Cut):
		t.pause(holdState, fmt.Sprintf("the state here begins at offset %d, the group's at %d: they are not of one history; "+
			"choose another state.dir, or delete the group's offsets to keep this one", id.Cut.Start, note.Cut.Start))
		return errPaused
	case ok && ours:
		return nil
	}
	// The state decides. What the group has forgotten it is told again.
	return t.commitCut(ctx, id)
}

// recreated says that the topic is another one now.
func recreated(id Identity, topic Topic) string {
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

// commitCut tells the group the partition's cut.
func (t *task) commitCut(ctx context.Context, id Identity) error {
	return t.retry(ctx, "commit the cut to the group", func() error {
		return t.p.commits.Commit(ctx, t.partition, cutCommit(id))
	})
}

// newIdentity decides where a partition without state begins. The group is
// told before anything is read, so that any member begins it at the same cut.
func (t *task) newIdentity(ctx context.Context) (Identity, error) {
	topic := t.p.topic.last()
	id := Identity{
		Topic: topic.Name, TopicID: topic.ID, Partition: t.partition,
		Partitions: topic.Partitions, SeedPartitions: topic.Partitions,
		Definition: t.p.program.Definition(),
	}
	commits, err := t.committed(ctx)
	if err != nil {
		return id, err
	}
	if c, ok := commits[t.partition]; ok {
		note, ours := readNote(c)
		if !ours {
			t.pause(holdState, fmt.Sprintf("there is no state here, and the group has committed offset %d, which Tidemark did not write; "+
				"choose another group.id, or delete the group's offsets", c.Offset))
			return id, errPaused
		}
		id.Cut, id.Partitions, id.SeedPartitions = note.Cut, note.Partitions, note.SeedPartitions
		if is := t.p.seeder.Configured(t.partition); !id.configured(is) {
			t.pause(holdState, fmt.Sprintf("there is no state here, and the group began %s, while the configuration says %s; "+
				"choose another group.id, or delete the group's offsets, to begin that way, or go back to the former", id.Cut, is))
			return id, errPaused
		}
		id.HasHistory = t.p.seeder.HasHistory() && hasSeed(id)
		return id, nil
	}
	later, partitioner := false, ""
	for _, c := range commits {
		note, ours := readNote(c)
		if !ours {
			continue
		}
		if t.partition >= note.Partitions {
			later = true
			id.SeedPartitions = min(id.SeedPartitions, note.SeedPartitions)
		}
		if note.Cut.Partitioner != "" {
			partitioner = note.Cut.Partitioner // one for all: else a document could lie in two partitions, or none
		}
	}
	err = t.retry(ctx, "resolve where the stream takes over", func() (err error) {
		id.Cut, err = t.p.seeder.Cut(ctx, topic, t.partition, later)
		return err
	})
	if err != nil {
		return id, err
	}
	if partitioner != "" {
		id.Cut.Partitioner = partitioner
	}
	id.HasHistory = t.p.seeder.HasHistory() && hasSeed(id)
	return id, t.commitCut(ctx, id)
}

// hasSeed says whether the history has anything for the partition: documents,
// or in cut mode guard the instants of all keys.
func hasSeed(id Identity) bool {
	return id.Partition < id.SeedPartitions || id.Cut.Mode == CutGuard
}

// create makes the state, and seeds it where there is a history.
func (t *task) create(ctx context.Context, id Identity, decided func()) (Store, error) {
	t.note(id)
	for {
		var store NewStore
		err := t.insist(ctx, holdSpace, func() (err error) {
			store, err = t.p.states.Create(id, Progress{
				Position: id.Cut.Start, Seeded: !id.HasHistory, Placement: allPartitioners,
			})
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("make the state of partition %d: %w", t.partition, err)
		}
		if !id.HasHistory {
			return store, nil
		}
		t.set(Bootstrapping)
		seed, err := t.p.seeding.seed(ctx, t, store, decided)
		if err == nil {
			err = store.Apply(nothing, Progress{
				Position: id.Cut.Start, Seeded: true, Documents: seed.Documents, Placement: seed.Placement,
			})
		}
		if err == nil {
			err = store.Flush()
		}
		if err == nil {
			t.log.Info("history is loaded", "documents", seed.Documents)
			return store, nil
		}
		if cerr := store.Close(); cerr != nil {
			return nil, errors.Join(err, cerr)
		}
		if derr := t.p.states.Drop(t.partition); derr != nil {
			return nil, errors.Join(err, derr)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if errors.Is(err, ErrHopeless) {
			return nil, err
		}
		t.wait(fmt.Sprintf("load the history: %v", err))
		if err := sleep(ctx, maxWait); err != nil {
			return nil, err
		}
	}
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
		t.pause(holdTopic, recreated(id, topic))
		return errPaused
	}
	t.pause(holdTopic, "")
	return nil
}
