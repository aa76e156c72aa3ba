package event

import (
	"cmp"
	"encoding/binary"
	"errors"
)

const (
	secondsPerDay = 24 * 60 * 60
	minSec        = -62167219200 // 0000-01-01T00:00:00Z
	maxSec        = 253402300799 // 9999-12-31T23:59:59Z
)

// Compare is -1, 0 or 1 as t is before, equal to or after u.
func (t Time) Compare(u Time) int {
	if c := cmp.Compare(t.Sec, u.Sec); c != 0 {
		return c
	}
	return cmp.Compare(t.Nsec, u.Nsec)
}

// String is t as AppendText writes it.
func (t Time) String() string { return string(t.AppendText(nil)) }

// AppendText appends t in UTC with Z and three fraction digits, six or nine
// where they are needed: 2015-07-29T09:17:12.000Z.
func (t Time) AppendText(dst []byte) []byte {
	days := floorDiv(t.Sec, secondsPerDay)
	second := t.Sec - days*secondsPerDay
	year, month, day := civil(days)
	dst = appendPadded(dst, year, 4)
	dst = append(dst, '-')
	dst = appendPadded(dst, month, 2)
	dst = append(dst, '-')
	dst = appendPadded(dst, day, 2)
	dst = append(dst, 'T')
	dst = appendPadded(dst, second/3600, 2)
	dst = append(dst, ':')
	dst = appendPadded(dst, second/60%60, 2)
	dst = append(dst, ':')
	dst = appendPadded(dst, second%60, 2)
	dst = append(dst, '.')
	switch n := int64(t.Nsec); {
	case n%1e6 == 0:
		dst = appendPadded(dst, n/1e6, 3)
	case n%1e3 == 0:
		dst = appendPadded(dst, n/1e3, 6)
	default:
		dst = appendPadded(dst, n, 9)
	}
	return append(dst, 'Z')
}

// appendPadded appends n, which is not negative, with width digits.
func appendPadded(dst []byte, n int64, width int) []byte {
	at := len(dst)
	for range width {
		dst = append(dst, '0')
	}
	for i := at + width - 1; i >= at; i-- {
		dst[i] = byte('0' + n%10)
		n /= 10
	}
	return dst
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// days is the number of days from 1970-01-01 to a date of the proleptic
// Gregorian calendar, of the years 0000 to 9999, after Cassio Neri and Lorenz
// Schneider's "Euclidean affine functions and their application to calendar
// algorithms": years begin in March, so that the leap day is the last, and are
// counted from -400 on, so that nothing is negative.
func days(year, month, day int64) int64 {
	y, m := uint32(year)+400, uint32(month)
	if m <= 2 {
		y--
		m += 12
	}
	century := y / 100
	toYear := y*1461/4 - century + century/4
	toMonth := (979*m - 2919) / 32
	return int64(toYear) + int64(toMonth) + day - (719468 + 146097 + 1)
}

// civil is the inverse of days (civil_from_days).
func civil(days int64) (year, month, day int64) {
	days += 719468
	era := floorDiv(days, 146097)
	ofEra := days - era*146097
	year = (ofEra - ofEra/1460 + ofEra/36524 - ofEra/146096) / 365
	ofYear := ofEra - (365*year + year/4 - year/100)
	month = (5*ofYear + 2) / 153
	day = ofYear - (153*month+2)/5 + 1
	year += era * 400
	if month += 3; month > 12 {
		month -= 12
		year++
	}
	return year, month, day
}

// ErrTime is returned by ReadTime for bytes that Append does not write.
var ErrTime = errors.New("not an encoded instant")

// Append appends the encoding of t, self-delimiting and one for each instant:
//
//	whole milliseconds: uvarint of zigzag(milliseconds since 1970)<<1
//	else:               uvarint of zigzag(seconds since 1970)<<1 | 1, uvarint nanoseconds
func (t Time) Append(dst []byte) []byte {
	if t.Nsec%1e6 == 0 {
		return binary.AppendUvarint(dst, zigzag(t.Sec*1000+int64(t.Nsec/1e6))<<1)
	}
	dst = binary.AppendUvarint(dst, zigzag(t.Sec)<<1|1)
	return binary.AppendUvarint(dst, uint64(t.Nsec))
}

// ReadTime reads one encoding from the start of src and returns what follows
// it; ErrTime for bytes that Append never writes.
func ReadTime(src []byte) (t Time, rest []byte, err error) {
	head, n := uvarint(src)
	if n == 0 {
		return Time{}, nil, ErrTime
	}
	src = src[n:]
	count := int64(head>>2) ^ -int64(head>>1&1)
	if head&1 == 0 {
		t.Sec = floorDiv(count, 1000)
		t.Nsec = int32(count-t.Sec*1000) * 1e6
	} else {
		nsec, n := uvarint(src)
		if n == 0 || nsec > 999_999_999 || nsec%1e6 == 0 {
			return Time{}, nil, ErrTime
		}
		t, src = Time{count, int32(nsec)}, src[n:]
	}
	if t.Sec < minSec || t.Sec > maxSec {
		return Time{}, nil, ErrTime
	}
	return t, src, nil
}

func zigzag(n int64) uint64 { return uint64(n)<<1 ^ uint64(n>>63) }

// uvarint reads a varint of the shortest form; n is 0 for anything else.
func uvarint(src []byte) (u uint64, n int) {
	u, n = binary.Uvarint(src)
	if n <= 0 || n > 1 && src[n-1] == 0 {
		return 0, 0
	}
	return u, n
}
