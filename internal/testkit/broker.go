package testkit

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
)

// BrokerOptions are how the brokers are started; the zero value is one broker
// without a topic.
type BrokerOptions struct {
	Brokers    int
	Topic      string // created where not empty
	Partitions int32  // of Topic, 1 where 0
	Dir        string // keeps the log here, so that Restart finds it
	TLS        *tls.Config
	ClientTLS  *tls.Config    // of this kit's own connections
	ClientSASL sasl.Mechanism // of this kit's own connections
	More       []kfake.Opt
}

// Broker is an in-process cluster, with what a test does to it. Its own
// requests fail the test when they fail.
type Broker struct {
	*kfake.Cluster
	t      testing.TB
	opts   BrokerOptions
	ports  []int
	remote []string // addresses, where the brokers are not in this process

	mu     sync.Mutex
	client *kgo.Client
}

// NewBroker starts brokers, which end with the test.
func NewBroker(t testing.TB, o BrokerOptions) *Broker {
	t.Helper()
	b := &Broker{t: t, opts: o}
	b.start()
	t.Cleanup(b.Stop)
	return b
}

// RemoteBroker is NewBroker for brokers that run elsewhere. It creates o.Topic;
// of the other options it takes those of its own connections. What only the
// in-process brokers can do is not to be called: Move, Count, Break, Restart.
func RemoteBroker(t testing.TB, o BrokerOptions, addrs ...string) *Broker {
	t.Helper()
	b := &Broker{t: t, opts: o, remote: addrs}
	t.Cleanup(b.forget)
	if o.Topic != "" {
		b.CreateTopic(o.Topic, max(o.Partitions, 1))
	}
	return b
}

func (b *Broker) start() {
	b.t.Helper()
	opts := []kfake.Opt{kfake.NumBrokers(max(b.opts.Brokers, 1)), kfake.GroupMinSessionTimeout(time.Second)}
	if b.opts.Topic != "" {
		opts = append(opts, kfake.SeedTopics(max(b.opts.Partitions, 1), b.opts.Topic))
	}
	if b.opts.TLS != nil {
		opts = append(opts, kfake.TLS(b.opts.TLS))
	}
	if b.opts.Dir != "" {
		opts = append(opts, kfake.DataDir(b.opts.Dir))
	}
	if b.ports != nil {
		opts = append(opts, kfake.Ports(b.ports...))
	}
	c, err := kfake.NewCluster(append(opts, b.opts.More...)...)
	if err != nil {
		b.t.Fatalf("start brokers: %v", err)
	}
	b.Cluster = c
	if b.ports == nil {
		for _, addr := range c.ListenAddrs() {
			_, p, err := net.SplitHostPort(addr)
			if err != nil {
				b.t.Fatalf("read a broker's address: %v", err)
			}
			port, err := strconv.Atoi(p)
			if err != nil {
				b.t.Fatalf("read a broker's port: %v", err)
			}
			b.ports = append(b.ports, port)
		}
	}
}

// Addrs are the brokers' addresses.
func (b *Broker) Addrs() []string {
	if b.remote != nil {
		return b.remote
	}
	return b.ListenAddrs()
}

// Stop ends the brokers; it may be called again.
func (b *Broker) Stop() {
	b.forget()
	b.Close()
}

// forget ends the client; the next request makes another.
func (b *Broker) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.client != nil {
		b.client.Close()
		b.client = nil
	}
}

// Restart starts brokers anew on the same ports, after Stop. Only with Dir
// there is anything in them.
func (b *Broker) Restart() {
	b.t.Helper()
	b.start()
}

