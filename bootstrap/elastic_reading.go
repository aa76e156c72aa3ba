package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
)

const (
	// maxInFlight is about how many bytes of pages are held at once.
	maxInFlight = 64 << 20
	// pagesPerSlice is how many of them a slice has: one is read while the
	// documents of the other are taken.
	pagesPerSlice = 2
	// lastRequest is how long a request may take that closes a snapshot, or
	// that has begun to open one when the read ends.
	lastRequest = 5 * time.Second
)

// reading is one pass over a snapshot.
type reading struct {
	*Elastic
	found *found

	slices  []cursor
	close   func(context.Context) error // closes the snapshot on the server
	counts  bool                        // whether the opening has told the counts
	total   int64                       // documents of the snapshot
	indices map[string]int64            // and of each index, nil where it is not known
	read    int64
	counted map[string]*int64 // read, by index
}

// cursor walks one slice of a snapshot. It belongs to one goroutine at a time.
type cursor interface {
	// next reads the next page; one without documents is the end.
	next(ctx context.Context, p *page) error
	// unsure says whether a page was asked for again that may have been passed
	// by: the counts show whether it was.
	unsure() bool
}

// run opens the snapshot, yields its documents, compares the counts, and
// closes the snapshot.
func (r *reading) run(ctx context.Context, yield func(*Document) error) error {
	defer r.end(ctx)
	if err := r.begin(ctx); err != nil {
		return r.fail("open a snapshot of", r.orMissing(err))
	}
	first, err := r.firstPages(ctx)
	if err != nil {
		return r.fail("open a snapshot of", r.orMissing(err))
	}
	if err := r.stream(ctx, first, yield); err != nil {
		return err
	}
	return r.fail("read", r.compare())
}

// begin opens a point in time, or prepares scrolls.
func (r *reading) begin(ctx context.Context) error {
	if r.found.pits {
		err := r.openPIT(ctx)
		if !errors.Is(err, errNoPITs) {
			return err
		}
		r.log.Info("the history's server has no points in time, scrolls are read", "history", r.Name(), "server", r.found.server, "err", err)
	}
	r.prepareScrolls()
	return nil
}

// end closes the snapshot, also where ctx has ended.
func (r *reading) end(ctx context.Context) {
	if r.close == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastRequest)
	defer cancel()
	if err := r.close(ctx); err != nil {
		r.log.Warn("the history's snapshot is not closed on the server, which drops it after a while", "history", r.Name(), "keep_alive", r.keep(), "err", err)
	}
}

// keep is how long the server is to keep the snapshot, in its own notation.
func (e *Elastic) keep() string {
	return fmt.Sprintf("%ds", max(1, int(time.Duration(e.keepAlive.Load()).Seconds())))
}

// keepLonger is for the read after one whose snapshot was dropped.
func (e *Elastic) keepLonger() {
	e.keepAlive.Store(max(e.keepAlive.Load(), min(2*e.keepAlive.Load(), int64(maxKeepAlive))))
}

// firstPages reads the first page of every slice, which for scrolls opens
// them and tells their totals.
func (r *reading) firstPages(ctx context.Context) ([]*page, error) {
	first := make([]*page, len(r.slices))
	work, within := errgroup.WithContext(ctx)
	for i, c := range r.slices {
		first[i] = &page{}
		work.Go(func() error { return c.next(within, first[i]) })
	}
	if err := work.Wait(); err != nil || r.counts {
		return first, err
	}
	for _, p := range first {
		if err := r.take(p); err != nil {
			return first, err
		}
	}
	return first, nil
}

// take takes the counts of a page that has them.
func (r *reading) take(p *page) error {
	if !p.exact {
		return hopeless("the server does not say exactly how many documents there are")
	}
	counts, err := perIndex(p.aggs)
	if err != nil {
		return err
	}
	r.total += p.total
	for index, n := range counts {
		if r.indices == nil {
			r.indices = map[string]int64{}
		}
		r.indices[index] += n
	}
	return nil
}

