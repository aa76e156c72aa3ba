package aggregator

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"sync/atomic"
	"time"
)

// A ranking keeps the first rows of an order over one partition, so that they
// need not be looked for among all keys each time they are asked for. It is of
// the store as of the last apply: rows, in order, come before floor, and every
// other key comes after it. What is folded since is looked at when it is asked:
// a key behind the floor can only pass it by what was merged into it, which the
// growth of the column bounds. So the few keys that gained most are read, and
// the floor sinks for the others; where it has sunk too far, all keys are
// looked through again. Applies carry it on in the same way.
//
// A ranking does not change; another takes its place.
type ranking struct {
	order  Order
	growth growth
	rows   []Leader[[]byte] // of their totals
	floor  *floor           // nil where rows are all keys
	limit  int              // rows that are wanted of it
	reach  reach
	asked  *atomic.Int64 // when they were wanted last, in Unix seconds

	known map[string]struct{} // the keys of rows
}

// reach is how far a ranking looks.
type reach struct {
	spare   int // rows that are kept beyond those asked for, as far as spareBytes go
	gainers int // keys that gained most of which the totals are read, at first
}

var defaultReach = reach{spare: 500, gainers: 64}

const (
	spareBytes = 1 << 20
	// maxRankings bounds the orders that a partition keeps a ranking of, and
	// forgetRanking for how long it is kept up that nobody asks for.
	maxRankings   = 8
	forgetRanking = time.Minute
)

// with is r with other rows, in any order, of which those count that come
// before f.
func (r *ranking) with(rows []Leader[[]byte], f *floor) *ranking {
	next := *r
	next.rows = slices.DeleteFunc(rows, func(row Leader[[]byte]) bool { return f != nil && rowsCompare(r.order, &row, f) >= 0 })
	next.floor = f
	sortRows(r.order, next.rows)
	return &next
}

// reaches says whether limit rows are sure.
func (r *ranking) reaches(limit int) bool { return r.floor == nil || len(r.rows) >= limit }

// kept is r as it is kept: not too many rows, and found by their keys.
func (r *ranking) kept() *ranking {
	next := *r
	size := 0
	for i := range r.rows {
		size += len(r.rows[i].Key) + len(r.rows[i].Of)
		if i >= r.limit && (size > spareBytes || i >= r.limit+r.reach.spare) {
			next.rows = r.rows[:i:i]
			next.floor = &floor{Value: r.rows[i].Value, Key: r.rows[i].Key}
			break
		}
	}
	next.known = make(map[string]struct{}, len(next.rows))
	for i := range next.rows {
		next.known[string(next.rows[i].Key)] = struct{}{}
	}
	return &next
}

// pending is what deltas hold that may change a ranking.
type pending struct {
	rows  [][2][]byte          // of each row of the ranking: its totals in the deltas
	keys  map[string][2][]byte // of the keys behind the floor that gained most
	sinks []*Leader[int]       // the best total that is in neither, for each delta that has one
}

// pending gathers what deltas, of which each may be nil, change: of keys behind
// the floor the n that gained most in each.
func (r *ranking) pending(n int, deltas [2]*Delta) *pending {
	p := &pending{rows: make([][2][]byte, len(r.rows)), keys: map[string][2][]byte{}}
	for _, d := range deltas {
		if d == nil {
			continue
		}
		most, next := r.gained(d, n)
		for _, row := range most {
			p.keys[string(d.appendKey(nil, d.row(row.Of)))] = [2][]byte{}
		}
		if next != nil {
			p.sinks = append(p.sinks, next)
		}
	}
	for i, d := range deltas {
		if d == nil {
			continue
		}
		for j := range r.rows {
			p.rows[j][i], _ = d.Get(nil, r.rows[j].Key)
		}
		for key, totals := range p.keys {
			totals[i], _ = d.Get(nil, []byte(key))
			p.keys[key] = totals
		}
	}
	return p
}

// gained returns the n rows of a delta whose answers come first, without those
// of the ranking, and the one after them.
func (r *ranking) gained(d *Delta, n int) (most []Leader[int], next *Leader[int]) {
	first := NewLeaders[int](r.order, n+1)
	byKey := r.growth == anyhow // its value may be read from the key
	var key []byte
	for i := range d.rows {
		row := d.row(i)
		if row[rowFlags]&flagTouched == 0 {
			continue
		}
		if byKey {
			key = d.appendKey(key[:0], row)
		}
		v := d.program.value(&d.memory, row, key, r.order.Column)
		if !first.Takes(&v, nil) {
			continue
		}
		if !byKey {
			key = d.appendKey(key[:0], row)
		}
		if _, known := r.known[string(key)]; !known {
			first.Offer(v, nil, i)
		}
	}
	most = first.Rows()
	if len(most) > n {
		return most[:n], &most[n]
	}
	return most, nil
}

