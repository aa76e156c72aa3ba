package event

import (
	"bytes"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"pgregory.net/rapid"

	"tidemark/decimal"
)

func instant(t time.Time) Time { return Time{t.Unix(), int32(t.Nanosecond())} }

var written = regexp.MustCompile(`^(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?([Zz]|([+-])(\d\d):?(\d\d))?$`)

// parseByRegexp is ParseTime in UTC by way of a pattern and the time package.
func parseByRegexp(text string) (Time, Reason) {
	m := written.FindStringSubmatch(text)
	if m == nil {
		d, err := decimal.Parse([]byte(text))
		if err != nil {
			return Time{}, BadTimestamp
		}
		return epochByText(d.String())
	}
	n := func(i int) int { k, _ := strconv.Atoi(m[i]); return k }
	at := time.Date(n(1), time.Month(n(2)), n(3), n(4), n(5), n(6), 0, time.UTC)
	if int(at.Month()) != n(2) || at.Day() != n(3) || at.Hour() != n(4) || at.Minute() != n(5) || at.Second() != n(6) {
		return Time{}, BadTimestamp // no such date: the time package went on to another
	}
	nsec, _ := strconv.Atoi((m[7] + "000000000")[:9])
	at = at.Add(time.Duration(nsec))
	if m[9] != "" {
		if n(10) > 23 || n(11) > 59 {
			return Time{}, BadTimestamp
		}
		offset := time.Duration(n(10))*time.Hour + time.Duration(n(11))*time.Minute
		if m[9] == "+" {
			offset = -offset
		}
		at = at.Add(offset)
	}
	if at.Year() < 0 || at.Year() > 9999 {
		return Time{}, BadTimestamp
	}
	return instant(at), OK
}

// epochByText reads an epoch number from its plain digits.
func epochByText(digits string) (Time, Reason) {
	whole, fraction, _ := strings.Cut(digits, ".")
	if whole[0] == '-' || len(fraction) > 9 || len(whole) > 19 {
		return Time{}, BadTimestamp
	}
	n, err := strconv.ParseInt(whole, 10, 64)
	unit := 0 // digits behind the seconds
	switch l := len(whole); {
	case err != nil || l < 9:
		return Time{}, BadTimestamp
	case l <= 11:
	case l <= 14:
		unit = 3
	case l <= 17:
		unit = 6
	default:
		unit = 9
	}
	if unit > 0 && fraction != "" {
		return Time{}, BadTimestamp
	}
	if unit == 0 {
		nsec, _ := strconv.Atoi((fraction + "000000000")[:9])
		return Time{n, int32(nsec)}, OK
	}
	sec, _ := strconv.ParseInt(whole[:len(whole)-unit], 10, 64)
	nsec, _ := strconv.Atoi((whole[len(whole)-unit:] + "000000000")[:9])
	return Time{sec, int32(nsec)}, OK
}

func checkTime(t failer, text string) {
	got, reason := ParseTime([]byte(text), time.UTC)
	want, wantReason := parseByRegexp(text)
	if got != want || reason != wantReason {
		t.Fatalf("ParseTime(%q) = %v %v, want %v %v", text, got, reason, want, wantReason)
	}
	if reason != OK {
		return
	}
	out := got.String()
	if again, reason := ParseTime([]byte(out), nil); again != got || reason != OK {
		t.Fatalf("ParseTime(%q) = %v %v, want %v", out, again, reason, got)
	}
	fraction := strings.TrimSuffix(out[len("2006-01-02T15:04:05."):], "Z")
	if len(out) < 24 || len(fraction)%3 != 0 || len(fraction) > 3 && strings.HasSuffix(fraction, "000") {
		t.Fatalf("%v is written %s", got, out)
	}
}

