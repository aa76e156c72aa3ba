package kafka

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"github.com/cenkalti/backoff/v5"

	"tidemark/aggregator"
)

// cluster finds out which broker to ask, and asks it. All requests that are no
// fetch and not the group's own go through it, over connections of its own.
type cluster struct {
	cfg Config

	mu          sync.Mutex
	links       map[string]*link // by address
	brokers     []string         // addresses that metadata named
	layout      *layout          // as last described, nil where in doubt
	coordinator string           // address, "" where unknown
	closed      bool
}

// layout is the topic as one broker described it.
type layout struct {
	id      string // base64, "" where the brokers have none
	leaders []leader
}

// leader of one partition; addr is "" where there is none now.
type leader struct {
	addr  string
	epoch int32
}

func newCluster(cfg Config) *cluster {
	return &cluster{cfg: cfg, links: make(map[string]*link)}
}

// close ends all requests and connections.
func (c *cluster) close() {
	c.mu.Lock()
	c.closed = true
	links := c.links
	c.links = nil
	c.mu.Unlock()
	for _, l := range links {
		l.close()
	}
}

var errClosed = errors.New("kafka client is closed")

// link is the connection to the broker at addr.
func (c *cluster) link(addr string) (*link, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errClosed
	}
	l := c.links[addr]
	if l == nil {
		l = newLink(c.cfg, addr)
		c.links[addr] = l
	}
	return l, nil
}

// ask sends requests to the broker at addr.
func (c *cluster) ask(ctx context.Context, addr string, do func(*sarama.Broker) error) error {
	l, err := c.link(addr)
	if err != nil {
		return err
	}
	if err := l.ask(ctx, do); err != nil {
		return fmt.Errorf("ask broker %s: %w", addr, err)
	}
	return nil
}

// fetch reads a partition from offset on, at the broker at addr. The error is
// also the partition's own.
func (c *cluster) fetch(ctx context.Context, addr string, p asked, pool *buffers) (a answered, err error) {
	l, err := c.link(addr)
	if err != nil {
		return a, err
	}
	list, err := l.fetch(ctx, &fetchRequest{maxBytes: p.maxBytes, partitions: []asked{p}}, pool)
	switch {
	case err != nil:
		return a, fmt.Errorf("ask broker %s: %w", addr, err)
	case len(list) != 1 || list[0].partition != p.partition:
		return a, fmt.Errorf("the answer leaves partition %d out", p.partition)
	case list[0].err != sarama.ErrNoError:
		return a, list[0].err
	}
	return list[0], nil
}

// Bounds of asking one broker of several, and of a request with all its tries.
const (
	tryTimeout     = 5 * time.Second
	requestTimeout = 10 * time.Second
)

