package kafka

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"tidemark/internal/testkit"
)

// BenchmarkFetch reads records of 125 bytes. The broker is in the process, and
// its work is in the numbers too.
func BenchmarkFetch(b *testing.B) {
	const partitions, batch = 4, 2000
	broker := testkit.NewBroker(b, testkit.BrokerOptions{Topic: topic, Partitions: partitions})
	messages := make([]testkit.Message, batch)
	for i := range messages {
		messages[i] = testkit.Message{Key: fmt.Appendf(nil, "%08d", i), Value: fmt.Appendf(nil, "%0117d", i)}
	}
	const each = 50 // batches per partition
	for p := range int32(partitions) {
		for range each {
			broker.Produce(topic, p, messages...)
		}
	}
	cfg := configOf(b, broker)
	cfg.Logger = nil
	f := startFetcher(b, cfg, FetchOptions{})
	b.ReportAllocs()
	records := 0
	for b.Loop() {
		var readers sync.WaitGroup
		var got [partitions]int
		for p := range int32(partitions) {
			readers.Go(func() {
				feed := f.Open(p, 0)
				defer feed.Close()
				for next := int64(0); next < batch*each; {
					some, err := feed.Next(b.Context())
					if err != nil {
						b.Error(err)
						return
					}
					next = some.Next
					got[p] += len(some.Records)
				}
			})
		}
		readers.Wait()
		for _, n := range got {
			records += n
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(records), "ns/record")
}

// BenchmarkFreshness is the time from produce to Next for single records.
func BenchmarkFreshness(b *testing.B) {
	broker := testkit.NewBroker(b, testkit.BrokerOptions{Topic: topic, Partitions: 8})
	cfg := configOf(b, broker)
	cfg.Logger = nil
	f := startFetcher(b, cfg, FetchOptions{})
	fresh := make(chan time.Time, 8)
	for p := range int32(8) {
		feed := f.Open(p, 0)
		defer feed.Close()
		go func() {
			for {
				if _, err := feed.Next(b.Context()); err != nil {
					return
				}
				fresh <- time.Now()
			}
		}()
	}
	message := testkit.Text("k", "v")
	var took []time.Duration
	p := int32(0)
	for b.Loop() {
		p = (p + 1) % 8
		began := time.Now()
		broker.Produce(topic, p, message)
		took = append(took, (<-fresh).Sub(began))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "µs/p50")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "µs/p99")
}
