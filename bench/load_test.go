package bench

import (
	"context"
	"fmt"
	"hash/crc32"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

const (
	loadTick    = 5 * time.Millisecond
	loadSeconds = 4 // of the stream that are made before it starts, and then repeated
)

// stream is a load of so many events a second, until it is stopped. Its record
// batches are made before it starts: who offers them costs little, and takes no
// processor from what is measured.
type stream struct {
	began  time.Time
	made   atomic.Int64
	cancel context.CancelFunc
	done   chan error
}

// sendable is a record batch and what is in it.
type sendable struct {
	batch  []byte
	events []drawn
}

// offer starts a stream: every five milliseconds a batch for each partition.
func (b *bench) offer(t testing.TB, topic string, partitions int, g *sales, rate int) *stream {
	t.Helper()
	size := max(1, int(float64(rate)*loadTick.Seconds()/float64(partitions)))
	reels := make([][]sendable, partitions)
	place := kgo.StickyKeyPartitioner(nil).ForTopic(topic)
	pending := make([][]*kgo.Record, partitions)
	events := make([][]drawn, partitions)
	for range rate * loadSeconds {
		d, r := g.draw()
		p := place.Partition(r, partitions)
		pending[p], events[p] = append(pending[p], r), append(events[p], d)
		if len(pending[p]) == size {
			reels[p] = append(reels[p], sendable{recordBatch(pending[p]), events[p]})
			pending[p], events[p] = pending[p][:0], nil
		}
	}
	for p, reel := range reels {
		if len(reel) == 0 {
			t.Fatalf("%d events are too few for a batch of partition %d", rate*loadSeconds, p)
		}
	}
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(kmsg.Produce.Int16(), 12) // the last that names topics
	client, err := b.broker.newClient(kgo.MaxVersions(versions))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s := &stream{began: time.Now(), cancel: cancel, done: make(chan error, 1)}
	go func() {
		defer client.Close()
		s.done <- s.run(ctx, client, topic, g, reels, rate)
	}()
	return s
}

// run sends what is due until ctx ends.
func (s *stream) run(ctx context.Context, client *kgo.Client, topic string, g *sales, reels [][]sendable, rate int) error {
	tick := time.NewTicker(loadTick)
	defer tick.Stop()
	for n := 0; ; {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			due := int64(now.Sub(s.began).Seconds() * float64(rate))
			for ; s.made.Load() < due && ctx.Err() == nil; n++ {
				made, err := sendBatches(context.WithoutCancel(ctx), client, topic, g, reels, n)
				if err != nil {
					return err
				}
				s.made.Add(made)
			}
		}
	}
}

// sendBatches sends, to the one broker that there is, the n-th batch of each partition and takes it into account.
func sendBatches(ctx context.Context, client *kgo.Client, topic string, g *sales, reels [][]sendable, n int) (made int64, err error) {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 10_000
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic = topic
	for p, reel := range reels {
		rp := kmsg.NewProduceRequestTopicPartition()
		rp.Partition, rp.Records = int32(p), reel[n%len(reel)].batch
		rt.Partitions = append(rt.Partitions, rp)
	}
	req.Topics = append(req.Topics, rt)
	answer, err := client.Request(ctx, req)
	if err != nil {
		return 0, fmt.Errorf("produce to %s: %w", topic, err)
	}
	for _, rt := range answer.(*kmsg.ProduceResponse).Topics {
		for _, rp := range rt.Partitions {
			if err := kerr.ErrorForCode(rp.ErrorCode); err != nil {
				return made, fmt.Errorf("produce to partition %d of %s: %w", rp.Partition, topic, err)
			}
			reel := reels[rp.Partition]
			for _, d := range reel[n%len(reel)].events {
				g.count(d)
				made++
			}
		}
	}
	return made, nil
}

// recordBatch encodes records as one batch of Kafka's format 2, uncompressed.
func recordBatch(records []*kgo.Record) []byte {
	var raw []byte
	for i, r := range records {
		k := kmsg.Record{OffsetDelta: int32(i), Key: r.Key, Value: r.Value}
		k.Length = int32(len(k.AppendTo(nil)) - 1) // a length of 0 is one byte
		raw = k.AppendTo(raw)
	}
	now := time.Now().UnixMilli()
	b := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, LastOffsetDelta: int32(len(records) - 1), FirstTimestamp: now, MaxTimestamp: now,
		ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: int32(len(records)), Records: raw,
	}
	const behindLength, behindCRC = 12, 21
	b.Length = int32(len(b.AppendTo(nil)) - behindLength)
	b.CRC = int32(crc32.Checksum(b.AppendTo(nil)[behindCRC:], crc32.MakeTable(crc32.Castagnoli)))
	return b.AppendTo(nil)
}

// stop ends the stream and returns the events a second that it reached.
func (s *stream) stop(t testing.TB) float64 {
	t.Helper()
	rate := float64(s.made.Load()) / time.Since(s.began).Seconds()
	s.cancel()
	if err := <-s.done; err != nil {
		t.Errorf("end the stream of events: %v", err)
	}
	return rate
}
