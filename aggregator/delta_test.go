package aggregator

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Two words order keys as their bytes do, as far as they reach.
func TestKeyWords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		byteGen := rapid.SampledFrom([]byte{0, 1, 'a', 0xff})
		a := rapid.SliceOfN(byteGen, 0, 20).Draw(t, "a")
		b := rapid.SliceOfN(byteGen, 0, 20).Draw(t, "b")
		if n := rapid.IntRange(0, len(a)).Draw(t, "same"); rapid.Bool().Draw(t, "prefix") {
			b = append(slices.Clone(a[:n]), b...)
		}
		a0, a1 := keyWords(a)
		b0, b1 := keyWords(b)
		got := cmp.Or(cmp.Compare(a0, b0), cmp.Compare(a1, b1))
		want := bytes.Compare(a, b)
		if got != want && !(got == 0 && len(a) > shortKey && len(b) > shortKey) {
			t.Fatalf("%x and %x compare as %d, want %d", a, b, got, want)
		}
		if len(a) <= shortKey {
			if back := appendShortKey([]byte("x"), a0, a1); string(back[1:]) != string(a) {
				t.Fatalf("%x comes back as %x", a, back)
			}
		}
	})
}

// fill folds one event for each of n keys of several lengths.
func fill(t testing.TB, r *rows, n int) (keys []string) {
	t.Helper()
	shuffled := rand.New(rand.NewPCG(uint64(n), 1)).Perm(n)
	for _, i := range shuffled {
		key := strconv.Itoa(i)
		switch i % 3 {
		case 1:
			key = fmt.Sprintf("user-%08d", i)
		case 2:
			key = fmt.Sprintf("a key longer than others, %08d", i)
		}
		keys = append(keys, key)
		if out := r.value(fmt.Sprintf(`{"userId":%q,"x":%d}`, key, i)); out.Result != Folded {
			t.Fatal(out.Result, out.Reason, out.Field)
		}
	}
	slices.Sort(keys)
	return keys
}

func sortedKeys(d *Delta, from string) (keys []string) {
	for key := range d.Sorted([]byte(from)) {
		keys = append(keys, string(key))
	}
	return keys
}

func TestSortedAndSmallest(t *testing.T) {
	r := selects(t, "sum(x) AS x")
	for _, n := range []int{0, 1, 200, 5000, 300} { // it grows, and is reset
		r.delta.Reset(7)
		if r.delta.First != 7 || r.delta.Next != 7 || r.delta.Len() != 0 || r.delta.Counts != (Counts{}) {
			t.Fatalf("a delta that was reset is %d to %d with %d keys", r.delta.First, r.delta.Next, r.delta.Len())
		}
		keys := fill(t, r, n)
		if r.delta.Len() != n {
			t.Fatalf("Len is %d, want %d", r.delta.Len(), n)
		}
		for _, from := range []string{"", "1", "3", "a key longer than others, 00000100", "a key longer than others, 0000010", "user-00000050", "zzz"} {
			want := keys[sortedFrom(keys, from):]
			if got := sortedKeys(r.delta, from); !slices.Equal(got, want) {
				t.Fatalf("of %d keys from %q Sorted yields %d, want %d", n, from, len(got), len(want))
			}
			for _, limit := range []int{0, 1, 2, 7, 100, n, 2 * n, 1 << 62} {
				var got []string
				for key, total := range r.delta.Smallest([]byte(from), limit) {
					got = append(got, string(key))
					if whole, ok := r.delta.Get(nil, key); !ok || !bytes.Equal(whole, total) {
						t.Fatalf("total of %q is %x, Get returns %x", key, total, whole)
					}
				}
				if !slices.Equal(got, want[:min(limit, len(want))]) {
					t.Fatalf("of %d keys from %q the smallest %d are %q, want %q", n, from, limit, got, want[:min(limit, len(want))])
				}
			}
		}
		for i := range r.delta.Sorted(nil) {
			_ = i
			break // stops in the middle
		}
	}
	for _, absent := range []string{"", "none", "user-00000000x", "a key longer than others, 9"} {
		if got, ok := r.delta.Get([]byte("x"), []byte(absent)); ok || string(got) != "x" {
			t.Errorf("Get of %q returns %q, %v", absent, got, ok)
		}
	}
}

func sortedFrom(keys []string, from string) int {
	i, _ := slices.BinarySearch(keys, from)
	return i
}

// Keys that agree in their first eight bytes, many of them.
func TestSortedWithCommonPrefixes(t *testing.T) {
	p := selects(t, "count(*) AS n").program
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.SampledFrom([]int{10, 1100, 3000}).Draw(t, "n")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		d := p.NewDelta(0, 1)
		want := map[string]bool{}
		for range n {
			key := make([]byte, 1+r.IntN(18))
			for i := range key {
				key[i] = "ab"[r.IntN(2)]
			}
			row, _ := d.enter(key)
			d.touch(row, key)
			want[string(key)] = true
		}
		got := sortedKeys(d, "")
		if len(got) != len(want) || !slices.IsSorted(got) {
			t.Fatalf("%d keys, want %d; sorted: %v", len(got), len(want), slices.IsSorted(got))
		}
	})
}

