package kafka

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"
)

// worker fetches from one leader, over some slots. Its fields are guarded by
// the fetcher's mutex.
type worker struct {
	f      *Fetcher
	addr   string
	feeds  map[*feed]struct{}
	slots  []*slot
	cancel context.CancelFunc
	unused int
	seen   map[int32]bool // of ready: no partition is asked for twice in one request
	// notBefore spaces requests whose answers are small, so that a trickle of
	// records costs some hundred requests a second and not as many as fit.
	notBefore time.Time
	active    time.Time // when records last came, or a wait was broken off
}

// slot is one connection of a worker, with one request out at a time. The first
// asks with the long wait. The others are for partitions that get room, or are
// opened, while it waits: they ask with a short wait. It grows once nothing has
// come from this leader for a second; a request that waits long is broken off
// when a partition would have to wait for it, at most once a second.
type slot struct {
	w     *worker
	index int
	link  *link
	wake  chan struct{}

	asked       []*feed // what is out, empty where nothing is
	sent        time.Time
	wait        time.Duration
	interrupted bool
}

const (
	shortWait  = 50 * time.Millisecond
	spacing    = 4 * time.Millisecond
	smallBytes = 32 << 10
	quiet      = time.Second
	emptyPause = 20 * time.Millisecond // after an answer with nothing that came too early
)

// start begins a worker. The caller holds the mutex.
func (f *Fetcher) start(ctx context.Context, g *errgroup.Group, addr string) *worker {
	ctx, cancel := context.WithCancel(ctx)
	w := &worker{f: f, addr: addr, feeds: make(map[*feed]struct{}), cancel: cancel, seen: make(map[int32]bool)}
	f.workers[addr] = w
	for i := range f.opts.Lanes {
		s := &slot{w: w, index: i, link: newLink(f.cfg, addr), wake: make(chan struct{}, 1), wait: shortWait}
		w.slots = append(w.slots, s)
		g.Go(func() error {
			defer s.link.drop()
			s.run(ctx)
			return nil
		})
	}
	return w
}

// poke tells the slots that a partition may be ready. The caller holds the
// mutex.
func (w *worker) poke() {
	for _, s := range w.slots {
		if len(s.asked) == 0 {
			poke(s.wake)
		}
	}
	last := w.slots[len(w.slots)-1]
	for _, s := range w.slots {
		if len(s.asked) == 0 {
			return
		}
	}
	if last.wait > shortWait && !last.interrupted && len(w.ready(time.Now(), nil)) > 0 {
		last.interrupted = true
		last.link.interrupt()
	}
}

// ready appends the partitions that can be asked for. The caller holds the
// mutex.
func (w *worker) ready(now time.Time, list []*feed) []*feed {
	full := w.f.buffered >= w.f.opts.Buffer
	clear(w.seen)
	for d := range w.feeds {
		if d.flying || d.dead || len(d.queue) >= queueDepth || full && len(d.queue) > 0 || d.retryAt.After(now) || w.seen[d.partition] {
			continue
		}
		w.seen[d.partition] = true
		if d.alone {
			return append(list[:0], d)
		}
		list = append(list, d)
	}
	return list
}

func (s *slot) run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for ctx.Err() == nil {
		req, sleep := s.take(time.Now())
		if req == nil {
			timer.Reset(sleep)
			select {
			case <-ctx.Done():
				return
			case <-s.wake:
			case <-timer.C:
			}
			continue
		}
		parts, err := s.link.fetch(ctx, req.fetch, &s.w.f.buffers)
		if ctx.Err() != nil {
			s.abandon()
			return
		}
		s.settle(req, parts, err)
	}
}

// request is a fetch request with what it was made of.
type request struct {
	fetch   *fetchRequest
	feeds   []*feed
	offsets []int64
}

// take makes the next request, or says how long nothing is to be done unless
// the slot is woken.
func (s *slot) take(now time.Time) (*request, time.Duration) {
	w, f := s.w, s.w.f
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, before := range w.slots[:s.index] {
		if len(before.asked) == 0 {
			return nil, time.Second // it will
		}
	}
	if d := w.notBefore.Sub(now); d > 0 {
		return nil, d
	}
	feeds := w.ready(now, nil)
	if len(feeds) == 0 {
		return nil, w.nextRetry(now)
	}
	wait := f.opts.MaxWait
	if s.index > 0 {
		wait = min(s.wait, wait)
	}
	share := int32(min(max(f.opts.Buffer/(len(w.feeds)*(queueDepth+1)), leastBytes), busyBytes))
	req := &request{feeds: feeds, offsets: make([]int64, len(feeds))}
	partitions := make([]asked, len(feeds))
	for i, d := range feeds {
		limit := d.maxBytes
		if limit <= busyBytes {
			limit = min(limit, share)
		}
		partitions[i] = asked{d.partition, d.next, limit, d.epoch}
		req.offsets[i] = d.next
		d.flying = true
	}
	total := int32(answerBytes)
	if len(feeds) == 1 {
		total = max(total, partitions[0].maxBytes)
	}
	req.fetch = &fetchRequest{wait: wait, maxBytes: total, partitions: partitions}
	s.asked, s.sent, s.interrupted = feeds, now, false
	for _, after := range w.slots[s.index+1:] {
		if len(after.asked) == 0 {
			poke(after.wake)
		}
	}
	return req, 0
}

// nextRetry is how long until a partition may be asked for again.
func (w *worker) nextRetry(now time.Time) time.Duration {
	wait := time.Minute
	for d := range w.feeds {
		if r := d.retryAt.Sub(now); r > 0 {
			wait = min(wait, r)
		}
	}
	return wait
}

// abandon ends a request whose answer is not awaited any more.
func (s *slot) abandon() {
	s.w.f.mu.Lock()
	defer s.w.f.mu.Unlock()
	for _, d := range s.asked {
		d.flying = false
	}
	s.asked = nil
}

// settle takes the answer to a request.
func (s *slot) settle(req *request, parts []answered, err error) {
	w, f := s.w, s.w.f
	spans := make([]span, len(req.feeds))
	own := make([]*answered, len(req.feeds)) // by feed, nil for one left out
	total := 0
	for i, d := range req.feeds {
		for j := range parts {
			if p := &parts[j]; p.partition == d.partition {
				own[i], spans[i] = p, measure(p.records, req.offsets[i])
				total += spans[i].size
			}
		}
	}
	defer func() {
		for _, p := range parts { // what no feed has taken
			f.buffers.put(p.records)
		}
	}()

	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	s.asked = nil
	interrupted := s.interrupted
	s.interrupted = false
	progress := false
	for i, d := range req.feeds {
		d.flying = false
		switch {
		case d.dead || d.worker != w:
		case err == nil && own[i] != nil:
			progress = d.answer(now, own[i], req.offsets[i], spans[i]) || progress
		case err == nil: // left out of the answer
		case interrupted:
		case errors.Is(err, errGarbled):
			d.garbled(now, err, len(req.feeds))
		default:
			d.stray(now, err)
		}
	}
	switch {
	case progress || interrupted:
		s.wait, w.active = shortWait, now
		if err == nil && total < smallBytes {
			w.notBefore = s.sent.Add(spacing)
		}
	case err == nil:
		if now.Sub(s.sent) < shortWait/2 {
			w.notBefore = now.Add(emptyPause)
		}
		if now.Sub(w.active) > quiet {
			s.wait = min(2*s.wait, f.opts.MaxWait)
		} else {
			s.wait = shortWait
		}
	}
	w.poke()
}
