package testkit

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Message is a record to produce. A zero Time is now.
type Message struct {
	Key, Value []byte
	Time       time.Time
}

// Text is a message of two texts; empty ones are null.
func Text(key, value string) Message {
	m := Message{}
	if key != "" {
		m.Key = []byte(key)
	}
	if value != "" {
		m.Value = []byte(value)
	}
	return m
}

func (m Message) record(topic string, partition int32) *kgo.Record {
	return &kgo.Record{Topic: topic, Partition: partition, Key: m.Key, Value: m.Value, Timestamp: m.Time}
}

// Produce writes messages to a partition, in order and in as few batches as it
// takes, and returns the offset of the first.
func (b *Broker) Produce(topic string, partition int32, messages ...Message) int64 {
	b.t.Helper()
	return produce(b.Context(), b.t, b.Client(), topic, partition, messages)
}

func produce(ctx context.Context, t testing.TB, client *kgo.Client, topic string, partition int32, messages []Message) int64 {
	t.Helper()
	records := make([]*kgo.Record, len(messages))
	for i, m := range messages {
		records[i] = m.record(topic, partition)
	}
	results := client.ProduceSync(ctx, records...)
	if err := results.FirstErr(); err != nil {
		t.Fatalf("produce %d records to partition %d of %s: %v", len(messages), partition, topic, err)
	}
	return results[0].Record.Offset
}

// Transactions is a transactional producer.
type Transactions struct {
	b      *Broker
	client *kgo.Client
}

// NewTransactions returns a producer with the transactional id given; it ends
// with the test.
func (b *Broker) NewTransactions(id string) *Transactions {
	b.t.Helper()
	client, err := kgo.NewClient(b.Options(kgo.TransactionalID(id), kgo.TransactionTimeout(time.Minute))...)
	if err != nil {
		b.t.Fatalf("make a transactional producer: %v", err)
	}
	b.t.Cleanup(client.Close)
	return &Transactions{b: b, client: client}
}

// Begin begins a transaction.
func (x *Transactions) Begin() {
	x.b.t.Helper()
	if err := x.client.BeginTransaction(); err != nil {
		x.b.t.Fatalf("begin a transaction: %v", err)
	}
}

// Produce writes messages in the transaction and returns the first's offset.
func (x *Transactions) Produce(topic string, partition int32, messages ...Message) int64 {
	x.b.t.Helper()
	return produce(x.b.Context(), x.b.t, x.client, topic, partition, messages)
}

// Commit ends the transaction; its records become readable.
func (x *Transactions) Commit() { x.b.t.Helper(); x.end(kgo.TryCommit) }

// Abort ends the transaction; its records never become readable.
func (x *Transactions) Abort() { x.b.t.Helper(); x.end(kgo.TryAbort) }

func (x *Transactions) end(how kgo.TransactionEndTry) {
	x.b.t.Helper()
	if err := x.client.EndTransaction(x.b.Context(), how); err != nil {
		x.b.t.Fatalf("end a transaction: %v", err)
	}
}

// Bounds are the log start and the last stable offset of a partition.
func (b *Broker) Bounds(topic string, partition int32) (start, end int64) {
	b.t.Helper()
	ask := func(at int64) int64 {
		req := kmsg.NewPtrListOffsetsRequest()
		req.ReplicaID, req.IsolationLevel = -1, 1
		rt := kmsg.NewListOffsetsRequestTopic()
		rt.Topic = topic
		rp := kmsg.NewListOffsetsRequestTopicPartition()
		rp.Partition, rp.Timestamp = partition, at
		rt.Partitions = append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
		resp, err := req.RequestWith(b.Context(), b.Client())
		if err == nil {
			err = kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
		}
		if err != nil {
			b.t.Fatalf("ask for the bounds of partition %d of %s: %v", partition, topic, err)
		}
		return resp.Topics[0].Partitions[0].Offset
	}
	return ask(-2), ask(-1)
}

// Read returns the records of a partition from the log start up to the last
// stable offset, as another client reads them under read_committed.
func (b *Broker) Read(topic string, partition int32) []*kgo.Record {
	b.t.Helper()
	next, end := b.Bounds(topic, partition)
	client, err := kgo.NewClient(b.Options(
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), kgo.FetchMaxWait(50*time.Millisecond),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().At(next)}}))...)
	if err != nil {
		b.t.Fatalf("make a reader: %v", err)
	}
	defer client.Close()
	ctx := b.Context()
	var records []*kgo.Record
	for next < end {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			b.t.Fatalf("read partition %d of %s: %v", partition, topic, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			next = r.Offset + 1
			if !r.Attrs.IsControl() {
				records = append(records, r)
			}
		})
	}
	return records
}

// Eventually waits until cond holds. It fails the test after limit, with why.
func Eventually(t testing.TB, limit time.Duration, cond func() bool, why string, args ...any) {
	t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	poll := time.NewTicker(2 * time.Millisecond)
	defer poll.Stop()
	for !cond() {
		select {
		case <-deadline.C:
			t.Fatalf("not within %s: %s", limit, fmt.Sprintf(why, args...))
		case <-poll.C:
		}
	}
}