// A delta's memory is counted, and is that of its rows, not of garbage.
func TestDeltaBytes(t *testing.T) {
	r := selects(t, "sum(x) AS x, max(userId) AS u, collect_set(x) AS s")
	empty := r.delta.Bytes()
	fill(t, r, 10_000)
	perKey := (r.delta.Bytes() - empty) / 10_000
	if perKey < 100 || perKey > 400 {
		t.Errorf("%d bytes a key", perKey)
	}
	r.delta.Reset(0)
	if got := r.delta.Bytes(); got > empty+20_000*16 {
		t.Errorf("%d bytes after a reset, %d at first", got, empty)
	}
}

// The table of a delta shrinks with what comes, also where that is no record, as with
// a history, and not for want of anything.
func TestDeltaTableShrinks(t *testing.T) {
	r := selects(t, "count(*) AS n")
	fill(t, r, 10_000)
	r.delta.First, r.delta.Next = 0, 0 // documents have no offsets
	large := len(r.delta.table)
	r.delta.Reset(0)
	r.delta.Reset(0)
	if next := r.delta.successor(r.delta.nextTable()); len(r.delta.table) != large || len(next.table) != large {
		t.Errorf("without anything the table went from %d entries to %d, and %d for the next", large, len(r.delta.table), len(next.table))
	}
	for range 10 {
		fill(t, r, 10)
		r.delta.First, r.delta.Next = 0, 0
		r.delta.Reset(0)
	}
	if got := len(r.delta.table); got > minTable {
		t.Errorf("the table of ten keys has %d entries", got)
	}
}

// The placement follows the keys of the delta and no others.
func TestPlacementOfDelta(t *testing.T) {
	r := selects(t, "count(*) AS n")
	const n = 7
	for user := range 50 {
		key := strconv.Itoa(user)
		for p := range NumPartitioners {
			d := r.program.NewDelta(p.Partition([]byte(key), n), n)
			r.delta = d
			r.value(`{"userId":` + key + `}`)
			if d.Placement&(1<<p) == 0 {
				t.Errorf("key %s speaks against partitioner %d in the partition where it places it", key, p)
			}
			r.value(`{"userId":` + key + `,"x":[}`)
			for q := range NumPartitioners {
				if agrees := d.Placement&(1<<q) != 0; agrees != (q.Partition([]byte(key), n) == p.Partition([]byte(key), n)) {
					t.Errorf("key %s: partitioner %d agrees: %v", key, q, agrees)
				}
			}
		}
	}
}

// Readers of a delta that is being applied run side by side.
func TestDeltaIsReadSideBySide(t *testing.T) {
	r := selects(t, "collect_set(x) AS x")
	for i := range 500 { // a set with a tail that is not sorted in
		r.fold(fmt.Sprintf(`"x":[%d,"%d"]`, i*7919%5000, i*7919%5000))
	}
	want, _ := r.delta.Get(nil, []byte("1"))
	var g sync.WaitGroup
	for range 4 {
		g.Go(func() {
			for _, total := range r.delta.Sorted(nil) {
				if !bytes.Equal(total, want) {
					t.Errorf("total is %x, want %x", total, want)
				}
			}
			for range r.delta.Smallest(nil, 1) {
			}
			r.delta.Bytes()
		})
	}
	g.Wait()
}

// TestS07MemoryOfACatchUpIsLetGoOf: deltas that a catch-up has filled are of no use
// to a partition that is live, and are not kept for it.
func TestS07MemoryOfACatchUpIsLetGoOf(t *testing.T) {
	const users = 20_000
	r := newRig(t, 1)
	r.tuning.ApplyRecords, r.tuning.ApplyInterval, r.tuning.FlushInterval = users/3, time.Millisecond, time.Millisecond
	for i := range users {
		r.log.produce(0, sale(i, "1"))
	}
	r.start(0)
	r.caughtUp(0)
	r.until(0, "applied", func(PartitionStatus) bool { return r.stored(0) == users })
	totals := r.p.tasks[0].task.totals
	rows := func() (n int) {
		totals.mu.Lock()
		defer totals.mu.Unlock()
		for _, d := range []*Delta{totals.active, totals.frozen, totals.spare} {
			if d != nil {
				n += len(d.slabs) * slabRows
			}
		}
		return n
	}
	r.until(0, "let go of", func(PartitionStatus) bool { return rows() == 0 })
	r.log.produce(0, sale(7, "1"))
	r.caughtUp(0)
	r.expect(0, "7", `{"userId":7,"sales":2,"revenue":2}`)
	if n := rows(); n > slabRows {
		t.Errorf("there is room for %d rows, of one sale", n)
	}
	r.stop()
}
