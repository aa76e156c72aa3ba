package bootstrap

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"testing"
	"time"

	"tidemark/aggregator"
	"tidemark/event"
	"tidemark/query"
)

// compile compiles a query.
func compile(t testing.TB, sql string) *aggregator.Program {
	t.Helper()
	def, err := query.Parse(sql)
	if err != nil {
		t.Fatal(err)
	}
	p, err := aggregator.Compile(def, aggregator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const salesQuery = `SELECT userId,
	CAST(max(saleTimestamp) AS timestamp) AS latestSaleTimestamp,
	sum(totalRevenue) AS totalRevenue, sum(totalPoints) AS totalPoints,
	collect_set(productList) AS productList, count(*) AS sales
FROM sales GROUP BY userId`

// memLog is a topic in memory.
type memLog struct {
	partitions [][]aggregator.Record
	start      []int64 // the first offset there is, by partition; nil is 0
	err        error
	asked      int // for newest records
}

// append adds a record to a partition.
func (l *memLog) append(partition int32, at time.Time, key, value string) {
	for len(l.partitions) <= int(partition) {
		l.partitions = append(l.partitions, nil)
	}
	records := &l.partitions[partition]
	*records = append(*records, aggregator.Record{
		Offset: int64(len(*records)), Timestamp: at.UnixMilli(), Key: []byte(key), Value: []byte(value),
	})
}

func (l *memLog) Bounds(_ context.Context, partition int32) (start, end int64, err error) {
	if l.start != nil {
		start = l.start[partition]
	}
	return start, int64(len(l.partitions[partition])), l.err
}

func (l *memLog) OffsetAt(_ context.Context, partition int32, t time.Time) (int64, error) {
	for _, r := range l.partitions[partition] {
		if r.Timestamp >= t.UnixMilli() {
			return r.Offset, l.err
		}
	}
	return int64(len(l.partitions[partition])), l.err
}

func (l *memLog) Newest(_ context.Context, partition int32, n int) ([]aggregator.Record, error) {
	l.asked++
	if int(partition) >= len(l.partitions) {
		return nil, l.err
	}
	records := l.partitions[partition]
	return records[max(0, len(records)-n):], l.err
}

// memStore is a SeedStore over maps. It checks that what it is given comes in
// key order.
type memStore struct {
	program *aggregator.Program
	totals  map[string][]byte
	guards  map[string]event.Time
	seeds   int // calls of Seed
	err     error
	views   int // open
}

var errOrder = errors.New("keys are out of order")

func newStore(p *aggregator.Program) *memStore {
	return &memStore{program: p, totals: map[string][]byte{}, guards: map[string]event.Time{}}
}

func (s *memStore) Seed(totals iter.Seq2[[]byte, []byte], replace bool) error {
	s.seeds++
	var last []byte
	for key, total := range totals {
		if last != nil && bytes.Compare(key, last) <= 0 {
			return fmt.Errorf("%w: %q after %q", errOrder, key, last)
		}
		last = bytes.Clone(key)
		t := s.program.NewTotal()
		if have := s.totals[string(key)]; have != nil && !replace {
			if err := t.Merge(have); err != nil {
				return err
			}
		}
		if err := t.Merge(total); err != nil {
			return err
		}
		s.totals[string(key)] = t.Append(nil)
	}
	return s.err
}

func (s *memStore) Guards(guards iter.Seq2[[]byte, event.Time]) error {
	var last []byte
	for key, t := range guards {
		if last != nil && bytes.Compare(key, last) <= 0 {
			return fmt.Errorf("%w: %q after %q", errOrder, key, last)
		}
		last = bytes.Clone(key)
		s.guards[string(key)] = t
	}
	return s.err
}

func (s *memStore) Guard(key []byte) (event.Time, bool, error) {
	t, ok := s.guards[string(key)]
	return t, ok, nil
}

func (s *memStore) View() (aggregator.View, error) {
	s.views++
	return &memView{s}, nil
}

type memView struct{ s *memStore }

func (v *memView) Position() (int64, error) { return 0, nil }
func (v *memView) Get(dst, key []byte) ([]byte, bool, error) {
	total, ok := v.s.totals[string(key)]
	return append(dst, total...), ok, nil
}
func (v *memView) Scan(from []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, total []byte) bool) {
		for _, key := range slices.Sorted(maps.Keys(v.s.totals)) {
			if key >= string(from) && !yield([]byte(key), v.s.totals[key]) {
				return
			}
		}
	}
}
func (v *memView) Err() error   { return nil }
func (v *memView) Close() error { v.s.views--; return nil }

// rows are the answers of some stores, by key, in JSON.
func rows(t testing.TB, p *aggregator.Program, stores map[int32]*memStore) map[string]string {
	t.Helper()
	merged := map[string]*aggregator.Total{}
	for _, s := range stores {
		if s.views != 0 {
			t.Errorf("%d views are open", s.views)
		}
		for key, total := range s.totals {
			if merged[key] == nil {
				merged[key] = p.NewTotal()
			}
			if err := merged[key].Merge(total); err != nil {
				t.Fatal(err)
			}
		}
	}
	out := map[string]string{}
	for key, total := range merged {
		out[key] = string(total.AppendRow(nil, []byte(key), false))
	}
	return out
}

// seedStores are the stores as Seed takes them.
func seedStores(stores map[int32]*memStore) map[int32]aggregator.SeedStore {
	out := map[int32]aggregator.SeedStore{}
	for p, s := range stores {
		out[p] = s
	}
	return out
}

// storesFor makes stores for some partitions.
func storesFor(p *aggregator.Program, partitions ...int32) map[int32]*memStore {
	stores := map[int32]*memStore{}
	for _, n := range partitions {
		stores[n] = newStore(p)
	}
	return stores
}

// discard is a SeedStore that keeps nothing.
type discard struct{}

func (discard) Seed(totals iter.Seq2[[]byte, []byte], _ bool) error {
	for range totals {
	}
	return nil
}
func (discard) Guards(iter.Seq2[[]byte, event.Time]) error { return nil }
func (discard) Guard([]byte) (event.Time, bool, error)     { return event.Time{}, false, nil }
func (discard) View() (aggregator.View, error)             { return nil, errors.New("nothing is kept") }
