package kafka

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/aggregator"
	"tidemark/internal/testkit"
)

func TestRecordsComeAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: topic, Partitions: 2})
	at := time.UnixMilli(1438161432123)
	b.Produce(topic, 1,
		testkit.Message{Key: []byte("k"), Value: []byte("v"), Time: at},
		testkit.Message{Value: []byte{}, Time: at.Add(time.Millisecond)},
		testkit.Message{Key: []byte{}, Time: at.Add(2 * time.Millisecond)})
	r := read(t, startFetcher(t, configOf(t, b), FetchOptions{}), 1, 0).until(3)
	want := []aggregator.Record{
		{Offset: 0, Timestamp: at.UnixMilli(), Key: []byte("k"), Value: []byte("v")},
		{Offset: 1, Timestamp: at.UnixMilli() + 1, Value: []byte{}},
		{Offset: 2, Timestamp: at.UnixMilli() + 2, Key: []byte{}},
	}
	same := func(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }
	if !slices.EqualFunc(r.got, want, func(a, b aggregator.Record) bool {
		return a.Offset == b.Offset && a.Timestamp == b.Timestamp && same(a.Key, b.Key) && same(a.Value, b.Value)
	}) {
		t.Fatalf("got %v, want %v", r.got, want)
	}
	if r.end != 3 {
		t.Errorf("end is %d, want 3", r.end)
	}
}

func TestEachCodec(t *testing.T) {
	t.Parallel()
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: topic})
	var want []string
	for i, codec := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()} {
		client, err := kgo.NewClient(b.Options(kgo.ProducerBatchCompression(codec))...)
		if err != nil {
			t.Fatal(err)
		}
		value := fmt.Sprintf("codec %d %s", i, bytes.Repeat([]byte("x"), 1000))
		if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte(value)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		client.Close()
		want = append(want, value)
	}
	r := read(t, startFetcher(t, configOf(t, b), FetchOptions{}), 0, 0).until(5)
	if got := values(r.got); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// From any offset, the records are those at it or later, whatever batch they
// lie in.
func TestReadingBeginsInsideABatch(t *testing.T) {
	t.Parallel()
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: topic})
	b.Produce(topic, 0, testkit.Text("", "0"), testkit.Text("", "1"), testkit.Text("", "2"))
	b.Produce(topic, 0, testkit.Text("", "3"), testkit.Text("", "4"))
	f := startFetcher(t, configOf(t, b), FetchOptions{})
	for from := range int64(5) {
		r := read(t, f, 0, from).until(5)
		if got, want := values(r.got), []string{"0", "1", "2", "3", "4"}[from:]; !slices.Equal(got, want) {
			t.Errorf("from %d: got %v, want %v", from, got, want)
		}
		r.feed.Close()
	}
}

func TestK17AbortedTransactionsAreNotRead(t *testing.T) {
	t.Parallel()
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: topic})
	tx := b.NewTransactions("tx")
	tx.Begin()
	tx.Produce(topic, 0, testkit.Text("", "a1"), testkit.Text("", "a2"), testkit.Text("", "a3"))
	tx.Abort()
	tx.Begin()
	tx.Produce(topic, 0, testkit.Text("", "c"))
	tx.Commit()
	r := read(t, startFetcher(t, configOf(t, b), FetchOptions{}), 0, 0).until(6)
	if got := values(r.got); !slices.Equal(got, []string{"c"}) {
		t.Errorf("got %v, want [c]", got)
	}
}

func TestReadUncommittedReadsAllButMarkers(t *testing.T) {
	t.Parallel()
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: topic})
	tx := b.NewTransactions("tx")
	tx.Begin()
	tx.Produce(topic, 0, testkit.Text("", "aborted"))
	tx.Abort()
	tx.Begin()
	tx.Produce(topic, 0, testkit.Text("", "open"))
	cfg := configOf(t, b)
	cfg.IsolationLevel = "read_uncommitted"
	r := read(t, startFetcher(t, cfg, FetchOptions{}), 0, 0).until(3)
	if got := values(r.got); !slices.Equal(got, []string{"aborted", "open"}) {
		t.Errorf("got %v", got)
	}
	tx.Abort()
}

