package aggregator

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"tidemark/event"
)

// A draft is a ranking that is being made: all keys of the store are looked
// through while folding and applies go on, and what they change meanwhile is
// noted. It belongs to totals, not to the requests that wait for it: it goes on
// when they give up, and the next finds what it came to.
type draft struct {
	sieve
	limit   int           // rows that are wanted of it; under totals.mu until it has begun
	begun   bool          // under totals.mu: it has its slots, and notes
	asked   *atomic.Int64 // as of the ranking
	waiting atomic.Int32  // requests
	done    chan struct{} // closed at its end
	err     error         // once done is closed
	takes   int64         // bytes, of its ceilings and notes; under totals.mu
	notes   []noted       // under totals.mu: of deltas frozen since they were taken
}

// errUnwanted ends a draft that nobody waits for, or has asked for in a while.
var errUnwanted = errors.New("nobody asks for it any more")

func (d *draft) wanted() error {
	if d.waiting.Load() == 0 && forgotten(d.asked) {
		return errUnwanted
	}
	return nil
}

// noted is what one key gained: its height, and the hash of the key.
type noted struct {
	key    string
	hash   uint32
	height height
}

// notedBytes is what a note takes besides its key.
const notedBytes = 32

// note notes what a delta holds. The caller holds totals.mu.
func (d *draft) note(delta *Delta) {
	var v event.Value
	var key []byte
	d.notes = slices.Grow(d.notes, delta.Len())
	for row, hash := range delta.hashed() {
		key = delta.appendKey(key[:0], row)
		d.notes = append(d.notes, noted{string(key), hash, d.height(&v, &delta.memory, row)})
		d.takes += int64(notedBytes + len(key))
	}
}

