package aggregator

import (
	"math/bits"

	"tidemark/decimal"
	"tidemark/event"
)

// sum is the exact sum of decimals. In a row it is three words, so that the
// usual event costs one addition of 128 bits:
//
//	0, 1  the coefficient, low and high half; or, with sumBig, word 0 is an
//	      index into memory.sums
//	2     the scale <<32, and the bits below
type sum struct{}

const (
	sumWords = 3
	sumHas   = 1 // the sum has a value, which may be 0
	sumBig   = 2 // it is in memory.sums
)

func (sum) words() int { return sumWords }

func (sum) fold(m *memory, row []uint64, o *operand) {
	if !o.value.IsNull() {
		addSum(m, row, &o.value.Num)
	}
}

func (sum) append(dst []byte, m *memory, row []uint64) []byte {
	if row[2]&sumHas == 0 {
		return append(dst, tagNone)
	}
	return loadSum(m, row).Append(dst)
}

func (sum) read(src []byte, o *operand) ([]byte, error) { return readSum(src, &o.value) }

func (sum) answer(m *memory, row []uint64, v *event.Value) {
	v.Kind = event.Null
	if row[2]&sumHas != 0 {
		v.Kind, v.Num = event.Decimal, loadSum(m, row)
	}
}

// readSum reads a decimal, or that there is none.
func readSum(src []byte, v *event.Value) (rest []byte, err error) {
	rest, err = readScalar(src, v)
	if err == nil && v.Kind != event.Decimal && v.Kind != event.Null {
		err = errTag
	}
	return rest, err
}

var pow10 = func() (p [19]uint64) {
	p[0] = 1
	for i := 1; i < len(p); i++ {
		p[i] = p[i-1] * 10
	}
	return p
}()

// addSum adds d to the sum in row.
func addSum(m *memory, row []uint64, d *decimal.Decimal) {
	hi, lo, scale, ok := d.Parts()
	meta := row[2]
	if !ok || meta&sumBig != 0 {
		addSumSlow(m, row, d)
		return
	}
	if has := int32(meta >> 32); has != scale {
		// Numbers come with as few decimals as they have: most of the time d
		// is the shorter one, and small.
		up := has - scale
		if up < 0 || int(up) >= len(pow10) || hi != int64(lo)>>63 {
			addSumSlow(m, row, d)
			return
		}
		hi, lo = scaleUp(int64(lo), pow10[up])
	}
	low, carry := bits.Add64(row[0], lo, 0)
	high := row[1] + uint64(hi) + carry
	if int64((row[1]^high)&(uint64(hi)^high)) < 0 {
		addSumSlow(m, row, d)
		return
	}
	row[0], row[1], row[2] = low, high, meta|sumHas
}

// scaleUp is n·factor in 128 bits; factor is at most 10^18, so it fits.
func scaleUp(n int64, factor uint64) (hi int64, lo uint64) {
	u := uint64(n)
	if n < 0 {
		u = -u
	}
	h, l := bits.Mul64(u, factor)
	if n < 0 {
		var borrow uint64
		l, borrow = bits.Sub64(0, l, 0)
		h, _ = bits.Sub64(0, h, borrow)
	}
	return int64(h), l
}

// addSumSlow adds by way of decimal.Add: other scales, and sums that enter or
// leave 128 bits.
func addSumSlow(m *memory, row []uint64, d *decimal.Decimal) {
	total := loadSum(m, row).Add(*d)
	hi, lo, scale, ok := total.Parts()
	big := row[2]&sumBig != 0
	switch {
	case ok:
		if big {
			m.sums.release(row[0])
		}
		row[0], row[1], row[2] = lo, uint64(hi), uint64(uint32(scale))<<32|sumHas
	case big:
		m.sums.all[row[0]] = total
	default:
		row[0], row[1], row[2] = m.sums.add(total), 0, sumHas|sumBig
	}
}

// loadSum is the sum in row, 0 where it has none.
func loadSum(m *memory, row []uint64) decimal.Decimal {
	if row[2]&sumBig != 0 {
		return m.sums.all[row[0]]
	}
	return decimal.New(int64(row[1]), row[0], int32(row[2]>>32))
}

// bigSums are the sums that need more than 128 bits: few, in any real stream.
type bigSums struct {
	all  []decimal.Decimal
	free []uint64
}

func (s *bigSums) add(d decimal.Decimal) uint64 {
	if n := len(s.free); n > 0 {
		i := s.free[n-1]
		s.free = s.free[:n-1]
		s.all[i] = d
		return i
	}
	s.all = append(s.all, d)
	return uint64(len(s.all) - 1)
}

func (s *bigSums) release(i uint64) {
	s.all[i] = decimal.Decimal{}
	s.free = append(s.free, i)
}

func (s *bigSums) reset() {
	clear(s.all)
	s.all, s.free = s.all[:0], s.free[:0]
}

// used takes a big sum for some hundred bytes.
func (s *bigSums) used() int { return 128 * len(s.all) }
