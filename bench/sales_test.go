package bench

import (
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

// drawn is what an event holds that counts.
type drawn struct {
	user              int
	cents, points, at int64
}

// next makes an event and takes it into account.
func (g *sales) next() *kgo.Record {
	d, r := g.draw()
	g.count(d)
	return r
}

// count takes an event into account.
func (g *sales) count(d drawn) {
	t := &g.totals[d.user]
	t.sales++
	t.cents += d.cents
	t.points += d.points
	t.latest = max(t.latest, d.at)
}

// draw makes an event.
func (g *sales) draw() (drawn, *kgo.Record) {
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
	return drawn{user, cents, points, ms}, &kgo.Record{Key: key, Value: b}
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
