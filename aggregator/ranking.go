package aggregator

import (
	"bytes"
	"context"
	"errors"
	"sort"
	"sync/atomic"
	"time"

	"tidemark/event"
)

// A ranking keeps the first rows of an order over one partition, so that they
// need not be looked for among all keys each time they are asked for. It is of
// the store as of the last apply: rows, in order, come before floor, and every
// other key does not, or is not above the bar. What is folded since is looked at
// when it is asked (see news): a key that was behind can only have come to the
// front if its ceiling has. Those keys are contenders, and their totals are read;
// where they are many, those of the highest, and the bar is raised to the others.
// Applies carry the ranking on in the same way.
//
// Its fields are under totals.mu, but news. The slice rows, and what it holds, do
// not change.
type ranking struct {
	order Order
	rows  []Leader[[]byte] // of their totals
	floor *Leader[[]byte]  // nil where there is none
	bar   bar
	limit int           // rows that are wanted of it
	asked *atomic.Int64 // when they were wanted last, in Unix seconds

	ceilings *ceilings     // of the store and the frozen delta
	frozen   []contender   // in the frozen delta
	behind   chan struct{} // not nil until the ceilings are raised by the frozen delta; closed then
	news     news
}

// reach is how far rankings look beyond the rows that are asked for.
type reach struct {
	spare int // rows that are kept besides, as far as spareBytes go
	carry int // keys without a row that are read to carry a ranking over an apply
	ask   int // and to answer, where that is enough
	// changes are noted for who asks, or as many as there are pending keys; where
	// there were more since, all of those are looked at.
	changes int
	slice   int // pending keys that are looked at under the lock at once
}

var defaultReach = reach{spare: 500, carry: 1024, ask: 64, changes: 1 << 15, slice: 512}

const (
	spareBytes = 1 << 20 // a partition
	// maxRankings bounds the orders that a partition keeps a ranking of, and
	// forgetRanking for how long it is kept up that nobody asks for.
	maxRankings   = 8
	forgetRanking = time.Minute
)

// sure is how many of rows, which are in order, no other key comes before.
func (s *sieve) sure(rows []Leader[[]byte], b bar) int {
	return sort.Search(len(rows), func(i int) bool { return !b.clears(s, &rows[i].Value) })
}

// reaches says whether limit rows are sure, or all there are.
func (r *ranking) reaches(limit int) bool {
	return r.floor == nil && !r.bar.set || r.ceilings.sure(r.rows, r.bar) >= limit
}

// forgotten says whether nobody has asked for a ranking in a while.
func forgotten(asked *atomic.Int64) bool {
	return time.Since(time.Unix(asked.Load(), 0)) > forgetRanking
}

// line is the height that a key must reach to pass the floor.
func (r *ranking) line() height {
	if r.floor == nil {
		return lowest
	}
	return r.ceilings.floor(&r.floor.Value)
}

// passed raises the ceilings by a delta that is frozen, and finds its best more
// contenders beside the rows.
func (r *ranking) passed(d *Delta, more int) contenders {
	in := contenders{limit: len(r.rows) + more, line: r.line(), bar: r.bar}
	var v event.Value
	for row, hash := range d.hashed() {
		if h := r.ceilings.merge(hash, r.ceilings.height(&v, &d.memory, row)); in.takes(h) {
			in.add(h, string(d.appendKey(nil, row)))
		}
	}
	in.prune()
	return in
}

// settle finds the rows before the floor. get reads a key's total from the
// store, which has the first parts already where applied is set.
func (t *totals) settle(o Order, c *contest, applied bool, get func(dst, key []byte) ([]byte, bool, error)) (rows []Leader[[]byte], err error) {
	rows = make([]Leader[[]byte], 0, len(c.keys))
	for key, k := range c.keys {
		parts := k.parts
		if !k.known {
			if k.stored, _, err = get(nil, []byte(key)); err != nil {
				return nil, err
			}
			k.read = true
			c.keys[key] = k
			if applied {
				parts[0] = nil
			}
		}
		row, err := t.row(o, []byte(key), k.stored, parts)
		if err != nil {
			return nil, err
		}
		if row.Of != nil && (c.floor == nil || rowsCompare(o, &row, c.floor) < 0) {
			rows = append(rows, row)
		}
	}
	sortRows(o, rows)
	return rows, nil
}

