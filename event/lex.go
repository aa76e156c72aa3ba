package event

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// The grammar of RFC 8259, over bytes: every function returns the index behind
// what it read, or -1 where that is not valid.

// skipSpace returns the index of the first byte from i on that is not blank.
func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// unplain has the high bit set in every byte of w that is a quote, a
// backslash, a control character or not ASCII, up to and including the first
// such byte: bytes after it may be marked in error, none before.
func unplain(w uint64) uint64 {
	quote := w ^ ones*'"'
	slash := w ^ ones*'\\'
	return (w | (w - ones*0x20) | (quote - ones) | (slash - ones)) & highs
}

// textEnd reads a text whose opening quote is before i, and returns the index
// of the closing one and whether there are escapes between them.
func textEnd(b []byte, i int) (quote int, escaped bool) {
	for {
		for i+8 <= len(b) {
			m := unplain(binary.LittleEndian.Uint64(b[i:]))
			if m != 0 {
				i += bits.TrailingZeros64(m) >> 3
				break
			}
			i += 8
		}
		if i >= len(b) {
			return -1, false
		}
		switch c := b[i]; {
		case c == '"':
			return i, escaped
		case c == '\\':
			n := escapeLen(b[i:])
			if n == 0 {
				return -1, false
			}
			i += n
			escaped = true
		case c < ' ':
			return -1, false
		case c < utf8.RuneSelf:
			i++ // plain, in the last seven bytes
		default:
			n := runeLen(b[i:])
			if n == 0 {
				return -1, false
			}
			i += n
		}
	}
}

// runeLen is the length of the UTF-8 sequence, not ASCII, at the start of b, 0
// where it is not valid.
func runeLen(b []byte) int {
	c := b[0]
	if c-0xC2 <= 0xDF-0xC2 && len(b) > 1 && b[1]&0xC0 == 0x80 {
		return 2
	}
	if c-0xE1 <= 0xEC-0xE1 && len(b) > 2 && b[1]&0xC0 == 0x80 && b[2]&0xC0 == 0x80 {
		return 3
	}
	if r, n := utf8.DecodeRune(b); r != utf8.RuneError || n > 1 {
		return n
	}
	return 0
}

// escapeLen is the length of the escape at the start of b, a surrogate pair
// being one escape; 0 where it is not valid, a lone surrogate included.
func escapeLen(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		r := hex4(b)
		switch {
		case r < 0 || r >= 0xDC00 && r < 0xE000:
			return 0
		case r < 0xD800 || r >= 0xE000:
			return 6
		}
		if low := hex4(b[6:]); low >= 0xDC00 && low < 0xE000 {
			return 12
		}
	}
	return 0
}

// hex4 reads \uXXXX at the start of b; -1 where it is not that.
func hex4(b []byte) (r rune) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return -1
	}
	for _, c := range b[2:6] {
		switch {
		case c-'0' <= 9:
			c -= '0'
		case c|0x20-'a' <= 5:
			c = c | 0x20 - 'a' + 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}

// unescape appends text, which is valid and has no quotes round it, with its
// escapes resolved.
func unescape(dst, text []byte) []byte {
	for i := 0; i < len(text); {
		c := text[i]
		if c != '\\' {
			dst = append(dst, c)
			i++
			continue
		}
		n := escapeLen(text[i:])
		switch c := text[i+1]; c {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r := hex4(text[i:])
			if n == 12 {
				r = (r-0xD800)<<10 + (hex4(text[i+6:]) - 0xDC00) + 0x10000
			}
			dst = utf8.AppendRune(dst, r)
		default: // a quote, a backslash, a slash
			dst = append(dst, c)
		}
		i += n
	}
	return dst
}

// word is the eight bytes from b[i] on, the first one lowest, with zeros for
// those behind the end of b. i is at most len(b).
func word(b []byte, i int) uint64 {
	if i+8 <= len(b) {
		return binary.LittleEndian.Uint64(b[i:])
	}
	if n := len(b) - 8; n >= 0 {
		return binary.LittleEndian.Uint64(b[n:]) >> (8 * uint(i-n))
	}
	var last [8]byte
	copy(last[:], b[i:])
	return binary.LittleEndian.Uint64(last[:])
}

// noDigits has the high bit set in every byte of w that is no digit, up to and
// including the first one that is not ASCII: bytes after that may be marked in
// error, none before.
func noDigits(w uint64) uint64 {
	w ^= ones * '0'
	return ((w + ones*(0x80-10)) | w) & highs
}

// numberEnd reads a number. Most are short, without an exponent, and of a length
// that is hard to foresee: they are taken as one word, and no branch goes by
// their length.
func numberEnd(b []byte, i int) int {
	start := i
	if b[i] == '-' {
		i++
	}
	m := noDigits(word(b, i))
	n := bits.TrailingZeros64(m) >> 3 // digits before the point
	if uint(i+n) >= uint(len(b)) || n == 0 || n > 1 && b[i] == '0' {
		return longNumberEnd(b, start)
	}
	if b[i+n] == '.' {
		m &= m - 1
		point := n
		n = bits.TrailingZeros64(m) >> 3
		if uint(i+n) >= uint(len(b)) || n == point+1 {
			return longNumberEnd(b, start)
		}
	}
	if m == 0 || b[i+n]|0x20 == 'e' {
		return longNumberEnd(b, start)
	}
	return i + n
}

// longNumberEnd reads any number.
func longNumberEnd(b []byte, i int) int {
	if b[i] == '-' {
		i++
	}
	switch start := i; {
	case i >= len(b):
		return -1
	case b[i] == '0':
		i++
	default:
		if i = digitsEnd(b, i); i == start {
			return -1
		}
	}
	if i < len(b) && b[i] == '.' {
		start := i + 1
		if i = digitsEnd(b, start); i == start {
			return -1
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		start := i
		if i = digitsEnd(b, start); i == start {
			return -1
		}
	}
	return i
}

// digitsEnd returns the index of the first byte from i on that is no digit.
func digitsEnd(b []byte, i int) int {
	for {
		n := bits.TrailingZeros64(noDigits(word(b, i))) >> 3
		if i += n; n < 8 {
			return i
		}
	}
}

// literal reads null, true or false.
func literal(b []byte, i int) (Kind, int) {
	rest := b[i:]
	switch {
	case len(rest) >= 4 && string(rest[:4]) == "null":
		return Null, i + 4
	case len(rest) >= 4 && string(rest[:4]) == "true":
		return True, i + 4
	case len(rest) >= 5 && string(rest[:5]) == "false":
		return False, i + 5
	}
	return Missing, -1
}
