package store_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"tidemark/aggregator"
	"tidemark/store"
)

// benchKeys are the users of the benchmarks.
const benchKeys = 1_000_000

// benchDelta yields n totals of distinct keys in key order, without allocating.
func benchDelta(rng *rand.Rand, n int) func(yield func(k, v []byte) bool) {
	key, value := make([]byte, 0, 16), make([]byte, 0, 24)
	step := benchKeys / n
	start := rng.IntN(step)
	return func(yield func(k, v []byte) bool) {
		for i := range n {
			key = binary.BigEndian.AppendUint64(append(key[:0], "usr"...), uint64(start+i*step))
			s := sum{int64(i) * 100, 1}
			value = s.Append(value[:0])
			if !yield(key, value) {
				return
			}
		}
	}
}

func benchStore(b *testing.B) *store.Partition {
	o := options(b)
	o.Memory = 512 << 20
	d := openDir(b, b.TempDir(), o)
	return created(b, d, 0)
}

// BenchmarkApply applies batches of n totals over a million keys; the time of
// flushes and compactions that they cause is in it as far as it makes them wait.
func BenchmarkApply(b *testing.B) {
	for _, n := range []int{10_000, 200_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p := benchStore(b)
			rng := rand.New(rand.NewPCG(1, 1))
			b.ReportAllocs()
			position := int64(0)
			for b.Loop() {
				position += int64(n)
				if err := p.Apply(b.Context(), benchDelta(rng, n), aggregator.Progress{Seeded: true, Position: position}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)*float64(n)/b.Elapsed().Seconds(), "totals/s")
		})
	}
}

// benchFilled is a store of a million keys, each added to five times.
func benchFilled(b *testing.B) *store.Partition {
	p := benchStore(b)
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range int64(25) {
		if err := p.Apply(b.Context(), benchDelta(rng, 200_000), aggregator.Progress{Seeded: true, Position: i + 1}); err != nil {
			b.Fatal(err)
		}
	}
	if err := p.Flush(); err != nil {
		b.Fatal(err)
	}
	return p
}

func BenchmarkGet(b *testing.B) {
	p := benchFilled(b)
	rng := rand.New(rand.NewPCG(2, 2))
	key, dst := make([]byte, 0, 16), make([]byte, 0, 64)
	b.ReportAllocs()
	for b.Loop() {
		key = binary.BigEndian.AppendUint64(append(key[:0], "usr"...), uint64(rng.IntN(benchKeys)))
		var err error
		if dst, _, err = read(p, dst[:0], key); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkGuardAbsent is the look-up that cut mode guard makes for each new
// key of a delta: mostly of keys without a guard.
func BenchmarkGuardAbsent(b *testing.B) {
	p := benchFilled(b)
	rng := rand.New(rand.NewPCG(2, 2))
	key := make([]byte, 0, 16)
	b.ReportAllocs()
	for b.Loop() {
		key = binary.BigEndian.AppendUint64(append(key[:0], "usr"...), uint64(rng.IntN(benchKeys)))
		if _, _, err := p.Guard(key); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkScan(b *testing.B) {
	p := benchFilled(b)
	b.ReportAllocs()
	for b.Loop() {
		v, err := p.View()
		if err != nil {
			b.Fatal(err)
		}
		n := 0
		for range v.Scan(nil) {
			if n++; n == 100_000 {
				break
			}
		}
		if err := v.Close(); err != nil || v.Err() != nil {
			b.Fatal(err, v.Err())
		}
	}
	b.ReportMetric(float64(b.N)*100_000/b.Elapsed().Seconds(), "keys/s")
}

// BenchmarkPeek looks at a checkpoint of a million keys, as a publish does.
func BenchmarkPeek(b *testing.B) {
	p := benchFilled(b)
	at := filepath.Join(b.TempDir(), "checkpoint")
	if err := p.Checkpoint(at); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := store.Peek(at); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCheckpointUnchanged flushes and copies a state of a million keys
// that nothing was applied to.
func BenchmarkCheckpointUnchanged(b *testing.B) {
	p := benchFilled(b)
	at := filepath.Join(b.TempDir(), "checkpoint")
	for b.Loop() {
		if err := errors.Join(p.Flush(), p.Checkpoint(at)); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := os.RemoveAll(at); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// BenchmarkApplyBesideCheckpoints applies 1,000 totals each 20 ms to a state of
// a million keys, with and without a checkpoint made after another meanwhile,
// and tells the longest that an apply took.
func BenchmarkApplyBesideCheckpoints(b *testing.B) {
	for _, beside := range []bool{false, true} {
		b.Run(fmt.Sprint(beside), func(b *testing.B) {
			p := benchFilled(b)
			at := filepath.Join(b.TempDir(), "checkpoint")
			stop, checkpoints := make(chan struct{}), 0
			var slowest time.Duration
			var copying sync.WaitGroup
			if beside {
				copying.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
						}
						began := time.Now()
						if err := p.Checkpoint(at); err != nil {
							b.Error(err)
							return
						}
						slowest = max(slowest, time.Since(began))
						checkpoints++
						if err := os.RemoveAll(at); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			rng := rand.New(rand.NewPCG(3, 3))
			position := p.Progress().Position
			var longest time.Duration
			pace := time.NewTicker(20 * time.Millisecond)
			defer pace.Stop()
			for b.Loop() {
				<-pace.C
				position++
				began := time.Now()
				if err := p.Apply(b.Context(), benchDelta(rng, 1000), aggregator.Progress{Seeded: true, Position: position}); err != nil {
					b.Fatal(err)
				}
				longest = max(longest, time.Since(began))
			}
			close(stop)
			copying.Wait()
			b.ReportMetric(longest.Seconds()*1000, "ms/longest-apply")
			b.ReportMetric(slowest.Seconds()*1000, "ms/longest-checkpoint")
			b.ReportMetric(float64(checkpoints), "checkpoints")
		})
	}
}

// BenchmarkCreate makes states, which a new topic waits for.
func BenchmarkCreate(b *testing.B) {
	d := openDir(b, b.TempDir(), options(b))
	n := int32(0)
	for b.Loop() {
		if err := created(b, d, n).Close(); err != nil {
			b.Fatal(err)
		}
		n++
	}
}
