package store_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"tidemark/aggregator"
	"tidemark/store"
)

// Operands in any order and any grouping give the same bytes.
func TestMergerIsAssociativeAndCommutative(t *testing.T) {
	m := store.Merger(func() store.Total { return new(sum) }, func(key []byte, err error) { t.Errorf("%q: %v", key, err) })
	rng := rand.New(rand.NewPCG(3, 3))
	merge := func(values [][]byte) []byte {
		op, err := m.Merge([]byte("k/a"), values[0])
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range values[1:] {
			if rng.IntN(2) == 0 {
				err = op.MergeNewer(v)
			} else {
				err = op.MergeOlder(v)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		value, closer, err := op.Finish(rng.IntN(2) == 0)
		if err != nil {
			t.Fatal(err)
		}
		defer closer.Close()
		return append([]byte(nil), value...)
	}
	for range 200 {
		var want sum
		values := make([][]byte, 1+rng.IntN(12))
		for i := range values {
			v := rng.Int64N(1e6) - 5e5
			values[i] = encoded(v)
			want.sum += v
			want.count++
		}
		for len(values) > 1 { // merge a random stretch of a random order
			rng.Shuffle(len(values), func(i, j int) { values[i], values[j] = values[j], values[i] })
			n := 1 + rng.IntN(len(values))
			values = append(values[n:], merge(values[:n]))
		}
		if got := merge(values); string(got) != string(want.Append(nil)) {
			t.Fatalf("%x, want %x", got, want.Append(nil))
		}
	}
}

// A key with one operand is not decoded: its bytes pass as they are.
func TestMergerPassesSingleOperands(t *testing.T) {
	m := store.Merger(func() store.Total { return unmergeable{} }, func(key []byte, err error) { t.Errorf("%q: %v", key, err) })
	value := []byte("anything")
	op, err := m.Merge([]byte("k/a"), value)
	if err != nil {
		t.Fatal(err)
	}
	copy(value, "changed ")
	got, closer, err := op.Finish(true)
	if err != nil || string(got) != "anything" {
		t.Errorf("%q, %v", got, err)
	}
	if err := closer.Close(); err != nil {
		t.Fatal(err)
	}
}

// Bytes that do not merge end the process, and do not make a compaction repeat
// for ever unseen; the error names the key and the versions.
func TestS14BytesThatDoNotMergeAreFatal(t *testing.T) {
	fatal := make(chan string, 100)
	o := options(t)
	o.Fatal = func(reason string) {
		select {
		case fatal <- reason:
		default:
		}
		runtime.Goexit() // the process ends here
	}
	d, err := store.Open(t.TempDir(), o)
	if err != nil {
		t.Fatal(err)
	}
	p := created(t, d, 0)
	apply(t, p, map[string]int64{"a": 1}, 1)
	if err := p.MergeRaw([]byte("k/a"), []byte{9, 1, 1}); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		read(p, nil, []byte("a"))
		t.Error("the read returned")
	}()
	<-ended
	reason := <-fatal
	for _, part := range []string{"partition 0", `"a"`, "version 9, this program reads up to 1"} {
		if !strings.Contains(reason, part) {
			t.Errorf("%q does not say %q", reason, part)
		}
	}
	if err := p.DeleteRaw([]byte("k/a")); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err == nil {
		t.Log("closed") // what the process has left open is not the test's matter
	}
}

// Write buffers share an eighth of the budget, between 4 and 64 MiB each.
func TestS07WriteBuffersShareTheBudget(t *testing.T) {
	for _, c := range []struct {
		memory int64
		open   int
		want   uint64
	}{
		{512 << 20, 1, 16 << 20}, {512 << 20, 4, 16 << 20}, {512 << 20, 8, 8 << 20},
		{512 << 20, 100, 4 << 20}, {16 << 20, 1, 4 << 20}, {64 << 30, 1, 64 << 20},
	} {
		if got := store.WriteBuffer(c.memory, c.open); got != c.want {
			t.Errorf("of %d MiB with %d open: %d, want %d", c.memory>>20, c.open, got, c.want)
		}
	}
}

// blob is a total that is any bytes: the longer of two.
type blob struct{ b []byte }

func (b *blob) Reset() { b.b = b.b[:0] }
func (b *blob) Merge(v []byte) error {
	if len(v) > len(b.b) {
		b.b = append(b.b[:0], v...)
	}
	return nil
}
func (b *blob) Append(dst []byte) []byte { return append(dst, b.b...) }

// Over few partitions and many, the memory of caches and write buffers stays
// within the budget, however much is written and read: 24 partitions have 512
// MiB by default, and here 16 MiB each.
func TestS07MemoryStaysWithinTheBudget(t *testing.T) {
	for partitions, memory := range map[int32]int64{2: 32 << 20, 6: 96 << 20, 24: 384 << 20} {
		t.Run(fmt.Sprint(partitions), func(t *testing.T) { staysWithin(t, partitions, memory) })
	}
}

func staysWithin(t *testing.T, partitions int32, memory int64) {
	o := options(t).WithCodec(definition("sum"), func() store.Total { return new(blob) })
	o.Memory = memory
	d := openDir(t, t.TempDir(), o)
	most, written := int64(0), int64(0)
	value := make([]byte, 32<<10)
	noise := rand.NewChaCha8([32]byte{7})
	noise.Read(value)
	rounds := int64(3)
	if partitions > 6 {
		rounds = 2 // they write for seconds
	}
	for round := range rounds {
		for n := range partitions {
			p := d.Partition(n)
			if p == nil {
				p = created(t, d, n)
			}
			err := p.Apply(t.Context(), func(yield func(k, v []byte) bool) {
				for i := range 200 {
					if !yield(fmt.Appendf(nil, "%03d", i), value) {
						return
					}
				}
			}, aggregator.Progress{Seeded: true, Position: round + 1})
			if err != nil {
				t.Fatal(err)
			}
			written += 200 * int64(len(value))
			v, err := p.View()
			if err != nil {
				t.Fatal(err)
			}
			for range v.Scan(nil) {
			}
			if err := errors.Join(v.Err(), v.Close()); err != nil {
				t.Fatal(err)
			}
		}
		used := d.CacheBytes()
		for _, s := range d.Stats() {
			used += s.WriteBuffer
		}
		most = max(most, used)
		if used > o.Memory {
			t.Errorf("round %d: %d MiB in use of %d", round, used>>20, o.Memory>>20)
		}
	}
	if written < memory*3/4 || most < memory/8 {
		t.Errorf("%d MiB were written and %d in use at most, of %d: that shows nothing", written>>20, most>>20, memory>>20)
	}
}
