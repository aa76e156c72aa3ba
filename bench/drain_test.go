package bench

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// drained is what draining a topic took.
type drained struct {
	cpu   float64 // seconds a million events, from start to exit
	rate  float64 // events a second, from the first to the last
	peak  float64 // MiB
	other float64
}

// drain folds the n events of a topic in a new group with an empty state and
// the default settings. A snapshot is asked for half-way, another is made at
// the end; both count. Where g is given, the row of every user is compared with
// what it knows; the CPU of reading them does not count.
func (b *bench) drain(t *testing.T, topic string, n int, g *sales) drained {
	t.Helper()
	s := b.newService(t, settings{topic: topic, group: b.name("drain")})
	m := b.meter()
	s.start(t)
	var before, first time.Time
	wait := func(what string, enough int64) {
		s.until(t, 20*time.Minute, 10*time.Millisecond, what, func() error {
			now := time.Now()
			st, err := s.status()
			if err != nil {
				return err
			}
			if first.IsZero() {
				if st.folded() > 0 {
					first = before
				}
				before = now
			}
			if st.folded() < enough {
				return fmt.Errorf("%d events are folded", st.folded())
			}
			return nil
		})
	}
	wait("half of the events are folded", int64(n/2))
	published := make(chan error, 1)
	go func() { published <- publishAt(s.url) }()
	wait("all events are folded", int64(n))
	d := drained{rate: float64(n) / time.Since(first).Seconds()}
	if err := <-published; err != nil {
		t.Fatal(err)
	}
	st, err := s.status()
	if err != nil {
		t.Fatal(err)
	}
	snapshots := 0
	for _, p := range st.Partitions {
		if p.Snapshot != nil {
			snapshots++
		}
		if p.Counts.Bad > 0 {
			t.Errorf("partition %d has %d bad records", p.Partition, p.Counts.Bad)
		}
	}
	if snapshots == 0 {
		t.Error("no snapshot was made before the end of the run")
	}
	reading := 0.0
	if g != nil {
		at := s.cpu()
		g.compare(t, s)
		reading = s.cpu() - at
	}
	s.stop(t)
	d.peak = s.peak()
	d.cpu = (s.cpu() - reading) / float64(n) * 1e6
	d.other = m.others(s.cpu())
	return d
}

// publishAt is publish for another goroutine.
func publishAt(url string) error {
	resp, err := patient.Post(url+"/v1/snapshots", "application/json", nil)
	if err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("publish: %s", resp.Status)
	}
	return nil
}

