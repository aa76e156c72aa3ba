//go:build integration

package integration

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// kafka returns a client of the shared broker, or of another one.
func kafka(t testing.TB, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(broker.Address),
		kgo.ProducerLinger(2 * time.Millisecond),
		kgo.MaxBufferedRecords(1 << 16),
		kgo.ProducerBatchCompression(kgo.Lz4Compression()),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// smallBatches is for clients that write a few records at a time. Each lz4
// frame takes a buffer of 4 MiB to read, which a build with the race detector
// does not keep: a thousand small ones take it many seconds.
var smallBatches = kgo.ProducerBatchCompression(kgo.SnappyCompression())

// within bounds a request to the broker.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// newTopic makes a topic of the test's own.
func newTopic(t testing.TB, partitions int32) string {
	t.Helper()
	name := unique(t, "sales")
	createTopic(t, kafka(t), name, partitions)
	return name
}

// createTopic waits while a topic of that name is still being deleted.
func createTopic(t testing.TB, cl *kgo.Client, name string, partitions int32) {
	t.Helper()
	eventually(t, 30*time.Second, "create topic "+name, func() error {
		req := kmsg.NewPtrCreateTopicsRequest()
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, partitions, -1 // as many as the brokers have it
		req.Topics = append(req.Topics, topic)
		resp, err := req.RequestWith(within(t), cl)
		if err != nil {
			return err
		}
		return kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	})
	// Its partitions have leaders before anybody is told of it.
	eventually(t, 30*time.Second, "leaders of topic "+name, func() error {
		resp, err := describe(t, cl, name)
		if err != nil {
			return err
		}
		for _, p := range resp.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return err
			}
		}
		return kerr.ErrorForCode(resp.ErrorCode)
	})
}

func describe(t testing.TB, cl *kgo.Client, name string) (kmsg.MetadataResponseTopic, error) {
	req := kmsg.NewPtrMetadataRequest()
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = kmsg.StringPtr(name)
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(within(t), cl)
	if err != nil {
		return kmsg.MetadataResponseTopic{}, err
	}
	return resp.Topics[0], nil
}

func deleteTopic(t testing.TB, name string) {
	t.Helper()
	req := kmsg.NewPtrDeleteTopicsRequest()
	topic := kmsg.NewDeleteTopicsRequestTopic()
	topic.Topic = kmsg.StringPtr(name)
	req.Topics = append(req.Topics, topic)
	req.TopicNames = []string{name}
	resp, err := req.RequestWith(within(t), kafka(t))
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	}
	if err != nil {
		t.Fatalf("delete topic %s: %v", name, err)
	}
}

// addPartitions raises the number of partitions of a topic to n.
func addPartitions(t testing.TB, name string, n int32) {
	t.Helper()
	req := kmsg.NewPtrCreatePartitionsRequest()
	topic := kmsg.NewCreatePartitionsRequestTopic()
	topic.Topic, topic.Count = name, n
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(within(t), kafka(t))
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	}
	if err != nil {
		t.Fatalf("add partitions to %s: %v", name, err)
	}
}

// deleteRecords removes what is before offset, as retention does.
func deleteRecords(t testing.TB, name string, partition int32, offset int64) {
	t.Helper()
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = 30_000
	topic := kmsg.NewDeleteRecordsRequestTopic()
	topic.Topic = name
	p := kmsg.NewDeleteRecordsRequestTopicPartition()
	p.Partition, p.Offset = partition, offset
	topic.Partitions = append(topic.Partitions, p)
	req.Topics = append(req.Topics, topic)
	shards := kafka(t).RequestSharded(within(t), req)
	for _, shard := range shards {
		if shard.Err != nil {
			t.Fatalf("delete records of %s: %v", name, shard.Err)
		}
	}
}

// ends are the readable ends of a topic's partitions, read_committed.
func ends(t testing.TB, name string) map[int32]int64 {
	t.Helper()
	return endsBy(t, kafka(t), name)
}

// endsBy is ends, asked by a client of any broker.
func endsBy(t testing.TB, cl *kgo.Client, name string) map[int32]int64 {
	t.Helper()
	ends := map[int32]int64{}
	eventually(t, 30*time.Second, "ends of topic "+name, func() error {
		meta, err := describe(t, cl, name)
		if err != nil {
			return err
		}
		req := kmsg.NewPtrListOffsetsRequest()
		req.IsolationLevel = 1
		topic := kmsg.NewListOffsetsRequestTopic()
		topic.Topic = name
		for _, mp := range meta.Partitions {
			p := kmsg.NewListOffsetsRequestTopicPartition()
			p.Partition, p.Timestamp = mp.Partition, -1
			topic.Partitions = append(topic.Partitions, p)
		}
		req.Topics = append(req.Topics, topic)
		resp, err := req.RequestWith(within(t), cl)
		if err != nil {
			return err
		}
		for _, p := range resp.Topics[0].Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return err
			}
			ends[p.Partition] = p.Offset
		}
		return nil
	})
	return ends
}

// produce appends values to a partition, in order.
func produce(t testing.TB, topic string, partition int32, values ...string) {
	t.Helper()
	records := make([]*kgo.Record, len(values))
	for i, v := range values {
		records[i] = &kgo.Record{Topic: topic, Partition: partition, Value: []byte(v)}
	}
	produceRecords(t, records...)
}

func produceRecords(t testing.TB, records ...*kgo.Record) {
	t.Helper()
	cl := kafka(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err := cl.ProduceSync(within(t), records...).FirstErr(); err != nil {
		t.Fatalf("produce: %v", err)
	}
}

// consume reads n records of a topic from its beginning.
func consume(t testing.TB, topic string, n int) []*kgo.Record {
	t.Helper()
	cl := kafka(t, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	ctx := within(t)
	var records []*kgo.Record
	for len(records) < n {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("read topic %s: %v (%d of %d records)", topic, err, len(records), n)
		}
		records = append(records, fetches.Records()...)
	}
	return records
}

// setTopic changes one setting of a topic.
func setTopic(t testing.TB, topic, name, value string) {
	t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	config.Name, config.Value = name, kmsg.StringPtr(value)
	resource.Configs = append(resource.Configs, config)
	req.Resources = append(req.Resources, resource)
	resp, err := req.RequestWith(within(t), kafka(t))
	if err == nil {
		err = kerr.ErrorForCode(resp.Resources[0].ErrorCode)
	}
	if err != nil {
		t.Fatalf("set %s of topic %s: %v", name, topic, err)
	}
}
