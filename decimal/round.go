package decimal

import "math/big"

// Round rounds to scale decimals, HALF_UP: halves away from zero. A number
// with no more decimals is returned as it is; a scale below 0 is taken as 0.
func (d Decimal) Round(scale int32) Decimal {
	scale = max(scale, 0)
	if d.scale <= scale {
		return d
	}
	drop := uint32(d.scale - scale)
	if d.big == nil {
		u, neg := d.magnitude()
		if drop > maxPow128 {
			return Decimal{} // below 1.8·10^38, so less than half of 10^39
		}
		return fromWide(neg, u.quoPow10HalfUp(drop), scale)
	}
	return fromBig(quoHalfUp(d.big, bigPow10(uint(drop))), scale)
}

// quoPow10HalfUp is u / 10^n rounded half up; n is at most maxPow128.
func (u wide) quoPow10HalfUp(n uint32) wide {
	if n <= maxPow64 {
		m := pow10[n]
		q, r := u.quo64(m)
		if r >= m-r { // 2r >= m, without overflow
			q = q.add64(1)
		}
		return q
	}
	// In two exact steps: u = 10^19·q + r, q = 10^k·p + s.
	m := pow10[n-maxPow64]
	q, _ := u.quo64(pow10[maxPow64])
	p, s := q.quo64(m)
	// The rest r + 10^19·s reaches half of 10^n exactly where s reaches half of
	// the even 10^k: r only adds below the unit of s.
	if s >= m-s {
		p = p.add64(1)
	}
	return p
}

// quoHalfUp is a/b rounded half away from zero; b is positive.
func quoHalfUp(a, b *big.Int) *big.Int {
	q, r := new(big.Int).QuoRem(a, b, new(big.Int))
	if r.Abs(r).Lsh(r, 1).Cmp(b) >= 0 {
		q.Add(q, big.NewInt(int64(a.Sign())))
	}
	return q
}

// Trunc drops the decimals: toward zero.
func (d Decimal) Trunc() Decimal {
	if d.scale == 0 {
		return d
	}
	if d.big != nil {
		return fromBig(new(big.Int).Quo(d.big, bigPow10(uint(d.scale))), 0)
	}
	u, neg := d.magnitude()
	switch n := d.scale; {
	case n > maxPow128:
		u = wide{}
	case n > maxPow64:
		u, _ = u.quo64(pow10[maxPow64])
		u, _ = u.quo64(pow10[n-maxPow64])
	default:
		u, _ = u.quo64(pow10[n])
	}
	return fromWide(neg, u, 0)
}

// QuoInt is d/n, the exact quotient rounded once to scale decimals, HALF_UP. A
// scale below 0 is taken as 0. It panics where n is 0, as integer division
// does.
func (d Decimal) QuoInt(n uint64, scale int32) Decimal {
	if n == 0 {
		panic("decimal: division by zero")
	}
	scale = max(scale, 0)
	if d.big == nil && scale >= d.scale {
		u, neg := d.magnitude()
		if u, ok := u.mulPow10(uint32(scale - d.scale)); ok {
			q, r := u.quo64(n)
			if r >= n-r {
				q = q.add64(1)
			}
			return fromWide(neg, q, scale)
		}
	}
	a, b := d.coefficient(), new(big.Int).SetUint64(n)
	if scale >= d.scale {
		a = new(big.Int).Mul(a, bigPow10(uint(scale-d.scale)))
	} else {
		b.Mul(b, bigPow10(uint(d.scale-scale)))
	}
	return fromBig(quoHalfUp(a, b), scale)
}
