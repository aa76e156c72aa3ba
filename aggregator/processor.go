package aggregator

import (
	"context"
	"errors"
)

// ErrNotOwned: the partition is not this member's.
var ErrNotOwned = errors.New("partition is not owned by this member")

// ErrClosing: the partition's task is ending; its store takes no reads.
var ErrClosing = errors.New("partition is closing")

// Processor holds the tasks of the partitions of this member and answers
// reads from them.
type Processor struct{}

// Status lists this member's partitions, by number.
func (p *Processor) Status() []PartitionStatus { panic("aggregator: not built") }

// Get reads one key from one partition: store and pending deltas together.
func (p *Processor) Get(ctx context.Context, partition int32, key []byte) (Reading, error) {
	panic("aggregator: not built")
}

// Scan reads the first limit keys >= from that begin with prefix.
func (p *Processor) Scan(ctx context.Context, partition int32, from, prefix []byte, limit int) (Page, error) {
	panic("aggregator: not built")
}

// Each calls f for every key of a partition with its encoded total, in key
// order; both slices are valid during the call. It stops at f's error.
func (p *Processor) Each(ctx context.Context, partition int32, f func(key, total []byte) error) (Reading, error) {
	panic("aggregator: not built")
}

// Changed returns a channel that is closed after the next fold, or change of
// state, of the partition.
func (p *Processor) Changed(partition int32) <-chan struct{} { panic("aggregator: not built") }