var timeTexts = []string{
	"2015-07-29T09:17:12.000Z", "2025-06-03T10:00:05Z", "2025-06-03 10:00:05", "2025-06-03 10:00:05.0", "2025-06-03T12:00:05+0200",
	"2025-06-03T12:00:05+02:00", "2025-06-03T10:00", "2025-06-03 10:00Z", "2025-06-03T10:00-05:30", "2025-06-03T10:00:05.1234567Z",
	"2025-06-03t10:00:05z", "2025-06-03T10:00:05.123456789", "2025-06-03T10:00:05.1234567890", "2025-06-03T10:00:05.", "2025-06-03T10:00:05.Z",
	"2025-06-03T10:00.5", "2025-06-03T10:00:5", "2025-06-03T10:00:", "2025-06-03T10", "2025-06-03", "2025/06/03 10:00:05", "0000-00-00 00:00:00",
	"0000-01-01T00:00:00Z", "0000-01-01T00:00:00+00:01", "0000-01-01T00:00:00-00:01", "9999-12-31T23:59:59.999999999Z",
	"9999-12-31T23:59:59-00:01", "9999-12-31T23:59:59+00:01", "10000-01-01T00:00:00Z", "-001-01-01T00:00:00Z",
	"2024-02-29T00:00:00Z", "2023-02-29T00:00:00Z", "2000-02-29T00:00:00Z", "1900-02-29T00:00:00Z", "2100-02-29T00:00:00Z", "2024-02-30T00:00:00Z",
	"2024-04-31T00:00:00Z", "2024-13-01T00:00:00Z", "2024-00-01T00:00:00Z", "2024-01-00T00:00:00Z", "2024-01-32T00:00:00Z",
	"2024-01-01T24:00:00Z", "2024-01-01T23:60:00Z", "2024-01-01T23:59:60Z", "2016-12-31T23:59:60Z", "2024-01-01T00:00:00+24:00",
	"2024-01-01T00:00:00+23:59", "2024-01-01T00:00:00-23:60", "2024-01-01T00:00:00+2", "2024-01-01T00:00:00+02", "2024-01-01T00:00:00+020",
	"2024-01-01T00:00:00+02:0", "2024-01-01T00:00:00+02:000", "2024-01-01T00:00:00 +02:00", "2024-01-01T00:00:00Zz", "2024-01-01T00:00:00UTC",
	"2024-01-01T00:00:00+0a:00", "2024-01-01T00:00:00:00:00", " 2024-01-01T00:00:00Z", "2024-01-01T00:00:00Z ", "2024-01-01_00:00:00", "2024-01-01T00-00-00",
	"2O24-01-01T00:00:00Z", "2024-01-01T0\xb0:00:00Z", "2024-01-01T00:00:00,5Z", "2024-01-01T00:00:00.5.5", "２024-01-01T00:00:00Z",
	"1748944805", "1748944805000", "1748944805000000", "1748944805000000000", "1748944", "1748944805.5", "1748944805.123456789", "1748944805.1234567891",
	"1748944805000.5", "1748944805000.0", "1.748944805e9", "1748944805e3", "99999999", "99999999.999999999", "100000000", "99999999999", "100000000000",
	"99999999999999", "100000000000000", "99999999999999999", "100000000000000000", "9223372036854775807", "9223372036854775808", "-1748944805", "0", "-0", "1e400",
	"1e-400", "", "x", "now", "NaN", "20250603", "2025",
}

func TestParseTimeAgainstPattern(t *testing.T) {
	for _, text := range timeTexts {
		checkTime(t, text)
	}
	rapid.Check(t, func(t *rapid.T) {
		checkTime(t, rapid.StringMatching(`[0-9]{4}-[01][0-9]-[0-3][0-9][T ][0-2][0-9]:[0-6][0-9](:[0-6][0-9](\.[0-9]{0,10})?)?([Z]|[+-][0-2][0-9]:?[0-6][0-9])?`).Draw(t, "text"))
		checkTime(t, rapid.StringMatching(`[1-9][0-9]{6,19}(\.[0-9]{1,10})?`).Draw(t, "epoch"))
	})
}

// The form that programs write most, with any of its bytes another.
func TestParseTimeOfTheUsualForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := time.Unix(rapid.Int64Range(minSec, maxSec).Draw(t, "seconds"), int64(rapid.IntRange(0, 999).Draw(t, "ms"))*1e6).UTC()
		text := []byte(at.Format("2006-01-02T15:04:05.000Z"))
		checkTime(t, string(text))
		text[rapid.IntRange(0, len(text)-1).Draw(t, "place")] = rapid.Byte().Draw(t, "byte")
		checkTime(t, string(text))
	})
}