// Open transactions hold the end back; nothing behind them is read before they
// end, and then all of it.
func TestAnOpenTransactionHoldsTheEndBack(t *testing.T) {
	t.Parallel()
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: topic})
	f := startFetcher(t, configOf(t, b), FetchOptions{})
	b.Produce(topic, 0, testkit.Text("", "before"))
	tx := b.NewTransactions("tx")
	tx.Begin()
	tx.Produce(topic, 0, testkit.Text("", "inside"))
	b.Produce(topic, 0, testkit.Text("", "behind"))
	r := read(t, f, 0, 0).until(1)
	if r.next != 1 || r.end != 1 {
		t.Fatalf("position %d, end %d: want 1 and 1", r.next, r.end)
	}
	if _, end, err := f.Bounds(t.Context(), 0); err != nil || end != 1 {
		t.Fatalf("bounds end at %d (%v), want 1", end, err)
	}
	tx.Commit()
	r.until(4)
	if got := values(r.got); !slices.Equal(got, []string{"before", "inside", "behind"}) {
		t.Errorf("got %v", got)
	}
}

func TestK15S17MarkersAtTheEndArePassed(t *testing.T) {
	t.Parallel()
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: topic})
	tx := b.NewTransactions("tx")
	tx.Begin()
	for i := range 10 {
		tx.Produce(topic, 0, testkit.Text("", fmt.Sprint(i)))
	}
	tx.Commit()
	for range 3 {
		tx.Begin()
		tx.Produce(topic, 0, testkit.Text("", "no"))
		tx.Abort()
	}
	f := startFetcher(t, configOf(t, b), FetchOptions{})
	_, end, err := f.Bounds(t.Context(), 0)
	if err != nil || end != 17 {
		t.Fatalf("end is %d (%v), want 17", end, err)
	}
	if r := read(t, f, 0, 0).until(end); r.next != end || len(r.got) != 10 {
		t.Errorf("position %d with %d records, want %d with 10", r.next, len(r.got), end)
	}
	// and where nothing but markers and aborted records is left to read
	if r := read(t, f, 0, 11).until(end); r.next != end || len(r.got) != 0 {
		t.Errorf("position %d with %d records, want %d with none", r.next, len(r.got), end)
	}
}