// compare reads every row and fails where a digit differs from what the
// generator knows, or a user is missing or too many.
func (g *sales) compare(t *testing.T, s *service) {
	t.Helper()
	c, err := dial(s.address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	seen, wrong, cursor := 0, 0, ""
	for {
		path := "/v1/aggregates?limit=1000"
		if cursor != "" {
			path += "&cursor=" + cursor
		}
		body, err := c.get(path)
		if err != nil {
			t.Fatalf("read the rows: %v", err)
		}
		var page struct {
			Rows []struct {
				Key string
				Row struct {
					Sales, TotalRevenue, TotalPoints json.Number
					LatestSaleTimestamp              string
				}
			}
			Next string `json:"next_cursor"`
		}
		if err := json.Unmarshal(body, &page); err != nil {
			t.Fatalf("read the rows: %v", err)
		}
		for _, r := range page.Rows {
			seen++
			user, err := strconv.Atoi(r.Key)
			if err != nil || user < 0 || user >= len(g.totals) {
				t.Fatalf("there is a row of %q", r.Key)
			}
			want := g.totals[user]
			got := [4]string{r.Row.Sales.String(), r.Row.TotalRevenue.String(), r.Row.TotalPoints.String(), r.Row.LatestSaleTimestamp}
			if expected := want.texts(); got != expected {
				if wrong++; wrong <= 10 {
					t.Errorf("user %d has %v, want %v", user, got, expected)
				}
			}
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	users := 0
	for _, t := range g.totals {
		if t.sales > 0 {
			users++
		}
	}
	if seen != users || wrong > 0 {
		t.Errorf("%d rows, %d of them wrong; want %d", seen, wrong, users)
	}
}

// texts are the values of a row as an answer writes them.
func (u total) texts() [4]string {
	revenue := string(appendCents(nil, u.cents))
	revenue = strings.TrimSuffix(strings.TrimRight(revenue, "0"), ".")
	if revenue == "-0" {
		revenue = "0"
	}
	return [4]string{strconv.FormatInt(u.sales, 10), revenue, strconv.FormatInt(u.points, 10), string(appendTime(nil, u.latest))}
}

// spreads of a drain with their targets in CPU-seconds a million events.
var drains = []struct {
	spread spread
	cpu    target
}{{zipf, atMost(0.55)}, {uniform, atMost(1.4)}}

// measureDrain folds a topic of events from its beginning, as fast as it goes.
func measureDrain(t *testing.T, b *bench, s *section) {
	shares, costs := map[spread]map[string]float64{}, map[spread]float64{}
	for _, d := range drains {
		topic, g := b.name(string(d.spread)), newSales(b.size.Users, d.spread, 1)
		b.say("writing %d events, %s over %d users", b.size.Events, d.spread, b.size.Users)
		b.broker.createTopic(t, topic, partitions)
		b.fill(t, topic, g, b.size.Events)
		var cpu, rate, peak, floor, ratio []float64
		other := 0.0
		for run := range b.size.Runs {
			if run > 0 {
				g = nil // the totals of one run are compared
			}
			r := b.drain(t, topic, b.size.Events, g)
			f := b.floor(t, topic, b.size.Events)
			b.say("drain %s: %.2f CPU-s/M, %.0f events/s, %.0f MiB; the floor %.2f CPU-s/M; others %.1f CPU-s", d.spread, r.cpu, r.rate, r.peak, f, r.other)
			cpu, rate, peak = append(cpu, r.cpu), append(rate, r.rate), append(peak, r.peak)
			floor, ratio = append(floor, f), append(ratio, r.cpu/f)
			other = max(other, r.other)
		}
		of := fmt.Sprintf("drain, %s: ", d.spread)
		s.add(figure{What: of + "CPU", Unit: "CPU-s/M", Target: d.cpu, Values: cpu, Other: other, Note: "start to exit, a snapshot half-way and one at the end; every total is exact"})
		rates := figure{What: of + "rate", Unit: "events/s", Values: rate, Other: other}
		if d.spread == zipf {
			rates.Target = atLeast(2_000_000)
		}
		s.add(rates)
		s.add(figure{What: of + "peak memory", Unit: "MiB", Target: atMost(512), Values: peak, Other: other})
		s.add(figure{What: of + "the floor's CPU", Unit: "CPU-s/M", Values: floor, Other: -1, Note: "fetch, scan by hand, a Go map; nothing kept"})
		s.add(figure{What: of + "against the floor", Unit: "ratio", Values: ratio, Other: -1, Note: "run for run"})
		shares[d.spread], costs[d.spread] = b.profile(t, topic, b.size.Events), median(cpu)
		b.broker.deleteTopic(t, topic)
	}
	s.Chart = sharesTable(shares, costs)
}

// measureUsers compares the cost of an event with few and with many users, run
// for run.
func measureUsers(t *testing.T, b *bench, s *section) {
	users := [2]int{b.size.Few, b.size.Many}
	var topics [2]string
	for i, n := range users {
		topics[i] = b.name("users")
		b.say("writing %d events, uniform over %d users", b.size.Events, n)
		b.broker.createTopic(t, topics[i], partitions)
		b.fill(t, topics[i], newSales(n, uniform, 2), b.size.Events)
	}
	var cpu, peak [2][]float64
	var other [2]float64
	var ratio []float64
	for range b.size.Runs {
		for i, topic := range topics {
			r := b.drain(t, topic, b.size.Events, nil)
			cpu[i], peak[i], other[i] = append(cpu[i], r.cpu), append(peak[i], r.peak), max(other[i], r.other)
			b.say("drain of %d users: %.2f CPU-s/M, %.0f events/s, %.0f MiB", users[i], r.cpu, r.rate, r.peak)
		}
		ratio = append(ratio, cpu[1][len(ratio)]/cpu[0][len(ratio)])
	}
	for i, n := range users {
		what := grouped(strconv.Itoa(n)) + " users, uniform: "
		s.add(figure{What: what + "CPU", Unit: "CPU-s/M", Values: cpu[i], Other: other[i]})
		s.add(figure{What: what + "peak memory", Unit: "MiB", Target: atMost(512), Values: peak[i], Other: other[i]})
		b.broker.deleteTopic(t, topics[i])
	}
	s.add(figure{What: "CPU of an event, many users against few", Unit: "ratio", Target: atMost(2.5), Values: ratio, Other: -1, Note: "run for run"})
}