// row is the row of a key whose total is in parts, of which any may be empty.
func (t *totals) row(o Order, key, stored []byte, parts [2][]byte) (row Leader[[]byte], err error) {
	row.Key = key
	if row.Of, err = t.merge(stored, parts[0], parts[1]); err != nil || row.Of == nil {
		return row, err
	}
	sum := t.total.Get().(*Total)
	defer t.total.Put(sum)
	if err := sum.only(row.Of, o.Column); err != nil {
		return row, err
	}
	row.Value = sum.Value(o.Column, key)
	row.Value.Bytes = bytes.Clone(row.Value.Bytes)
	return row, nil
}

// cut returns the first limit rows, and more where they are few bytes, with the
// floor that is below them then.
func cut(rows []Leader[[]byte], floor *Leader[[]byte], limit, spare int) ([]Leader[[]byte], *Leader[[]byte]) {
	size := 0
	for i, row := range rows {
		size += len(row.Key) + len(row.Of)
		if i >= limit && (size > spareBytes || i >= limit+spare) {
			return rows[:i:i], &row
		}
	}
	return rows, floor
}

// first returns the first limit rows of an order, and the position that they
// are as of. slots bounds how many partitions are looked through at once.
// ErrClosing where the store is closed.
func (t *totals) first(ctx context.Context, o Order, limit int, slots chan struct{}) (rows []Leader[[]byte], position int64, err error) {
	s, known := t.program.newSieve(o)
	for drawn := false; known; {
		if rows, position, err = t.ranked(ctx, o, limit); rows != nil || err != nil {
			return rows, position, err
		}
		if drawn {
			break // it could not be kept
		}
		if drawn, err = t.await(ctx, s, limit, slots); err != nil {
			return nil, 0, err
		}
	}
	leave, err := t.turn(ctx.Done(), slots)
	if err != nil {
		return nil, 0, ctx.Err()
	}
	defer leave()
	return t.lookThrough(ctx, o, limit)
}

// ranked returns the first limit rows of an order, or all there are, from a
// ranking; nil where none is kept, or where it does not reach so far.
func (t *totals) ranked(ctx context.Context, o Order, limit int) (rows []Leader[[]byte], position int64, err error) {
	for more := t.reach.ask; ; {
		for t.follow(o) { // the lock is given back in between
		}
		var c *contest
		var r *ranking
		var behind chan struct{}
		s, open := t.look(func(frozen, active *Delta) {
			if r = t.rankings[o]; r == nil {
				return
			}
			r.asked.Store(time.Now().Unix())
			if behind = r.behind; behind == nil {
				c = r.contest(frozen, active, limit+more)
			}
		})
		if !open {
			return nil, 0, ErrClosing
		}
		if c == nil {
			t.done()
			if behind == nil {
				return nil, 0, nil
			}
			select {
			case <-behind:
				continue
			case <-ctx.Done():
				return nil, 0, ctx.Err()
			}
		}
		rows, past, err := t.seen(s, r, c)
		t.done()
		switch {
		case err != nil:
			return nil, 0, err
		case past: // an apply came between
		case c.floor == nil && !c.bar.set || r.ceilings.sure(rows, c.bar) >= limit:
			return rows[:min(limit, len(rows))], s.position, nil
		case c.all:
			return nil, 0, nil
		default:
			more *= 16
		}
	}
}

// follow lets the ranking of an order look at some of what changed since it was
// asked last; more says that there is more.
func (t *totals) follow(o Order) (more bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	r := t.rankings[o]
	if r == nil || r.behind != nil {
		return false
	}
	r.news.mu.Lock()
	defer r.news.mu.Unlock()
	return r.follow(t.active, t.reach.slice)
}

// seen is settle with the store as s has it; past where an apply came between.
func (t *totals) seen(s sight, r *ranking, c *contest) (rows []Leader[[]byte], past bool, err error) {
	unknown := false
	for _, k := range c.keys {
		unknown = unknown || !k.known
	}
	if !unknown {
		rows, err = t.settle(r.order, c, false, nil)
		return rows, false, err
	}
	v, applied, err := s.view()
	if v == nil {
		return nil, true, err
	}
	rows, err = t.settle(r.order, c, applied, v.Get)
	if err == nil && !s.frozen {
		r.learn(c, s.first[1])
	} else if err == nil && !applied {
		r.learn(c, s.first[0])
	}
	return rows, false, errors.Join(err, v.Close())
}

// froze lets rankings know of a delta that is being frozen, and returns those that
// are behind it until raiseCeilings: nobody is answered by them meanwhile. The caller
// holds mu.
func (t *totals) froze(d *Delta) (behind []*ranking) {
	for o, r := range t.rankings {
		if forgotten(r.asked) {
			delete(t.rankings, o)
			continue
		}
		r.behind = make(chan struct{})
		behind = append(behind, r)
	}
	if t.draft != nil && t.draft.begun {
		t.draft.note(d)
	}
	return behind
}

