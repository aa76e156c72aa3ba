package aggregator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"tidemark/internal/crashpoint"
)

// Seeds makes the first snapshots of partitions from the history: they are
// built in a workspace, and served from nowhere before they are published.
// Calls of Publish wait for each other.
type Seeds struct {
	seeder    Seeder
	snapshots Snapshots
	workspace func() (Workspace, error)

	turn chan struct{} // holds one token: the right to build

	mu        sync.Mutex
	published map[int32]chan struct{} // by partition, closed when its seed is
}

// NewSeeds returns what seeds partitions. workspace opens an empty one.
func NewSeeds(seeder Seeder, snapshots Snapshots, workspace func() (Workspace, error)) *Seeds {
	s := &Seeds{seeder: seeder, snapshots: snapshots, workspace: workspace, turn: make(chan struct{}, 1), published: map[int32]chan struct{}{}}
	s.turn <- struct{}{}
	return s
}

// Telling is told of a load. Its calls come from one goroutine.
type Telling struct {
	Waits func(reason string)  // what is done, or waited for, besides reading
	Reads func(p SeedProgress) // about once a second while the history is read
}

// Publish loads the history for partitions over which it is spread alike, and
// publishes their seeds, the last of ids first, so that where the first is
// there all are. One that somebody else has published meanwhile stays as it is.
// tell is told how far it is, and what is being waited for: a snapshot store
// that is away is asked until ctx ends. ErrHopeless wraps an error that no retry
// mends; after any error it may be called again, and reads the history from its
// beginning.
func (s *Seeds) Publish(ctx context.Context, ids []Identity, tell Telling) (seeds map[int32]Seed, err error) {
	select {
	case <-s.turn:
		defer func() { s.turn <- struct{}{} }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	space, err := s.workspace()
	if err != nil {
		return nil, fmt.Errorf("make room for the history: %w", err)
	}
	crashpoint.Hit("workspace opened")
	defer func() {
		err = errors.Join(err, space.Close())
		crashpoint.Hit("workspace closed")
	}()
	stores, empty := map[int32]NewStore{}, map[int32]SeedStore{}
	for _, id := range ids {
		store, err := space.Create(id, Progress{Position: id.Cut.Start, Placement: allPartitioners})
		if err != nil {
			return nil, fmt.Errorf("make the seed of partition %d: %w", id.Partition, err)
		}
		stores[id.Partition], empty[id.Partition] = store, store
	}
	crashpoint.Hit("seeds created")
	first := ids[0]
	topic := Topic{first.Topic, first.TopicID, first.SeedPartitions}
	seeds, err = s.seeder.Seed(ctx, topic, first.Cut.Partitioner, empty, tell.Reads)
	if err != nil {
		return nil, fmt.Errorf("load the history: %w", err)
	}
	crashpoint.Hit("history read")
	for left, id := range slices.Backward(ids) {
		tell.Waits(fmt.Sprintf("the history is read, and published: %d of %d partitions are left", left+1, len(ids)))
		store, seed := stores[id.Partition], seeds[id.Partition]
		err := store.Apply(ctx, nothing, Progress{Position: id.Cut.Start, Seeded: true, Documents: seed.Documents, Placement: seed.Placement})
		if err != nil {
			return nil, fmt.Errorf("end the seed of partition %d: %w", id.Partition, err)
		}
		crashpoint.Hit("seed ended")
		if err := s.publish(ctx, topic, id.Partition, store, tell.Waits); err != nil {
			return nil, err
		}
		s.tell(id.Partition)
		crashpoint.Hit("seed published")
	}
	return seeds, nil
}

// next returns a channel that is closed when this process publishes the next
// seed of the partition.
func (s *Seeds) next(partition int32) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.published[partition] == nil {
		s.published[partition] = make(chan struct{})
	}
	return s.published[partition]
}

// tell lets those know that wait for the partition's seed.
func (s *Seeds) tell(partition int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if published := s.published[partition]; published != nil {
		close(published)
		delete(s.published, partition)
	}
}

// publish makes one seed the first snapshot of its partition, where it has none.
func (s *Seeds) publish(ctx context.Context, topic Topic, partition int32, store Store, waits func(string)) error {
	for d := minWait; ; d = min(2*d, maxWait) {
		err := s.publishOnce(ctx, topic, partition, store)
		if err == nil || ctx.Err() != nil {
			return err
		}
		waits(fmt.Sprintf("publish the history: %v", err))
		if err := sleep(ctx, d); err != nil {
			return err
		}
	}
}

func (s *Seeds) publishOnce(ctx context.Context, topic Topic, partition int32, store Store) error {
	_, err := s.snapshots.Newest(ctx, topic, partition)
	if !errors.Is(err, ErrNoSnapshot) {
		return err // nil: it has one
	}
	owner, err := s.snapshots.Claim(ctx, topic, partition, 0)
	if err != nil {
		return err
	}
	if _, err := owner.Publish(ctx, store); !errors.Is(err, ErrFenced) {
		return err
	}
	return nil // somebody else was first
}

