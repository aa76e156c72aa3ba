package aggregator

import (
	"encoding/binary"
	"math"

	"tidemark/event"
)

// accumulator is how one aggregate is kept in its words of a row. It holds no
// totals itself: it is immutable and shared.
//
// Folding is associative and commutative over operands: whether they come from
// events, documents or encoded totals, and in which order, the words mean the
// same, and append writes the same bytes for them.
type accumulator interface {
	// words is the number of words in a row. All zero is the zero total.
	words() int
	// fold adds o to row.
	fold(m *memory, row []uint64, o *operand)
	// append appends the encoding of row.
	append(dst []byte, m *memory, row []uint64) []byte
	// read makes o what an encoding holds, and returns what follows it. o
	// points into src.
	read(src []byte, o *operand) (rest []byte, err error)
	// answer sets v to what row answers, before a cast round the aggregate:
	// Null, False, True, Decimal, Text or Timestamp. A text is valid until row
	// changes. For a set it is the number of members.
	answer(m *memory, row []uint64, v *event.Value)
}

// operand is what one event, document or encoded total adds to one aggregate.
type operand struct {
	value event.Value // Decimal, Text, Timestamp, False or True; Missing and Null are absent
	by    event.Value // of min_by and max_by
	count uint64      // of count and avg
	at    position    // of first, last, min_by and max_by

	// Of a set: its integers of 64 bits, and its other members as encoded scalars.
	ints   []int64
	sorted bool // ints are ascending and distinct
	others [][]byte
	capped bool
	buf    []byte // may hold what others point to
}

// keptMembers is how many members' room an operand keeps: an event of millions
// must not be remembered for ever.
const keptMembers = 1 << 15

// clearSet makes o's set empty.
func (o *operand) clearSet() {
	if max(cap(o.ints), cap(o.others), cap(o.buf)/8) > keptMembers {
		o.ints, o.others, o.buf = nil, nil, nil
	}
	o.ints, o.others, o.buf, o.sorted, o.capped = o.ints[:0], o.others[:0], o.buf[:0], false, false
}

// addMember adds a scalar to o's set; it keeps a copy.
func (o *operand) addMember(v *event.Value) {
	if v.Kind == event.Decimal {
		if n, ok := v.Num.Int64(); ok {
			o.ints = append(o.ints, n)
			return
		}
	}
	at := len(o.buf)
	o.buf = appendScalar(o.buf, v)
	o.others = append(o.others, o.buf[at:len(o.buf):len(o.buf)])
}

// position is where in history and stream a value comes from. The zero
// position is the history's, which is before every event.
type position struct {
	time      int64 // the record's timestamp
	offset    int64
	partition int32
	event     bool // false for history
}

// positionWords is the number of words of a position in a row.
const positionWords = 3

func (p *position) store(row []uint64) {
	row[0], row[1], row[2] = uint64(p.time), uint64(p.offset), uint64(uint32(p.partition))
	if p.event {
		row[2] |= 1 << 32
	}
}

func loadPosition(row []uint64) position {
	return position{int64(row[0]), int64(row[1]), int32(row[2]), row[2]>>32 != 0}
}

// compare orders history before events, and events by (timestamp, partition,
// offset).
func (p *position) compare(q *position) int {
	switch {
	case p.event != q.event:
		if q.event {
			return -1
		}
		return 1
	case p.time != q.time:
		return order(p.time < q.time)
	case p.partition != q.partition:
		return order(p.partition < q.partition)
	case p.offset != q.offset:
		return order(p.offset < q.offset)
	}
	return 0
}

// order is -1 for less, 1 otherwise.
func order(less bool) int {
	if less {
		return -1
	}
	return 1
}

// append appends the encoding: 0 for history; 1, timestamp, partition and
// offset for an event.
func (p *position) append(dst []byte) []byte {
	if !p.event {
		return append(dst, 0)
	}
	dst = append(dst, 1)
	dst = appendVarint(dst, p.time)
	dst = binary.AppendUvarint(dst, uint64(uint32(p.partition)))
	return appendVarint(dst, p.offset)
}

// read reads what append wrote.
func (p *position) read(src []byte) (rest []byte, err error) {
	*p = position{}
	if len(src) == 0 {
		return nil, errShort
	}
	switch src[0] {
	case 0:
		return src[1:], nil
	case 1:
		p.event = true
	default:
		return nil, errTag
	}
	if p.time, rest, err = readVarint(src[1:]); err != nil {
		return nil, err
	}
	partition, rest, err := readUvarint(rest)
	if err != nil {
		return nil, err
	}
	if partition > math.MaxUint32 {
		return nil, errRange
	}
	p.partition = int32(partition)
	p.offset, rest, err = readVarint(rest)
	return rest, err
}