// after is the ranking with what is pending merged into it. get reads a key's
// total from the store; it has what is pending of the first delta already
// where applied is set. ok is false where what is pending tells too little: more
// of it would tell more.
func (t *totals) after(r *ranking, p *pending, applied bool, get func(dst, key []byte) ([]byte, bool, error)) (next *ranking, ok bool, err error) {
	f := r.floor
	for _, s := range p.sinks {
		if f, ok = r.growth.sink(r.order, f, &s.Value); !ok {
			return nil, false, nil
		}
	}
	rows := make([]Leader[[]byte], 0, len(r.rows)+len(p.keys))
	for i := range r.rows {
		row := r.rows[i]
		if totals := p.rows[i]; totals[0] != nil || totals[1] != nil {
			if row, err = t.row(r.order, row.Key, row.Of, totals); err != nil {
				return nil, false, err
			}
		}
		rows = append(rows, row)
	}
	for key, totals := range p.keys {
		stored, _, err := get(nil, []byte(key))
		if err != nil {
			return nil, false, err
		}
		if applied {
			totals[0] = nil
		}
		row, err := t.row(r.order, []byte(key), stored, totals)
		if err != nil {
			return nil, false, err
		}
		rows = append(rows, row)
	}
	return r.with(rows, f), true, nil
}

// row is the row of a key whose total is in parts, of which any may be empty.
func (t *totals) row(o Order, key, stored []byte, pending [2][]byte) (row Leader[[]byte], err error) {
	if row.Of, err = t.merge(stored, pending[0], pending[1]); err != nil {
		return row, err
	}
	sum := t.total.Get().(*Total)
	defer t.total.Put(sum)
	if err := sum.only(row.Of, o.Column); err != nil {
		return row, err
	}
	row.Key, row.Value = key, sum.Value(o.Column, key)
	row.Value.Bytes = bytes.Clone(row.Value.Bytes)
	return row, nil
}

// first returns the first limit rows of an order, and the position that they
// are as of. slots bounds how many partitions are looked through at once.
// ErrClosing where the store is closed.
func (t *totals) first(ctx context.Context, o Order, limit int, slots chan struct{}) (rows []Leader[[]byte], position int64, err error) {
	found := func() bool {
		var r *ranking
		if r, position, err = t.ranked(o, limit); r != nil {
			rows = r.rows[:min(limit, len(r.rows))]
		}
		return r != nil || err != nil
	}
	if found() {
		return rows, position, err
	}
	select { // one at a time: who asks for the same finds it
	case t.ranks <- struct{}{}:
		defer func() { <-t.ranks }()
	case <-ctx.Done():
		return nil, 0, ctx.Err()
	}
	for keep := limit; !found(); keep *= 2 { // more, should they not last until they are asked for
		if err := t.rank(ctx, o, keep, slots); err != nil {
			return nil, 0, err
		}
	}
	return rows, position, err
}

// ranked is the ranking of an order now, with limit rows or all there are; nil
// where none is kept, or where it does not reach so far.
func (t *totals) ranked(o Order, limit int) (*ranking, int64, error) {
	for n := t.reach.gainers; ; {
		var kept *ranking
		var p *pending
		s, open := t.look(func(frozen, active *Delta) {
			if kept = t.rankings[o]; kept != nil {
				p = kept.pending(n, [2]*Delta{frozen, active})
			}
		})
		if !open {
			return nil, 0, ErrClosing
		}
		if kept == nil {
			t.done()
			return nil, 0, nil
		}
		kept.asked.Store(time.Now().Unix())
		r, ok, past, err := t.seen(s, kept, p)
		t.done()
		switch {
		case err != nil:
			return nil, 0, err
		case past:
		case ok && r.reaches(limit):
			return r, s.position, nil
		case len(p.sinks) == 0:
			return nil, 0, nil
		default:
			n *= 16
		}
	}
}

// seen is after, with the store as s has it; past where an apply came between.
func (t *totals) seen(s sight, kept *ranking, p *pending) (r *ranking, ok, past bool, err error) {
	v, applied, err := s.view()
	if v == nil {
		return nil, false, true, err
	}
	r, ok, err = t.after(kept, p, applied, v.Get)
	return r, ok, false, errors.Join(err, v.Close())
}

// carry is what an apply makes of the rankings. Each is carried over the frozen
// delta, which the store holds by now; those that nobody wants, and those that
// do not reach far enough any more, are dropped. A ranking that is being made
// is told what the delta changes.
func (t *totals) carry(rankings map[Order]*ranking, making *ranking, frozen *Delta, store Store) (next map[Order]*ranking, note *pending) {
	deltas := [2]*Delta{frozen}
	for o, r := range rankings {
		if time.Since(time.Unix(r.asked.Load(), 0)) > forgetRanking {
			continue
		}
		// What cannot be read here is read, and said, when it is asked for.
		if r, ok, err := t.after(r, r.pending(r.reach.gainers, deltas), true, store.Get); err == nil && ok && r.reaches(r.limit) {
			if next == nil {
				next = map[Order]*ranking{}
			}
			next[o] = r.kept()
		}
	}
	if making != nil {
		note = making.pending(making.notes(), deltas)
	}
	return next, note
}

