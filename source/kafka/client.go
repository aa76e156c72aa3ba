package kafka

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/IBM/sarama"

	"tidemark/aggregator"
)

// Client asks about the topic and the group. Its methods may be called from any
// goroutine; each tries for at most ten seconds, with growing waits, while the
// brokers are away or a leader moves, and returns when its context ends.
type Client struct {
	cfg     Config
	cluster *cluster
}

// Open returns a client. Nothing is dialed before the first question.
func Open(cfg Config) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Client{cfg: cfg, cluster: newCluster(cfg)}, nil
}

// Close ends requests that are out and closes the connections.
func (c *Client) Close() { c.cluster.close() }

// Topic describes the topic as a broker knows it now; aggregator.ErrNoTopic
// where there is none.
func (c *Client) Topic(ctx context.Context) (aggregator.Topic, error) {
	var l *layout
	err := c.cluster.retry(ctx, func(ctx context.Context) (err error) {
		l, err = c.cluster.describe(ctx)
		return err
	})
	if err != nil {
		return aggregator.Topic{}, err
	}
	return aggregator.Topic{Name: c.cfg.Topic, ID: l.id, Partitions: int32(len(l.leaders))}, nil
}

// Bounds asks for the first offset there is and the end that is readable: under
// read_committed the last stable offset, else the high-watermark.
func (c *Client) Bounds(ctx context.Context, partition int32) (start, end int64, err error) {
	err = c.cluster.atLeader(ctx, partition, func(b *sarama.Broker) (err error) {
		if start, err = c.listOffset(b, partition, sarama.OffsetOldest); err != nil {
			return err
		}
		end, err = c.listOffset(b, partition, sarama.OffsetNewest)
		return err
	})
	if err != nil {
		return 0, 0, fmt.Errorf("ask for the bounds of partition %d: %w", partition, err)
	}
	return start, end, nil
}