// any sends requests to any broker: those that metadata named in random order,
// then the bootstrap servers.
func (c *cluster) any(ctx context.Context, do func(*sarama.Broker) error) error {
	c.mu.Lock()
	addrs := slices.Clone(c.brokers)
	c.mu.Unlock()
	rand.Shuffle(len(addrs), func(i, j int) { addrs[i], addrs[j] = addrs[j], addrs[i] })
	for _, b := range c.cfg.Brokers {
		if !slices.Contains(addrs, b) {
			addrs = append(addrs, b)
		}
	}
	var errs []error
	for _, addr := range addrs {
		try, cancel := context.WithTimeout(ctx, tryTimeout)
		err := c.ask(try, addr, do)
		cancel()
		if err == nil || ctx.Err() != nil || errors.Is(err, errClosed) {
			return err
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// describe asks for the topic as it is now. aggregator.ErrNoTopic where the
// brokers know none.
func (c *cluster) describe(ctx context.Context) (*layout, error) {
	var resp *sarama.MetadataResponse
	err := c.any(ctx, func(b *sarama.Broker) (err error) {
		resp, err = b.GetMetadata(sarama.NewMetadataRequest(version, []string{c.cfg.Topic}))
		if err == nil && len(resp.Brokers) == 0 {
			err = errors.New("broker is starting: it names no brokers")
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("describe topic %s: %w", c.cfg.Topic, err)
	}
	addrs := make(map[int32]string, len(resp.Brokers))
	all := make([]string, 0, len(resp.Brokers))
	for _, b := range resp.Brokers {
		addrs[b.ID()] = b.Addr()
		all = append(all, b.Addr())
	}
	c.mu.Lock()
	c.brokers = all
	c.mu.Unlock()
	if len(resp.Topics) != 1 {
		return nil, fmt.Errorf("describe topic %s: the answer is about %d topics", c.cfg.Topic, len(resp.Topics))
	}
	t := resp.Topics[0]
	switch t.Err {
	case sarama.ErrNoError, sarama.ErrLeaderNotAvailable:
	case sarama.ErrUnknownTopicOrPartition:
		return nil, fmt.Errorf("topic %s: %w", c.cfg.Topic, aggregator.ErrNoTopic)
	default:
		return nil, fmt.Errorf("describe topic %s: %w", c.cfg.Topic, t.Err)
	}
	l := &layout{leaders: make([]leader, len(t.Partitions))}
	if t.Uuid != (sarama.Uuid{}) {
		l.id = t.Uuid.String()
	}
	for _, p := range t.Partitions {
		if p.ID < 0 || int(p.ID) >= len(l.leaders) {
			return nil, fmt.Errorf("describe topic %s: partition %d of %d", c.cfg.Topic, p.ID, len(l.leaders))
		}
		l.leaders[p.ID] = leader{addr: addrs[p.Leader], epoch: p.LeaderEpoch}
	}
	if len(l.leaders) == 0 {
		return nil, fmt.Errorf("topic %s has no partitions yet: %w", c.cfg.Topic, aggregator.ErrNoTopic)
	}
	c.mu.Lock()
	c.layout = l
	c.mu.Unlock()
	return l, nil
}

// doubt forgets what is known of leaders and coordinator.
func (c *cluster) doubt() {
	c.mu.Lock()
	c.layout, c.coordinator = nil, ""
	c.mu.Unlock()
}

// leaderOf returns the leader's address.
func (c *cluster) leaderOf(ctx context.Context, partition int32) (string, error) {
	c.mu.Lock()
	l := c.layout
	c.mu.Unlock()
	if l == nil {
		var err error
		if l, err = c.describe(ctx); err != nil {
			return "", err
		}
	}
	if partition < 0 || int(partition) >= len(l.leaders) {
		c.doubt()
		return "", fmt.Errorf("partition %d of topic %s: %w", partition, c.cfg.Topic, aggregator.ErrNoTopic)
	}
	if l.leaders[partition].addr == "" {
		c.doubt()
		return "", fmt.Errorf("partition %d of topic %s: %w", partition, c.cfg.Topic, sarama.ErrLeaderNotAvailable)
	}
	return l.leaders[partition].addr, nil
}

// atLeader sends requests to the partition's leader, and again where it has
// moved.
func (c *cluster) atLeader(ctx context.Context, partition int32, do func(*sarama.Broker) error) error {
	return c.retry(ctx, func(ctx context.Context) error {
		addr, err := c.leaderOf(ctx, partition)
		if err != nil {
			return err
		}
		return c.ask(ctx, addr, do)
	})
}

// atCoordinator sends requests to the group's coordinator, and again where it
// has moved.
func (c *cluster) atCoordinator(ctx context.Context, do func(*sarama.Broker) error) error {
	return c.retry(ctx, func(ctx context.Context) error {
		addr, err := c.findCoordinator(ctx)
		if err != nil {
			return err
		}
		return c.ask(ctx, addr, do)
	})
}

func (c *cluster) findCoordinator(ctx context.Context) (string, error) {
	c.mu.Lock()
	addr := c.coordinator
	c.mu.Unlock()
	if addr != "" {
		return addr, nil
	}
	var resp *sarama.FindCoordinatorResponse
	err := c.any(ctx, func(b *sarama.Broker) (err error) {
		resp, err = b.FindCoordinator(&sarama.FindCoordinatorRequest{
			Version: 3, CoordinatorKey: c.cfg.GroupID, CoordinatorType: sarama.CoordinatorGroup,
		})
		return err
	})
	if err == nil && resp.Err != sarama.ErrNoError {
		err = resp.Err
	}
	if err != nil {
		return "", fmt.Errorf("find the coordinator of group %s: %w", c.cfg.GroupID, err)
	}
	addr = resp.Coordinator.Addr()
	c.mu.Lock()
	c.coordinator = addr
	c.mu.Unlock()
	return addr, nil
}

// retry repeats do while its error may mend, for requestTimeout at most, with
// growing waits.
func (c *cluster) retry(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	waits := backoff.NewExponentialBackOff()
	waits.InitialInterval, waits.MaxInterval = 50*time.Millisecond, time.Second
	var last error
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := do(ctx)
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			last = err
		}
		if err == nil {
			return struct{}{}, nil
		}
		if !mends(err) {
			return struct{}{}, backoff.Permanent(err)
		}
		c.doubt()
		return struct{}{}, err
	}, backoff.WithBackOff(waits), backoff.WithMaxElapsedTime(requestTimeout))
	if err != nil && last != nil && errors.Is(err, context.DeadlineExceeded) {
		return last // says more
	}
	return err
}

// mends says whether an error may be gone when it is tried again: the broker
// was asked for what another one does, or could not be reached.
func mends(err error) bool {
	if errors.Is(err, errClosed) || errors.Is(err, aggregator.ErrNoTopic) || errors.Is(err, context.Canceled) {
		return false
	}
	var k sarama.KError
	if !errors.As(err, &k) {
		return true
	}
	switch k {
	case sarama.ErrNotLeaderForPartition, sarama.ErrLeaderNotAvailable, sarama.ErrReplicaNotAvailable,
		sarama.ErrFencedLeaderEpoch, sarama.ErrUnknownLeaderEpoch, sarama.ErrUnknownTopicOrPartition,
		sarama.ErrOffsetNotAvailable, sarama.ErrKafkaStorageError, sarama.ErrNetworkException,
		sarama.ErrBrokerNotAvailable, sarama.ErrRequestTimedOut,
		sarama.ErrNotCoordinatorForConsumer, sarama.ErrConsumerCoordinatorNotAvailable, sarama.ErrOffsetsLoadInProgress:
		return true
	}
	return false
}