// notes is how many of the keys that gained most are noted of an apply while a
// ranking is made.
func (r *ranking) notes() int {
	if r.growth == anyhow {
		return math.MaxInt - 1
	}
	return 16 * r.reach.gainers
}

// rank makes a ranking of keep rows, or more. It looks through all keys of the
// store while applies go on, and then reads again those that they may have
// changed.
func (t *totals) rank(ctx context.Context, o Order, keep int, slots chan struct{}) error {
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	making := &ranking{order: o, growth: t.program.growth(o.Column), limit: keep, reach: t.reach, asked: new(atomic.Int64)}
	making.asked.Store(time.Now().Unix())
	t.make(making)
	defer t.make(nil)
	r, position, err := t.lookThrough(ctx, making)
	if err != nil {
		return err
	}
	changed := map[string]struct{}{} // by applies since
	for seen := 0; ; {
		done, notes := t.keep(r, position, seen)
		if done {
			return nil
		}
		f := r.floor
		for _, p := range notes {
			for key := range p.keys {
				changed[key] = struct{}{}
			}
			for _, s := range p.sinks {
				f, _ = r.growth.sink(o, f, &s.Value) // where nothing is sure, all keys are noted
			}
		}
		seen += len(notes)
		for i := range r.rows {
			changed[string(r.rows[i].Key)] = struct{}{}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if r, position, err = t.reread(r, changed, f); err != nil {
			return err
		}
	}
}

// make lets applies know that a ranking is being made, nil for no longer.
func (t *totals) make(r *ranking) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.making, t.notes = r, nil
	t.turns++
}

// keep keeps r, which is as of position, where the store is there still; else it
// returns what applies have noted since there were so many.
func (t *totals) keep(r *ranking, position int64, seen int) (done bool, notes []*pending) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.store == nil {
		return true, nil // who asks is told so
	}
	if position != t.progress.Position || len(t.notes) > seen {
		return false, t.notes[seen:]
	}
	next := maps.Clone(t.rankings)
	if next == nil {
		next = map[Order]*ranking{}
	}
	next[r.order] = r.kept()
	for len(next) > maxRankings {
		oldest := r.order
		for o, other := range next {
			if other.asked.Load() < next[oldest].asked.Load() || oldest == r.order {
				oldest = o
			}
		}
		delete(next, oldest)
	}
	t.rankings = next
	t.turns++
	return true, nil
}

// lookThrough finds the first rows among all keys of the store, as of position.
func (t *totals) lookThrough(ctx context.Context, r *ranking) (found *ranking, position int64, err error) {
	v, done, err := t.storeView()
	if err != nil {
		return nil, 0, err
	}
	defer func() {
		err = errors.Join(err, v.Close())
		done()
	}()
	if position, err = v.Position(); err != nil {
		return nil, 0, err
	}
	first := NewLeaders[[]byte](r.order, r.limit+r.reach.spare+1)
	sum := t.total.Get().(*Total)
	defer t.total.Put(sum)
	n := 0
	for key, total := range v.Scan(nil) {
		if n++; n%1024 == 0 && ctx.Err() != nil {
			return nil, 0, ctx.Err()
		}
		if err := sum.only(total, r.order.Column); err != nil {
			return nil, 0, err
		}
		if value := sum.Value(r.order.Column, key); first.Takes(&value, key) {
			first.Offer(value, key, bytes.Clone(total))
		}
	}
	rows := first.Rows()
	var f *floor
	if len(rows) > r.limit+r.reach.spare {
		last := rows[len(rows)-1]
		f = &last
	}
	return r.with(rows, f), position, v.Err()
}

// reread is r with a floor, and with the totals that keys have in the store by
// now.
func (t *totals) reread(r *ranking, keys map[string]struct{}, f *floor) (again *ranking, position int64, err error) {
	v, done, err := t.storeView()
	if err != nil {
		return nil, 0, err
	}
	defer func() {
		err = errors.Join(err, v.Close())
		done()
	}()
	if position, err = v.Position(); err != nil {
		return nil, 0, err
	}
	rows := make([]Leader[[]byte], 0, len(keys))
	for key := range keys {
		stored, found, err := v.Get(nil, []byte(key))
		if err != nil {
			return nil, 0, err
		}
		if !found {
			continue // it is folded, and not applied yet
		}
		row, err := t.row(r.order, []byte(key), stored, [2][]byte{})
		if err != nil {
			return nil, 0, err
		}
		rows = append(rows, row)
	}
	return r.with(rows, f), position, nil
}

// storeView opens a view of the store; done is to be called after it is closed.
func (t *totals) storeView() (v View, done func(), err error) {
	s, open := t.look(func(_, _ *Delta) {})
	if !open {
		return nil, nil, ErrClosing
	}
	if v, err = s.store.View(); err != nil {
		t.done()
		return nil, nil, err
	}
	return v, t.done, nil
}