// flow is what the goroutines of a pass share.
type flow struct {
	pages  chan *page
	budget *semaphore.Weighted // bytes of pages
}

// stream reads the slices side by side and yields their documents from the
// calling goroutine.
func (r *reading) stream(ctx context.Context, first []*page, yield func(*Document) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f := &flow{make(chan *page), semaphore.NewWeighted(maxInFlight)}
	work, within := errgroup.WithContext(ctx)
	for i, c := range r.slices {
		p := first[i]
		p.home = make(chan *page, pagesPerSlice)
		for range pagesPerSlice - 1 {
			p.home <- &page{home: p.home}
		}
		work.Go(func() error { return r.walk(within, c, p, f) })
	}
	ended := make(chan error, 1)
	go func() {
		err := work.Wait()
		close(f.pages)
		ended <- err
	}()
	var refused error
	doc := Document{Total: r.total}
	for p := range f.pages {
		if refused == nil {
			if refused = r.deliver(ctx, p, &doc, yield); refused != nil {
				cancel()
			}
		}
		f.budget.Release(p.held)
		p.held = 0
		p.home <- p
	}
	if err := <-ended; refused == nil {
		return r.fail("read", err)
	}
	return refused
}

// walk reads one slice to its end, of which p is the first page. A page is
// asked for when there is room for one as long as the one before.
func (r *reading) walk(ctx context.Context, c cursor, p *page, f *flow) error {
	for len(p.hits) > 0 {
		room := min(int64(len(p.body)), maxInFlight)
		select {
		case f.pages <- p:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := f.budget.Acquire(ctx, room); err != nil {
			return err
		}
		select {
		case p = <-p.home:
		case <-ctx.Done():
			return ctx.Err()
		}
		p.held = room
		if err := c.next(ctx, p); err != nil {
			return err
		}
	}
	f.budget.Release(p.held)
	return nil
}

// deliver yields the documents of a page.
func (r *reading) deliver(ctx context.Context, p *page, doc *Document, yield func(*Document) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for i := range p.hits {
		h := &p.hits[i]
		n := r.counted[string(h.index)]
		if n == nil {
			n = new(int64)
			r.counted[string(h.index)] = n
		}
		*n++
		if r.read++; r.read > r.total {
			return r.fail("read", r.differs(fmt.Errorf("more documents come than the %d of the snapshot", r.total)))
		}
		if h.source == nil {
			return r.fail("read", hopeless("document %q of index %s has no _source: the index does not keep its documents", h.name(), h.index))
		}
		doc.Source, doc.ID, doc.Read = h.source, h.name(), r.read
		if len(r.found.indices) != 1 {
			doc.Index = h.index
		}
		if err := yield(doc); err != nil {
			return err
		}
	}
	return nil
}

// compare compares what was read with what the snapshot has.
func (r *reading) compare() error {
	if r.read != r.total {
		return r.differs(fmt.Errorf("%d documents were read, and the snapshot has %d", r.read, r.total))
	}
	for _, index := range slices.Sorted(maps.Keys(r.indices)) {
		n := int64(0)
		if c := r.counted[index]; c != nil {
			n = *c
		}
		if n != r.indices[index] {
			return r.differs(fmt.Errorf("%d documents of index %s were read, and the snapshot has %d", n, index, r.indices[index]))
		}
	}
	return nil
}

// differs is what a count that differs means: where a page may have been
// passed by, that it was; else that the server cannot be read exactly.
func (r *reading) differs(err error) error {
	for _, c := range r.slices {
		if c.unsure() {
			return fmt.Errorf("%w: %w: a page was lost on the way", errLost, err)
		}
	}
	return hopeless("%w", err)
}

// outlast returns a context that goes on for a moment after ctx has ended: what
// a request opens must be known to be closed. It ends after limit.
func outlast(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(lastRequest, cancel) })
	return longer, func() {
		stop()
		cancel()
	}
}
