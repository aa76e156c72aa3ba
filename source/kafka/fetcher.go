package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"tidemark/aggregator"
)

// FetchOptions are the tunables of a Fetcher; the zero value works.
type FetchOptions struct {
	Lanes    int           // connections to each leader, at least 2; 0 is 2
	Buffer   int           // bytes fetched ahead, all partitions together, about; 0 is 32 MiB
	MaxWait  time.Duration // that a broker holds back an empty answer; 0 is 500 ms
	Watchdog time.Duration // without a batch although there are records; 0 is 30 s
}

const (
	firstBytes  = 1 << 20  // asked for per partition,
	busyBytes   = 2 << 20  // and where it has much more
	leastBytes  = 64 << 10 // where many partitions share the buffer
	answerBytes = 50 << 20 // asked for per request
	queueDepth  = 2        // blocks fetched ahead per partition
	refresh     = 10 * time.Second
	goneAfter   = 5 * time.Second // without a topic, until a feed says so
)

func (o FetchOptions) withDefaults() FetchOptions {
	o.Lanes = max(o.Lanes, 2)
	if o.Buffer == 0 {
		o.Buffer = 32 << 20
	}
	if o.MaxWait == 0 {
		o.MaxWait = 500 * time.Millisecond
	}
	if o.Watchdog == 0 {
		o.Watchdog = 30 * time.Second
	}
	return o
}

// Fetcher reads the partitions of the topic, whole record batches at a time. It
// is an aggregator.Log. Open may be called before and during Run; records come
// while Run runs.
//
// Each leader has a worker with some connections of its own, and each
// connection has one request out at a time, for all partitions that have room
// in their queues and are not asked for already. So a partition that is slow to
// be folded holds up no other.
type Fetcher struct {
	client *Client
	cfg    Config
	opts   FetchOptions
	log    *slog.Logger
	route  chan struct{} // a partition wants a leader

	buffers buffers // of records

	mu       sync.Mutex // guards all below, and the state of feeds and workers
	feeds    map[*feed]struct{}
	workers  map[string]*worker
	buffered int // bytes
	stopped  bool
}

// NewFetcher returns a fetcher that finds leaders through client.
func NewFetcher(client *Client, opts FetchOptions) *Fetcher {
	return &Fetcher{
		client:  client,
		cfg:     client.cfg,
		opts:    opts.withDefaults(),
		log:     client.cfg.logger(),
		route:   make(chan struct{}, 1),
		feeds:   make(map[*feed]struct{}),
		workers: make(map[string]*worker),
	}
}

var _ aggregator.Log = (*Fetcher)(nil)

// Topic describes the topic, as Client does.
func (f *Fetcher) Topic(ctx context.Context) (aggregator.Topic, error) { return f.client.Topic(ctx) }

// Bounds asks for the bounds of a partition, as Client does.
func (f *Fetcher) Bounds(ctx context.Context, partition int32) (start, end int64, err error) {
	return f.client.Bounds(ctx, partition)
}

// Open starts reading partition at offset.
func (f *Fetcher) Open(partition int32, offset int64) aggregator.Feed {
	d := &feed{
		f:         f,
		partition: partition,
		next:      offset,
		maxBytes:  firstBytes,
		hungry:    time.Now(),
		wake:      make(chan struct{}, 1),
	}
	f.mu.Lock()
	f.feeds[d] = struct{}{}
	f.mu.Unlock()
	poke(f.route)
	return d
}

// poke wakes who waits on c, now or when he next waits.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // he will wake anyway
	}
}

// Run fetches until ctx ends; then it returns nil. An error says that a
// partition with records to read gets none, although its broker answers.
func (f *Fetcher) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return f.routes(ctx, g) })
	g.Go(func() error { return f.watch(ctx) })
	err := g.Wait()

	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopped = true
	for d := range f.feeds {
		poke(d.wake)
	}
	return err
}

// routes finds the leaders of partitions that have none, and looks now and then
// whether the topic is still the same.
func (f *Fetcher) routes(ctx context.Context, g *errgroup.Group) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var described time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-f.route:
		case <-timer.C:
		}
		due, wait := f.homeless(time.Now())
		if due || f.busy() && time.Since(described) >= refresh {
			l, err := f.client.cluster.describe(ctx)
			if ctx.Err() != nil {
				return nil
			}
			described = time.Now()
			f.assign(ctx, g, l, err)
			f.retire()
			_, wait = f.homeless(time.Now())
		}
		timer.Reset(wait)
	}
}

