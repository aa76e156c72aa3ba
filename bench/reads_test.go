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

	key, keys, rows := "/v1/aggregates/1", "/v1/aggregates?limit=100", "/v1/aggregates?limit=1000"
	phases := []*readPhase{
		{what: "read by key", workers: 4, pause: 2 * time.Millisecond, ask: byKey, like: key, p99: atMost(2)},
		{what: "batchGet of 100 keys", workers: 2, pause: 20 * time.Millisecond, ask: byHundred, like: keys, p99: atMost(5)},
		{what: "page of 1,000 rows", workers: 2, pause: 40 * time.Millisecond, ask: page, like: rows, p99: atMost(10)},
		{what: "read by key, as many as go", workers: workers, ask: byKey, like: key},
	}
	for range b.size.Runs {
		for _, p := range phases {
			p.measure(t, b, svc, folding)
			p.measureFloor(t, b, svc)
		}
	}
	for _, p := range phases {
		s.add(figure{What: p.what + ": p99", Unit: "ms", Target: p.p99, Values: p.times.p99s, Other: p.other,
			Note: fmt.Sprintf("median %s ms, %s/s, %s", number(median(p.times.medians)), number(median(p.rates)), foldingAt(median(p.folded)))})
		s.add(figure{What: p.what + ", the floor: p99", Unit: "ms", Values: p.floors.p99s, Other: -1,
			Note: fmt.Sprintf("median %s ms: net/http and nothing behind it, as many bytes, beside the same load", number(median(p.floors.medians)))})
	}
	flat := phases[len(phases)-1]
	s.add(figure{What: "the floor's answers in a CPU-second", Unit: "reads", Values: flat.floors.perCPU, Other: -1})
	s.add(figure{What: "reads by key in a CPU-second of the service", Unit: "reads", Target: atLeast(20_000),
		Values: flat.times.perCPU, Other: -1, Note: "less what folding takes; the client not counted"})
	if rate := load.stop(t); rate < 0.95*float64(b.size.Load) {
		b.say("reads: the harness offered %.0f events/s alone, of %d", rate, b.size.Load)
	}
	svc.stop(t)
}

// readPhase is a kind of read beside the load, and what its runs gave.
type readPhase struct {
	what    string
	workers int
	pause   time.Duration // of a worker between two requests
	ask     asker
	like    string // a path whose answer is as long, for the floor
	p99     target

	times, floors latencies
	rates, folded []float64 // a second
	other         float64
}

// latencies are of requests, a value for each run.
type latencies struct{ medians, p99s, perCPU []float64 }

func (a *latencies) add(times []time.Duration, cpuSeconds float64) {
	a.medians, a.p99s = append(a.medians, quantile(times, 0.5)), append(a.p99s, quantile(times, 0.99))
	a.perCPU = append(a.perCPU, float64(len(times))/max(cpuSeconds, 0.001))
}

// measure is one run, of which folding takes a known share of a core.
func (p *readPhase) measure(t *testing.T, b *bench, svc *service, folding float64) {
	folded := func() float64 {
		st, err := svc.status()
		if err != nil {
			t.Fatal(err)
		}
		return float64(st.folded())
	}
	m := b.meter()
	began, at, before := time.Now(), svc.cpu(), folded()
	times := press(t, svc.address, p.workers, p.pause, b.span(), p.ask)
	took, used := time.Since(began).Seconds(), svc.cpu()-at
	p.times.add(times, used-folding*took)
	p.rates, p.folded = append(p.rates, float64(len(times))/took), append(p.folded, (folded()-before)/took)
	p.other = max(p.other, m.others(used))
	b.say("%s: median %.2f ms, p99 %.2f ms, %.0f/s, %.2f of a core with %.2f for folding, %.2f for the servers, %.2f for the harness", p.what,
		quantile(times, 0.5), quantile(times, 0.99), float64(len(times))/took, used/took, folding, (b.servers()-m.servers)/took, (own()-m.own)/took)
}

// measureFloor asks a server in the same way that has nothing to do.
func (p *readPhase) measureFloor(t *testing.T, b *bench, svc *service) {
	size := 0
	askOnce(t, svc.address, func(c *conn, _, _ int) error {
		body, err := c.get(p.like)
		size = len(body)
		return err
	})
	address, used, end := b.answers(t, size)
	times := press(t, address, p.workers, p.pause, b.span()/2, p.ask)
	p.floors.add(times, used())
	end()
	b.say("%s: the floor's median %.2f ms, p99 %.2f ms", p.what, quantile(times, 0.5), quantile(times, 0.99))
}
