package bench

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// total is what a user's events add up to.
type total struct {
	sales, cents, points, latest int64
}

// spread says whose event comes next.
type spread string

const (
	zipf    spread = "zipf"    // exponent 1.1: an eighth of the events are of one user
	uniform spread = "uniform" // any user, each as likely
	each    spread = "each"    // every user once, in a scattered order, then again
)

// scatter is a prime: it spreads the ranks of users over their numbers.
const scatter = 2654435761

// sales makes a stream of events from a seed, and keeps what must come of it.
// An event has userId, saleTimestamp, totalRevenue (two decimals, a hundredth
// of them refunds), totalPoints and productList, 124 bytes at a million users.
type sales struct {
	rnd    *rand.Rand
	zipf   *rand.Zipf
	spread spread
	n      int
	totals []total // by user
}

func newSales(users int, s spread, seed uint64) *sales {
	r := rand.New(rand.NewPCG(seed, 7))
	g := &sales{rnd: r, spread: s, totals: make([]total, users)}
	if s == zipf {
		g.zipf = rand.NewZipf(r, 1.1, 1, uint64(users-1))
	}
	return g
}

var firstSale = time.Date(2015, 7, 29, 0, 0, 0, 0, time.UTC).UnixMilli()

// next makes an event and takes it into account.
func (g *sales) next() *kgo.Record {
	users := uint64(len(g.totals))
	var user int
	switch g.spread {
	case zipf:
		user = int(g.zipf.Uint64() * scatter % users)
	case uniform:
		user = g.rnd.IntN(int(users))
	case each:
		user = int(uint64(g.n) * scatter % users)
	}
	cents := int64(g.rnd.IntN(50_000)) - 500
	points := int64(g.rnd.IntN(300))
	ms := firstSale + int64(g.n)*3 + int64(g.rnd.IntN(2000)) - 1000
	g.n++
	t := &g.totals[user]
	t.sales++
	t.cents += cents
	t.points += points
	t.latest = max(t.latest, ms)

	b := make([]byte, 0, 176)
	b = append(b, `{"userId":`...)
	b = strconv.AppendInt(b, int64(user), 10)
	key := b[len(`{"userId":`):len(b):len(b)]
	b = append(b, `,"saleTimestamp":"`...)
	b = appendTime(b, ms)
	b = append(b, `","totalRevenue":`...)
	b = appendCents(b, cents)
	b = append(b, `,"totalPoints":`...)
	b = strconv.AppendInt(b, points, 10)
	b = append(b, `,"productList":[`...)
	for i := range 1 + g.rnd.IntN(3) {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(g.rnd.IntN(2000)), 10)
	}
	b = append(b, "]}"...)
	return &kgo.Record{Key: key, Value: b}
}

func appendTime(b []byte, ms int64) []byte {
	return time.UnixMilli(ms).UTC().AppendFormat(b, "2006-01-02T15:04:05.000Z")
}

func appendCents(b []byte, c int64) []byte {
	if c < 0 {
		b = append(b, '-')
		c = -c
	}
	b = strconv.AppendInt(b, c/100, 10)
	return append(b, '.', byte('0'+c%100/10), byte('0'+c%10))
}

// fill produces n events and returns when the broker has them.
func (b *bench) fill(t testing.TB, topic string, g *sales, n int) {
	t.Helper()
	var failed atomic.Pointer[error]
	for range n {
		r := g.next()
		r.Topic = topic
		b.broker.client.Produce(t.Context(), r, func(_ *kgo.Record, err error) {
			if err != nil {
				failed.CompareAndSwap(nil, &err)
			}
		})
	}
	if err := b.broker.client.Flush(t.Context()); err != nil {
		t.Fatalf("produce to %s: %v", topic, err)
	}
	if err := failed.Load(); err != nil {
		t.Fatalf("produce to %s: %v", topic, *err)
	}
}

// stream is a load of so many events a second, until it is stopped.
type stream struct {
	began  time.Time
	made   atomic.Int64
	cancel context.CancelFunc
	done   chan error
}

// offer starts a stream. Events are written every five milliseconds, as many
// as are due by then.
func (b *bench) offer(t testing.TB, topic string, g *sales, rate int) *stream {
	t.Helper()
	client, err := b.broker.newClient(kgo.ProducerLinger(2*time.Millisecond), kgo.MaxBufferedRecords(1<<18))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s := &stream{began: time.Now(), cancel: cancel, done: make(chan error, 1)}
	go func() {
		defer client.Close()
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				s.done <- client.Flush(context.WithoutCancel(ctx))
				return
			case now := <-tick.C:
				due := int64(now.Sub(s.began).Seconds() * float64(rate))
				for ; s.made.Load() < due; s.made.Add(1) {
					r := g.next()
					r.Topic = topic
					client.Produce(context.WithoutCancel(ctx), r, nil)
				}
			}
		}
	}()
	return s
}

// stop ends the stream and returns the events a second that it reached.
func (s *stream) stop(t testing.TB) float64 {
	t.Helper()
	rate := float64(s.made.Load()) / time.Since(s.began).Seconds()
	s.cancel()
	if err := <-s.done; err != nil {
		t.Errorf("end the stream of events: %v", err)
	}
	return rate
}
