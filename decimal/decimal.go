// Package decimal holds exact decimal numbers: a 128-bit coefficient with a
// scale, and math/big beyond. Nothing here rounds unless it is asked to, and
// nothing allocates while a coefficient fits in 128 bits.
package decimal

import (
	"errors"
	"math"
	"math/big"
	"math/bits"
)

// MaxDigits is the most digits that a number in an event or a document may
// have before and after the decimal point.
const MaxDigits = 38

var (
	// ErrSyntax is returned for text that is not a JSON number.
	ErrSyntax = errors.New("not a number")
	// ErrRange is returned for a number with more than MaxDigits digits before
	// or after the point, written out, zeros at the ends not counted.
	ErrRange = errors.New("more than 38 digits before or after the decimal point")
)

// Decimal is the exact number coefficient × 10^-scale. The zero value is 0.
// A Decimal is a value: operations return new ones and share nothing that
// changes. Compare with Cmp, not with ==: 1.5 and 1.50 are the same number in
// two forms.
type Decimal struct {
	hi    int64    // two's complement 128-bit coefficient, where big is nil
	lo    uint64   // its low half
	scale int32    // decimals, 0 or more
	big   *big.Int // the coefficient where it needs more than 128 bits, else nil
}

// Where big is set, the coefficient has no trailing zeros that the scale could
// give up and still does not fit in 128 bits; hi and lo are 0. So whether a
// result is big depends on the operands' values and scales alone, and a sum
// that shrinks comes back to 128 bits.

// FromInt64 returns n.
func FromInt64(n int64) Decimal {
	return Decimal{hi: n >> 63, lo: uint64(n)}
}

// New returns the coefficient hi·2^64 + lo × 10^-scale, hi:lo being two's
// complement as Parts gives it. A scale below 0 is taken as 0.
func New(hi int64, lo uint64, scale int32) Decimal {
	return Decimal{hi: hi, lo: lo, scale: max(scale, 0)}
}

// FromBig returns coef × 10^-scale; a negative scale multiplies. coef is
// copied.
func FromBig(coef *big.Int, scale int32) Decimal {
	c := new(big.Int).Set(coef)
	if scale < 0 {
		c.Mul(c, bigPow10(uint(-int64(scale))))
		scale = 0
	}
	return fromBig(c, scale)
}

// Parts returns the coefficient as two's complement hi:lo and the scale. ok is
// false where the coefficient needs more than 128 bits; Big gives it then.
func (d Decimal) Parts() (hi int64, lo uint64, scale int32, ok bool) {
	return d.hi, d.lo, d.scale, d.big == nil
}

// Big returns the coefficient, a copy, and the scale.
func (d Decimal) Big() (coef *big.Int, scale int32) {
	if d.big != nil {
		return new(big.Int).Set(d.big), d.scale
	}
	return d.coefficient(), d.scale
}

// Int64 returns d where it is an integer of 64 bits, whatever its scale.
func (d Decimal) Int64() (int64, bool) {
	if d.big != nil {
		return 0, false
	}
	if d.scale != 0 {
		d = d.trim()
	}
	if d.scale != 0 || d.hi != int64(d.lo)>>63 {
		return 0, false
	}
	return int64(d.lo), true
}

// Sign is -1, 0 or 1.
func (d Decimal) Sign() int {
	switch {
	case d.big != nil:
		return d.big.Sign()
	case d.hi < 0:
		return -1
	case d.hi == 0 && d.lo == 0:
		return 0
	}
	return 1
}

// IsZero says whether d is 0, in whatever scale.
func (d Decimal) IsZero() bool { return d.hi == 0 && d.lo == 0 && d.big == nil }

// Scale is the number of decimals that d carries, trailing zeros included.
func (d Decimal) Scale() int32 { return d.scale }

// IntegerDigits is the number of digits before the point, 0 for a number
// between -1 and 1.
func (d Decimal) IntegerDigits() int {
	if d.big != nil {
		q := new(big.Int).Abs(d.big)
		if d.scale > 0 {
			q.Quo(q, bigPow10(uint(d.scale)))
		}
		if q.Sign() == 0 {
			return 0
		}
		return len(q.Text(10))
	}
	u, _ := d.magnitude()
	return max(u.digits()-int(d.scale), 0)
}

// Fits says whether d, rounded HALF_UP to scale, has at most precision-scale
// digits before the point: whether it is a decimal(precision, scale).
func (d Decimal) Fits(precision, scale int32) bool {
	return d.Round(scale).IntegerDigits() <= int(precision-scale)
}

// magnitude is the absolute value of the coefficient. big must be nil.
func (d Decimal) magnitude() (u wide, neg bool) {
	if d.hi >= 0 {
		return wide{uint64(d.hi), d.lo}, false
	}
	lo, borrow := bits.Sub64(0, d.lo, 0)
	hi, _ := bits.Sub64(0, uint64(d.hi), borrow)
	return wide{hi, lo}, true
}

// fromWide is ±u × 10^-scale.
func fromWide(neg bool, u wide, scale int32) Decimal {
	if u.hi > math.MaxInt64 {
		if !neg || u.hi != 1<<63 || u.lo != 0 {
			c := u.big()
			if neg {
				c.Neg(c)
			}
			return fromBig(c, scale)
		}
	}
	if neg {
		var borrow uint64
		u.lo, borrow = bits.Sub64(0, u.lo, 0)
		u.hi, _ = bits.Sub64(0, u.hi, borrow)
	}
	return Decimal{hi: int64(u.hi), lo: u.lo, scale: scale}
}

// trim gives up trailing zeros of the coefficient against the scale: the form
// with the smallest scale. Big forms have none to give up.
func (d Decimal) trim() Decimal {
	if d.scale == 0 || d.big != nil || d.lo&1 == 1 {
		return d // what is odd is no multiple of ten
	}
	u, neg := d.magnitude()
	if u.hi == 0 && u.lo == 0 {
		return Decimal{}
	}
	scale := d.scale
	for scale > 0 && u.hi != 0 && u.lo&1 == 0 {
		q, r := u.quo64(10)
		if r != 0 {
			break
		}
		u, scale = q, scale-1
	}
	if u.hi == 0 {
		for scale > 0 && u.lo&1 == 0 {
			q := u.lo / 10
			if q*10 != u.lo {
				break
			}
			u.lo, scale = q, scale-1
		}
	}
	return fromWide(neg, u, scale)
}
