package bench

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"
)

// nextCursor is the cursor of a page, "" on the last: the page is not decoded,
// since that would take longer than many answers.
func nextCursor(page []byte) string {
	_, rest, ok := bytes.Cut(page[max(0, len(page)-1000):], []byte(`"next_cursor":"`))
	if !ok {
		return ""
	}
	cursor, _, _ := bytes.Cut(rest, []byte{'"'})
	return string(cursor)
}

// measureReads asks by key, by a hundred keys, and for pages, while events come
// in. Latencies are of a moderate number of requests a second, so that they are
// not those of a queue; throughput is of as many as go.
func measureReads(t *testing.T, b *bench, s *section) {
	f := b.fillUp(t, b.size.Users)
	svc := b.newService(t, f.set)
	svc.start(t)
	svc.ready(t, time.Minute)
	load := b.offer(t, f.set.topic, partitions, f.sales, b.size.Load)
	user := func(rnd *rand.Rand) string { return strconv.Itoa(rnd.IntN(b.size.Users)) }

	const workers = 8
	rnd := make([]*rand.Rand, workers)
	cursors := make([]string, workers)
	for i := range rnd {
		rnd[i] = rand.New(rand.NewPCG(8, uint64(i)))
	}
	byKey := func(c *conn, w, _ int) error {
		_, err := c.get("/v1/aggregates/" + user(rnd[w]))
		return err
	}
	byHundred := func(c *conn, w, _ int) error {
		keys := make([]string, 100)
		for i := range keys {
			keys[i] = strconv.Quote(user(rnd[w]))
		}
		_, err := c.post("/v1/aggregates:batchGet", `{"keys":[`+strings.Join(keys, ",")+`]}`)
		return err
	}
	page := func(c *conn, w, _ int) error {
		path := "/v1/aggregates?limit=1000"
		if cursors[w] != "" {
			path += "&cursor=" + cursors[w]
		}
		body, err := c.get(path)
		if err != nil {
			return err
		}
		cursors[w] = nextCursor(body)
		return nil
	}

	// What a catch-up leaves is flushed, published and merged in the first minute: a
	// service that has been live for longer is measured.
	press(t, svc.address, 1, 100*time.Millisecond, time.Duration(b.size.Rest)*time.Second, byKey)
	// The share of folding in the CPU that reads take, over a turn of all partitions.
	began, at := time.Now(), svc.cpu()
	press(t, svc.address, 1, time.Second, 3*b.span(), byKey)
	folding := (svc.cpu() - at) / time.Since(began).Seconds()

	folded := func() float64 {
		st, err := svc.status()
		if err != nil {
			t.Fatal(err)
		}
		return float64(st.folded())
	}
	phase := func(what string, workers int, pause time.Duration, ask asker, p99 target) (times []time.Duration, cpuSeconds float64) {
		m := b.meter()
		began, at, before := time.Now(), svc.cpu(), folded()
		times = press(t, svc.address, workers, pause, b.span(), ask)
		took, used := time.Since(began).Seconds(), svc.cpu()-at
		s.add(figure{What: what + ": p99", Unit: "ms", Target: p99, Values: []float64{quantile(times, 0.99)}, Other: m.others(used),
			Note: fmt.Sprintf("median %s ms, %s/s, %s", number(quantile(times, 0.5)), number(float64(len(times))/took), foldingAt((folded()-before)/took))})
		b.say("%s: median %.2f ms, p99 %.2f ms, %.0f/s, %.2f of a core with %.2f for folding, %.2f for the servers, %.2f for the harness", what,
			quantile(times, 0.5), quantile(times, 0.99), float64(len(times))/took, used/took, folding, (b.servers()-m.servers)/took, (own()-m.own)/took)
		return times, used - folding*took
	}
	least := func(what string, workers int, pause time.Duration, like string, ask asker) (times []time.Duration, cpuSeconds float64) {
		size := 0
		askOnce(t, svc.address, func(c *conn, _, _ int) error {
			body, err := c.get(like)
			size = len(body)
			return err
		})
		address, used := b.answers(t, size)
		times = press(t, address, workers, pause, b.span()/2, ask)
		s.add(figure{What: what + ", the floor: p99", Unit: "ms", Values: []float64{quantile(times, 0.99)}, Other: -1,
			Note: fmt.Sprintf("median %s ms: net/http and nothing behind it, as many bytes, beside the same load", number(quantile(times, 0.5)))})
		b.say("%s: the floor's median %.2f ms, p99 %.2f ms", what, quantile(times, 0.5), quantile(times, 0.99))
		return times, used()
	}
	phase("read by key", 4, 2*time.Millisecond, byKey, atMost(2))
	least("read by key", 4, 2*time.Millisecond, "/v1/aggregates/1", byKey)
	phase("batchGet of 100 keys", 2, 20*time.Millisecond, byHundred, atMost(5))
	least("batchGet of 100 keys", 2, 20*time.Millisecond, "/v1/aggregates?limit=100", byHundred)
	phase("page of 1,000 rows", 2, 40*time.Millisecond, page, atMost(10))
	least("page of 1,000 rows", 2, 40*time.Millisecond, "/v1/aggregates?limit=1000", page)
	times, used := phase("read by key, as many as go", workers, 0, byKey, target{})
	answered, spent := least("read by key, as many as go", workers, 0, "/v1/aggregates/1", byKey)
	s.add(figure{What: "the floor's answers in a CPU-second", Unit: "reads", Values: []float64{float64(len(answered)) / max(spent, 0.001)}, Other: -1})
	s.add(figure{What: "reads by key in a CPU-second of the service", Unit: "reads", Target: atLeast(20_000),
		Values: []float64{float64(len(times)) / max(used, 0.001)}, Other: -1, Note: "less what folding takes; the client not counted"})
	if rate := load.stop(t); rate < 0.95*float64(b.size.Load) {
		b.say("reads: the harness offered %.0f events/s alone, of %d", rate, b.size.Load)
	}
	svc.stop(t)
}
