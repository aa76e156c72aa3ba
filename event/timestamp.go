package event

import (
	"encoding/binary"
	"time"

	"tidemark/decimal"
)

// Timestamp reads v as an instant: text as ParseTime, numbers as TimeOfNumber.
// Booleans, arrays and objects are WrongType; MissingField and NullField for
// what is not there.
func (v *Value) Timestamp(zone *time.Location) (Time, Reason) {
	switch v.Kind {
	case Text:
		return ParseTime(v.Bytes, zone)
	case Number:
		return epochText(v.Bytes)
	case Decimal:
		return TimeOfNumber(v.Num)
	case Timestamp:
		return v.Time, OK
	}
	return Time{}, v.unread()
}

// ParseTime reads RFC 3339 with T or a space, with or without seconds, with a
// fraction of up to nine digits behind them, and Z, +02:00, +0200 or no zone.
// Without one it is in zone (nil is UTC), in a daylight-saving gap or overlap
// with the offset in force before the change. A text that is a number is read
// as TimeOfNumber. All else is BadTimestamp, also dates that no calendar has
// and instants outside of the years 0000 to 9999 in UTC.
func ParseTime(text []byte, zone *time.Location) (Time, Reason) {
	if len(text) == len(millisForm) {
		if t, ok := parseMillis(text); ok {
			return t, OK
		}
	}
	const shortest = len("2006-01-02T15:04")
	b := text
	if len(b) < shortest || b[4] != '-' || b[7] != '-' || b[13] != ':' ||
		b[10] != 'T' && b[10] != ' ' && b[10] != 't' {
		return epochText(text)
	}
	var bad int64 // negative where any part was no number
	two := func(i int) int64 {
		hi, lo := b[i]-'0', b[i+1]-'0'
		if hi > 9 || lo > 9 {
			bad = -1
		}
		return int64(hi)*10 + int64(lo)
	}
	year := two(0)*100 + two(2)
	month, day, hour, minute := two(5), two(8), two(11), two(14)
	if bad < 0 || month < 1 || month > 12 || day < 1 || day > 28 && day > lastDay(year, month) ||
		hour > 23 || minute > 59 {
		return Time{}, BadTimestamp
	}
	var second, nsec int64
	b = b[shortest:]
	if len(b) >= 3 && b[0] == ':' {
		if second = two(1); bad < 0 || second > 59 {
			return Time{}, BadTimestamp
		}
		b = b[3:]
		if len(b) > 0 && b[0] == '.' {
			end := 1
			for end < len(b) && b[end]-'0' <= 9 {
				if end > 9 {
					return Time{}, BadTimestamp
				}
				nsec = nsec*10 + int64(b[end]-'0')
				end++
			}
			if end == 1 {
				return Time{}, BadTimestamp
			}
			nsec *= fractionUnit[end-1]
			b = b[end:]
		}
	}
	sec := days(year, month, day)*secondsPerDay + hour*3600 + minute*60 + second

	switch {
	case len(b) == 1 && b[0]|0x20 == 'z':
	case len(b) == 0:
		if zone != nil && zone != time.UTC {
			sec = wallClock(sec, zone)
		}
	case (b[0] == '+' || b[0] == '-') && (len(b) == 5 || len(b) == 6 && b[3] == ':'):
		h, m := two(1), two(len(b)-2)
		if bad < 0 || h > 23 || m > 59 {
			return Time{}, BadTimestamp
		}
		offset := h*3600 + m*60
		if b[0] == '-' {
			offset = -offset
		}
		sec -= offset
	default:
		return Time{}, BadTimestamp
	}
	if sec < minSec || sec > maxSec {
		return Time{}, BadTimestamp
	}
	return Time{Sec: sec, Nsec: int32(nsec)}, OK
}

// millisForm is what programs write most: eight bytes a word, and pairs of
// digits within the words.
const millisForm = "0000-00-00T00:00:00.000Z"

// millisWords are the words of millisForm, and marks the bytes in them that are
// no digits.
var millisWords, millisMarks = func() (words, marks [3]uint64) {
	for i, c := range []byte(millisForm) {
		words[i/8] |= uint64(c) << (8 * (i % 8))
		if c != '0' {
			marks[i/8] |= 0xff << (8 * (i % 8))
		}
	}
	return words, marks
}()

