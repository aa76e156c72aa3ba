package aggregator

import (
	"encoding/binary"
	"math"

	"tidemark/decimal"
	"tidemark/event"
)

// collectSet is collect_set: the smallest limit of the distinct scalars, and
// whether more than limit were ever there.
//
// That is associative: what is among the limit smallest of all is among the
// limit smallest of every part that holds it, so no part drops it; and a part
// drops something exactly where it holds more than limit distinct members.
//
// A set is two lists, in four words of the row: integers of 64 bits, kept as
// such, and other members (texts, fractions, booleans, timestamps) as refs to
// their encodings. Roaring bitmaps would pay from some thousand integers on,
// but sets are small, a bitmap cannot hold texts or fractions, and sorted
// integers merge and encode at the speed of memory.
type collectSet struct{ limit int }

const (
	setInts   = 0 // the words of a list: see list
	setOthers = 2
	setWords  = 4
	setCapped = 1 << 63 // in the last word
)

func (collectSet) words() int { return setWords }

func (s collectSet) fold(m *memory, row []uint64, o *operand) {
	if o.capped {
		row[setWords-1] |= setCapped
	}
	if o.sorted {
		mergeInts(m, row[setInts:], o.ints)
	} else {
		for _, n := range o.ints {
			addInt(m, row[setInts:], n)
		}
	}
	for _, e := range o.others {
		addOther(m, row[setOthers:], e)
	}
	if listLen(row[setInts:])+listLen(row[setOthers:]) > 2*s.limit+2*smallList {
		s.trim(m, row)
	}
}

// trim cuts the set down to the limit. Fold calls it when twice as many have
// come, so that a member costs its share of a sort, not a sort.
func (s collectSet) trim(m *memory, row []uint64) {
	settleInts(m, row[setInts:])
	settleOthers(m, row[setOthers:])
	v := s.view(m, row)
	setListLen(row[setInts:], len(v.ints))
	setListLen(row[setOthers:], len(v.others))
	if v.capped {
		row[setWords-1] |= setCapped
	}
}

// setView is a set in order, cut down to the limit. It may share the row's
// memory: it is valid until the row changes.
type setView struct {
	ints   []uint64 // as int64, ascending
	others []uint64 // refs, in value order
	capped bool
}

// view looks at the set without changing it: readers of a delta that is being
// applied share it.
func (s collectSet) view(m *memory, row []uint64) setView {
	v := setView{
		ints:   sortedInts(m, row[setInts:]),
		others: sortedOthers(m, row[setOthers:]),
		capped: row[setWords-1]&setCapped != 0,
	}
	for len(v.ints)+len(v.others) > s.limit {
		v.capped = true
		if len(v.others) == 0 || len(v.ints) > 0 && compareIntOther(m, int64(v.ints[len(v.ints)-1]), v.others[len(v.others)-1]) > 0 {
			v.ints = v.ints[:len(v.ints)-1]
		} else {
			v.others = v.others[:len(v.others)-1]
		}
	}
	return v
}

// each calls f for the members in value order.
func (v *setView) each(m *memory, f func(member *event.Value)) {
	ints, others := v.ints, v.others
	var member event.Value
	for len(ints) > 0 || len(others) > 0 {
		if len(others) == 0 || len(ints) > 0 && compareIntOther(m, int64(ints[0]), others[0]) < 0 {
			member.Kind, member.Num = event.Decimal, decimal.FromInt64(int64(ints[0]))
			ints = ints[1:]
		} else {
			loadOther(m, others[0], &member)
			others = others[1:]
		}
		f(&member)
	}
}

// append writes
//
//	uvarint  number of integers <<1 | capped
//	varint   the first integer, then a uvarint for each: the step to it less 1
//	uvarint  number of other members, then their scalars in value order
func (s collectSet) append(dst []byte, m *memory, row []uint64) []byte {
	v := s.view(m, row)
	head := uint64(len(v.ints)) << 1
	if v.capped {
		head |= 1
	}
	dst = binary.AppendUvarint(dst, head)
	for i, n := range v.ints {
		if i == 0 {
			dst = appendVarint(dst, int64(n))
		} else if step := n - v.ints[i-1] - 1; step < 0x80 {
			dst = append(dst, byte(step))
		} else {
			dst = binary.AppendUvarint(dst, step)
		}
	}
	dst = binary.AppendUvarint(dst, uint64(len(v.others)))
	for _, r := range v.others {
		dst = append(dst, otherBytes(m, r)...)
	}
	return dst
}

func (s collectSet) read(src []byte, o *operand) (rest []byte, err error) {
	o.clearSet()
	o.sorted = true
	head, rest, err := readUvarint(src)
	if err != nil {
		return nil, err
	}
	o.capped = head&1 != 0
	if head>>1 > uint64(len(rest)) { // each takes a byte or more
		return nil, errShort
	}
	last := int64(0)
	for i := range head >> 1 {
		if i == 0 {
			if last, rest, err = readVarint(rest); err != nil {
				return nil, err
			}
		} else {
			var step uint64
			if step, rest, err = readUvarint(rest); err != nil {
				return nil, err
			}
			if step >= uint64(math.MaxInt64)-uint64(last) {
				return nil, errRange
			}
			last += int64(step + 1)
		}
		o.ints = append(o.ints, last)
	}
	n, rest, err := readUvarint(rest)
	if err != nil {
		return nil, err
	}
	if n > uint64(len(rest)) {
		return nil, errShort
	}
	for range n {
		var v event.Value
		after, err := readScalar(rest, &v)
		if err != nil {
			return nil, err
		}
		if v.Kind == event.Null {
			return nil, errTag
		}
		if v.Kind == event.Decimal {
			if _, ok := v.Num.Int64(); ok {
				return nil, errTag // it belongs among the integers
			}
		}
		o.others = append(o.others, rest[:len(rest)-len(after)])
		rest = after
	}
	return rest, nil
}

// skip passes over what read reads.
func (collectSet) skip(src []byte) (rest []byte, err error) {
	head, rest, err := readUvarint(src)
	for n := head >> 1; err == nil && n > 0; n-- {
		_, rest, err = readUvarint(rest)
	}
	if err != nil {
		return nil, err
	}
	n, rest, err := readUvarint(rest)
	var v event.Value
	for ; err == nil && n > 0; n-- {
		rest, err = readScalar(rest, &v)
	}
	return rest, err
}

func (s collectSet) answer(m *memory, row []uint64, v *event.Value) {
	set := s.view(m, row)
	v.Kind, v.Num = event.Decimal, decimal.FromInt64(int64(len(set.ints)+len(set.others)))
}
