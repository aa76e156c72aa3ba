//go:build integration

package integration

import (
	"fmt"
	"maps"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// salesQuery is the definition whose totals an oracle keeps.
func salesQuery(topic string) string {
	return `SELECT userId,
       CAST(max(saleTimestamp) AS timestamp) AS latestSaleTimestamp,
       sum(totalRevenue)                     AS totalRevenue,
       sum(totalPoints)                      AS totalPoints,
       collect_set(productList)              AS productList,
       count(*)                              AS sales
FROM "` + topic + `"
WHERE channel IS NULL OR channel <> 'test'
GROUP BY userId`
}

// oracle makes a stream of sales from a seed and knows what must come of it.
// Among the sales are refunds, tests that WHERE takes out, bad records of
// several kinds, and tombstones; some have no key and go to any partition.
type oracle struct {
	rnd    *rand.Rand
	users  int
	n      int
	totals map[int]*total

	folded, filtered, bad, tombstones int64
}

type total struct {
	revenue  big.Int // in ten-thousandths
	points   big.Int
	latest   int64 // epoch milliseconds
	products map[int]bool
	sales    int64
}

func newOracle(seed uint64, users int) *oracle {
	return &oracle{rnd: rand.New(rand.NewPCG(seed, 1)), users: users, totals: map[int]*total{}}
}

var firstSale = time.Date(2015, 7, 29, 0, 0, 0, 0, time.UTC).UnixMilli()

// effect is what one record does to the totals.
type effect struct {
	Kind     string // folded, filtered, bad or tombstone
	User     int
	Units    int64 // of revenue, in ten-thousandths
	Points   int64
	At       int64 // epoch milliseconds
	Products []int
}

// next makes a record and takes it into account.
func (o *oracle) next() *kgo.Record {
	r, e := o.draw()
	o.take(e)
	return r
}

// draw makes a record and says what it does.
func (o *oracle) draw() (*kgo.Record, effect) {
	o.n++
	user := int(float64(o.users) * o.rnd.Float64() * o.rnd.Float64())
	key := []byte(strconv.Itoa(user))
	switch o.rnd.IntN(200) {
	case 0:
		bad := []string{"", "{", `{"userId":7`, "null", `{"userId":7,"totalRevenue":"1,5","totalPoints":1,"saleTimestamp":"2015-07-29"}`, `{}`}
		return &kgo.Record{Key: key, Value: []byte(bad[o.rnd.IntN(len(bad))])}, effect{Kind: "bad"}
	case 1:
		return &kgo.Record{Key: key}, effect{Kind: "tombstone"}
	case 2:
		key = nil // any partition
	}
	// Up to four decimals, and refunds.
	e := effect{Kind: "folded", User: user, Units: o.rnd.Int64N(5_000_000) - 100_000, Points: o.rnd.Int64N(300)}
	e.At = firstSale + int64(o.n)*3 + o.rnd.Int64N(2000) - 1000
	e.Products = make([]int, o.rnd.IntN(3))
	for i := range e.Products {
		e.Products[i] = o.rnd.IntN(40)
	}
	channel := ""
	if o.rnd.IntN(100) == 0 {
		channel, e.Kind = `,"channel":"test"`, "filtered"
	}
	value := fmt.Sprintf(`{"userId":%d,"saleTimestamp":"%s","totalRevenue":%s,"totalPoints":%d,"productList":%s%s}`,
		user, timestamp(e.At), decimal(big.NewInt(e.Units), o.rnd.IntN(2) == 0), e.Points, text(e.Products), channel)
	return &kgo.Record{Key: key, Value: []byte(value)}, e
}

// take takes what a record does into account.
func (o *oracle) take(e effect) {
	switch e.Kind {
	case "bad":
		o.bad++
		return
	case "tombstone":
		o.tombstones++
		return
	case "filtered":
		o.filtered++
		return
	}
	o.folded++
	t := o.totals[e.User]
	if t == nil {
		t = &total{products: map[int]bool{}}
		o.totals[e.User] = t
	}
	t.revenue.Add(&t.revenue, big.NewInt(e.Units))
	t.points.Add(&t.points, big.NewInt(e.Points))
	t.latest = max(t.latest, e.At)
	t.sales++
	for _, p := range e.Products {
		t.products[p] = true
	}
}

func timestamp(ms int64) string {
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
}

// decimal writes ten-thousandths, with or without zeros at the end.
func decimal(units *big.Int, zeros bool) string {
	abs := new(big.Int).Abs(units)
	text := fmt.Sprintf("%05s", abs.String())
	text = text[:len(text)-4] + "." + text[len(text)-4:]
	if !zeros {
		text = strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
	}
	if units.Sign() < 0 {
		text = "-" + text
	}
	return text
}

// consumed is the number of records made.
func (o *oracle) consumed() int64 { return o.folded + o.filtered + o.bad + o.tombstones }

// feed produces n records and returns when the broker has them.
func (o *oracle) feed(t testing.TB, cl *kgo.Client, topic string, n int) {
	t.Helper()
	errs := make(chan error, 1)
	for range n {
		r := o.next()
		r.Topic = topic
		cl.Produce(t.Context(), r, func(_ *kgo.Record, err error) {
			if err != nil {
				select {
				case errs <- err:
				default:
				}
			}
		})
	}
	if err := cl.Flush(t.Context()); err != nil {
		t.Errorf("produce: %v", err)
	}
	select {
	case err := <-errs:
		t.Errorf("produce: %v", err)
	default:
	}
}

// check compares every row of the listing, and the counts, with the oracle.
func (o *oracle) check(t testing.TB, s *service) {
	t.Helper()
	o.checkRows(t, s)
	o.checkCounts(t, s)
}

// checkRows compares every row of the listing.
func (o *oracle) checkRows(t testing.TB, s *service) {
	t.Helper()
	got, err := s.rows()
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(o.totals) {
		t.Errorf("%d keys, want %d", len(got), len(o.totals))
	}
	wrong := 0
	for user, want := range o.totals {
		row := got[strconv.Itoa(user)]
		set := slices.Sorted(maps.Keys(want.products))
		if set == nil {
			set = []int{}
		}
		expected := map[string]string{
			"userId":              strconv.Itoa(user),
			"latestSaleTimestamp": text(timestamp(want.latest)),
			"totalRevenue":        decimal(&want.revenue, false),
			"totalPoints":         want.points.String(),
			"productList":         text(set),
			"sales":               strconv.FormatInt(want.sales, 10),
		}
		for name, w := range expected {
			if g := text(row[name]); g != w {
				wrong++
				if wrong <= 10 {
					t.Errorf("user %d: %s is %s, want %s", user, name, g, w)
				}
			}
		}
	}
	if wrong > 10 {
		t.Errorf("%d values differ in all", wrong)
	}
}

// checkCounts compares the counts of /v1/status, which travel with the state:
// they add up to the records consumed, whatever crashed in between. The
// partitions are those of all members given.
func (o *oracle) checkCounts(t testing.TB, members ...*service) {
	t.Helper()
	var folded, filtered, bad, tombstones int64
	for _, s := range members {
		st, err := s.status()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range st.Partitions {
			folded += p.Counts.Folded
			filtered += p.Counts.Filtered
			bad += p.Counts.Bad
			tombstones += p.Counts.Tombstone
		}
	}
	got := [4]int64{folded, filtered, bad, tombstones}
	want := [4]int64{o.folded, o.filtered, o.bad, o.tombstones}
	if got != want {
		t.Errorf("folded, filtered, bad, tombstone are %v, want %v", got, want)
	}
}
