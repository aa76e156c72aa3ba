package api

import (
	"context"
	"time"

	"tidemark/aggregator"
)

// source answers for partitions of one member: this one (local) or another
// (peer). Its methods are called from many goroutines. They answer for the
// partitions of, in ascending order, as far as the member has them, also for those that do not
// count yet; who asks decides.
type source interface {
	// Read reads keys from every partition that may hold them.
	Read(ctx context.Context, of []int32, q readQuestion) (answer, error)
	// Scan reads a stretch of keys, merged over the partitions.
	Scan(ctx context.Context, of []int32, q scanQuestion) (answer, error)
	// Top reads the first keys by one result. Each key must lie in one
	// partition alone; who asks has made sure of it and does so again with the
	// standings of the answer.
	Top(ctx context.Context, of []int32, q topQuestion) (answer, error)
}

// question is put to sources.
type question interface {
	put(ctx context.Context, to source, of []int32) (answer, error)
}

func (q readQuestion) put(ctx context.Context, to source, of []int32) (answer, error) {
	return to.Read(ctx, of, q)
}

func (q scanQuestion) put(ctx context.Context, to source, of []int32) (answer, error) {
	return to.Scan(ctx, of, q)
}

func (q topQuestion) put(ctx context.Context, to source, of []int32) (answer, error) {
	return to.Top(ctx, of, q)
}

// mark is a partition with a position.
type mark struct {
	Partition int32 `json:"partition"`
	Position  int64 `json:"position"`
}

// readQuestion asks for keys. Without keys the answer has the standings alone.
type readQuestion struct {
	Keys [][]byte `json:"keys,omitempty"`
	// Min holds the answer back until the member's partitions among these have
	// reached the positions and count, or Wait is over.
	Min []mark `json:"min,omitempty"`
	// Since holds the answer back until one of the member's partitions among
	// these has folded or changed its state, or Wait is over. It needs a key.
	Since []moment      `json:"since,omitempty"`
	Wait  time.Duration `json:"wait,omitempty"` // nanoseconds
}

// moment is what an earlier answer said of a partition.
type moment struct {
	mark
	Answers bool `json:"answers"`
}

// scanQuestion asks for the first Limit keys >= From that begin with Prefix.
type scanQuestion struct {
	From   []byte `json:"from,omitempty"`
	Prefix []byte `json:"prefix,omitempty"`
	Limit  int    `json:"limit"`
}

// topQuestion asks for the first Limit keys in an order.
type topQuestion struct {
	aggregator.Order
	Limit int `json:"limit"`
}

// answer is what a source says.
type answer struct {
	Standings []standing  `json:"standings"` // of the partitions that it answers for
	Readings  [][]reading `json:"readings,omitempty"`
	Items     []item      `json:"items,omitempty"`
	More      bool        `json:"more,omitempty"` // keys follow the last item
}

// standing is how a partition stands with its owner: an aggregator.Standing as
// members tell each other.
type standing struct {
	Partition  int32                `json:"partition"`
	State      aggregator.State     `json:"state"`
	Reason     string               `json:"reason,omitempty"`
	Answers    bool                 `json:"answers"`
	Position   int64                `json:"position"`
	Placement  aggregator.Placement `json:"placement"`
	Partitions int32                `json:"partitions"` // of the topic when the state was made, for Placement
	Holds      bool                 `json:"holds"`      // something has been folded or seeded
}

// reading is one partition's part of one key.
type reading struct {
	Partition int32            `json:"partition"`
	Position  int64            `json:"position"`
	Parts     []byte           `json:"total,omitempty"` // for Total.MergeParts; another member's are one: see settle
	Answers   bool             `json:"answers"`
	State     aggregator.State `json:"state"`
	Reason    string           `json:"reason,omitempty"`
}

// item is one key of a listing, merged over a member's partitions.
type item struct {
	Key   []byte `json:"key"`
	Parts []byte `json:"total"` // for Total.MergeParts; another member's are one: see settle
	Marks []mark `json:"marks"` // of the partitions that may hold the key, by number
}
