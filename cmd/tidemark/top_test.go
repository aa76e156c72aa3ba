package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"

	"tidemark/internal/testkit"
)

// TestTopListsBesideAHandOver asks for top lists in several orders, of two
// members, while events come, and while the partition goes from one to the other
// and back. Every answer must be the first rows of what comes before the
// position that it gives.
func TestTopListsBesideAHandOver(t *testing.T) {
	t.Parallel()
	const users, rounds, each = 1200, 40, 1000
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: "sales", Partitions: 1})
	h := newHome(t, b, "SELECT userId, sum(x) AS total, CAST(sum(x) AS decimal(3,0)) AS small, min(x) AS low, count(*) AS sales FROM sales GROUP BY userId")
	h.rest = "snapshots: {url: 'file://" + t.TempDir() + "', interval: 1s}\n"
	h.write()
	r := rand.New(rand.NewPCG(rand.Uint64(), 0))
	type event struct{ user, x int }
	var events []event
	produce := func() {
		var list []testkit.Message
		for range each {
			e := event{r.IntN(users), r.IntN(201) - 98}
			if r.IntN(100) == 0 {
				e.x *= 30
			}
			events = append(events, e)
			list = append(list, testkit.Text("", fmt.Sprintf(`{"userId":%d,"x":%d}`, e.user, e.x)))
		}
		b.Produce("sales", 0, list...)
	}
	type answer struct {
		order    string
		position int64
		limit    int
		rows     []string // userId:value
	}
	var mu sync.Mutex
	var answers []answer
	orders := []string{"total", "-total", "small", "-small", "low", "-low", "sales", "-sales"}
	ask := func(s *running, r *rand.Rand) {
		order, limit := orders[r.IntN(len(orders))], 1+r.IntN(20)
		code, body, _ := s.ask(fmt.Sprintf("/v1/aggregates?order=%s&limit=%d", order, limit))
		if code == 503 || code == 0 {
			return
		}
		var page struct {
			Complete bool
			Rows     []struct {
				Row       map[string]any
				Positions map[string]int64
			}
		}
		if err := json.Unmarshal([]byte(body), &page); err != nil || code != 200 || !page.Complete || len(page.Rows) == 0 {
			t.Errorf("%d %s: %v", code, body, err)
			return
		}
		a := answer{order, page.Rows[0].Positions["0"], limit, nil}
		for _, row := range page.Rows {
			if row.Positions["0"] != a.position {
				t.Errorf("rows of two positions: %s", body)
			}
			a.rows = append(a.rows, fmt.Sprint(row.Row["userId"], ":", row.Row[trimmed(order)]))
		}
		mu.Lock()
		answers = append(answers, a)
		mu.Unlock()
	}
	produce()
	first := h.serve()
	first.caughtUp()
	other := h.beside()
	second := other.serve()
	second.until("the group has two members", func() bool { return len(second.status().Members) == 2 })
	for round := range rounds {
		produce()
		switch round {
		case rounds / 3:
			first.stop()
			second.caughtUp()
		case rounds / 2:
			first = h.serve()
			first.until("it is back", func() bool { return len(first.status().Members) == 2 })
			second.stop()
			first.caughtUp()
		}
		var asking sync.WaitGroup
		for n := range 2 {
			seed := r.Uint64()
			asking.Go(func() {
				r := rand.New(rand.NewPCG(seed, 0))
				for range 6 {
					switch {
					case n == 0 && !first.over:
						ask(first, r)
					case !second.over:
						ask(second, r)
					}
				}
			})
		}
		asking.Wait()
	}
	if len(answers) < rounds {
		t.Errorf("there are %d answers", len(answers))
	}

	slices.SortFunc(answers, func(a, b answer) int { return int(a.position - b.position) })
	type row struct{ user, total, low, sales int }
	rows, at := map[int]*row{}, int64(0)
	for _, a := range answers {
		for ; at < a.position; at++ {
			e := events[at]
			if rows[e.user] == nil {
				rows[e.user] = &row{user: e.user, low: e.x}
			}
			rows[e.user].total += e.x
			rows[e.user].low = min(rows[e.user].low, e.x)
			rows[e.user].sales++
		}
		name, down := trimmed(a.order), a.order[0] == '-'
		type valued struct {
			key   string
			value int
			null  bool
		}
		var all []valued
		for _, r := range rows {
			v := valued{key: strconv.Itoa(r.user)}
			switch name {
			case "total":
				v.value = r.total
			case "small":
				v.value, v.null = r.total, r.total > 999 || r.total < -999
			case "low":
				v.value = r.low
			case "sales":
				v.value = r.sales
			}
			all = append(all, v)
		}
		slices.SortFunc(all, func(a, b valued) int {
			if a.null != b.null {
				if a.null {
					return 1
				}
				return -1
			}
			c := a.value - b.value
			if down {
				c = -c
			}
			if c == 0 || a.null {
				c = 1
				if a.key < b.key {
					c = -1
				}
			}
			return c
		})
		var want []string
		for _, v := range all[:min(a.limit, len(all))] {
			if v.null {
				want = append(want, v.key+":<nil>")
			} else {
				want = append(want, fmt.Sprint(v.key, ":", v.value))
			}
		}
		if !slices.Equal(a.rows, want) {
			t.Fatalf("%s at %d:\n%v, want\n%v", a.order, a.position, a.rows, want)
		}
	}
}

// trimmed is the name of an order's result.
func trimmed(order string) string {
	if order[0] == '-' {
		return order[1:]
	}
	return order
}