func FuzzParseTime(f *testing.F) {
	for _, text := range timeTexts {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { checkTime(t, text) })
}

func TestD16EpochsByMagnitude(t *testing.T) {
	const want = "2025-06-03T10:00:05.000Z"
	for _, digits := range []string{"1748944805", "1748944805000", "1748944805000000", "1748944805000000000", "1748944805000000000.00", "1.748944805e12"} {
		for _, v := range []Value{
			{Kind: Number, Bytes: []byte(digits)}, {Kind: Text, Bytes: []byte(digits)},
			{Kind: Decimal, Num: must(decimal.Parse([]byte(digits)))},
			{Kind: Decimal, Num: must(decimal.Parse([]byte(digits))).Mul(must(decimal.Parse([]byte("2.5")))).Mul(must(decimal.Parse([]byte("0.4"))))},
		} {
			if got, reason := v.Timestamp(nil); reason != OK || got.String() != want {
				t.Errorf("%s: %v %v", show(&v), got, reason)
			}
		}
	}
	for _, digits := range []string{"1748944", "-1748944805", "0", "1748944805000.1", "9223372036854775808", "1e30", "1e400", "1748944805.0000000001"} {
		for _, kind := range []Kind{Number, Text} {
			v := Value{Kind: kind, Bytes: []byte(digits)}
			if got, reason := v.Timestamp(nil); reason != BadTimestamp || got != (Time{}) {
				t.Errorf("%s: %v %v", show(&v), got, reason)
			}
		}
	}
}

func must(d decimal.Decimal, err error) decimal.Decimal {
	if err != nil {
		panic(err)
	}
	return d
}

func TestD17SpellingsOfDates(t *testing.T) {
	for text, want := range map[string]string{
		"2025-06-03T10:00:05Z":         "2025-06-03T10:00:05.000Z",
		"2025-06-03 10:00:05":          "2025-06-03T10:00:05.000Z",
		"2025-06-03 10:00:05.0":        "2025-06-03T10:00:05.000Z",
		"2025-06-03T12:00:05+0200":     "2025-06-03T10:00:05.000Z",
		"2025-06-03T10:00":             "2025-06-03T10:00:00.000Z",
		"2025-06-03T10:00:05.1234567Z": "2025-06-03T10:00:05.123456700Z",
		"2025-06-03T10:00:05.1234Z":    "2025-06-03T10:00:05.123400Z",
		"2025/06/03 10:00:05":          "",
		"0000-00-00 00:00:00":          "",
	} {
		got, reason := ParseTime([]byte(text), time.UTC)
		if want == "" && reason != BadTimestamp || want != "" && (reason != OK || got.String() != want) {
			t.Errorf("ParseTime(%s) = %v %v, want %s", text, got, reason, want)
		}
	}
}