func TestK16HolesOfCompactionArePassed(t *testing.T) {
	t.Parallel()
	b := testkit.NewBroker(t, testkit.BrokerOptions{})
	b.CreateTopic(topic, 1, "cleanup.policy", "compact", "min.cleanable.dirty.ratio", "0", "segment.ms", "1")
	for i := range 30 {
		b.Produce(topic, 0, testkit.Text(fmt.Sprint("k", i%3), fmt.Sprint(i)))
	}
	b.Compact()
	tx := b.NewTransactions("tx")
	tx.Begin()
	tx.Produce(topic, 0, testkit.Text("k9", "aborted"), testkit.Text("k9", "aborted"))
	tx.Abort()
	f := startFetcher(t, configOf(t, b), FetchOptions{})
	start, end, err := f.Bounds(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	r := read(t, f, 0, start).until(end)
	var want []string
	for _, rec := range b.Read(topic, 0) {
		want = append(want, string(rec.Value))
	}
	if got := values(r.got); !slices.Equal(got, want) || len(want) == 30 {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestD20ARecordAboveTheFetchLimitIsRead(t *testing.T) {
	t.Parallel()
	b := testkit.NewBroker(t, testkit.BrokerOptions{More: []kfake.Opt{kfake.BrokerConfigs(map[string]string{"message.max.bytes": "20000000"})}})
	b.CreateTopic(topic, 1, "max.message.bytes", "20000000")
	big := bytes.Repeat([]byte("0123456789abcdef"), 8<<20/16)
	b.Produce(topic, 0, testkit.Text("", "small"))
	b.Produce(topic, 0, testkit.Message{Value: big})
	b.Produce(topic, 0, testkit.Text("", "small again"))
	r := read(t, startFetcher(t, configOf(t, b), FetchOptions{}), 0, 0).until(3)
	if len(r.got) != 3 || !bytes.Equal(r.got[1].Value, big) || string(r.got[2].Value) != "small again" {
		t.Errorf("got %d records", len(r.got))
	}
}

func TestOutOfRange(t *testing.T) {
	t.Parallel()
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: topic, Partitions: 2})
	for i := range 10 {
		b.Produce(topic, 0, testkit.Text("", fmt.Sprint(i)))
	}
	b.DeleteRecords(topic, 0, 6)
	f := startFetcher(t, configOf(t, b), FetchOptions{})
	for _, offset := range []int64{0, 5, 11, 500} {
		r := read(t, f, 0, offset)
		if err := r.fails(); !errors.Is(err, aggregator.ErrOutOfRange) {
			t.Errorf("from %d: %v, want out of range", offset, err)
		}
		if err := r.fails(); !errors.Is(err, aggregator.ErrOutOfRange) {
			t.Errorf("from %d, again: %v, want out of range", offset, err)
		}
	}
	if r := read(t, f, 0, 6).until(10); len(r.got) != 4 {
		t.Errorf("from the log start: %d records, want 4", len(r.got))
	}
	start, end, err := f.Bounds(t.Context(), 0)
	if start != 6 || end != 10 || err != nil {
		t.Errorf("bounds are %d, %d, %v", start, end, err)
	}
}

// Retention passes a reader that could not read for a while: it is told, and
// nothing is skipped silently.
func TestK01RetentionPassesAReader(t *testing.T) {
	t.Parallel()
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: topic})
	b.Produce(topic, 0, testkit.Text("", "0"))
	f := startFetcher(t, configOf(t, b), FetchOptions{MaxWait: 20 * time.Millisecond})
	r := read(t, f, 0, 0).until(1)
	var away atomic.Bool
	held := make(chan struct{}, 1000)
	b.ControlKey(int16(kmsg.Fetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		if !away.Load() {
			return nil, nil, false
		}
		poke(held)
		return answerTo(kreq.(*kmsg.FetchRequest), func(_ kmsg.FetchRequestTopicPartition, to *kmsg.FetchResponseTopicPartition) {
			to.ErrorCode = kerr.NotLeaderForPartition.Code
		}), nil, true
	})
	away.Store(true)
	<-held
	for i := range 20 {
		b.Produce(topic, 0, testkit.Text("", fmt.Sprint(i)))
	}
	b.DeleteRecords(topic, 0, 21)
	away.Store(false)
	if err := r.fails(); !errors.Is(err, aggregator.ErrOutOfRange) || r.next != 1 {
		t.Fatalf("at %d: %v, want out of range at 1", r.next, err)
	}
	if start, end, err := f.Bounds(t.Context(), 0); err != nil || start != 21 || end != 21 {
		t.Errorf("bounds are %d, %d, %v", start, end, err)
	}
}

