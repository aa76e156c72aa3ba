package aggregator

import (
	"context"
	"fmt"
)

// beginning is where a partition begins that has neither a state nor a snapshot.
type beginning struct {
	id      Identity
	told    bool   // by the group's commit; else it is resolved now, and nobody knows it yet
	refused string // why it cannot begin, "" where it can
	lost    bool   // refused because a snapshot is gone that the group names
}

// beginsAt decides it, for tasks and for whoever loads the history before them:
// where the group has a commit of the partition, as that says; else at the
// seeder's cut. An error is the seeder's.
func beginsAt(ctx context.Context, seeder Seeder, is Definition, topic Topic, partition int32, commits map[int32]Commit) (b beginning, err error) {
	b.id = Identity{
		Topic: topic.Name, TopicID: topic.ID, Partition: partition,
		Partitions: topic.Partitions, SeedPartitions: topic.Partitions,
		Definition: is,
	}
	if c, ok := commits[partition]; ok {
		b.resume(seeder, c)
		return b, nil
	}
	later, partitioner := false, ""
	for _, c := range commits {
		note, ours := readNote(c)
		if !ours {
			continue
		}
		later = later || partition >= note.Partitions
		b.id.SeedPartitions = min(b.id.SeedPartitions, note.SeedPartitions) // one spread for all, also where the topic grew meanwhile
		if note.Cut.Partitioner != "" {
			partitioner = note.Cut.Partitioner // one for all: else a document could lie in two partitions, or none
		}
	}
	if b.id.Cut, err = seeder.Cut(ctx, topic, partition, later); err != nil {
		return b, err
	}
	if partitioner != "" {
		b.id.Cut.Partitioner = partitioner
	}
	b.id.HasHistory = seeder.HasHistory() && hasSeed(b.id)
	return b, nil
}

// resume is for a partition that the group has a commit of: it begins again at
// its cut, unless something was published since, which it cannot get back.
func (b *beginning) resume(seeder Seeder, c Commit) {
	note, ours := readNote(c)
	b.told = true
	b.id.Cut, b.id.Partitions, b.id.SeedPartitions = note.Cut, note.Partitions, note.SeedPartitions
	switch is := seeder.Configured(b.id.Partition); {
	case !ours:
		b.refused = fmt.Sprintf("the group has committed offset %d, which Tidemark did not write; "+
			"choose another group.id, or delete the group's offsets", c.Offset)
	case note.Snapshot != nil:
		b.lost = true
		b.refused = fmt.Sprintf("the group's commit names snapshot %d at offset %d, which is not in the snapshot store; "+
			"set snapshots.url to where it is, choose another group.id, or delete the group's offsets", note.Snapshot.Seq, c.Offset)
	case !b.id.configured(is):
		b.refused = fmt.Sprintf("the group began %s, while the configuration says %s; "+
			"choose another group.id, or delete the group's offsets, to begin that way, or go back to the former", b.id.Cut, is)
	}
	b.id.HasHistory = seeder.HasHistory() && hasSeed(b.id)
}

// hasSeed says whether the history has anything for the partition: documents,
// or in cut mode guard the instants of all keys.
func hasSeed(id Identity) bool {
	return id.Partition < id.SeedPartitions || id.Cut.Mode == CutGuard
}
