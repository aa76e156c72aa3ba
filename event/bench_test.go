package event

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"tidemark/decimal"
)

// saleEvent is an event as the benchmarks' generator writes them.
func saleEvent(seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 7))
	at := time.Date(2015, 7, 29, 0, 0, 0, 0, time.UTC).Add(time.Duration(r.IntN(86_400_000)) * time.Millisecond)
	b := append([]byte(nil), `{"userId":`...)
	b = strconv.AppendInt(b, int64(r.IntN(1_000_000)), 10)
	b = append(b, `,"saleTimestamp":"`...)
	b = at.AppendFormat(b, "2006-01-02T15:04:05.000Z")
	b = append(b, `","totalRevenue":`...)
	b = decimal.New(0, uint64(r.IntN(50_000)), 2).AppendFixed(b, 2)
	b = append(b, `,"totalPoints":`...)
	b = strconv.AppendInt(b, int64(r.IntN(300)), 10)
	b = append(b, `,"productList":[`...)
	for j := range 1 + r.IntN(3) {
		if j > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(r.IntN(2000)), 10)
	}
	return append(b, "]}"...)
}

func saleEvents() (events [][]byte) {
	for i := range 1024 {
		events = append(events, saleEvent(uint64(i)))
	}
	return events
}

func BenchmarkScan(b *testing.B) {
	events := saleEvents()
	bench := func(name string, paths []Path, events [][]byte) {
		b.Run(name, func(b *testing.B) {
			s := NewScanner(paths, 0)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if reason, _ := s.Scan(events[i&1023]); reason != OK {
					b.Fatal(reason)
				}
				i++
			}
			b.SetBytes(int64(len(events[0])))
		})
	}
	bench("sale", salePaths, events)
	bench("sale and products", append(salePaths, Path{"productList"}), events)
	bench("one path", salePaths[:1], events)
	spaced := make([][]byte, len(events))
	for i, e := range events {
		for _, c := range e {
			if spaced[i] = append(spaced[i], c); c == ',' || c == ':' {
				spaced[i] = append(spaced[i], ' ')
			}
		}
	}
	bench("spaced", salePaths, spaced)
	wide := make([][]byte, len(events))
	for i, e := range events {
		wide[i] = append([]byte(`{"meta":{"source":"shop-a","trace":"0123456789abcdef0123456789abcdef","tags":["x","y","z"],"nested":{"k":null,"ok":true}},"note":"Größe und Preis übertragen",`), e[1:]...)
	}
	bench("wide", salePaths, wide)
}

// BenchmarkDecode is all that an event costs before it is folded.
func BenchmarkDecode(b *testing.B) {
	events := saleEvents()
	s := NewScanner(salePaths, 0)
	var key []byte
	var row [3]uint64
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if reason, _ := s.Scan(events[i&1023]); reason != OK {
			b.Fatal(reason)
		}
		i++
		key, _, _ = AppendKey(key[:0], &s.Values[0])
		if _, reason := s.Values[1].Timestamp(nil); reason != OK {
			b.Fatal(reason)
		}
		for _, v := range s.Values[2:4] {
			d, reason := v.Decimal()
			if reason != OK {
				b.Fatal(reason)
			}
			decimal.Accumulate(&row, d)
		}
	}
}

func BenchmarkParseTime(b *testing.B) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		b.Fatal(err)
	}
	for _, text := range []string{"2015-07-29T09:17:12.000Z", "2015-07-29 09:17:12", "2015-07-29T09:17:12.123456789+02:00", "1748944805000"} {
		b.Run(text, func(b *testing.B) {
			raw := []byte(text)
			for b.Loop() {
				if _, reason := ParseTime(raw, berlin); reason != OK {
					b.Fatal(reason)
				}
			}
		})
	}
}

func BenchmarkElements(b *testing.B) {
	raw := []byte(`[47,1484,"a text","with \n escape"]`)
	var e Elements
	for b.Loop() {
		e.Reset(raw)
		for e.Next() != nil {
		}
	}
}