// homeless says whether a partition is to be given a leader now, and otherwise
// how long until then.
func (f *Fetcher) homeless(now time.Time) (due bool, wait time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	wait = refresh
	for d := range f.feeds {
		if d.worker == nil && !d.dead {
			if w := d.retryAt.Sub(now); w > 0 {
				wait = min(wait, w)
			} else {
				due = true
			}
		}
	}
	return due, wait
}

func (f *Fetcher) busy() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.feeds) > 0
}

// assign takes what a broker said of the topic.
func (f *Fetcher) assign(ctx context.Context, g *errgroup.Group, l *layout, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	for d := range f.feeds {
		if d.dead {
			continue
		}
		if err == nil && d.topicID == "" {
			d.topicID = l.id
		}
		if err == nil && d.topicID != l.id {
			d.fail(fmt.Errorf("topic %s was deleted and created again: %w", f.cfg.Topic, aggregator.ErrNoTopic), true)
			continue
		}
		if d.worker != nil || d.retryAt.After(now) {
			continue
		}
		switch {
		case errors.Is(err, aggregator.ErrNoTopic):
			d.unknown(now, err)
		case err != nil:
			d.stray(now, err)
		case int(d.partition) >= len(l.leaders):
			d.unknown(now, fmt.Errorf("partition %d of topic %s: %w", d.partition, f.cfg.Topic, aggregator.ErrNoTopic))
		case l.leaders[d.partition].addr == "":
			d.stray(now, errors.New("the partition has no leader now"))
		case d.outAt == l.leaders[d.partition]:
			d.fail(fmt.Errorf("read partition %d at offset %d: %w", d.partition, d.next, aggregator.ErrOutOfRange), true)
		default:
			lead := l.leaders[d.partition]
			w := f.workers[lead.addr]
			if w == nil {
				w = f.start(ctx, g, lead.addr)
			}
			d.worker, d.epoch = w, lead.epoch
			w.feeds[d] = struct{}{}
			w.poke()
		}
	}
}

// retire ends workers whose broker leads nothing that is read.
func (f *Fetcher) retire() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for addr, w := range f.workers {
		if len(w.feeds) == 0 {
			if w.unused++; w.unused > 3 {
				w.cancel()
				delete(f.workers, addr)
			}
		} else {
			w.unused = 0
		}
	}
}

// watch ends the process where nothing else helps: sarama and brokers have had
// livelocks before. Where a partition gets no batch for a while, although its
// leader says that there is one, all connections are made anew; the second time
// it is an error.
func (f *Fetcher) watch(ctx context.Context) error {
	tick := time.NewTicker(f.opts.Watchdog / 4)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		for _, d := range f.starving(time.Now()) {
			if err := f.rescue(ctx, d); err != nil {
				return err
			}
		}
	}
}

// starving returns the feeds whose reader waits for too long.
func (f *Fetcher) starving(now time.Time) (list []*feed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for d := range f.feeds {
		if !d.dead && d.err == nil && len(d.queue) == 0 && now.Sub(d.hungry) >= f.opts.Watchdog && !d.loading(now) {
			list = append(list, d)
		}
	}
	return list
}

// rescue looks whether the feed could have records, and acts.
func (f *Fetcher) rescue(ctx context.Context, d *feed) error {
	start, end, err := f.client.Bounds(ctx, d.partition)
	if err != nil {
		return nil // the broker is away: that is waited for
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if d.dead || len(d.queue) > 0 || time.Since(d.hungry) < f.opts.Watchdog {
		return nil // it went on meanwhile
	}
	if d.next < start || d.next >= end {
		d.hungry = time.Now()
		return nil
	}
	if d.rescued {
		return fmt.Errorf("partition %d of topic %s has records from %d to %d to read, and none came in %s, also over new connections",
			d.partition, f.cfg.Topic, d.next, end, 2*f.opts.Watchdog)
	}
	f.log.Warn("no batch comes although there are records; connecting anew", "partition", d.partition, "position", d.next, "end", end)
	for other := range f.feeds {
		other.home(nil)
	}
	for _, w := range f.workers {
		for _, s := range w.slots {
			s.link.interrupt()
		}
	}
	d.rescued, d.hungry = true, time.Now()
	poke(f.route)
	return nil
}
