package aggregator

import (
	"math"
	"sync"

	"tidemark/event"
)

// A contest is among the keys that may be the first rows, with what is known of
// their totals.
type contest struct {
	keys  map[string]candidate
	floor *Leader[[]byte]
	bar   bar
	all   bool // no contender was left out
}

// candidate is what is known of the total of a key.
type candidate struct {
	known  bool      // stored is that of the store below the deltas
	read   bool      // and was read for this contest
	stored []byte    // nil where the store has none
	parts  [2][]byte // of the frozen and the active delta
}

// news is what a ranking knows of the deltas, and of the store, besides its rows.
// It is gathered by those who ask; an apply takes it away.
type news struct {
	mu     sync.Mutex
	active contenders // of the active delta
	seen   int64      // up to where its changes were looked at; -1 is nowhere
	next   int        // of its rows from here on
	end    int        // up to here: all that there were when changes had been lost
	stored map[string][]byte
	at     int64 // the position of the store that stored is of
	bytes  int
}

// anew begins with an active delta of which nothing was looked at. The caller
// holds totals.mu.
func (r *ranking) anew(carry int) {
	n := &r.news
	n.active = contenders{limit: len(r.rows) + carry, line: r.line(), bar: r.bar}
	n.seen, n.next, n.end = -1, 0, 0
}

// follow looks at up to limit keys of the active delta that changed since they
// were looked at last; more says that there are others. The caller holds
// totals.mu, for reading at least, and news.mu.
func (r *ranking) follow(d *Delta, limit int) (more bool) {
	n := &r.news
	if n.seen < d.lost {
		n.seen, n.next, n.end = d.noted(), 0, d.rows
	}
	c := climb{r: r, d: d, in: &n.active}
	for ; limit > 0 && n.next < n.end; limit-- {
		c.look(d.row(n.next))
		n.next++
	}
	for ; limit > 0 && n.seen < d.noted(); limit-- {
		c.look(d.row(int(d.changes[n.seen-d.lost])))
		n.seen++
	}
	return n.next < n.end || n.seen < d.noted()
}

// climb is what raises the keys of a delta by what it holds of them.
type climb struct {
	r  *ranking
	d  *Delta
	in *contenders
	v  event.Value
}

// look takes the key of a row in, where it may have come to the front.
func (c *climb) look(row []uint64) {
	if row[rowFlags]&flagTouched == 0 {
		return
	}
	h := c.r.ceilings.merged(c.d.hashOf(row), c.r.ceilings.height(&c.v, &c.d.memory, row))
	if c.in.takes(h) {
		c.in.add(h, string(c.d.appendKey(nil, row)))
	}
}

// contest is among the rows and the contenders of a ranking, of which it takes
// the highest limit. frozen may be nil. The caller holds totals.mu, for reading
// at least.
func (r *ranking) contest(frozen, active *Delta, limit int) *contest {
	n := &r.news
	n.mu.Lock()
	defer n.mu.Unlock()
	r.follow(active, math.MaxInt)
	in := contenders{limit: limit, line: lowest, bar: n.active.bar}
	for _, from := range [...][]contender{n.active.list, r.frozen} {
		for _, c := range from {
			in.add(c.height, c.key)
		}
	}
	for i := range r.rows {
		key := r.rows[i].Key
		in.add(r.ceilings.of(key), string(key))
	}
	in.prune()
	c := &contest{keys: make(map[string]candidate, len(in.list)), floor: r.floor, bar: in.bar, all: in.bar == n.active.bar}
	for i := range in.list {
		c.keys[in.list[i].key] = candidate{}
	}
	r.tell(c, frozen, active)
	return c
}

// carried is the contest among all rows and contenders, for an apply of frozen.
// The caller holds totals.mu.
func (r *ranking) carried(frozen *Delta) *contest {
	c := &contest{keys: make(map[string]candidate, len(r.rows)+len(r.frozen)), floor: r.floor, bar: r.bar}
	for i := range r.rows {
		c.keys[string(r.rows[i].Key)] = candidate{}
	}
	for i := range r.frozen {
		c.keys[r.frozen[i].key] = candidate{}
	}
	r.news.mu.Lock()
	defer r.news.mu.Unlock()
	r.tell(c, frozen, nil)
	return c
}

// tell tells a contest what is known of its keys: by rows, by what was read
// before, and by the deltas, which may be nil. The caller holds news.mu.
func (r *ranking) tell(c *contest, frozen, active *Delta) {
	at := base(frozen, active)
	for key, k := range c.keys {
		if r.news.at == at {
			k.stored, k.known = r.news.stored[key]
		}
		for i, d := range [...]*Delta{frozen, active} {
			if d != nil {
				k.parts[i], _ = d.Get(nil, []byte(key))
			}
		}
		c.keys[key] = k
	}
	for i := range r.rows {
		if k, in := c.keys[string(r.rows[i].Key)]; in {
			k.stored, k.known = r.rows[i].Of, true
			c.keys[string(r.rows[i].Key)] = k
		}
	}
}

// base is the position of the store below two deltas, of which one may be nil.
func base(frozen, active *Delta) int64 {
	if frozen != nil {
		return frozen.First
	}
	return active.First
}

// learn keeps the totals that a contest has read from the store at a position.
func (r *ranking) learn(c *contest, at int64) {
	n := &r.news
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.at > at {
		return
	}
	if n.at != at || n.stored == nil {
		n.stored, n.at, n.bytes = map[string][]byte{}, at, 0
	}
	for key, k := range c.keys {
		if _, in := n.stored[key]; k.read && !in && n.bytes < spareBytes {
			n.stored[key] = k.stored
			n.bytes += len(key) + len(k.stored)
		}
	}
}

// A pile is what a delta holds at a moment, in no order.
type pile struct {
	bytes []byte // keys and totals by turns
	ends  []int  // of each
}

// pile copies what the delta holds. It is quick: folding waits for it.
func (d *Delta) pile() pile {
	p := pile{ends: make([]int, 0, 2*d.live)}
	for i := range d.rows {
		row := d.row(i)
		if row[rowFlags]&flagTouched == 0 {
			continue
		}
		p.bytes = d.appendKey(p.bytes, row)
		p.ends = append(p.ends, len(p.bytes))
		p.bytes = d.program.appendTotal(p.bytes, &d.memory, row)
		p.ends = append(p.ends, len(p.bytes))
	}
	return p
}

// each calls f with every key and its total.
func (p *pile) each(f func(key, total []byte)) {
	at := 0
	for i := 0; i < len(p.ends); i += 2 {
		key, end := p.ends[i], p.ends[i+1]
		f(p.bytes[at:key:key], p.bytes[key:end:end])
		at = end
	}
}