func TestZoneOfTextsWithoutOne(t *testing.T) {
	for _, c := range []struct{ zone, text, want string }{
		{"Europe/Berlin", "2025-06-03 12:00:05", "2025-06-03T10:00:05.000Z"},
		{"Europe/Berlin", "2025-01-03 12:00:05", "2025-01-03T11:00:05.000Z"},
		{"Europe/Berlin", "2025-03-30 01:59:59", "2025-03-30T00:59:59.000Z"},
		{"Europe/Berlin", "2025-03-30 02:00:00", "2025-03-30T01:00:00.000Z"}, // never shown: +01:00
		{"Europe/Berlin", "2025-03-30 02:30:00", "2025-03-30T01:30:00.000Z"},
		{"Europe/Berlin", "2025-03-30 03:00:00", "2025-03-30T01:00:00.000Z"},
		{"Europe/Berlin", "2025-10-26 02:00:00", "2025-10-26T00:00:00.000Z"}, // shown twice: +02:00
		{"Europe/Berlin", "2025-10-26 02:59:59.5", "2025-10-26T00:59:59.500Z"},
		{"Europe/Berlin", "2025-10-26 03:00:00", "2025-10-26T02:00:00.000Z"},
		{"America/New_York", "2025-03-09T02:30", "2025-03-09T07:30:00.000Z"},
		{"America/New_York", "2025-11-02T01:30", "2025-11-02T05:30:00.000Z"},
		{"Australia/Lord_Howe", "2025-04-06T01:45", "2025-04-05T14:45:00.000Z"}, // half an hour, twice
		{"Pacific/Apia", "2011-12-30T12:00", "2011-12-30T22:00:00.000Z"},        // a day that was left out
		{"Asia/Kathmandu", "2025-01-01T05:45", "2025-01-01T00:00:00.000Z"},
		{"Europe/Berlin", "2025-06-03 12:00:05Z", "2025-06-03T12:00:05.000Z"}, // a zone of its own counts
		{"Europe/Berlin", "2200-07-01 12:00:00", "2200-07-01T10:00:00.000Z"},
		{"Europe/Berlin", "1800-01-01 00:53:28", "1800-01-01T00:00:00.000Z"}, // local mean time
	} {
		zone, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		if got, reason := ParseTime([]byte(c.text), zone); reason != OK || got.String() != c.want {
			t.Errorf("%s in %s = %v %v, want %s", c.text, c.zone, got, reason, c.want)
		}
	}
}

// The instant is the first that shows the wall time; where none does, the
// offset is the one before the change.
func TestWallClockIsTheEarlierOffset(t *testing.T) {
	var zones []*time.Location
	for _, name := range []string{
		"Europe/Berlin", "America/New_York", "America/St_Johns", "Australia/Lord_Howe", "Pacific/Apia", "Pacific/Kwajalein",
		"Africa/Casablanca", "Antarctica/Troll", "America/Caracas", "Asia/Tehran", "UTC",
	} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		zones = append(zones, zone)
	}
	offsetAt := func(sec int64, zone *time.Location) int64 {
		_, o := time.Unix(sec, 0).In(zone).Zone()
		return int64(o)
	}
	rapid.Check(t, func(t *rapid.T) {
		zone := rapid.SampledFrom(zones).Draw(t, "zone")
		wall := rapid.Int64Range(-3_000_000_000, 6_000_000_000).Draw(t, "wall")
		if _, end := time.Unix(wall, 0).In(zone).ZoneBounds(); !end.IsZero() && rapid.Bool().Draw(t, "near a change") {
			wall = end.Unix() + offsetAt(end.Unix()-1, zone) + rapid.Int64Range(-90_000, 90_000).Draw(t, "off")
		}
		got := wallClock(wall, zone)
		// Every offset in use within two days is a candidate.
		first, found := int64(0), false
		for sec := wall - 2*86_400; sec <= wall+2*86_400; sec += 900 {
			c := wall - offsetAt(sec, zone)
			if offsetAt(c, zone) == wall-c && (!found || c < first) {
				first, found = c, true
			}
		}
		if found {
			if got != first {
				t.Fatalf("%d in %v is %d, first shown at %d", wall, zone, got, first)
			}
			return
		}
		start, _ := time.Unix(got, 0).In(zone).ZoneBounds()
		if before := offsetAt(start.Unix()-1, zone); wall-got != before || got < start.Unix() {
			t.Fatalf("%d in %v, in a gap, is %d: offset %d, before the change %d", wall, zone, got, wall-got, before)
		}
	})
}

func TestTimestampReasons(t *testing.T) {
	for kind, want := range map[Kind]Reason{
		Missing: MissingField, Null: NullField, True: WrongType, False: WrongType, Array: WrongType, Object: WrongType,
	} {
		v := Value{Kind: kind, Bytes: []byte("[]")}
		if got, reason := v.Timestamp(nil); reason != want || got != (Time{}) {
			t.Errorf("kind %d: %v %v, want %v", kind, got, reason, want)
		}
	}
	now := Time{1748944805, 5}
	v := Value{Kind: Timestamp, Time: now}
	if got, reason := v.Timestamp(nil); got != now || reason != OK {
		t.Errorf("%v %v", got, reason)
	}
}

