package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// salesStream makes up sales for the demo: a few users buy most of the time.
type salesStream struct {
	users int
	rnd   *rand.Rand
	zipf  *rand.Zipf
}

func newSalesStream(users int) *salesStream {
	rnd := rand.New(rand.NewPCG(2015, 7))
	return &salesStream{users, rnd, rand.NewZipf(rnd, 1.1, 4, uint64(users-1))}
}

// writeHistory writes a document for each user: what was sold before the
// stream begins.
func (s *salesStream) writeHistory(path string) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("write the history: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriter(f)
	for user := 1; user <= s.users; user++ {
		fmt.Fprintf(w, `{"userId":%d,"latestSaleTimestamp":"2015-07-22T%02d:%02d:00Z","totalRevenue":%d.%02d,"totalPoints":%d,"productList":[%d,%d],"sales":%d}`+"\n",
			user, s.rnd.IntN(24), s.rnd.IntN(60), s.rnd.IntN(500), s.rnd.IntN(100), s.rnd.IntN(400), s.product(), s.product(), 1+s.rnd.IntN(20))
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write the history: %w", err)
	}
	return nil
}

func (s *salesStream) product() int { return 1 + s.rnd.IntN(30) }

// sale appends one event; a hundredth are refunds, a few come from a test.
func (s *salesStream) sale(b []byte, user int, at time.Time) []byte {
	b = fmt.Appendf(b, `{"userId":%d,"saleTimestamp":"%s","totalRevenue":`, user, at.UTC().Format("2006-01-02T15:04:05.000Z"))
	if s.rnd.IntN(100) == 0 {
		b = append(b, '-')
	}
	b = fmt.Appendf(b, `%d.%02d,"totalPoints":%d,"productList":[`, s.rnd.IntN(300), s.rnd.IntN(100), s.rnd.IntN(200))
	for i := range 1 + s.rnd.IntN(3) {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(s.product()), 10)
	}
	b = append(b, ']')
	if s.rnd.IntN(50) == 0 {
		b = append(b, `,"channel":"test"`...)
	}
	return append(b, '}')
}

// produce writes rate sales a second until ctx ends.
func (s *salesStream) produce(ctx context.Context, brokers []string, rate int) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.DefaultProduceTopic(demoTopic), kgo.ProducerLinger(5*time.Millisecond))
	if err != nil {
		return fmt.Errorf("connect the sales stream: %w", err)
	}
	defer client.Close()
	began, made := time.Now(), 0
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			for due := int(now.Sub(began).Seconds() * float64(rate)); made < due; made++ {
				user := 1 + int(s.zipf.Uint64())
				client.Produce(ctx, &kgo.Record{Key: strconv.AppendInt(nil, int64(user), 10), Value: s.sale(nil, user, now)}, nil)
			}
		}
	}
}