// awaitSeed returns when the partition's share of the history is published. The
// owner of the first partition loads all of it; the others wait. A partition
// that appeared after the first cut, and wants the guards of all keys, loads
// them by itself.
func (t *task) awaitSeed(ctx context.Context, id Identity) error {
	switch {
	case id.Partition == 0:
		return t.seed(ctx, t.shares)
	case id.Partition >= id.SeedPartitions:
		return t.seed(ctx, func(context.Context) ([]Identity, error) { return []Identity{id}, nil })
	}
	for d := minWait; ; d = min(2*d, maxWait) {
		if t.p.topic.last().ID != id.TopicID {
			return nil // created again: it is begun anew
		}
		published := t.p.seeds.next(id.Partition)
		_, err := t.p.snapshots.Newest(ctx, t.p.topic.last(), t.partition)
		switch {
		case err == nil:
			t.wait("")
			return nil
		case errors.Is(err, ErrNoSnapshot):
			t.wait("the history is loaded by the owner of partition 0")
		default:
			t.wait(fmt.Sprintf("ask the snapshot store: %v", err))
		}
		if err := sleepOr(ctx, d, published); err != nil {
			return err
		}
	}
}

// seed loads the history for the partitions that of returns, until it succeeds
// or cannot.
func (t *task) seed(ctx context.Context, of func(context.Context) ([]Identity, error)) error {
	for {
		ids, err := of(ctx)
		if err != nil {
			return err
		}
		if len(ids) == 0 { // somebody else has published the last of them, or the topic is another one
			t.wait("")
			return nil
		}
		began := time.Now()
		seeds, err := t.p.seeds.Publish(ctx, ids, Telling{Waits: t.wait, Reads: t.reads})
		if err == nil {
			documents := int64(0)
			for _, s := range seeds {
				documents += s.Documents
			}
			t.wait("")
			t.log.Info("history is loaded and published", "documents", documents, "partitions", len(ids), "took", time.Since(began))
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, ErrHopeless) {
			return err
		}
		t.wait(err.Error())
		if err := sleep(ctx, maxWait); err != nil {
			return err
		}
	}
}

// reads shows how far the reading of the history is, and logs it now and then.
func (t *task) reads(p SeedProgress) {
	t.mu.Lock()
	t.waiting = "the history is being read: " + p.String()
	last := t.readsLogged
	due := p.Took-last >= readsEvery || p.Took < last // or it begins again
	if due {
		t.readsLogged = p.Took
	}
	t.mu.Unlock()
	if due && !p.Done {
		t.log.Info("the history is being read", p.Attrs()...)
	}
}

// readsEvery is the time between two log lines of how far a history is read.
const readsEvery = 10 * time.Second

// shares are the partitions that the history is spread over and that have no
// snapshot, with the cut that the owner of each has told the group. Those that
// have told none yet are waited for.
func (t *task) shares(ctx context.Context) ([]Identity, error) {
	t.mu.Lock()
	own := t.identity
	t.mu.Unlock()
	for {
		topic := t.p.topic.last()
		if topic.ID != own.TopicID {
			return nil, nil // created again: it is begun anew
		}
		commits, err := t.p.commits.Committed(ctx)
		if err != nil {
			t.wait(fmt.Sprintf("ask for the group's offsets: %v", err))
			if err := sleep(ctx, maxWait); err != nil {
				return nil, err
			}
			continue
		}
		var ids []Identity
		var without []int32
		least := own.SeedPartitions // one spread for all, also where the topic grew between their commits
		for p := range own.SeedPartitions {
			note, ours := readNote(commits[p])
			if !ours {
				without = append(without, p)
				continue
			}
			least = min(least, note.SeedPartitions)
			id := own
			id.Partition, id.Cut, id.Partitions, id.SeedPartitions = p, note.Cut, note.Partitions, note.SeedPartitions
			switch _, err := t.p.snapshots.Newest(ctx, topic, p); {
			case errors.Is(err, ErrNoSnapshot):
				ids = append(ids, id)
			case err != nil && !errors.Is(err, ErrNewer): // that is a snapshot too
				t.wait(fmt.Sprintf("ask the snapshot store: %v", err))
				without = append(without, p)
			}
		}
		if len(without) == 0 {
			for i := range ids {
				ids[i].SeedPartitions = least
			}
			return ids, nil
		}
		t.wait(fmt.Sprintf("the cuts of partitions %v are not told yet by their owners", without))
		if err := sleep(ctx, minWait); err != nil {
			return nil, err
		}
	}
}