func times() *rapid.Generator[Time] {
	return rapid.Custom(func(t *rapid.T) Time {
		sec := rapid.OneOf(rapid.Int64Range(minSec, maxSec), rapid.Int64Range(-2, 2), rapid.SampledFrom([]int64{minSec, maxSec})).Draw(t, "sec")
		nsec := rapid.OneOf(rapid.Int32Range(0, 999_999_999), rapid.Map(rapid.Int32Range(0, 999), func(n int32) int32 { return n * 1e6 })).Draw(t, "nsec")
		return Time{sec, nsec}
	})
}

func TestTimeAgainstTimePackage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := times().Draw(t, "a"), times().Draw(t, "b")
		at := time.Unix(a.Sec, int64(a.Nsec)).UTC()
		layout := "2006-01-02T15:04:05.000Z"
		switch {
		case a.Nsec%1e6 == 0:
		case a.Nsec%1e3 == 0:
			layout = "2006-01-02T15:04:05.000000Z"
		default:
			layout = "2006-01-02T15:04:05.000000000Z"
		}
		if got, want := a.String(), at.Format(layout); got != want {
			t.Fatalf("%v is written %s, want %s", a, got, want)
		}
		if got, want := a.Compare(b), at.Compare(time.Unix(b.Sec, int64(b.Nsec))); got != want {
			t.Fatalf("Compare(%v, %v) = %d", a, b, got)
		}
		enc := b.Append(a.Append(nil))
		first, rest, err := ReadTime(enc)
		if err != nil || first != a {
			t.Fatalf("ReadTime(%x) = %v, %v, want %v", enc, first, err, a)
		}
		second, rest, err := ReadTime(rest)
		if err != nil || second != b || len(rest) != 0 {
			t.Fatalf("ReadTime(%x) = %v, %x, %v, want %v", enc, second, rest, err, b)
		}
	})
}

func FuzzReadTime(f *testing.F) {
	for _, text := range timeTexts {
		if at, reason := ParseTime([]byte(text), nil); reason == OK {
			f.Add(at.Append(nil))
		}
	}
	f.Add([]byte{0x01, 0x00})
	f.Add([]byte{0x80, 0x00})
	f.Fuzz(func(t *testing.T, src []byte) {
		at, rest, err := ReadTime(src)
		if err != nil {
			if !errors.Is(err, ErrTime) || at != (Time{}) || rest != nil {
				t.Fatalf("ReadTime(%x) = %v, %x, %v", src, at, rest, err)
			}
			return
		}
		if at.Sec < minSec || at.Sec > maxSec || at.Nsec < 0 || at.Nsec > 999_999_999 {
			t.Fatalf("ReadTime(%x) = %v", src, at)
		}
		if got := append(at.Append(nil), rest...); !bytes.Equal(got, src) {
			t.Fatalf("ReadTime(%x) = %v, which is written %x", src, at, got)
		}
	})
}

// TestO11TheHostsZoneCountsForNothing: neither for texts without a zone, nor
// for what is shown.
func TestO11TheHostsZoneCountsForNothing(t *testing.T) {
	host := time.Local
	defer func() { time.Local = host }()
	for _, name := range []string{"UTC", "Asia/Kathmandu", "America/St_Johns", "Pacific/Kiritimati"} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		time.Local = zone
		for _, text := range []string{"2025-06-03 10:00:05", "2025-06-03T10:00:05", "2025-06-03T10:00:05Z", "1748944805"} {
			if got, reason := ParseTime([]byte(text), nil); reason != OK || got.String() != "2025-06-03T10:00:05.000Z" {
				t.Errorf("on a host in %s, %s is %v %v", name, text, got, reason)
			}
		}
	}
}

// Every date is as many days after the one before as the standard library says.
func TestDays(t *testing.T) {
	for at := time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC); at.Year() < 10000; at = at.AddDate(0, 0, 1) {
		year, month, day := at.Date()
		if got := days(int64(year), int64(month), int64(day)) * secondsPerDay; got != at.Unix() {
			t.Fatalf("%s begins at %d, not %d", at.Format(time.DateOnly), at.Unix(), got)
		}
	}
}