// await waits for the draft of an order with limit rows or more, which it begins
// where none is under way; drawn says that it came to its end. Where another one
// is under way, it waits for that.
func (t *totals) await(ctx context.Context, s sieve, limit int, slots chan struct{}) (drawn bool, err error) {
	d, fits := t.join(s, limit, slots)
	if d == nil {
		return false, ErrClosing
	}
	defer d.waiting.Add(-1)
	select {
	case <-d.done:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	if !fits || d.err == errUnwanted {
		return false, nil
	}
	return true, d.err
}

// join returns the draft under way, or begins one, for a request that waits for
// it: fits says whether it is what is wanted. The draft is nil where the store is
// closed.
func (t *totals) join(s sieve, limit int, slots chan struct{}) (d *draft, fits bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.store == nil {
		return nil, false
	}
	if d = t.draft; d == nil {
		d = &draft{sieve: s, limit: limit, asked: new(atomic.Int64), done: make(chan struct{})}
		t.draft = d
		t.readers.Add(1) // close waits for it
		go t.rank(d, t.closed, slots)
	}
	d.waiting.Add(1)
	if d.order != s.order {
		return d, false
	}
	d.asked.Store(time.Now().Unix())
	if !d.begun {
		d.limit = max(d.limit, limit)
	}
	return d, d.limit >= limit
}

// rank makes the ranking of a draft, where it can be kept, and there is memory
// for it. It ends early once closed is, or nobody wants it.
func (t *totals) rank(d *draft, closed <-chan struct{}, slots chan struct{}) {
	defer t.readers.Done()
	leave, err := t.turn(closed, slots)
	if err == nil {
		if err = d.wanted(); err == nil {
			err = t.draw(d)
		}
		leave()
	}
	t.mu.Lock()
	t.draft = nil
	t.mu.Unlock()
	d.err = err
	close(d.done)
}

// turn waits for a slot of this partition, and for one among all, until stop is
// closed; leave gives them back.
func (t *totals) turn(stop <-chan struct{}, slots chan struct{}) (leave func(), err error) {
	select {
	case t.through <- struct{}{}:
	case <-stop:
		return nil, ErrClosing
	}
	select {
	case slots <- struct{}{}:
		return func() { <-slots; <-t.through }, nil
	case <-stop:
		<-t.through
		return nil, ErrClosing
	}
}

// draw looks through all keys.
func (t *totals) draw(d *draft) error {
	t.begin(d)
	if t.rankRoom != nil && !t.rankRoom() {
		return nil
	}
	r, position, err := t.drawUp(d)
	if err != nil {
		return err
	}
	return t.finish(r, d, position)
}

// begin lets a draft take notes.
func (t *totals) begin(d *draft) {
	keys, _ := t.size()
	t.mu.Lock()
	defer t.mu.Unlock()
	d.takes, d.begun = ceilingBytes*places(keys), true
	if t.frozen != nil {
		d.note(t.frozen) // the store may have it, or not
	}
}

// finish makes r, which is as of position, a ranking of the store as it is now,
// and keeps it where it can be kept.
func (t *totals) finish(r *ranking, d *draft, position int64) error {
	var changed []contender
	for {
		notes, done := t.keep(r, d, changed, position)
		if done {
			return nil
		}
		if err := d.wanted(); err != nil {
			return err
		}
		in := contenders{limit: len(r.rows) + t.reach.carry, line: r.line(), bar: r.bar}
		for _, n := range notes {
			in.add(r.ceilings.merge(n.hash, n.height), n.key)
		}
		in.prune()
		r.bar = in.bar
		changed = append(changed, in.list...)
		var err error
		if position, err = t.reread(r, changed); err != nil {
			return err
		}
	}
}

// drawUp makes a ranking of all keys of the store, as of position.
func (t *totals) drawUp(d *draft) (r *ranking, position int64, err error) {
	s := d.sieve
	r = &ranking{order: s.order, limit: d.limit, asked: d.asked}
	err = t.viewed(func(store Store, v View) error {
		if position, err = v.Position(); err != nil {
			return err
		}
		r.ceilings = newCeilings(s, store.Keys())
		first := NewLeaders[[]byte](r.order, r.limit+t.reach.spare+1)
		line := lowest // that a row must reach to be among the first
		raises := make([]raise, 0, 64)
		var raw event.Value
		err := t.each(d.wanted, v, r.order, func(sum *Total, key, total []byte) {
			value := sum.valueOf(r.order.Column, key)
			h := s.heightOf(value)
			if s.raw != nil {
				h = s.height(&raw, &sum.memory, sum.row)
			}
			w0, w1 := keyWords(key)
			if len(raises) == cap(raises) {
				r.ceilings.raiseAll(raises)
				raises = raises[:0]
			}
			raises = append(raises, raise{t.program.hash(key, w0, w1), h})
			if h < line || !first.Takes(value, key) {
				return
			}
			first.Offer(*value, key, bytes.Clone(total))
			if last, full := first.last(); full {
				line = s.floor(last)
			}
		})
		r.ceilings.raiseAll(raises)
		r.rows, r.floor = cut(first.Rows(), nil, r.limit, t.reach.spare)
		return err
	})
	return r, position, err
}

// keep keeps r, which is as of position, where no notes are left; else it returns
// those. Where the store was closed meanwhile nothing is kept: what another
// member has folded since is noted nowhere.
func (t *totals) keep(r *ranking, d *draft, changed []contender, position int64) (notes []noted, done bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.store == nil {
		return nil, true // who asks is told so
	}
	notes, d.notes = d.notes, nil
	if len(notes) > 0 || position != t.progress.Position {
		return notes, false
	}
	if t.frozen != nil {
		r.frozen = changed
	}
	if t.rankings == nil {
		t.rankings = map[Order]*ranking{}
	}
	if len(t.rankings) >= maxRankings {
		t.forgetOldest()
	}
	if r.reaches(r.limit) {
		r.anew(t.reach.carry)
		t.rankings[r.order] = r
		t.active.note(t.reach.changes)
	}
	return nil, true
}

// ranksTake is what the ceilings take of the rankings that are asked for, and what
// the one takes that is being made; others are dropped.
func (t *totals) ranksTake() (bytes int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for o, r := range t.rankings {
		if forgotten(r.asked) {
			delete(t.rankings, o)
			continue
		}
		bytes += ceilingBytes * int64(len(r.ceilings.table))
	}
	if t.draft != nil {
		bytes += t.draft.takes
	}
	return bytes
}

// forgetOldest drops the ranking that was not asked for the longest. The caller
// holds mu.
func (t *totals) forgetOldest() {
	var oldest *ranking
	for _, r := range t.rankings {
		if oldest == nil || r.asked.Load() < oldest.asked.Load() {
			oldest = r
		}
	}
	delete(t.rankings, oldest.order)
}

// reread reads the rows of r, and the keys that may have passed its floor, anew,
// as of position.
func (t *totals) reread(r *ranking, changed []contender) (position int64, err error) {
	err = t.viewed(func(_ Store, v View) error {
		if position, err = v.Position(); err != nil {
			return err
		}
		c := &contest{keys: map[string]candidate{}, floor: r.floor}
		for i := range changed {
			c.keys[changed[i].key] = candidate{}
		}
		for i := range r.rows {
			c.keys[string(r.rows[i].Key)] = candidate{}
		}
		rows, err := t.settle(r.order, c, true, v.Get)
		r.rows, r.floor = cut(rows, r.floor, r.limit, t.reach.spare)
		return err
	})
	return position, err
}

// viewed calls f with the store and a view of it.
func (t *totals) viewed(f func(store Store, v View) error) error {
	s, open := t.look(func(_, _ *Delta) {})
	if !open {
		return ErrClosing
	}
	defer t.done()
	v, err := s.store.View()
	if err != nil {
		return err
	}
	return errors.Join(f(s.store, v), v.Close())
}
