package kafka

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/aggregator"
	"tidemark/event"
	"tidemark/internal/testkit"
)

const letters = "sales-bad"

func deadLetter(t *testing.T, b *testkit.Broker) *DeadLetter {
	t.Helper()
	d, err := NewDeadLetter(openClient(t, configOf(t, b)), letters)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

func badRecord(offset int64, key, value []byte) aggregator.BadRecord {
	return aggregator.BadRecord{
		Topic: topic, Partition: 3, Reason: event.NullField, Field: "revenue", Error: `field "revenue" is null`,
		Record: aggregator.Record{Offset: offset, Key: key, Value: value},
	}
}

func headers(r *kgo.Record) map[string]string {
	m := make(map[string]string)
	for _, h := range r.Headers {
		m[h.Key] = string(h.Value)
	}
	return m
}

func TestDeadLettersAreAsTheyCame(t *testing.T) {
	t.Parallel()
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: topic})
	b.CreateTopic(letters, 1)
	d := deadLetter(t, b)
	bodies := [][2][]byte{{[]byte("k"), []byte("{")}, {nil, {0xff, 0}}, {{}, nil}, {nil, {}}}
	for i, kv := range bodies {
		key, value := bytes.Clone(kv[0]), bytes.Clone(kv[1])
		if err := d.Send(t.Context(), badRecord(int64(i), key, value)); err != nil {
			t.Fatal(err)
		}
		for j := range value {
			value[j] = 'z' // the caller's bytes are the caller's again
		}
	}
	if err := d.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := b.Read(letters, 0)
	if len(got) != len(bodies) {
		t.Fatalf("%d records, want %d", len(got), len(bodies))
	}
	for _, r := range got {
		h := headers(r)
		var i int
		fmt.Sscan(h["tidemark.offset"], &i)
		if h["tidemark.reason"] != "null_field" || h["tidemark.field"] != "revenue" || h["tidemark.error"] != `field "revenue" is null` ||
			h["tidemark.topic"] != topic || h["tidemark.partition"] != "3" || len(h) != 6 {
			t.Errorf("headers are %v", h)
		}
		for j, part := range [][]byte{r.Key, r.Value} {
			if want := bodies[i][j]; !bytes.Equal(part, want) || (part == nil) != (want == nil) {
				t.Errorf("record %d: part %d is %#v, want %#v", i, j, part, want)
			}
		}
	}
}

func TestADeadLetterTopicThatIsAwayLosesNothing(t *testing.T) {
	t.Parallel()
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: letters, Dir: t.TempDir()})
	d := deadLetter(t, b)
	send := func(from, to int64) {
		for i := from; i < to; i++ {
			if err := d.Send(t.Context(), badRecord(i, nil, []byte("x"))); err != nil {
				t.Fatal(err)
			}
		}
	}
	send(0, 10)
	if err := d.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.Stop()
	send(10, 20)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := d.Flush(ctx); err == nil {
		t.Fatal("flushed without brokers")
	}
	b.Restart()
	send(20, 30)
	testkit.Eventually(t, 20*time.Second, func() bool { return d.Flush(t.Context()) == nil }, "it flushes")
	seen := make(map[string]bool)
	for _, r := range b.Read(letters, 0) {
		seen[headers(r)["tidemark.offset"]] = true
	}
	if len(seen) != 30 {
		t.Errorf("%d of 30 records are there", len(seen))
	}
}

func TestBrokenProduceRequestsAreRepeated(t *testing.T) {
	t.Parallel()
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: letters})
	d := deadLetter(t, b)
	b.Break(int16(kmsg.Produce), 2)
	for i := range int64(5) {
		if err := d.Send(t.Context(), badRecord(i, nil, []byte("x"))); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := b.Read(letters, 0); len(got) != 5 {
		t.Errorf("%d records, want 5 once", len(got))
	}
}

// A record that the topic does not take goes without its value and says so; the
// others are not held up.
func TestADeadLetterThatIsTooLarge(t *testing.T) {
	t.Parallel()
	b := testkit.NewBroker(t, testkit.BrokerOptions{})
	b.CreateTopic(letters, 1, "max.message.bytes", "100000")
	d := deadLetter(t, b)
	sizes := []int{10, 200_000, 20, 3_000_000, 30}
	for i, n := range sizes {
		if err := d.Send(t.Context(), badRecord(int64(i), []byte("k"), bytes.Repeat([]byte("x"), n))); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := make(map[string]*kgo.Record)
	for _, r := range b.Read(letters, 0) {
		got[headers(r)["tidemark.offset"]] = r
	}
	for i, n := range sizes {
		r := got[fmt.Sprint(i)]
		switch {
		case r == nil:
			t.Errorf("record %d is not there", i)
		case n < 100_000 && len(r.Value) != n:
			t.Errorf("record %d has %d bytes, want %d", i, len(r.Value), n)
		case n > 100_000 && (r.Value != nil || !contains(headers(r)["tidemark.error"], fmt.Sprint(n)) || string(r.Key) != "k"):
			t.Errorf("record %d has %d bytes and says %s", i, len(r.Value), headers(r)["tidemark.error"])
		}
	}
}

func TestTheDeadLetterTopicIsAnother(t *testing.T) {
	t.Parallel()
	c := openClient(t, Config{Brokers: []string{"localhost:1"}, Topic: topic, GroupID: "g"})
	for _, name := range []string{"", topic, "a b"} {
		if _, err := NewDeadLetter(c, name); err == nil {
			t.Errorf("%q is taken", name)
		}
	}
}

// TestO03AFlushEndsWithItsContext: also where no broker gives a producer's id, and
// where the context had ended before; nothing is lost.
func TestO03AFlushEndsWithItsContext(t *testing.T) {
	t.Parallel()
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: letters})
	d := deadLetter(t, b)
	if err := d.Send(t.Context(), badRecord(0, nil, []byte("x"))); err != nil {
		t.Fatal(err)
	}
	b.Break(int16(kmsg.InitProducerID), 10)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	for _, when := range []string{"meanwhile", "before"} {
		began := time.Now()
		if err := d.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the context ends %s: %v", when, err)
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("the context ends %s: a flush ends after %v", when, took)
		}
	}
	testkit.Eventually(t, 20*time.Second, func() bool { return d.Flush(t.Context()) == nil }, "it flushes")
	if got := b.Read(letters, 0); len(got) != 1 {
		t.Errorf("%d records are there, want 1", len(got))
	}
}

// The reason why a topic takes nothing is said at each try, and never that a
// producer has given up trying.
func TestDeadLetterSaysWhyEachTime(t *testing.T) {
	t.Parallel()
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: topic})
	d := deadLetter(t, b) // whose topic is not there
	for n := range 3 {
		for i := range 20 {
			bad := aggregator.BadRecord{Topic: topic, Record: aggregator.Record{Offset: int64(20*n + i), Value: []byte("{")}}
			if err := d.Send(t.Context(), bad); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.Flush(t.Context()); err == nil || !contains(err.Error(), "does not exist") || contains(err.Error(), "circuit breaker") {
			t.Errorf("try %d: %v", n, err)
		}
	}
}