// parseMillis reads a text of millisForm's length. ok is false where it has
// another form, or a date that no calendar has: ParseTime says which.
func parseMillis(text []byte) (t Time, ok bool) {
	_ = text[23]
	// What is as in the form becomes 0, and a digit its value.
	a := binary.LittleEndian.Uint64(text) ^ millisWords[0]
	b := binary.LittleEndian.Uint64(text[8:]) ^ millisWords[1]
	c := binary.LittleEndian.Uint64(text[16:]) ^ millisWords[2]
	const above9 = ones * (0x80 - 10)
	if a&millisMarks[0]|b&millisMarks[1]|c&millisMarks[2] != 0 ||
		(a|(a+above9)|b|(b+above9)|c|(c+above9))&highs != 0 {
		return t, false
	}
	// Each byte ten times, and the one behind it: numbers of two digits where
	// pairs of digits begin.
	a, b, ms := a*10+a>>8, b*10+b>>8, c>>48&0xff
	c = c*10 + c>>8
	year := int64(a&0xff*100 + a>>16&0xff)
	month, day := int64(a>>40&0xff), int64(b&0xff)
	hour, minute, second := int64(b>>24&0xff), int64(b>>48&0xff), int64(c>>8&0xff)
	if month < 1 || month > 12 || day < 1 || day > 28 && day > lastDay(year, month) ||
		hour > 23 || minute > 59 || second > 59 {
		return t, false
	}
	t.Sec = days(year, month, day)*secondsPerDay + hour*3600 + minute*60 + second
	t.Nsec = int32(c>>32&0xff*10+ms) * 1e6
	return t, true
}

// fractionUnit is the nanoseconds of the last of so many fraction digits.
var fractionUnit = [10]int64{0, 1e8, 1e7, 1e6, 1e5, 1e4, 1e3, 1e2, 10, 1}

// lastDay is the last day of a month.
func lastDay(year, month int64) int64 {
	switch month {
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}

// wallClock is the instant at which clocks of the zone show what UTC clocks
// show at wall. Where they show it twice, or never, it goes by the offset in
// force before the change.
func wallClock(wall int64, zone *time.Location) int64 {
	// No offset reaches 16 hours. Periods of one offset are tried in order from
	// the one in force that long before wall read as UTC.
	const reach = 16 * 60 * 60
	at := time.Unix(wall-reach, 0).In(zone)
	_, before := at.Zone()
	for {
		_, offset := at.Zone()
		start, end := at.ZoneBounds()
		sec := wall - int64(offset)
		if !start.IsZero() && sec < start.Unix() && at.Unix() > wall-reach {
			return wall - int64(before) // in the gap before this period
		}
		if end.IsZero() || sec < end.Unix() {
			return sec
		}
		before, at = offset, end
	}
}

// Bounds of an epoch number: seconds from minEpoch, and each further unit from
// a thousand times the last.
const (
	minEpoch      = 100_000_000             // 1973 in seconds
	minEpochMilli = 100_000_000_000         // 1973 in milliseconds
	minEpochMicro = 100_000_000_000_000     // 1973 in microseconds
	minEpochNano  = 100_000_000_000_000_000 // 1973 in nanoseconds, to 2^63-1 in 2262
)

// TimeOfNumber reads a number as time since 1970-01-01T00:00:00Z: seconds from
// 10^8 on, milliseconds from 10^11, microseconds from 10^14, nanoseconds from
// 10^17 to below 2^63. Seconds may have up to nine decimals, the others none
// but zeros. All else is BadTimestamp.
func TimeOfNumber(d decimal.Decimal) (Time, Reason) {
	if n, ok := d.Int64(); ok {
		return timeOfInt(n)
	}
	sec, ok := d.Trunc().Int64()
	if !ok || sec < minEpoch || sec >= minEpochMilli {
		return Time{}, BadTimestamp
	}
	nsec, ok := d.Sub(decimal.FromInt64(sec)).Mul(decimal.FromInt64(1e9)).Int64()
	if !ok {
		return Time{}, BadTimestamp
	}
	return Time{Sec: sec, Nsec: int32(nsec)}, OK
}

func timeOfInt(n int64) (Time, Reason) {
	switch {
	case n < minEpoch:
		return Time{}, BadTimestamp
	case n < minEpochMilli:
		return Time{Sec: n}, OK
	case n < minEpochMicro:
		return Time{Sec: n / 1e3, Nsec: int32(n%1e3) * 1e6}, OK
	case n < minEpochNano:
		return Time{Sec: n / 1e6, Nsec: int32(n%1e6) * 1e3}, OK
	}
	return Time{Sec: n / 1e9, Nsec: int32(n % 1e9)}, OK
}

// epochText is TimeOfNumber of a text or a JSON number.
func epochText(text []byte) (Time, Reason) {
	d, err := decimal.Parse(text)
	if err != nil {
		return Time{}, BadTimestamp
	}
	return TimeOfNumber(d)
}
