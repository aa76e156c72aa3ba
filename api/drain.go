package api

import (
	"context"
	"sync"
)

// drain tells requests that go on and on when the member is leaving.
type drain struct {
	mu      sync.Mutex
	begun   bool
	next    int
	cancels map[int]context.CancelFunc
}

// begin ends what was bound, and from then on everything that will be.
func (d *drain) begin() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.begun = true
	for _, cancel := range d.cancels {
		cancel()
	}
	d.cancels = nil
}

func (d *drain) hasBegun() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.begun
}

// bind derives a context that ends with the drain.
func (d *drain) bind(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.begun {
		cancel()
		return ctx, cancel
	}
	if d.cancels == nil {
		d.cancels = map[int]context.CancelFunc{}
	}
	d.next++
	id := d.next
	d.cancels[id] = cancel
	return ctx, func() {
		cancel()
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.cancels, id)
	}
}
