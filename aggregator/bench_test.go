package aggregator

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"tidemark/event"
	"tidemark/query"
)

// salesDefinition is bound by hand, so that the benchmarks measure no parser.
func salesDefinition(set bool) *query.Definition {
	path := func(slot int, name string) *query.Path { return &query.Path{Slot: slot, Name: name} }
	d := &query.Definition{
		Topic: "sales",
		Paths: []event.Path{{"userId"}, {"saleTimestamp"}, {"totalRevenue"}, {"totalPoints"}},
		Keys:  []query.Key{{Name: "userId", Slot: 0}},
		Aggregates: []query.Aggregate{
			{Func: query.Max, Name: "latestSaleTimestamp", Arg: &query.Cast{X: path(1, "saleTimestamp"), Type: query.Type{Name: query.TypeTimestamp}}},
			{Func: query.Sum, Name: "totalRevenue", Arg: path(2, "totalRevenue")},
			{Func: query.Sum, Name: "totalPoints", Arg: path(3, "totalPoints")},
			{Func: query.CountAll, Name: "sales"},
		},
	}
	if set {
		d.Paths = append(d.Paths, event.Path{"productList"})
		d.Aggregates = append(d.Aggregates, query.Aggregate{Func: query.CollectSet, Name: "productList", Arg: path(4, "productList")})
	}
	d.Columns = []query.Column{{Name: "userId", Key: 0, Aggregate: -1}}
	for i, a := range d.Aggregates {
		d.Columns = append(d.Columns, query.Column{Name: a.Name, Key: -1, Aggregate: i})
	}
	return d
}

// sales makes events as the load generator does: 124 bytes each.
func sales(n, users int, zipf bool) []Record {
	r := rand.New(rand.NewPCG(1, 7))
	z := rand.NewZipf(r, 1.1, 1, uint64(users-1))
	base := time.Date(2015, 7, 29, 0, 0, 0, 0, time.UTC).UnixMilli()
	records := make([]Record, n)
	for i := range records {
		u := r.IntN(users)
		if zipf {
			u = int((z.Uint64() * 2654435761) % uint64(users))
		}
		cents := r.IntN(50_000) - 500
		ms := base + int64(i)*3 + int64(r.IntN(2000)) - 1000
		sign := ""
		if cents < 0 {
			sign, cents = "-", -cents
		}
		value := fmt.Sprintf(`{"userId":%d,"saleTimestamp":"%s","totalRevenue":%s%d.%02d,"totalPoints":%d,"productList":[%d,%d]}`,
			u, time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z"), sign, cents/100, cents%100, r.IntN(300), r.IntN(2000), r.IntN(2000))
		records[i] = Record{Offset: int64(i), Timestamp: ms, Key: []byte(strconv.Itoa(u)), Value: []byte(value)}
	}
	return records
}

func compiled(t testing.TB, d *query.Definition) *Program {
	t.Helper()
	p, err := Compile(d, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// BenchmarkFold decodes and folds a million events into one delta: each user's
// first event and its later ones. scan is the scanner alone.
func BenchmarkFold(b *testing.B) {
	const users = 1_000_000
	for _, dist := range []string{"zipf", "uniform"} {
		records := sales(1_000_000, users, dist == "zipf")
		for _, set := range []bool{false, true} {
			name := dist
			if set {
				name += "/set"
			}
			p := compiled(b, salesDefinition(set))
			b.Run(name+"/scan", func(b *testing.B) {
				s := event.NewScanner(p.def.Paths, 0)
				for i := range b.N {
					s.Scan(records[i%len(records)].Value)
				}
			})
			b.Run(name+"/fold", func(b *testing.B) {
				d, err := p.NewDecoder(DecodeCut{}, nil)
				if err != nil {
					b.Fatal(err)
				}
				delta := p.NewDelta(0, 8)
				for i := range records { // warm: memory, and every key
					if _, err := d.Fold(delta, 0, &records[i]); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportAllocs()
				b.ResetTimer()
				var outcomes [foldSlice]Outcome
				for n := 0; n < b.N; n += foldSlice { // as the task does it
					from := n % (len(records) - foldSlice)
					if done, err := d.FoldAll(delta, 0, records[from:from+foldSlice], outcomes[:]); done != foldSlice || err != nil {
						b.Fatal(done, err)
					}
				}
			})
			b.Run(name+"/apply-200k", func(b *testing.B) { // as the task does it: fold, reset
				d, err := p.NewDecoder(DecodeCut{}, nil)
				if err != nil {
					b.Fatal(err)
				}
				delta := p.NewDelta(0, 8)
				b.ReportAllocs()
				var outcomes [foldSlice]Outcome
				for n, folded := 0, 0; n < b.N; n += foldSlice {
					if folded += foldSlice; folded > 200_000 {
						delta.Reset(0)
						folded = 0
					}
					from := n % (len(records) - foldSlice)
					if done, err := d.FoldAll(delta, 0, records[from:from+foldSlice], outcomes[:]); done != foldSlice || err != nil {
						b.Fatal(done, err)
					}
				}
			})
		}
	}
}

// BenchmarkSorted sorts and encodes a delta of a million keys; ns/op is per key.
func BenchmarkSorted(b *testing.B) {
	for _, set := range []bool{false, true} {
		p := compiled(b, salesDefinition(set))
		d, err := p.NewDecoder(DecodeCut{}, nil)
		if err != nil {
			b.Fatal(err)
		}
		delta := p.NewDelta(0, 8)
		for _, r := range sales(1_000_000, 1_000_000, false) {
			if _, err := d.Fold(delta, 0, &r); err != nil {
				b.Fatal(err)
			}
		}
		b.Run(fmt.Sprintf("set=%v/keys=%d", set, delta.Len()), func(b *testing.B) {
			b.ReportAllocs()
			n, size := 0, 0
			for n < b.N {
				for k, v := range delta.Sorted(nil) {
					size += len(k) + len(v)
					n++
				}
			}
			b.ReportMetric(b.Elapsed().Seconds()*1e9/float64(n), "ns/key")
			b.ReportMetric(float64(size)/float64(n), "B/key")
		})
		b.Run(fmt.Sprintf("set=%v/smallest", set), func(b *testing.B) {
			for range b.N {
				for range delta.Smallest(nil, 100) {
				}
			}
			b.ReportMetric(b.Elapsed().Seconds()*1e9/float64(b.N)/float64(delta.Len()), "ns/key")
		})
	}
}

// BenchmarkMerge merges two totals and encodes the result, as compaction does.
func BenchmarkMerge(b *testing.B) {
	for _, set := range []bool{false, true} {
		b.Run(fmt.Sprintf("set=%v", set), func(b *testing.B) {
			p := compiled(b, salesDefinition(set))
			d, err := p.NewDecoder(DecodeCut{}, nil)
			if err != nil {
				b.Fatal(err)
			}
			delta := p.NewDelta(0, 8)
			for _, r := range sales(200_000, 10_000, false) {
				if _, err := d.Fold(delta, 0, &r); err != nil {
					b.Fatal(err)
				}
			}
			var totals [][]byte
			for _, v := range delta.Sorted(nil) {
				totals = append(totals, append([]byte(nil), v...))
			}
			total := p.NewTotal()
			var out []byte
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				total.Reset()
				if err := total.Merge(totals[i%len(totals)]); err != nil {
					b.Fatal(err)
				}
				if err := total.Merge(totals[(i+1)%len(totals)]); err != nil {
					b.Fatal(err)
				}
				out = total.Append(out[:0])
			}
		})
	}
}
