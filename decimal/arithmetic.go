package decimal

import (
	"math/big"
	"math/bits"
)

// Add is d+e.
func (d Decimal) Add(e Decimal) Decimal {
	if d.scale == e.scale && d.big == nil && e.big == nil {
		lo, carry := bits.Add64(d.lo, e.lo, 0)
		hi := int64(uint64(d.hi) + uint64(e.hi) + carry)
		if (d.hi^hi)&(e.hi^hi) >= 0 {
			return Decimal{hi: hi, lo: lo, scale: d.scale}
		}
	}
	return d.addSlow(e)
}

// Sub is d-e.
func (d Decimal) Sub(e Decimal) Decimal { return d.Add(e.Neg()) }

// addSlow adds where the scales differ or 128 bits may not do.
func (d Decimal) addSlow(e Decimal) Decimal {
	switch {
	case e.IsZero():
		return d
	case d.IsZero():
		return e
	}
	if d.scale < e.scale {
		d, e = e, d
	}
	// d has the larger scale, which the sum takes.
	if d.big == nil && e.big == nil {
		if up, ok := e.rescale(d.scale); ok {
			lo, carry := bits.Add64(d.lo, up.lo, 0)
			hi := int64(uint64(d.hi) + uint64(up.hi) + carry)
			if (d.hi^hi)&(up.hi^hi) >= 0 {
				return Decimal{hi: hi, lo: lo, scale: d.scale}
			}
		}
	}
	c := new(big.Int)
	if d.scale == e.scale {
		c.Set(e.coefficient())
	} else {
		c.Mul(e.coefficient(), bigPow10(uint(d.scale-e.scale)))
	}
	return fromBig(c.Add(c, d.coefficient()), d.scale)
}

// rescale raises the scale of d, which is not big; ok is false where the
// coefficient would outgrow 128 bits.
func (d Decimal) rescale(scale int32) (Decimal, bool) {
	u, neg := d.magnitude()
	u, ok := u.mulPow10(uint32(scale - d.scale))
	if !ok || u.hi > 1<<63-1 {
		return Decimal{}, false
	}
	return fromWide(neg, u, scale), true
}

// Accumulate adds d to the sum that the words of row hold: the low half of the
// coefficient, its high half, and the scale, as New takes them; all zero is 0.
// It returns false and leaves row alone where d or the sum needs more than 128
// bits: the caller then goes on with Add. It is Add for loops that keep their
// sums in rows of words.
func Accumulate(row *[3]uint64, d Decimal) bool {
	if d.big != nil {
		return false
	}
	if uint64(uint32(d.scale)) != row[2] {
		return accumulateSlow(row, d)
	}
	lo, carry := bits.Add64(row[0], d.lo, 0)
	hi := row[1] + uint64(d.hi) + carry
	if int64((row[1]^hi)&(uint64(d.hi)^hi)) < 0 {
		return accumulateSlow(row, d)
	}
	row[0], row[1] = lo, hi
	return true
}

func accumulateSlow(row *[3]uint64, d Decimal) bool {
	sum := New(int64(row[1]), row[0], int32(row[2])).addSlow(d)
	if sum.big != nil {
		return false
	}
	row[0], row[1], row[2] = sum.lo, uint64(sum.hi), uint64(uint32(sum.scale))
	return true
}

// Neg is -d.
func (d Decimal) Neg() Decimal {
	if d.big != nil {
		return fromBig(new(big.Int).Neg(d.big), d.scale)
	}
	u, neg := d.magnitude()
	return fromWide(!neg, u, d.scale)
}

// Abs is d without its sign.
func (d Decimal) Abs() Decimal {
	if d.Sign() < 0 {
		return d.Neg()
	}
	return d
}

// Mul is d·e. The scales add up.
func (d Decimal) Mul(e Decimal) Decimal {
	if d.IsZero() || e.IsZero() {
		return Decimal{}
	}
	scale := d.scale + e.scale
	if d.big == nil && e.big == nil {
		u, dneg := d.magnitude()
		v, eneg := e.magnitude()
		if p, ok := u.mul(v); ok {
			return fromWide(dneg != eneg, p, scale)
		}
	}
	return fromBig(new(big.Int).Mul(d.coefficient(), e.coefficient()), scale)
}

// Cmp is -1, 0 or 1 as d is below, equal to or above e.
func (d Decimal) Cmp(e Decimal) int {
	if d.scale == e.scale && d.big == nil && e.big == nil {
		switch {
		case d.hi != e.hi:
			if d.hi < e.hi {
				return -1
			}
			return 1
		case d.lo < e.lo:
			return -1
		case d.lo > e.lo:
			return 1
		}
		return 0
	}
	return d.cmpSlow(e)
}

func (d Decimal) cmpSlow(e Decimal) int {
	sign := d.Sign()
	if s := e.Sign(); s != sign || s == 0 {
		switch {
		case sign < s:
			return -1
		case sign > s:
			return 1
		}
		return 0
	}
	if d.big != nil || e.big != nil {
		c, f := d.coefficient(), e.coefficient()
		switch {
		case d.scale < e.scale:
			c = new(big.Int).Mul(c, bigPow10(uint(e.scale-d.scale)))
		case d.scale > e.scale:
			f = new(big.Int).Mul(f, bigPow10(uint(d.scale-e.scale)))
		}
		return c.Cmp(f)
	}
	// Same sign, not zero: compare magnitudes at the larger scale. One that
	// outgrows 128 bits there is above the other, which does not.
	u, _ := d.magnitude()
	v, _ := e.magnitude()
	var ok bool
	switch {
	case d.scale < e.scale:
		if u, ok = u.mulPow10(uint32(e.scale - d.scale)); !ok {
			return sign
		}
	case d.scale > e.scale:
		if v, ok = v.mulPow10(uint32(d.scale - e.scale)); !ok {
			return -sign
		}
	}
	return sign * u.cmp(v)
}

// Equal says whether d and e are the same number.
func (d Decimal) Equal(e Decimal) bool { return d.Cmp(e) == 0 }
