package aggregator

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Outside is the group as one sees it who is not a member.
type Outside interface {
	// Committed returns the group's commits of the topic, by partition.
	Committed(ctx context.Context) (map[int32]Commit, error)
	// CommitAll writes commits for several partitions. ErrFenced where the group
	// has members: they alone commit then.
	CommitAll(ctx context.Context, commits map[int32]Commit) error
}

// What Load finds that makes it needless.
var (
	ErrPublished = errors.New("there are snapshots already")
	ErrBegun     = errors.New("there are states already")
)

// Ahead loads the history and publishes the first snapshots before the group
// has members, which then restore and go on from the cuts.
type Ahead struct {
	Definition Definition
	Topic      Topic
	Seeder     Seeder
	Snapshots  Snapshots
	Seeds      *Seeds
	Group      Outside
	Local      []int32 // partitions that have a state here: they would never restore what is published
}

// Loaded is what a load has made.
type Loaded struct {
	Seeds map[int32]Seed     // of the partitions that were loaded
	Kept  []int32            // partitions that an interrupted load had published
	First map[int32]Snapshot // the newest snapshot of every partition
}

// Load resolves the cut of every partition as its task would, commits the cuts
// to the group before anything is read, publishes the seeds, and at the end
// tells the group of them. What a load that was interrupted has done stands: the
// cuts in the group's commits, and the seeds published under them. ErrPublished
// where there are snapshots and the last one ended, or they are of something
// else; ErrBegun where there is a state; ErrFenced where the group has
// members; ErrHopeless as of Seeder. A history that is away, or that was lost
// on the way, is read again until ctx ends.
func (a *Ahead) Load(ctx context.Context, tell Telling) (*Loaded, error) {
	newest, err := a.newest(ctx)
	if err != nil {
		return nil, err
	}
	commits, err := a.Group.Committed(ctx)
	if err != nil {
		return nil, err
	}
	if err := a.interrupted(newest, commits); err != nil {
		return nil, err
	}
	if len(a.Local) > 0 {
		return nil, fmt.Errorf("%w here, of %s: nothing is loaded; 'tidemark serve' goes on from them, "+
			"and another state.dir and group.id start over", ErrBegun, partitionsText(a.Local))
	}
	done := &Loaded{}
	cuts := map[int32]Commit{}
	var ids []Identity
	for p := range a.Topic.Partitions {
		if _, ok := newest[p]; ok {
			done.Kept = append(done.Kept, p)
			cuts[p] = commits[p]
			continue
		}
		begins, err := beginsAt(ctx, a.Seeder, a.Definition, a.Topic, p, commits)
		if err != nil {
			return nil, fmt.Errorf("resolve where the stream takes over in partition %d: %w", p, err)
		}
		if begins.refused != "" {
			return nil, fmt.Errorf("begin partition %d: %s", p, begins.refused)
		}
		cuts[p] = commitOf(begins.id, nil)
		if begins.id.HasHistory {
			ids = append(ids, begins.id)
		}
	}
	// Also where nothing is new in it: the group takes it from outside as long
	// as it has no members.
	if err := a.Group.CommitAll(ctx, cuts); err != nil {
		return nil, err
	}
	if done.Seeds, err = a.publish(ctx, ids, tell); err != nil {
		return nil, err
	}
	if done.First, err = a.newest(ctx); err != nil {
		return nil, err
	}
	for p, s := range done.First {
		cuts[p] = commitOf(s.Identity, &s)
	}
	if err := a.Group.CommitAll(ctx, cuts); err != nil && !errors.Is(err, ErrFenced) {
		return nil, err
	} // members that came meanwhile tell the group themselves
	return done, nil
}

// publish repeats Seeds.Publish where that may help.
func (a *Ahead) publish(ctx context.Context, ids []Identity, tell Telling) (map[int32]Seed, error) {
	for len(ids) > 0 {
		seeds, err := a.Seeds.Publish(ctx, ids, tell)
		if err == nil || ctx.Err() != nil || errors.Is(err, ErrHopeless) || errors.Is(err, ErrNoSpace) {
			return seeds, err
		}
		tell.Waits(err.Error())
		if err := sleep(ctx, maxWait); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// newest describes the newest snapshot of each partition that has one.
func (a *Ahead) newest(ctx context.Context) (map[int32]Snapshot, error) {
	newest := map[int32]Snapshot{}
	for p := range a.Topic.Partitions {
		s, err := a.Snapshots.Newest(ctx, a.Topic, p)
		switch {
		case err == nil:
			newest[p] = s
		case !errors.Is(err, ErrNoSnapshot):
			return nil, err
		}
	}
	return newest, nil
}

// interrupted says whether the snapshots that there are were left by a load
// that ended before its time: the group has not been told of the first
// partition's, and each is of the cut that the group was told. Else it is
// ErrPublished.
func (a *Ahead) interrupted(newest map[int32]Snapshot, commits map[int32]Commit) error {
	var there []int32
	whole := false
	for p, s := range newest {
		there = append(there, p)
		note, ours := readNote(commits[p])
		whole = whole || !ours || p == 0 && note.Snapshot != nil ||
			!sameCut(note.Cut, s.Identity.Cut) || !s.Identity.configured(a.Seeder.Configured(p)) ||
			!s.Identity.Definition.Equal(a.Definition) || s.Identity.HasHistory != hasSeed(s.Identity)
	}
	if !whole {
		return nil
	}
	slices.Sort(there)
	return fmt.Errorf("%w of %s of topic %s: nothing is loaded; 'tidemark serve' goes on from them, "+
		"and another group.id, or another snapshots.url and the group's offsets deleted, start over", ErrPublished, partitionsText(there), a.Topic.Name)
}

// partitionsText names partitions for people.
func partitionsText(list []int32) string {
	if len(list) == 1 {
		return fmt.Sprintf("partition %d", list[0])
	}
	text := "partitions"
	for i := 0; i < len(list); i++ {
		last := i
		for last+1 < len(list) && list[last+1] == list[last]+1 {
			last++
		}
		if i > 0 {
			text += ","
		}
		text += fmt.Sprintf(" %d", list[i])
		if last > i {
			text += fmt.Sprintf(" to %d", list[last])
		}
		i = last
	}
	return text
}
