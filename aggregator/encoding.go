package aggregator

import (
	"encoding/binary"
	"errors"
	"fmt"

	"tidemark/decimal"
	"tidemark/event"
)

// FormatVersion is the version of the encoding of totals, their first byte.
// ENCODING.md describes it.
const FormatVersion = 1

var (
	errShort = errors.New("it ends too early")
	errLong  = errors.New("bytes follow its end")
	errRange = errors.New("a number in it is out of range")
	errTag   = errors.New("it holds a value of no known kind")
)

// errVersion is for a first byte that is not FormatVersion.
func errVersion(is byte) error {
	if is > FormatVersion {
		return fmt.Errorf("it has format %d, and this program reads formats up to %d: a newer version wrote it", is, FormatVersion)
	}
	return fmt.Errorf("it has format %d, and this program reads format %d", is, FormatVersion)
}

// A scalar begins with one of these tags, or it is an encoded decimal, the
// first byte of which never ends in the bits 11.
const (
	tagNone  byte = 0<<2 | 3
	tagFalse byte = 1<<2 | 3
	tagTrue  byte = 2<<2 | 3
	tagText  byte = 3<<2 | 3
	tagTime  byte = 4<<2 | 3
)

func zigzag(n int64) uint64   { return uint64(n)<<1 ^ uint64(n>>63) }
func unzigzag(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }

func appendVarint(dst []byte, n int64) []byte { return binary.AppendUvarint(dst, zigzag(n)) }

// readUvarint reads an unsigned varint from the front of src.
func readUvarint(src []byte) (u uint64, rest []byte, err error) {
	if len(src) > 0 && src[0] < 0x80 {
		return uint64(src[0]), src[1:], nil
	}
	u, n := binary.Uvarint(src)
	switch {
	case n > 0:
		return u, src[n:], nil
	case n == 0:
		return 0, nil, errShort
	}
	return 0, nil, errRange
}

// readVarint reads a zigzag varint from the front of src.
func readVarint(src []byte) (int64, []byte, error) {
	u, rest, err := readUvarint(src)
	return unzigzag(u), rest, err
}

// appendScalar appends a value that is absent (Missing, Null), False, True,
// Decimal, Text or Timestamp.
func appendScalar(dst []byte, v *event.Value) []byte {
	switch v.Kind {
	case event.False:
		return append(dst, tagFalse)
	case event.True:
		return append(dst, tagTrue)
	case event.Decimal:
		return v.Num.Append(dst)
	case event.Text:
		dst = append(dst, tagText)
		dst = binary.AppendUvarint(dst, uint64(len(v.Bytes)))
		return append(dst, v.Bytes...)
	case event.Timestamp:
		dst = append(dst, tagTime)
		return v.Time.Append(dst)
	}
	return append(dst, tagNone)
}

// readScalar reads what appendScalar wrote into v; what was absent is Null. A
// text points into src.
func readScalar(src []byte, v *event.Value) (rest []byte, err error) {
	if len(src) == 0 {
		return nil, errShort
	}
	if src[0]&3 != 3 {
		v.Kind = event.Decimal
		v.Num, rest, err = decimal.Read(src)
		return rest, err
	}
	rest = src[1:]
	switch src[0] {
	case tagNone:
		v.Kind = event.Null
	case tagFalse:
		v.Kind = event.False
	case tagTrue:
		v.Kind = event.True
	case tagText:
		n, r, err := readUvarint(rest)
		if err != nil {
			return nil, err
		}
		if n > uint64(len(r)) {
			return nil, errShort
		}
		v.Kind = event.Text
		v.Bytes = r[:n:n]
		rest = r[n:]
	case tagTime:
		v.Kind = event.Timestamp
		v.Time, rest, err = event.ReadTime(rest)
	default:
		return nil, errTag
	}
	return rest, err
}