func TestK04ATopicCreatedAgainEndsItsFeeds(t *testing.T) {
	t.Parallel()
	b := testkit.NewBroker(t, testkit.BrokerOptions{})
	b.CreateTopic(topic, 1)
	for i := range 5 {
		b.Produce(topic, 0, testkit.Text("", fmt.Sprint("old", i)))
	}
	f := startFetcher(t, configOf(t, b), FetchOptions{MaxWait: 50 * time.Millisecond})
	before, err := f.Topic(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r := read(t, f, 0, 0).until(5)
	b.DeleteTopic(topic)
	testkit.Eventually(t, 10*time.Second, func() bool {
		_, err := f.Topic(t.Context())
		return errors.Is(err, aggregator.ErrNoTopic)
	}, "the topic is gone")
	b.CreateTopic(topic, 1)
	if err := r.fails(); !errors.Is(err, aggregator.ErrNoTopic) {
		t.Fatalf("%v, want no such topic", err)
	}
	after, err := f.Topic(t.Context())
	if err != nil || after.ID == before.ID || after.ID == "" {
		t.Errorf("topic is %v (%v), was %v", after, err, before)
	}
	b.Produce(topic, 0, testkit.Text("", "new"))
	if r := read(t, f, 0, 0).until(1); string(r.got[0].Value) != "new" {
		t.Errorf("got %v", values(r.got))
	}
}

func TestAFeedSaysThatThereIsNoTopicAndGoesOnWhenThereIs(t *testing.T) {
	t.Parallel()
	b := testkit.NewBroker(t, testkit.BrokerOptions{})
	r := read(t, startFetcher(t, configOf(t, b), FetchOptions{}), 0, 0)
	if err := r.fails(); !errors.Is(err, aggregator.ErrNoTopic) {
		t.Fatalf("%v, want no such topic", err)
	}
	b.CreateTopic(topic, 1)
	b.Produce(topic, 0, testkit.Text("", "x"))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for len(r.got) == 0 {
		if err := r.step(ctx); err != nil && !errors.Is(err, aggregator.ErrNoTopic) {
			t.Fatal(err)
		}
	}
}

// A reader that takes nothing keeps only its own partition waiting.
func TestASlowReaderHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: topic, Partitions: 4})
	f := startFetcher(t, configOf(t, b), FetchOptions{Buffer: 1 << 20})
	value := bytes.Repeat([]byte("v"), 100<<10)
	const n = 40
	for p := range int32(4) {
		for range n {
			b.Produce(topic, p, testkit.Message{Value: value})
		}
	}
	slow := read(t, f, 0, 0)
	slow.until(1)
	for p := int32(1); p < 4; p++ {
		if r := read(t, f, p, 0).until(n); len(r.got) != n {
			t.Errorf("partition %d: %d records, want %d", p, len(r.got), n)
		}
	}
	if slow.until(n); len(slow.got) != n {
		t.Errorf("slow partition: %d records, want %d", len(slow.got), n)
	}
}

// A partition that is opened while the others' requests wait for records is
// read at once, not when they return.
func TestOpeningDoesNotWaitForALongPoll(t *testing.T) {
	t.Parallel()
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: topic, Partitions: 6})
	for p := range int32(6) {
		b.Produce(topic, p, testkit.Text("", "x"))
	}
	f := startFetcher(t, configOf(t, b), FetchOptions{MaxWait: 20 * time.Second})
	began := time.Now()
	for p := range int32(6) {
		r := read(t, f, p, 0).until(1)
		_ = r
	}
	if d := time.Since(began); d > 10*time.Second {
		t.Errorf("opening six partitions took %s", d)
	}
	// and records that are written then come at once, in each of them
	began = time.Now()
	for p := range int32(6) {
		r := read(t, f, p, 1)
		b.Produce(topic, p, testkit.Text("", "y"))
		r.until(2)
	}
	if d := time.Since(began); d > 10*time.Second {
		t.Errorf("reading six fresh records took %s", d)
	}
}

// Exactly what another client reads, through leader moves, broken connections
// and aborted transactions.
func TestExactThroughLeaderMoves(t *testing.T) {
	t.Parallel()
	const partitions = 3
	b := testkit.NewBroker(t, testkit.BrokerOptions{Brokers: 3, Topic: topic, Partitions: partitions})
	f := startFetcher(t, configOf(t, b), FetchOptions{MaxWait: 100 * time.Millisecond})
	readers := make([]*reader, partitions)
	for p := range readers {
		readers[p] = read(t, f, int32(p), 0)
	}
	var writing sync.WaitGroup
	for p := range int32(partitions) {
		writing.Go(func() {
			tx := b.NewTransactions(fmt.Sprint("tx", p))
			for i := range 60 {
				tx.Begin()
				for j := range 1 + i%4 {
					tx.Produce(topic, p, testkit.Text(fmt.Sprint(j), fmt.Sprintf("%d %d %d", p, i, j)))
				}
				if i%5 == 2 {
					b.Produce(topic, p, testkit.Text("plain", fmt.Sprintf("%d %d plain", p, i)))
				}
				if i%3 == 0 {
					tx.Abort()
				} else {
					tx.Commit()
				}
				if i%7 == 3 {
					b.Move(topic, p)
				}
				if i%11 == 5 {
					b.Break(int16(kmsg.Fetch), 1)
				}
			}
		})
	}
	writing.Wait()
	for p, r := range readers {
		_, end, err := f.Bounds(t.Context(), int32(p))
		if err != nil {
			t.Fatal(err)
		}
		r.until(end)
		want := b.Read(topic, int32(p))
		if !slices.EqualFunc(r.got, want, func(a aggregator.Record, b *kgo.Record) bool {
			return a.Offset == b.Offset && bytes.Equal(a.Key, b.Key) && bytes.Equal(a.Value, b.Value) && a.Timestamp == b.Timestamp.UnixMilli()
		}) {
			t.Errorf("partition %d: %d records, want %d", p, len(r.got), len(want))
		}
	}
}

