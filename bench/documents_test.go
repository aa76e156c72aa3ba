package bench

import (
	"slices"
	"strconv"
	"time"
)

// mix is splitmix64: the next number of a sequence.
func mix(state *uint64) uint64 {
	*state += 0x9e3779b97f4a7c15
	z := *state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// documentOf is the history of a user, which depends on its number alone, and
// what must come of it.
func documentOf(user int) ([]byte, total) {
	s := 1<<40 ^ uint64(user)
	t := total{
		sales:  int64(1 + mix(&s)%40),
		cents:  int64(1 + mix(&s)%5_000_000),
		points: int64(mix(&s) % 10_000),
		latest: time.Date(2015, 7, 1, 0, 0, 0, 0, time.UTC).UnixMilli() + int64(mix(&s)%(28*86_400_000)),
	}
	var products []int
	for range 1 + mix(&s)%5 {
		products = append(products, int(mix(&s)%2000))
	}
	slices.Sort(products)

	b := append([]byte(nil), `{"userId":`...)
	b = strconv.AppendInt(b, int64(user), 10)
	b = append(b, `,"latestSaleTimestamp":"`...)
	b = appendTime(b, t.latest)
	b = append(b, `","totalRevenue":`...)
	b = appendCents(b, t.cents)
	b = append(b, `,"totalPoints":`...)
	b = strconv.AppendInt(b, t.points, 10)
	b = append(b, `,"sales":`...)
	b = strconv.AppendInt(b, t.sales, 10)
	b = append(b, `,"productList":[`...)
	for i, p := range slices.Compact(products) {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(p), 10)
	}
	return append(b, "]}"...), t
}
