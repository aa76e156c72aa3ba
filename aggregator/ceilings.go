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
// goes by the hash of the key: keys that share a place share what they add, so a
// ceiling may be too high, which costs a look at the key's total, and never too
// low.
type ceilings struct {
	sieve
	table []height
}

const minCeilings = 1 << 10

// places is how long the table for so many keys is.
func places(keys int64) int64 {
	n := int64(minCeilings)
	for n < 2*keys && n < 1<<30 {
		n *= 2
	}
	return n
}

// ceilingBytes is what the table for so many keys takes.
func ceilingBytes(keys int64) int64 { return 4 * places(keys) }

// newCeilings has room for about so many keys.
func newCeilings(s sieve, keys int64) *ceilings {
	c := &ceilings{sieve: s, table: make([]height, places(keys))}
	for i := range c.table {
		c.table[i] = lowest
	}
	return c
}

func (c *ceilings) place(hash uint32) *height { return &c.table[hash&uint32(len(c.table)-1)] }

// of is the ceiling of a key.
func (c *ceilings) of(key []byte) height {
	w0, w1 := keyWords(key)
	return *c.place(c.program.hash(key, w0, w1))
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
		at := c.place(r.hash)
		*at = max(*at, r.height)
	}
}

// merged is the ceiling of a key once a total of height h is merged into its own.
func (c *ceilings) merged(hash uint32, h height) height {
	is := *c.place(hash)
	if c.adds && h > 0 && is > lowest {
		return max(up(float64(is)+float64(h)), h)
	}
	return max(is, h)
}

// merge is merged, and notes it.
func (c *ceilings) merge(hash uint32, h height) height {
	h = c.merged(hash, h)
	*c.place(hash) = h
	return h
}
