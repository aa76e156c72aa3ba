package decimal

import (
	"encoding/binary"
	"math/big"
	"math/bits"
)

// Parse reads a JSON number, all of text: an optional minus, digits without a
// leading zero, a fraction, an exponent. ErrSyntax for anything else, ErrRange
// for more than MaxDigits digits before or after the point. Trailing zeros of
// the fraction are dropped. Neither the value of an exponent nor the number of
// zeros costs memory.
func Parse(text []byte) (Decimal, error) {
	digits := text
	neg := len(text) > 0 && text[0] == '-'
	if neg {
		digits = text[1:]
	}
	if n := len(digits); n-1 < 8 {
		if u, scale, ok := parseShort(digits); ok {
			return small(neg, u, scale), nil
		}
		return parseSlow(text)
	} else if n > maxPow64+1 {
		return parseSlow(text)
	}
	return parseMiddle(text, digits, neg)
}

// SetShort makes d the number that text is, where that has up to eight
// characters without its sign and no exponent; false, and d as it was, for all
// else. It is Parse for what comes most.
func (d *Decimal) SetShort(text []byte) bool {
	neg := len(text) > 0 && text[0] == '-'
	if neg {
		text = text[1:]
	}
	if len(text) > 8 {
		return false
	}
	u, scale, ok := parseShort(text)
	if !ok {
		return false
	}
	if d.hi, d.lo, d.scale = 0, u, int32(scale); neg && u != 0 {
		d.hi, d.lo = -1, -u
	}
	if d.big != nil { // a pointer that stays costs no write barrier
		d.big = nil
	}
	return true
}

