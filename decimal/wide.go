package decimal

import (
	"math/big"
	"math/bits"
)

// wide is an unsigned 128-bit integer.
type wide struct{ hi, lo uint64 }

// maxPow64 and maxPow128 are the largest powers of ten in 64 and 128 bits.
const (
	maxPow64  = 19
	maxPow128 = 38
)

// pow10 holds the powers of ten that fit in 64 bits.
var pow10 = func() (p [maxPow64 + 1]uint64) {
	p[0] = 1
	for i := 1; i < len(p); i++ {
		p[i] = p[i-1] * 10
	}
	return p
}()

// widePow10 holds the powers of ten that fit in 128 bits.
var widePow10 = func() (p [maxPow128 + 1]wide) {
	p[0] = wide{0, 1}
	for i := 1; i < len(p); i++ {
		p[i], _ = p[i-1].mul64(10)
	}
	return p
}()

func (u wide) cmp(v wide) int {
	switch {
	case u.hi != v.hi:
		if u.hi < v.hi {
			return -1
		}
		return 1
	case u.lo < v.lo:
		return -1
	case u.lo > v.lo:
		return 1
	}
	return 0
}

// mul64 is u·m; ok is false where that needs more than 128 bits.
func (u wide) mul64(m uint64) (p wide, ok bool) {
	hi, lo := bits.Mul64(u.lo, m)
	if u.hi == 0 {
		return wide{hi, lo}, true
	}
	over, mid := bits.Mul64(u.hi, m)
	hi, carry := bits.Add64(hi, mid, 0)
	return wide{hi, lo}, over|carry == 0
}

// mul is u·v; ok is false where that needs more than 128 bits.
func (u wide) mul(v wide) (p wide, ok bool) {
	switch {
	case v.hi == 0:
		return u.mul64(v.lo)
	case u.hi == 0:
		return v.mul64(u.lo)
	}
	return wide{}, false // both are 2^64 or more
}

// mulPow10 is u·10^n; ok is false where that needs more than 128 bits.
func (u wide) mulPow10(n uint32) (p wide, ok bool) {
	switch {
	case n <= maxPow64:
		return u.mul64(pow10[n])
	case u.hi|u.lo == 0:
		return u, true
	case n > maxPow128:
		return wide{}, false
	}
	return u.mul(widePow10[n])
}

// quo64 divides by m, which is not 0.
func (u wide) quo64(m uint64) (q wide, r uint64) {
	if u.hi != 0 {
		q.hi, u.hi = u.hi/m, u.hi%m
	}
	q.lo, r = bits.Div64(u.hi, u.lo, m)
	return q, r
}

// add64 is u+n, modulo 2^128.
func (u wide) add64(n uint64) wide {
	lo, carry := bits.Add64(u.lo, n, 0)
	return wide{u.hi + carry, lo}
}

// bitLen is the number of bits of u.
func (u wide) bitLen() int {
	if u.hi != 0 {
		return 64 + bits.Len64(u.hi)
	}
	return bits.Len64(u.lo)
}

// digits is the number of decimal digits of u, 0 for 0.
func (u wide) digits() int {
	// 1233/4096 is a little above log10(2): the estimate is exact or one short.
	n := u.bitLen() * 1233 >> 12
	if n <= maxPow128 && u.cmp(widePow10[n]) >= 0 {
		n++
	}
	return n
}

func (u wide) big() *big.Int {
	c := new(big.Int).SetUint64(u.hi)
	c.Lsh(c, 64)
	return c.Or(c, new(big.Int).SetUint64(u.lo))
}

var bigTen = big.NewInt(10)

// bigPow10 is 10^n, of the caller's own.
func bigPow10(n uint) *big.Int {
	if n <= maxPow64 {
		return new(big.Int).SetUint64(pow10[n])
	}
	return new(big.Int).Exp(bigTen, new(big.Int).SetUint64(uint64(n)), nil)
}

// coefficient is the signed coefficient, not to be changed.
func (d Decimal) coefficient() *big.Int {
	if d.big != nil {
		return d.big
	}
	u, neg := d.magnitude()
	c := u.big()
	if neg {
		c.Neg(c)
	}
	return c
}

// fromBig is c × 10^-scale in normal form. It keeps or changes c.
func fromBig(c *big.Int, scale int32) Decimal {
	if d, ok := narrow(c, scale); ok {
		return d
	}
	// Give up zeros in halving strides, so that a long tail of them is cheap.
	q, r := new(big.Int), new(big.Int)
	for step := uint(1) << 20; step > 0 && scale > 0; {
		if int64(step) > int64(scale) || c.TrailingZeroBits() < step {
			step >>= 1 // 10^step has step trailing zero bits
			continue
		}
		q.QuoRem(c, bigPow10(step), r)
		if r.Sign() != 0 {
			step >>= 1
			continue
		}
		c, q = q, c
		scale -= int32(step)
	}
	if d, ok := narrow(c, scale); ok {
		return d
	}
	return Decimal{big: c, scale: scale}
}

// narrow is c × 10^-scale where c fits in 128 bits.
func narrow(c *big.Int, scale int32) (Decimal, bool) {
	if c.BitLen() > 128 {
		return Decimal{}, false
	}
	var buf [16]byte
	c.FillBytes(buf[:])
	var u wide
	for i := range 8 {
		u.hi = u.hi<<8 | uint64(buf[i])
		u.lo = u.lo<<8 | uint64(buf[8+i])
	}
	neg := c.Sign() < 0
	if u.hi > 1<<63 || u.hi == 1<<63 && (!neg || u.lo != 0) {
		return Decimal{}, false
	}
	return fromWide(neg, u, scale), true
}