// raiseCeilings raises the ceilings of a ranking that is behind by a frozen delta. It
// takes a tenth of a microsecond for a key and more, so nothing waits for it but
// who asks for this ranking.
func (t *totals) raiseCeilings(r *ranking, frozen *Delta) {
	in := r.passed(frozen, t.reach.carry)
	t.mu.Lock()
	defer t.mu.Unlock()
	r.bar, r.frozen = in.bar, in.list
	r.anew(t.reach.carry)
	close(r.behind)
	r.behind = nil
}

// carry makes the rankings those of the store with the frozen delta, which it
// holds by now, and calls commit with mu held as soon as they are.
func (t *totals) carry(commit func()) {
	done := map[*ranking][]Leader[[]byte]{} // their rows after the apply; nil for those that are dropped
	for {
		t.mu.Lock()
		next := map[*ranking]*contest{}
		for _, r := range t.rankings {
			if _, ok := done[r]; !ok {
				next[r] = r.carried(t.frozen)
			}
		}
		if len(next) == 0 {
			break
		}
		t.mu.Unlock()
		for r := range next {
			done[r] = nil
		}
		// What cannot be read here is read, and said, when it is asked for.
		_ = t.viewed(func(_ Store, v View) error {
			for r, c := range next {
				if rows, err := t.settle(r.order, c, true, v.Get); err == nil {
					done[r] = rows
				}
			}
			return nil
		})
	}
	defer t.mu.Unlock()
	for o, r := range t.rankings {
		if r.rows, r.floor = cut(done[r], r.floor, r.limit, t.reach.spare); done[r] == nil || !r.reaches(r.limit) {
			delete(t.rankings, o)
		}
		r.frozen = nil
	}
	commit()
}

// lookThrough finds the first rows among all keys, of the store and the deltas.
func (t *totals) lookThrough(ctx context.Context, o Order, limit int) (rows []Leader[[]byte], position int64, err error) {
	for {
		var of *Delta // frozen: it does not change, and is not used anew while it is pinned
		var now pile
		s, open := t.look(func(frozen, active *Delta) {
			if of = frozen; of != nil {
				of.pin()
			}
			now = active.pile()
		})
		if !open {
			return nil, 0, ErrClosing
		}
		c := &contest{keys: make(map[string]candidate, len(now.ends)/2)}
		now.each(func(key, total []byte) {
			c.keys[string(key)] = candidate{parts: [2][]byte{1: total}}
		})
		if of != nil {
			before := of.pile()
			of.unpin()
			before.each(func(key, total []byte) {
				k := c.keys[string(key)]
				k.parts[0] = total
				c.keys[string(key)] = k
			})
		}
		v, applied, err := s.view()
		if v != nil {
			rows, err = t.mergeThrough(ctx, v, o, limit, c, applied)
			err = errors.Join(err, v.Close())
		}
		t.done()
		if v != nil || err != nil {
			return rows, s.position, err
		}
	}
}

// mergeThrough finds the first rows among all keys of a view and of a contest.
func (t *totals) mergeThrough(ctx context.Context, v View, o Order, limit int, c *contest, applied bool) ([]Leader[[]byte], error) {
	first := NewLeaders[[]byte](o, limit)
	err := t.each(ctx.Err, v, o, func(sum *Total, key, total []byte) {
		if _, changed := c.keys[string(key)]; changed {
			return
		}
		if value := sum.valueOf(o.Column, key); first.Takes(value, key) {
			first.Offer(*value, key, bytes.Clone(total))
		}
	})
	if err != nil {
		return nil, err
	}
	rows, err := t.settle(o, c, applied, v.Get)
	for _, row := range rows {
		first.Offer(row.Value, row.Key, row.Of)
	}
	return first.Rows(), err
}

// each reads all keys of a view; sum has what Value of the order's column needs.
// It ends with stop's error, and with ErrClosing where the store is wanted
// closed: who lets the partition go waits for no look at all keys.
func (t *totals) each(stop func() error, v View, o Order, f func(sum *Total, key, total []byte)) error {
	sum := t.total.Get().(*Total)
	defer t.total.Put(sum)
	n := 0
	for key, total := range v.Scan(nil) {
		if n++; n%1024 == 0 {
			if err := stop(); err != nil {
				return err
			}
			if t.closing() {
				return ErrClosing
			}
		}
		if err := sum.only(total, o.Column); err != nil {
			return err
		}
		f(sum, key, total)
	}
	return v.Err()
}
