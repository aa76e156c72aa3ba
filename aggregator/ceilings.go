package aggregator

import (
	"math"

	"tidemark/event"
	"tidemark/query"
)

// A height is where a value stands in an order, rounded: more is nearer to the
// first. Nothing is lower than null.
type height = float32

var (
	lowest  = height(math.Inf(-1))
	highest = height(math.Inf(1))
)

// up is f, rounded to a height that is not below it.
func up(f float64) height {
	h := height(f)
	if float64(h) < f {
		h = math.Nextafter32(h, highest)
	}
	return h
}

func down(f float64) height { return -up(-f) }

// sieve says how high the values of an order's column may come by a merge: it
// sieves the keys that may have come to the front from those that have not. It
// is what is known of the column's aggregate.
type sieve struct {
	program *Program
	order   Order
	kind    event.Kind // of the values that it tells apart: Decimal or Timestamp
	adds    bool       // a merge is not above the sum of the heights; else not above the higher one
	raw     *column    // whose answer is looked at before its cast round it, nil for the result
	slack   float64    // by how much that cast may raise an answer
}

// newSieve returns the sieve of an order; false where nothing is known of how a
// merge changes its column.
func (p *Program) newSieve(o Order) (sieve, bool) {
	s := sieve{program: p, order: o, kind: event.Decimal}
	column := &p.def.Columns[o.Column]
	if column.Key >= 0 { // its kind depends on how the key came
		return s, false
	}
	c := &p.columns[column.Aggregate]
	if c.round != nil && c.round.Name == query.TypeTimestamp {
		s.kind = event.Timestamp
	}
	switch c.fn {
	case query.CountAll, query.Count, query.Sum, query.CollectSet:
		s.adds = true
	case query.Avg: // a mean of means lies between them
	case query.Min, query.Max, query.First, query.Last, query.MinBy, query.MaxBy:
		return s, true // it is one of both
	default:
		return s, false
	}
	if c.round != nil {
		s.raw, s.slack = c, 1 // it rounds to integers, or finer
	}
	return s, s.kind == event.Decimal && (c.round == nil || c.round.Name != query.TypeString)
}

// height is the height of a row's value, rounded up. v is room for a value.
func (s *sieve) height(v *event.Value, m *memory, row []uint64) height {
	if s.raw != nil {
		*v = event.Value{}
		s.raw.acc.answer(m, row[s.raw.word:s.raw.word+s.raw.words], v)
	} else {
		s.program.setValue(v, m, row, nil, s.order.Column)
	}
	return s.heightOf(v)
}

// heightOf is the height of an answer before the cast round it.
func (s *sieve) heightOf(v *event.Value) height {
	_, high := s.bounds(v)
	return up(high + s.slack)
}

// floor is the height of a value, rounded down.
func (s *sieve) floor(v *event.Value) height {
	low, _ := s.bounds(v)
	return down(low)
}

// bounds are two heights with that of v between them.
func (s *sieve) bounds(v *event.Value) (low, high float64) {
	switch {
	case v.IsNull():
		return math.Inf(-1), math.Inf(-1)
	case v.Kind != s.kind: // before all that are of the kind, or after them
		return math.Inf(-1), math.Inf(1)
	case v.Kind == event.Decimal:
		low, high = v.Num.Bounds()
	default:
		low, high = float64(v.Time.Sec), float64(v.Time.Sec)+1
	}
	if !s.order.Descending {
		low, high = -high, -low
	}
	return low, high
}

// ceilings hold, for every key, a height that its value is not above. The table
// goes by the hash of the key, with linear probing. Keys with the same hash share a
// ceiling, and what they add; so do those that come when the table is full, each
// with the key whose place it would have. So a ceiling may be too high, which costs
// a look at the key's total, and never too low.
type ceilings struct {
	sieve
	table []ceiling
	used  int
}

type ceiling struct {
	hash   uint32 // 0 is no key's: see find
	height height
}

const (
	minCeilings  = 1 << 10
	ceilingBytes = 8
)

// places is how long the table for so many keys is: at most two thirds are used,
// and at the end, when keys have come, seven eighths.
func places(keys int64) int64 {
	n := int64(minCeilings)
	for 2*n < 3*keys && n < 1<<30 {
		n *= 2
	}
	return n
}

// newCeilings has room for about so many keys.
func newCeilings(s sieve, keys int64) *ceilings {
	c := &ceilings{sieve: s, table: make([]ceiling, places(keys))}
	for i := range c.table {
		c.table[i].height = lowest
	}
	return c
}

// find returns the ceiling of a key by its hash, or, where it has none, the place
// for it: there the hash is 0.
func (c *ceilings) find(hash uint32) *ceiling {
	hash = max(hash, 1)
	mask := uint32(len(c.table) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		at := &c.table[i]
		switch {
		case at.hash == hash:
			return at
		case at.hash != 0:
		case c.full():
			return &c.table[hash&mask]
		default:
			return at
		}
	}
}

func (c *ceilings) full() bool { return c.used >= len(c.table)/8*7 }

// set sets a ceiling that find has found.
func (c *ceilings) set(at *ceiling, hash uint32, h height) {
	if at.hash == 0 && !c.full() {
		at.hash = max(hash, 1)
		c.used++
	}
	at.height = h
}

// of is the ceiling of a key.
func (c *ceilings) of(key []byte) height {
	w0, w1 := keyWords(key)
	return c.find(c.program.hash(key, w0, w1)).height
}

// raise is what a ceiling is to be at least.
type raise struct {
	hash   uint32
	height height
}

// raiseAll makes ceilings at least what they are to be. Each is a cache miss:
// those of some dozens that come together overlap.
func (c *ceilings) raiseAll(raises []raise) {
	for _, r := range raises {
		at := c.find(r.hash)
		c.set(at, r.hash, max(at.height, r.height))
	}
}

// merged is the ceiling of a key once a total of height h is merged into its own.
func (c *ceilings) merged(hash uint32, h height) height { return c.raised(c.find(hash).height, h) }

// raised is a ceiling once a total of height h is merged.
func (c *ceilings) raised(is, h height) height {
	if c.adds && h > 0 && is > lowest {
		return max(up(float64(is)+float64(h)), h)
	}
	return max(is, h)
}

// merge is merged, and notes it.
func (c *ceilings) merge(hash uint32, h height) height {
	at := c.find(hash)
	h = c.raised(at.height, h)
	c.set(at, hash, h)
	return h
}
