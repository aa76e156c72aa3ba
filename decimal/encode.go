package decimal

import (
	"encoding/binary"
	"errors"
	"math/big"
)

// MaxScale is the largest scale that Read accepts. No definition of a length
// that can be written comes near it.
const MaxScale = 1 << 20

// ErrEncoding is returned by Read for bytes that Append does not write.
var ErrEncoding = errors.New("not an encoded decimal")

// What follows the scale in an encoding.
const (
	formSmall    = 0 // the coefficient as a zigzag varint of 64 bits
	formPositive = 1 // its magnitude: length as a varint, big-endian bytes
	formNegative = 2
)

// Append appends the encoding of d, the same for every form of the same
// number, and self-delimiting:
//
//	uvarint   scale<<2 | form
//	form 0:   uvarint of the zigzag coefficient (-2^63 to 2^63-1)
//	form 1,2: uvarint n, then n bytes big-endian: the magnitude of a larger
//	          coefficient, positive (1) or negative (2), no leading zero byte
//
// The coefficient has no trailing zeros that the scale could give up.
func (d Decimal) Append(dst []byte) []byte {
	d = d.trim()
	scale := uint64(uint32(d.scale)) << 2
	if d.big == nil && d.hi == int64(d.lo)>>63 {
		dst = appendUvarint(dst, scale|formSmall)
		return appendUvarint(dst, d.lo<<1^uint64(d.hi))
	}
	form := uint64(formPositive)
	if d.Sign() < 0 {
		form = formNegative
	}
	dst = appendUvarint(dst, scale|form)
	if d.big != nil {
		n := (d.big.BitLen() + 7) / 8
		dst = appendUvarint(dst, uint64(n))
		at := len(dst)
		dst = append(dst, make([]byte, n)...)
		d.big.FillBytes(dst[at:])
		return dst
	}
	u, _ := d.magnitude()
	n := (u.bitLen() + 7) / 8
	dst = append(dst, byte(n))
	var buf [16]byte
	binary.BigEndian.PutUint64(buf[:8], u.hi)
	binary.BigEndian.PutUint64(buf[8:], u.lo)
	return append(dst, buf[16-n:]...)
}

func appendUvarint(dst []byte, u uint64) []byte {
	if u < 0x80 {
		return append(dst, byte(u))
	}
	return binary.AppendUvarint(dst, u)
}

// uvarint reads what appendUvarint writes; n is 0 for anything else, also for
// a number written with more bytes than it needs.
func uvarint(src []byte) (u uint64, n int) {
	if len(src) > 0 && src[0] < 0x80 {
		return uint64(src[0]), 1
	}
	u, n = binary.Uvarint(src)
	if n <= 0 || src[n-1] == 0 {
		return 0, 0
	}
	return u, n
}

// Read reads one encoding from the start of src and returns what follows it.
// It returns ErrEncoding for bytes that Append never writes, the other
// encodings of a number included, and keeps nothing of src.
func Read(src []byte) (d Decimal, rest []byte, err error) {
	head, n := uvarint(src)
	if n == 0 || head>>2 > MaxScale {
		return Decimal{}, nil, ErrEncoding
	}
	src = src[n:]
	scale := int32(head >> 2)
	u, n := uvarint(src)
	if n == 0 {
		return Decimal{}, nil, ErrEncoding
	}
	src = src[n:]
	if head&3 == formSmall {
		lo := u>>1 ^ -(u & 1)
		if scale != 0 && lo&1 == 0 && int64(lo)%10 == 0 {
			return Decimal{}, nil, ErrEncoding
		}
		return Decimal{hi: int64(lo) >> 63, lo: lo, scale: scale}, src, nil
	}
	if head&3 > formNegative || u > uint64(len(src)) || u < 8 || src[0] == 0 {
		return Decimal{}, nil, ErrEncoding
	}
	magnitude, rest := src[:u], src[u:]
	neg := head&3 == formNegative
	if u > 16 {
		c := new(big.Int).SetBytes(magnitude)
		if neg {
			c.Neg(c)
		}
		if d = fromBig(c, scale); d.big == nil || d.scale != scale {
			return Decimal{}, nil, ErrEncoding
		}
		return d, rest, nil
	}
	var buf [16]byte
	copy(buf[16-u:], magnitude)
	w := wide{binary.BigEndian.Uint64(buf[:8]), binary.BigEndian.Uint64(buf[8:])}
	d = fromWide(neg, w, scale)
	if small := d.big == nil && d.hi == int64(d.lo)>>63; small || d.trim().scale != scale {
		return Decimal{}, nil, ErrEncoding
	}
	return d, rest, nil
}
