package kafka

import (
	"bytes"
	"context"
	"flag"
	"hash/crc32"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tidemark/aggregator"
	"tidemark/internal/testkit"
)

func TestMain(m *testing.M) {
	// Most tests wait for timers of the group protocol: more of them than there
	// are processors run at once. The command line wins.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m,
		// sarama's metrics library starts one for the life of the process
		goleak.IgnoreTopFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick"),
		// and its producer's circuit breaker one that sleeps for ten seconds
		goleak.IgnoreAnyFunction("github.com/eapache/go-resiliency/breaker.(*Breaker).timer"))
}

const topic = "sales"

// testLog writes to the test's log.
func testLog(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func configOf(t testing.TB, b *testkit.Broker) Config {
	return Config{Brokers: b.Addrs(), Topic: topic, GroupID: "totals", Logger: testLog(t)}
}

func openClient(t testing.TB, cfg Config) *Client {
	t.Helper()
	c, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// startFetcher runs a fetcher until the test ends.
func startFetcher(t testing.TB, cfg Config, opts FetchOptions) *Fetcher {
	t.Helper()
	f := NewFetcher(openClient(t, cfg), opts)
	run(t, f.Run)
	return f
}

// run runs f until the test ends, when it must return nil.
func run(t testing.TB, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
}

// reader collects what a feed gives.
type reader struct {
	t    testing.TB
	feed aggregator.Feed
	got  []aggregator.Record
	next int64
	end  int64
}

func read(t testing.TB, f *Fetcher, partition int32, offset int64) *reader {
	feed := f.Open(partition, offset)
	t.Cleanup(feed.Close)
	return &reader{t: t, feed: feed, next: offset}
}

// step takes one batch, and checks what every batch must be.
func (r *reader) step(ctx context.Context) error {
	b, err := r.feed.Next(ctx)
	if err != nil {
		return err
	}
	if b.First != r.next || b.Next <= b.First {
		r.t.Fatalf("batch [%d,%d) after position %d", b.First, b.Next, r.next)
	}
	if b.End < b.Next {
		r.t.Fatalf("batch [%d,%d) ends after the readable end %d", b.First, b.Next, b.End)
	}
	at := b.First
	for _, rec := range b.Records {
		if rec.Offset < at || rec.Offset >= b.Next {
			r.t.Fatalf("record %d out of order or outside of [%d,%d)", rec.Offset, b.First, b.Next)
		}
		at = rec.Offset + 1
		rec.Key, rec.Value = bytes.Clone(rec.Key), bytes.Clone(rec.Value)
		r.got = append(r.got, rec)
	}
	r.next, r.end = b.Next, b.End
	return nil
}

// until reads up to a position.
func (r *reader) until(position int64) *reader {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 30*time.Second)
	defer cancel()
	for r.next < position {
		if err := r.step(ctx); err != nil {
			r.t.Fatalf("at %d, on the way to %d: %v", r.next, position, err)
		}
	}
	return r
}

// fails reads until an error comes.
func (r *reader) fails() error {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 30*time.Second)
	defer cancel()
	for {
		err := r.step(ctx)
		if ctx.Err() != nil {
			r.t.Fatal("no error came")
		}
		if err != nil {
			return err
		}
	}
}

func values(records []aggregator.Record) (list []string) {
	for _, r := range records {
		list = append(list, string(r.Value))
	}
	return list
}

func contains(text, part string) bool { return strings.Contains(text, part) }

func sumOf(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }
