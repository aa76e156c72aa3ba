package decimal

import "strconv"

// String is d as AppendText writes it.
func (d Decimal) String() string { return string(d.AppendText(nil)) }

// AppendText appends d in plain digits: no trailing zeros in the fraction,
// never -0, never an exponent. It is a JSON number and parses back to d,
// where it is in range.
func (d Decimal) AppendText(dst []byte) []byte {
	d = d.trim()
	return d.appendPadded(dst, d.scale)
}

// AppendFixed appends d with exactly scale decimals, rounded HALF_UP, without a
// point for scale 0 (and below); never a minus before zeros alone.
func (d Decimal) AppendFixed(dst []byte, scale int32) []byte {
	scale = max(scale, 0)
	return d.Round(scale).appendPadded(dst, scale)
}

// appendPadded appends d with scale decimals; scale is d's own or above.
func (d Decimal) appendPadded(dst []byte, scale int32) []byte {
	if d.scale == 0 && scale == 0 && d.hi == int64(d.lo)>>63 && d.big == nil {
		return strconv.AppendInt(dst, int64(d.lo), 10)
	}
	if d.big != nil {
		if d.big.Sign() < 0 {
			dst = append(dst, '-')
		}
		// Text without the sign: big.Int has no way to append one's absolute value.
		digits := d.big.Append(make([]byte, 0, 64), 10)
		if digits[0] == '-' {
			digits = digits[1:]
		}
		return appendPoint(dst, digits, d.scale, scale)
	}
	u, neg := d.magnitude()
	if neg {
		dst = append(dst, '-')
	}
	var buf [maxPow128 + 1]byte
	digits := buf[:0]
	switch {
	case u.hi == 0:
		digits = strconv.AppendUint(digits, u.lo, 10)
	default:
		q, r := u.quo64(pow10[maxPow64])
		// q is below 2^128/10^19, less than 3.5·10^19, so it may have 20 digits.
		if q.hi != 0 {
			top, low := q.quo64(pow10[maxPow64])
			digits = strconv.AppendUint(digits, top.lo, 10)
			digits = appendChunk(digits, low)
		} else {
			digits = strconv.AppendUint(digits, q.lo, 10)
		}
		digits = appendChunk(digits, r)
	}
	return appendPoint(dst, digits, d.scale, scale)
}

// appendChunk appends u with maxPow64 digits.
func appendChunk(dst []byte, u uint64) []byte {
	for p := maxPow64 - 1; p >= 0; p-- {
		dst = append(dst, byte('0'+u/pow10[p]%10))
	}
	return dst
}

// appendPoint appends digits with the point before the last scale of them,
// zeros put before and after as needed to have want decimals.
func appendPoint(dst, digits []byte, scale, want int32) []byte {
	n := len(digits) - int(scale) // digits before the point
	if n <= 0 {
		dst = append(dst, '0')
	} else {
		dst = append(dst, digits[:n]...)
		digits = digits[n:]
	}
	if want == 0 {
		return dst
	}
	dst = append(dst, '.')
	for ; n < 0; n++ {
		dst = append(dst, '0')
	}
	dst = append(dst, digits...)
	for ; scale < want; scale++ {
		dst = append(dst, '0')
	}
	return dst
}