// OffsetAt asks for the first offset whose record's timestamp is at t or later;
// the readable end where there is none.
func (c *Client) OffsetAt(ctx context.Context, partition int32, t time.Time) (int64, error) {
	ms := t.UnixMilli()
	if t.Sub(time.UnixMilli(ms)) > 0 {
		ms++ // timestamps of records are whole milliseconds
	}
	ms = max(ms, 0) // negative times have meanings of their own
	var offset int64
	err := c.cluster.atLeader(ctx, partition, func(b *sarama.Broker) (err error) {
		if offset, err = c.listOffset(b, partition, ms); err != nil || offset >= 0 {
			return err
		}
		offset, err = c.listOffset(b, partition, sarama.OffsetNewest)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("ask for the offset of partition %d at %s: %w", partition, t.UTC().Format(time.RFC3339Nano), err)
	}
	return offset, nil
}

// listOffset is one ListOffsets for one partition; -1 where there is none.
func (c *Client) listOffset(b *sarama.Broker, partition int32, at int64) (int64, error) {
	req := sarama.NewOffsetRequest(version)
	req.IsolationLevel = c.cfg.isolation()
	req.AddBlock(c.cfg.Topic, partition, at, 1)
	resp, err := b.GetAvailableOffsets(req)
	if err != nil {
		return 0, err
	}
	block := resp.GetBlock(c.cfg.Topic, partition)
	if block == nil {
		return 0, fmt.Errorf("the answer leaves partition %d out", partition)
	}
	if block.Err != sarama.ErrNoError {
		return 0, block.Err
	}
	return block.Offset, nil
}

// Newest reads the newest records of a partition, n or fewer: those of the last
// n offsets that are readable. They are copies.
func (c *Client) Newest(ctx context.Context, partition int32, n int) ([]aggregator.Record, error) {
	start, end, err := c.Bounds(ctx, partition)
	if err != nil {
		return nil, err
	}
	var records []aggregator.Record
	var pool buffers
	next := max(start, end-int64(n))
	limit := int32(firstBytes)
	for next < end {
		var got answered
		err := c.cluster.retry(ctx, func(ctx context.Context) error {
			addr, err := c.cluster.leaderOf(ctx, partition)
			if err == nil {
				got, err = c.cluster.fetch(ctx, addr, asked{partition, next, limit, -1}, &pool)
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("read the newest records of partition %d: %w", partition, err)
		}
		span := measure(got.records, next)
		if span.next == next {
			if span.err != nil {
				return nil, unreadable(next, partition, span.err)
			}
			if !span.cut || limit >= maxAnswer/2 {
				break // nothing more
			}
			limit *= 2
			continue
		}
		some, err := c.unpackAll(&got, span, next)
		if err != nil {
			return nil, unreadable(next, partition, err)
		}
		for _, r := range some {
			if r.Offset < end {
				r.Key, r.Value = bytes.Clone(r.Key), bytes.Clone(r.Value)
				records = append(records, r)
			}
		}
		pool.put(got.records)
		next = span.next
	}
	return records, nil
}

// unpackAll decodes what an answer has of a partition from offset on.
func (c *Client) unpackAll(a *answered, s span, offset int64) (records []aggregator.Record, err error) {
	var u unpacker
	if !c.cfg.readCommitted() {
		a.aborted = nil
	}
	u.begin(a.records[:s.size], offset, a.aborted)
	for len(u.rest) > 0 && err == nil {
		records, _, err = u.next(records)
	}
	return records, err
}

// Committed returns what the group has committed for the topic, by partition.
func (c *Client) Committed(ctx context.Context) (map[int32]aggregator.Commit, error) {
	topic, err := c.Topic(ctx)
	if err != nil {
		return nil, err
	}
	partitions := make([]int32, topic.Partitions)
	for i := range partitions {
		partitions[i] = int32(i)
	}
	commits := make(map[int32]aggregator.Commit)
	err = c.cluster.atCoordinator(ctx, func(b *sarama.Broker) error {
		clear(commits)
		resp, err := b.FetchOffset(sarama.NewOffsetFetchRequest(version, c.cfg.GroupID, map[string][]int32{c.cfg.Topic: partitions}))
		if err != nil {
			return err
		}
		if k := resp.GroupError(); k == sarama.ErrGroupIDNotFound {
			return nil // there is none yet
		} else if k != sarama.ErrNoError {
			return k
		}
		for _, p := range partitions {
			block := resp.GetBlock(c.cfg.Topic, p)
			switch {
			case block == nil || block.Offset < 0 && block.Err == sarama.ErrNoError:
			case block.Err != sarama.ErrNoError:
				return fmt.Errorf("partition %d: %w", p, block.Err)
			default:
				commits[p] = aggregator.Commit{Offset: block.Offset, Metadata: block.Metadata}
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("ask for the offsets of group %s: %w", c.cfg.GroupID, err)
	}
	return commits, nil
}

// NoGeneration commits for a group that has no members.
const NoGeneration = sarama.GroupGenerationUndefined

// ErrRebalancing: the group is between two generations; the commit may be
// repeated under the next.
var ErrRebalancing = errors.New("group is rebalancing")

// Commit writes commits for the member of a generation, through the group's
// coordinator. The map has an error for each partition that was refused:
// aggregator.ErrFenced where the group no longer knows the member, or the
// generation has passed, ErrRebalancing where it is passing. The error beside
// it says that nothing is known.
func (c *Client) Commit(ctx context.Context, generation int32, member string, commits map[int32]aggregator.Commit) (map[int32]error, error) {
	if len(commits) == 0 {
		return nil, nil
	}
	refused := make(map[int32]error)
	err := c.cluster.atCoordinator(ctx, func(b *sarama.Broker) error {
		clear(refused)
		req := &sarama.OffsetCommitRequest{
			Version:                 8,
			ConsumerGroup:           c.cfg.GroupID,
			ConsumerGroupGeneration: generation,
			ConsumerID:              member,
		}
		if c.cfg.GroupInstanceID != "" && generation != NoGeneration {
			req.GroupInstanceId = &c.cfg.GroupInstanceID
		}
		for p, commit := range commits {
			req.AddBlockWithLeaderEpoch(c.cfg.Topic, p, commit.Offset, -1, 0, commit.Metadata)
		}
		resp, err := b.CommitOffset(req)
		if err != nil {
			return err
		}
		for p := range commits {
			k, ok := resp.Errors[c.cfg.Topic][p]
			switch {
			case !ok:
				return fmt.Errorf("the answer leaves partition %d out", p)
			case k == sarama.ErrNoError:
			case k != sarama.ErrUnknownTopicOrPartition && mends(k):
				return k // of the coordinator: none was taken
			default:
				refused[p] = commitError(k)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("commit to group %s: %w", c.cfg.GroupID, err)
	}
	return refused, nil
}

func commitError(k sarama.KError) error {
	switch k {
	case sarama.ErrUnknownMemberId, sarama.ErrIllegalGeneration, sarama.ErrFencedInstancedId:
		return fmt.Errorf("%w: %w", aggregator.ErrFenced, k)
	case sarama.ErrRebalanceInProgress:
		return ErrRebalancing
	}
	return k
}
