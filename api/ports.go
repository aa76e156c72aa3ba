package api

import (
	"context"
	"time"

	"tidemark/aggregator"
)

// Reader answers from the partitions of this member. *aggregator.Processor is
// one. Its methods are called from many goroutines.
type Reader interface {
	// Status lists this member's partitions, by number.
	Status() []aggregator.PartitionStatus
	// Standings is the part of Status that reads go by.
	Standings() []aggregator.Standing
	// BadSamples lists some of the newest bad records of each reason that this
	// process has seen, newest first.
	BadSamples() []aggregator.BadSample
	// Get reads one key from one partition.
	Get(ctx context.Context, partition int32, key []byte) (aggregator.Reading, error)
	// Scan reads the first limit keys >= from that begin with prefix.
	Scan(ctx context.Context, partition int32, from, prefix []byte, limit int) (aggregator.Page, error)
	// First reads the first limit keys of one partition in an order.
	First(ctx context.Context, partition int32, o aggregator.Order, limit int) (aggregator.Page, error)
	// Changed returns a channel that is closed after the next fold, or change
	// of state, of the partition; nil where it is not here.
	Changed(partition int32) <-chan struct{}
}

// Group is the consumer group as this member knows it.
type Group interface {
	// View is the group at this moment, one consistent look. The caller does
	// not change what it holds.
	View() View
}

// View is the group at one moment, from one member.
type View struct {
	Group      string   // the group's id
	Member     string   // this member's id, "" before the first assignment
	Generation int32    // of the assignment
	Assigned   bool     // the first assignment has come, be it an empty one
	Own        []int32  // partitions of this member, also where Members is not of this assignment yet
	Silent     bool     // no heartbeat was answered for a session timeout
	Lapses     int      // how often it was silent until the next assignment
	Problem    string   // why the member is not in the group now, "" where it is or nothing is known
	Partitions int32    // of the topic as it is now, 0 until that is known
	Members    []Member // all of the group, idle ones too
}

// Member is one member of the group.
type Member struct {
	ID         string
	Address    string // http://host:port, "" where it told none
	Partitions []int32
}

// Snapshot is one published snapshot of one partition.
type Snapshot struct {
	Topic     string    `json:"topic"`
	Partition int32     `json:"partition"`
	Seq       int64     `json:"seq"`
	Epoch     int64     `json:"epoch"`
	Position  int64     `json:"position"`
	Bytes     int64     `json:"bytes"`
	Created   time.Time `json:"created"`
}

// SnapshotOf is what answers show of a snapshot.
func SnapshotOf(s aggregator.Snapshot) Snapshot {
	return Snapshot{s.Identity.Topic, s.Identity.Partition, s.Seq, s.Epoch, s.Progress.Position, s.Bytes, s.Created}
}

// Snapshots publishes and lists snapshots.
type Snapshots interface {
	// List returns all snapshots of the topic in the store.
	List(ctx context.Context) ([]Snapshot, error)
	// Publish publishes what is new now for every partition of this member and
	// returns the newest snapshot of each.
	Publish(ctx context.Context) ([]Snapshot, error)
}

// partitions is how many partitions there are: those of the topic, or more
// where an assignment already has more.
func (v *View) partitions() int32 {
	n := v.Partitions
	for i := range v.Members {
		for _, p := range v.Members[i].Partitions {
			n = max(n, p+1)
		}
	}
	return n
}

// owners says which member owns each of the partitions, by number; nil where
// none does.
func (v *View) owners() []*Member {
	owner := make([]*Member, v.partitions())
	for i := range v.Members {
		for _, p := range v.Members[i].Partitions {
			owner[p] = &v.Members[i]
		}
	}
	return owner
}
