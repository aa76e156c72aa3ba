package aggregator

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"tidemark/event"
)

// A draft is a ranking that is being made: all keys of the store are looked
// through while folding and applies go on, and what they change meanwhile is
// noted.
type draft struct {
	sieve
	takes int64   // bytes, of its ceilings
	notes []noted // under totals.mu: of deltas frozen since they were taken
}

// noted is what one key gained: its height, and the hash of the key.
type noted struct {
	key    string
	hash   uint32
	height height
}

// note notes what a delta holds. The caller holds totals.mu.
func (d *draft) note(delta *Delta) {
	var v event.Value
	for row, hash := range delta.hashed() {
		d.notes = append(d.notes, noted{string(delta.appendKey(nil, row)), hash, d.height(&v, &delta.memory, row)})
	}
}

// rank makes the ranking of an order with limit rows or more, where it can be
// kept, and there is memory for it. One goroutine at a time.
func (t *totals) rank(ctx context.Context, s sieve, limit int) error {
	d := t.begin(s)
	if t.rankRoom != nil && !t.rankRoom() {
		t.end()
		return nil
	}
	r, position, err := t.drawUp(ctx, s, limit)
	if err != nil {
		t.end()
		return err
	}
	return t.finish(ctx, r, d, position)
}

// begin begins a draft; end, or finish, ends it.
func (t *totals) begin(s sieve) *draft {
	keys, _ := t.size()
	d := &draft{sieve: s, takes: ceilingBytes(keys)}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.draft = d
	if t.frozen != nil {
		d.note(t.frozen) // the store may have it, or not
	}
	return d
}

func (t *totals) end() {
	t.mu.Lock()
	t.draft = nil
	t.mu.Unlock()
}

// finish makes r, which is as of position, a ranking of the store as it is now,
// and keeps it where it can be kept.
func (t *totals) finish(ctx context.Context, r *ranking, d *draft, position int64) error {
	defer t.end()
	var changed []string
	for ctx.Err() == nil {
		notes, done := t.keep(r, d, changed, position)
		if done {
			return nil
		}
		in := contenders[string]{limit: len(r.rows) + t.reach.carry, line: r.line(), bar: r.bar}
		for _, n := range notes {
			in.add(r.ceilings.merge(n.hash, n.height), n.key)
		}
		in.prune()
		r.bar = in.bar
		for i := range in.list {
			changed = append(changed, in.list[i].of)
		}
		var err error
		if position, err = t.reread(r, changed); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// drawUp makes a ranking of all keys of the store, as of position.
func (t *totals) drawUp(ctx context.Context, s sieve, limit int) (r *ranking, position int64, err error) {
	r = &ranking{order: s.order, limit: limit, asked: new(atomic.Int64)}
	r.asked.Store(time.Now().Unix())
	err = t.viewed(func(store Store, v View) error {
		if position, err = v.Position(); err != nil {
			return err
		}
		r.ceilings = newCeilings(s, store.Keys())
		first := NewLeaders[[]byte](r.order, r.limit+t.reach.spare+1)
		line := lowest // that a row must reach to be among the first
		raises := make([]raise, 0, 64)
		var raw event.Value
		err := t.each(ctx, v, r.order, func(sum *Total, key, total []byte) {
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
func (t *totals) keep(r *ranking, d *draft, changed []string, position int64) (notes []noted, done bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.store == nil || t.draft != d {
		return nil, true // who asks is told so, or looks again
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
		t.rankings[r.order] = r
	}
	return nil, true
}

// ranksTake is what the ceilings take of the rankings that are asked for, and of
// the one that is being made; others are dropped.
func (t *totals) ranksTake() (bytes int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for o, r := range t.rankings {
		if r.forgotten() {
			delete(t.rankings, o)
			continue
		}
		bytes += 4 * int64(len(r.ceilings.table))
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
func (t *totals) reread(r *ranking, changed []string) (position int64, err error) {
	err = t.viewed(func(_ Store, v View) error {
		if position, err = v.Position(); err != nil {
			return err
		}
		c := &contest{keys: map[string][2][]byte{}, floor: r.floor}
		for _, key := range changed {
			c.keys[key] = [2][]byte{}
		}
		for i := range r.rows {
			c.keys[string(r.rows[i].Key)] = [2][]byte{}
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