// Options are for a kgo client of these brokers.
func (b *Broker) Options(more ...kgo.Opt) []kgo.Opt {
	opts := []kgo.Opt{kgo.SeedBrokers(b.Addrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DisableClientMetrics()}
	if b.opts.ClientTLS != nil {
		opts = append(opts, kgo.DialTLSConfig(b.opts.ClientTLS))
	}
	if b.opts.ClientSASL != nil {
		opts = append(opts, kgo.SASL(b.opts.ClientSASL))
	}
	return append(opts, more...)
}

// Client is a client that the brokers' own requests go through.
func (b *Broker) Client() *kgo.Client {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.client == nil {
		c, err := kgo.NewClient(b.Options(kgo.ProducerBatchMaxBytes(64<<20), kgo.BrokerMaxWriteBytes(128<<20), kgo.MetadataMinAge(10*time.Millisecond))...)
		if err != nil {
			b.t.Fatalf("make a client: %v", err)
		}
		b.client = c
	}
	return b.client
}

// Context ends with the test, or after a minute.
func (b *Broker) Context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	b.t.Cleanup(cancel)
	return ctx
}

// CreateTopic creates a topic; configs are pairs of name and value.
func (b *Broker) CreateTopic(topic string, partitions int32, configs ...string) {
	b.t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = topic, partitions, 1
	for i := 0; i+1 < len(configs); i += 2 {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = configs[i], &configs[i+1]
		rt.Configs = append(rt.Configs, c)
	}
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(b.Context(), b.Client())
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	}
	if err != nil {
		b.t.Fatalf("create topic %s: %v", topic, err)
	}
}

// DeleteTopic deletes a topic.
func (b *Broker) DeleteTopic(topic string) {
	b.t.Helper()
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TopicNames = []string{topic}
	rt := kmsg.NewDeleteTopicsRequestTopic()
	rt.Topic = &topic
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(b.Context(), b.Client())
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	}
	if err != nil {
		b.t.Fatalf("delete topic %s: %v", topic, err)
	}
	b.forget() // a producer's sequence numbers outlive the topic in these brokers
}

// SetPartitions raises the number of partitions of a topic.
func (b *Broker) SetPartitions(topic string, n int32) {
	b.t.Helper()
	req := kmsg.NewPtrCreatePartitionsRequest()
	rt := kmsg.NewCreatePartitionsRequestTopic()
	rt.Topic, rt.Count = topic, n
	req.Topics = append(req.Topics, rt)
	req.TimeoutMillis = 10_000
	resp, err := req.RequestWith(b.Context(), b.Client())
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	}
	if err != nil {
		b.t.Fatalf("raise the partitions of %s to %d: %v", topic, n, err)
	}
	b.forget() // it would not see them for minutes
}

// DeleteRecords removes the records before an offset, as retention does.
func (b *Broker) DeleteRecords(topic string, partition int32, before int64) {
	b.t.Helper()
	req := kmsg.NewPtrDeleteRecordsRequest()
	rt := kmsg.NewDeleteRecordsRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewDeleteRecordsRequestTopicPartition()
	rp.Partition, rp.Offset = partition, before
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(b.Context(), b.Client())
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
	}
	if err != nil {
		b.t.Fatalf("delete the records of partition %d of %s before %d: %v", partition, topic, before, err)
	}
}

// Move gives the leadership of a partition to the next broker.
func (b *Broker) Move(topic string, partition int32) {
	b.t.Helper()
	node := (b.LeaderFor(topic, partition) + 1) % int32(len(b.ports))
	if err := b.MoveTopicPartition(topic, partition, node); err != nil {
		b.t.Fatalf("move partition %d of %s to broker %d: %v", partition, topic, node, err)
	}
}

// Count counts requests of a kind, by their Kafka key, until the test ends.
func (b *Broker) Count(key int16) func() int {
	var mu sync.Mutex
	n := 0
	b.ControlKey(key, func(kmsg.Request) (kmsg.Response, error, bool) {
		mu.Lock()
		defer mu.Unlock()
		n++
		return nil, nil, false
	})
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
}

// Break closes the connection on the next n requests of a kind.
func (b *Broker) Break(key int16, n int) {
	for range n {
		b.ControlKey(key, func(kmsg.Request) (kmsg.Response, error, bool) {
			return nil, fmt.Errorf("broken by the test"), true
		})
	}
}