func TestBrokersThatRestartAreWaitedFor(t *testing.T) {
	t.Parallel()
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: topic, Dir: t.TempDir()})
	b.Produce(topic, 0, testkit.Text("", "before"))
	f := startFetcher(t, configOf(t, b), FetchOptions{})
	r := read(t, f, 0, 0).until(1)
	b.Stop()
	b.Restart()
	b.Produce(topic, 0, testkit.Text("", "after"))
	if r.until(2); !slices.Equal(values(r.got), []string{"before", "after"}) {
		t.Errorf("got %v", values(r.got))
	}
}

// O09: brokers that come after the service.
func TestO09BrokersThatComeLaterAreWaitedFor(t *testing.T) {
	t.Parallel()
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: topic, Dir: t.TempDir()})
	b.Produce(topic, 0, testkit.Text("", "x"))
	cfg := configOf(t, b)
	b.Stop()
	r := read(t, startFetcher(t, cfg, FetchOptions{}), 0, 0)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := r.step(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("without brokers: %v", err)
	}
	b.Restart()
	r.until(1)
}

func TestClosingEndsAWaitingNext(t *testing.T) {
	t.Parallel()
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: topic})
	f := startFetcher(t, configOf(t, b), FetchOptions{})
	feed := f.Open(0, 0)
	ended := make(chan error)
	go func() {
		_, err := feed.Next(t.Context())
		ended <- err
	}()
	feed.Close()
	if err := <-ended; !errors.Is(err, errFeedClosed) {
		t.Errorf("%v, want %v", err, errFeedClosed)
	}
	feed.Close()
	if f.buffered != 0 || len(f.feeds) != 0 {
		t.Errorf("%d bytes and %d feeds are left", f.buffered, len(f.feeds))
	}
}

// What is fetched ahead stays within the buffer, about.
func TestTheBufferIsBounded(t *testing.T) {
	t.Parallel()
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: topic, Partitions: 8})
	messages := make([]testkit.Message, 60)
	random := rand.NewChaCha8([32]byte{})
	for i := range messages {
		messages[i].Value = make([]byte, 10<<10) // that no codec makes less of
		_, _ = random.Read(messages[i].Value)
	}
	for p := range int32(8) {
		for range 4 {
			b.Produce(topic, p, messages...)
		}
	}
	const limit = 2 << 20
	f := startFetcher(t, configOf(t, b), FetchOptions{Buffer: limit})
	readers := make([]*reader, 8)
	for p := range readers {
		readers[p] = read(t, f, int32(p), 0)
	}
	buffered := func() int { f.mu.Lock(); defer f.mu.Unlock(); return f.buffered }
	testkit.Eventually(t, 10*time.Second, func() bool { return buffered() >= limit }, "the buffer fills")
	for _, r := range readers {
		r.until(240)
		// one block of each partition may come when the buffer is full already
		if n := buffered(); n > limit+8*(1<<20) {
			t.Errorf("%d bytes are buffered, the limit is %d", n, limit)
		}
	}
}
