package bootstrap

import (
	"context"
	"fmt"
	"time"

	"tidemark/aggregator"
	"tidemark/event"
)

// Offsets is what a cut asks of the log.
type Offsets interface {
	// Bounds asks for the first offset there is, and the end that is readable.
	Bounds(ctx context.Context, partition int32) (start, end int64, err error)
	// OffsetAt asks for the first offset whose record's timestamp is not before
	// t, the end where there is none.
	OffsetAt(ctx context.Context, partition int32, t time.Time) (int64, error)
}

// Reset says where a partition begins for which neither state nor a cut exists.
const (
	ResetEarliest = "earliest"
	ResetLatest   = "latest"
	ResetError    = "error"
)

// Cut says where the stream takes over from the history.
type Cut struct {
	// Mode is aggregator's CutEarliest, CutLatest, CutOffsets, CutTimestamp or
	// CutGuard, or "" without a history: then Reset decides.
	Mode  string
	Reset string // ResetEarliest where it is empty

	Offsets   map[int32]int64 // mode offsets: the first to fold, for every partition
	Timestamp time.Time       // mode timestamp: the stream counts from here on
	Slack     time.Duration   // mode timestamp: reading begins this much earlier
	EventTime event.Path      // modes timestamp and guard; nil is the record's timestamp
}

// Starts is the offset at which each partition of topic would begin, were the
// cut made now; nothing is kept. It ends with the first partition whose cut
// cannot be made: errors of the cut itself wrap aggregator.ErrHopeless, those
// of the log do not.
func (c Cut) Starts(ctx context.Context, log Offsets, topic aggregator.Topic) ([]int64, error) {
	starts := make([]int64, topic.Partitions)
	for p := range topic.Partitions {
		cut, err := c.resolve(ctx, log, topic, p, false)
		if err != nil {
			return nil, err
		}
		starts[p] = cut.Start
	}
	return starts, nil
}

// resolve makes the cut a number for one partition. A partition that appeared
// later begins at its beginning, whatever the cut or the reset. Errors of the
// cut itself wrap aggregator.ErrHopeless, those of the log do not.
func (c Cut) resolve(ctx context.Context, log Offsets, topic aggregator.Topic, partition int32, later bool) (aggregator.Cut, error) {
	cut := c.configured(partition)
	start, end, err := log.Bounds(ctx, partition)
	if err != nil {
		return cut, fmt.Errorf("ask for the bounds of partition %d of %s: %w", partition, topic.Name, err)
	}
	cut.Start = start
	if later {
		return cut, nil
	}
	switch c.Mode {
	case "":
		switch c.Reset {
		case ResetLatest:
			cut.Start = end
		case ResetError:
			return cut, fmt.Errorf("%w: partition %d of %s has neither state nor a history cut, and auto.offset.reset is error: set it to earliest or latest", aggregator.ErrHopeless, partition, topic.Name)
		}
	case aggregator.CutLatest:
		cut.Start = end
	case aggregator.CutOffsets:
		cut.Start, err = c.offset(topic, partition, start, end)
	case aggregator.CutTimestamp:
		cut.Start, err = log.OffsetAt(ctx, partition, c.Timestamp.Add(-c.Slack))
		if err != nil {
			err = fmt.Errorf("ask for the offset of partition %d of %s at %s: %w", partition, topic.Name, c.Timestamp.Add(-c.Slack).UTC().Format(time.RFC3339), err)
		}
		cut.Start = max(cut.Start, start)
	}
	return cut, err
}

// configured is the cut of a partition as far as it stands without asking the
// log: Start is -1 where no number is given.
func (c Cut) configured(partition int32) aggregator.Cut {
	cut := aggregator.Cut{Mode: c.Mode, Start: -1}
	switch c.Mode {
	case aggregator.CutOffsets:
		if offset, ok := c.Offsets[partition]; ok {
			cut.Start = offset
		}
	case aggregator.CutTimestamp:
		before := aggregator.Instant(c.Timestamp)
		cut.Before, cut.EventTime = &before, c.EventTime
	case aggregator.CutGuard:
		cut.EventTime = c.EventTime
	}
	return cut
}

// offset is the one given for the partition, which the log must hold or end with.
func (c Cut) offset(topic aggregator.Topic, partition int32, start, end int64) (int64, error) {
	for p := range c.Offsets {
		if p >= topic.Partitions {
			return 0, fmt.Errorf("%w: the cut's offsets name partition %d, and %s has the partitions 0 to %d: one offset for each of them is wanted", aggregator.ErrHopeless, p, topic.Name, topic.Partitions-1)
		}
	}
	offset, ok := c.Offsets[partition]
	switch {
	case !ok:
		return 0, fmt.Errorf("%w: the cut's offsets have none for partition %d of %s: one for each of its %d partitions is wanted", aggregator.ErrHopeless, partition, topic.Name, topic.Partitions)
	case offset < start:
		return 0, fmt.Errorf("%w: the cut's offset %d of partition %d of %s is below %d, the first that the log still has: records between history and stream are gone", aggregator.ErrHopeless, offset, partition, topic.Name, start)
	case offset > end:
		return 0, fmt.Errorf("%w: the cut's offset %d of partition %d of %s is above %d, the end of the log", aggregator.ErrHopeless, offset, partition, topic.Name, end)
	}
	return offset, nil
}
