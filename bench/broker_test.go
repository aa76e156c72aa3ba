package bench

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/internal/testkit/servers"
)

const partitions = 8

// kafkaBroker is what the report calls the broker that counts.
const kafkaBroker = "Apache Kafka, one KRaft node with 512 MiB of heap"

// broker is what is read from.
type broker struct {
	address string
	kind    string // for the report
	pid     int    // of a process of its own, 0 for the broker in memory
	client  *kgo.Client
}

// startBroker starts a real Kafka, or the broker in memory where that is asked
// for or there is no Java. It ends with the test.
func startBroker(t *testing.T, dir, which string) *broker {
	t.Helper()
	b := &broker{}
	switch which {
	case "", "kafka":
		k, err := servers.StartKafka(dir, servers.KafkaOptions{})
		if err == nil {
			t.Cleanup(k.Kill)
			b.address, b.kind = k.Address, kafkaBroker
			b.pid, err = child("kafka.Kafka\x00" + dir)
		}
		if err != nil && which == "kafka" {
			t.Fatal(err)
		}
		if err == nil {
			break
		}
		fmt.Fprintf(os.Stderr, "no real Kafka, going on with the broker in memory: %v\n", err)
		fallthrough
	case "memory":
		c, err := kfake.NewCluster(kfake.NumBrokers(1))
		if err != nil {
			t.Fatalf("start the broker in memory: %v", err)
		}
		t.Cleanup(c.Close)
		b.address, b.kind = c.ListenAddrs()[0], "**no real Kafka**: a broker in the harness's own process"
	default:
		t.Fatalf("there is no broker %q", which)
	}
	var err error
	if b.client, err = b.newClient(kgo.ProducerLinger(20*time.Millisecond), kgo.MaxBufferedRecords(1<<18)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.client.Close)
	return b
}

// newClient makes a client that writes large batches without compression and
// places keys as Java's producer does.
func (b *broker) newClient(more ...kgo.Opt) (*kgo.Client, error) {
	c, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(b.address), kgo.DisableClientMetrics(), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProducerBatchMaxBytes(1<<20 - 1024), kgo.MetadataMinAge(50 * time.Millisecond),
		kgo.UnknownTopicRetries(100), // a topic that was created just now
	}, more...)...)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	return c, nil
}

// child finds the process whose arguments, each ended by a zero byte, hold some.
func child(arguments string) (int, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return 0, err
	}
	for _, path := range stats {
		line, err := os.ReadFile(path)
		if err == nil && bytes.Contains(line, []byte(arguments)) {
			return strconv.Atoi(filepath.Base(filepath.Dir(path)))
		}
	}
	return 0, fmt.Errorf("no process in /proc has the arguments %q", arguments)
}

// createTopic makes a topic, which goes with the test.
func (b *broker) createTopic(t testing.TB, topic string, partitions int32) {
	t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = topic, partitions, 1
	req.Topics = append(req.Topics, rt)
	req.TimeoutMillis = 10_000
	resp, err := req.RequestWith(t.Context(), b.client)
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	}
	if err != nil {
		t.Fatalf("create topic %s: %v", topic, err)
	}
}

// deleteTopic frees the room of a topic.
func (b *broker) deleteTopic(t testing.TB, topic string) {
	t.Helper()
	req := kmsg.NewPtrDeleteTopicsRequest()
	rt := kmsg.NewDeleteTopicsRequestTopic()
	rt.Topic = kmsg.StringPtr(topic)
	req.TopicNames, req.Topics = []string{topic}, append(req.Topics, rt)
	req.TimeoutMillis = 10_000
	if _, err := req.RequestWith(t.Context(), b.client); err != nil {
		t.Fatalf("delete topic %s: %v", topic, err)
	}
}