// small is ±u × 10^-scale.
func small(neg bool, u uint64, scale int) Decimal {
	if neg && u != 0 {
		return Decimal{hi: -1, lo: -u, scale: int32(scale)}
	}
	return Decimal{lo: u, scale: int32(scale)}
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// parseShort reads one to eight bytes that are digits with at most one point
// among them, without the sign. It takes them as one word and has no branch
// that goes by how many digits there are, which is hard to foresee. ok is
// false for anything else.
func parseShort(text []byte) (u uint64, scale int, ok bool) {
	n := uint(len(text))
	// Byte k of w is text[k], the bytes behind are 0.
	var w uint64
	switch {
	case n == 8:
		w = binary.LittleEndian.Uint64(text)
	case n >= 4:
		w = uint64(binary.LittleEndian.Uint32(text)) | uint64(binary.LittleEndian.Uint32(text[n-4:]))<<(8*(n-4))
	case n > 0:
		w = uint64(text[0]) | uint64(text[n/2])<<(8*(n/2)) | uint64(text[n-1])<<(8*(n-1))
	default:
		return 0, 0, false
	}
	point := n // digits before the point
	x := w ^ ones*'.'
	if m := (x - ones) & ^x & highs; m != 0 {
		point = uint(bits.TrailingZeros64(m)) >> 3
		before := w & (1<<(8*point) - 1)
		w = before | (w>>(8*point))>>8<<(8*point) // takes the point out
		n--
		if point == n {
			return 0, 0, false // nothing behind it
		}
	}
	if point == 0 {
		return 0, 0, false
	}
	w ^= ones * '0' >> (8 * (8 - n))
	if ((w+ones*(0x80-10))|w)&highs != 0 || w&0xFF == 0 && point > 1 {
		return 0, 0, false // not digits, or a leading zero
	}
	// Drop trailing zeros of the fraction, then let the last digit be the
	// highest byte with zeros before the first.
	zeros := uint(bits.LeadingZeros64(w<<(8*(8-n)))) >> 3
	n -= min(zeros, n-point)
	w <<= 8 * (8 - n)
	// Eight digits to a number: pairs, then two steps at once, after Daniel
	// Lemire's "Quickly parsing eight digits".
	w = w*10 + w>>8
	const every = 0x000000FF000000FF
	w = (w&every*(100+1000000<<32) + w>>16&every*(1+10000<<32)) >> 32
	return w, int(n - point), true
}

// parseMiddle reads up to maxPow64 digits with at most one point among them,
// and leaves the rest to parseSlow. digits is text without its sign.
func parseMiddle(text, digits []byte, neg bool) (Decimal, error) {
	i, n := len(text)-len(digits), len(text)
	var u uint64
	start := i
	for ; i < n; i++ {
		c := text[i] - '0'
		if c > 9 {
			break
		}
		u = u*10 + uint64(c)
	}
	if i == start || text[start] == '0' && i-start > 1 {
		return Decimal{}, ErrSyntax
	}
	var scale int
	switch {
	case i == n:
		if n-start > maxPow64 {
			return parseSlow(text) // 20 digits may have wrapped
		}
	case text[i] == '.':
		i++
		point := i
		for n > point && text[n-1] == '0' {
			n--
		}
		if point == len(text) {
			return Decimal{}, ErrSyntax
		}
		for ; i < n; i++ {
			c := text[i] - '0'
			if c > 9 {
				return parseSlow(text)
			}
			u = u*10 + uint64(c)
		}
		scale = n - point
	default:
		return parseSlow(text)
	}
	return small(neg, u, scale), nil
}

// maxExponent is where exponents stop growing while they are read: beyond the
// length of any text, so that what is out of range stays so.
const maxExponent = 1 << 48

// parseSlow reads any number. The digits of the integer part and the fraction
// are taken as one row with the point behind the first of them, moved by the
// exponent; what counts is between the first and the last that is not zero.
func parseSlow(text []byte) (Decimal, error) {
	rest := text
	neg := len(rest) > 0 && rest[0] == '-'
	if neg {
		rest = rest[1:]
	}
	integer := leadingDigits(rest)
	if len(integer) == 0 || integer[0] == '0' && len(integer) > 1 {
		return Decimal{}, ErrSyntax
	}
	rest = rest[len(integer):]
	var fraction []byte
	if len(rest) > 0 && rest[0] == '.' {
		fraction = leadingDigits(rest[1:])
		if len(fraction) == 0 {
			return Decimal{}, ErrSyntax
		}
		rest = rest[1+len(fraction):]
	}
	var exponent int64
	if len(rest) > 0 && rest[0]|0x20 == 'e' {
		rest = rest[1:]
		minus := len(rest) > 0 && rest[0] == '-'
		if minus || len(rest) > 0 && rest[0] == '+' {
			rest = rest[1:]
		}
		digits := leadingDigits(rest)
		if len(digits) == 0 {
			return Decimal{}, ErrSyntax
		}
		for _, c := range digits {
			exponent = min(exponent*10+int64(c-'0'), maxExponent)
		}
		if minus {
			exponent = -exponent
		}
		rest = rest[len(digits):]
	}
	if len(rest) > 0 {
		return Decimal{}, ErrSyntax
	}

	row := digitRow{integer, fraction}
	first, end := 0, len(integer)+len(fraction)
	for first < end && row.at(first) == 0 {
		first++
	}
	if first == end {
		return Decimal{}, nil
	}
	for row.at(end-1) == 0 {
		end--
	}
	point := int64(len(integer)) + exponent
	if point-int64(first) > MaxDigits || int64(end)-point > MaxDigits {
		return Decimal{}, ErrRange
	}
	scale := max(int64(end)-point, 0)
	// Digits of the coefficient: to the last that counts, and the zeros from
	// there to the point. At most 2·MaxDigits.
	count := int(int64(end)-int64(first)) + int(max(point-int64(end), 0))
	if count <= maxPow128 {
		var u wide
		for done := 0; done < count; {
			k := min(count-done, maxPow64)
			u, _ = u.mul64(pow10[k])
			u = u.add64(row.chunk(first+done, k))
			done += k
		}
		return fromWide(neg, u, int32(scale)), nil
	}
	c, part := new(big.Int), new(big.Int)
	for done := 0; done < count; {
		k := min(count-done, maxPow64)
		c.Mul(c, part.SetUint64(pow10[k]))
		c.Add(c, part.SetUint64(row.chunk(first+done, k)))
		done += k
	}
	if neg {
		c.Neg(c)
	}
	return fromBig(c, int32(scale)), nil
}

// leadingDigits is the longest start of text that is digits.
func leadingDigits(text []byte) []byte {
	for i, c := range text {
		if c-'0' > 9 {
			return text[:i]
		}
	}
	return text
}

// digitRow is the digits of an integer part and a fraction in one row, with
// zeros after the end.
type digitRow struct{ integer, fraction []byte }

func (r digitRow) at(i int) uint64 {
	if i < len(r.integer) {
		return uint64(r.integer[i] - '0')
	}
	if i -= len(r.integer); i < len(r.fraction) {
		return uint64(r.fraction[i] - '0')
	}
	return 0
}

// chunk is the number that the k digits from i on make; k is at most maxPow64.
func (r digitRow) chunk(i, k int) (u uint64) {
	for ; k > 0 && i < len(r.integer); i, k = i+1, k-1 {
		u = u*10 + uint64(r.integer[i]-'0')
	}
	for i -= len(r.integer); k > 0 && i < len(r.fraction); i, k = i+1, k-1 {
		u = u*10 + uint64(r.fraction[i]-'0')
	}
	return u * pow10[k]
}
