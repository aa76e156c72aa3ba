package aggregator

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
)

// TestRankingsBesideFolding asks for the first rows from several goroutines
// while others fold, apply and discard. Each answer must be that of a fold of
// what comes before its position.
func TestRankingsBesideFolding(t *testing.T) {
	const users, events = 60, 600
	p := compile(t, "SELECT userId, sum(revenue) AS revenue, CAST(sum(revenue) AS decimal(3,0)) AS small, min(revenue) AS low, "+
		"avg(revenue) AS mean, count(*) AS sales, collect_set(revenue) AS all FROM sales GROUP BY userId")
	states := newMemStates(p)
	store, decoder := openEmpty(t, states)
	totals := newTotals(p)
	totals.reach = reach{spare: 3, carry: 2, ask: 1, changes: 20, slice: 2}
	totals.open(store, 1)
	seed := rand.Uint64()
	t.Log("seed", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	all := make([]Record, events)
	for i := range all {
		revenue := fmt.Sprint(r.IntN(41) - 18)
		switch r.IntN(40) {
		case 0:
			revenue = "99999999999999999999999999999999999999"
		case 1:
			revenue = "-99999999999999999999999999999999999999"
		case 2:
			revenue += ".000000001"
		}
		all[i] = Record{Offset: int64(i), Value: fmt.Appendf(nil, `{"userId":%d,"revenue":%s}`, r.IntN(users), revenue)}
	}

	var folding, asking sync.WaitGroup
	folded := make(chan struct{})
	ask := make(chan struct{}, 1) // a question was put
	due := make(chan struct{}, 1) // an apply is
	folding.Go(func() {
		defer close(folded)
		for {
			totals.mu.Lock()
			next := totals.active.Next
			if next < events {
				if out, err := decoder.Fold(totals.active, 0, &all[next]); err != nil || out.Result != Folded {
					t.Error(out, err)
				}
				totals.active.Next++
			}
			totals.mu.Unlock()
			if next == events {
				return
			}
			if next%3 == 0 {
				<-ask
			}
			if next%24 == 0 {
				select {
				case due <- struct{}{}:
				default:
				}
			}
		}
	})
	ended := make(chan struct{})
	folding.Go(func() {
		defer close(ended)
		for {
			over := false
			select {
			case <-folded:
				over = true
			case <-due:
			}
			delta, next := totals.freeze()
			if delta != nil {
				if err := store.Apply(t.Context(), delta.Sorted(nil), next); err != nil {
					t.Error(err)
				}
				totals.thaw(next)
			}
			if over && delta == nil {
				return
			}
		}
	})
	type asked struct {
		o        Order
		limit    int
		position int64
		rows     string
	}
	var mu sync.Mutex
	var answers []asked
	slots := make(chan struct{}, 2)
	for n := range 3 {
		asking.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(10+n)))
			for over := false; !over; {
				select {
				case <-ended:
					over = true // and once more
				default:
				}
				select {
				case ask <- struct{}{}:
				default:
				}
				o := Order{Column: r.IntN(7), Descending: r.IntN(2) == 0}
				limit := 1 + r.IntN(8)
				if r.IntN(10) == 0 {
					limit = users + 5
				}
				rows, position, err := totals.first(t.Context(), o, limit, slots)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				answers = append(answers, asked{o, limit, position, shown(rows)})
				mu.Unlock()
			}
		})
	}
	folding.Wait()
	asking.Wait()
	slices.SortFunc(answers, func(a, b asked) int { return int(a.position - b.position) })
	decoder, err := p.NewDecoder(DecodeCut{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	straight, at := p.NewDelta(0, 1), int64(0)
	total := p.NewTotal()
	for _, a := range answers {
		for ; at < a.position; at++ {
			if _, err := decoder.Fold(straight, 0, &all[at]); err != nil {
				t.Fatal(err)
			}
		}
		var want []Leader[[]byte]
		for key, encoded := range straight.Sorted(nil) {
			total.Reset()
			if err := total.Merge(encoded); err != nil {
				t.Fatal(err)
			}
			v := total.Value(a.o.Column, key)
			v.Bytes = bytes.Clone(v.Bytes)
			want = append(want, Leader[[]byte]{v, bytes.Clone(key), bytes.Clone(encoded)})
		}
		sortRows(a.o, want)
		if want := shown(want[:min(a.limit, len(want))]); a.rows != want {
			t.Fatalf("%+v, %d rows at %d:\n got %s\nwant %s", a.o, a.limit, a.position, a.rows, want)
		}
	}
	if len(answers) < events/10 {
		t.Errorf("there are %d answers", len(answers))
	}
}

// TestRankingHoldsUpNoClose: a partition is let go of while all its keys are
// looked through, which is given up then.
func TestRankingHoldsUpNoClose(t *testing.T) {
	p := compile(t, salesQuery)
	states := newMemStates(p)
	store, decoder := openEmpty(t, states)
	d := p.NewDelta(0, 1)
	for user := range 5000 {
		if _, err := decoder.Fold(d, 0, &Record{Offset: d.Next, Value: []byte(sale(user, "1"))}); err != nil {
			t.Fatal(err)
		}
		d.Next++
	}
	if err := store.Apply(t.Context(), d.Sorted(nil), Progress{}.after(d)); err != nil {
		t.Fatal(err)
	}
	for name, column := range map[string]int{"a sum": 2, "a key": 0} {
		totals := newTotals(p)
		totals.open(store, 1)
		closed := make(chan struct{})
		states.scanned = func() {
			go func() {
				totals.close()
				close(closed)
			}()
			for !totals.closing() {
				runtime.Gosched()
			}
		}
		if _, _, err := totals.first(t.Context(), Order{Column: column}, 1, make(chan struct{}, 1)); !errors.Is(err, ErrClosing) {
			t.Errorf("the first by %s: %v, want that it is closing", name, err)
		}
		<-closed
	}
}

// TestRankingsKeepToTheirMemory: what no memory is left for is looked for among
// all keys each time; what nobody asks for any more gives its memory back.
func TestRankingsKeepToTheirMemory(t *testing.T) {
	r := newRig(t, 2)
	r.tuning.PendingBytes = 2 * 3 * int(ceilingBytes*places(0)) // three rankings
	scans := 0
	r.states.scanned = func() { scans++ }
	r.start(0, 1)
	for p := range int32(2) {
		r.log.produce(p, sale(1, "1"), sale(2, "2"))
		r.caughtUp(p)
	}
	ask := func(partition int32, column int) (looked int) {
		t.Helper()
		was := scans
		for range 3 {
			page, err := r.p.First(t.Context(), partition, Order{Column: column, Descending: true}, 1)
			if err != nil || len(page.Entries) != 1 {
				t.Fatal(page, err)
			}
		}
		return scans - was
	}
	for _, c := range []struct {
		partition int32
		column    int
		looked    int
	}{{0, 1, 1}, {1, 1, 1}, {0, 2, 1}, {1, 2, 3}, {0, 1, 0}} {
		if looked := ask(c.partition, c.column); looked != c.looked {
			t.Errorf("partition %d, column %d: all keys are looked through %d times, want %d", c.partition, c.column, looked, c.looked)
		}
	}
	task, err := r.p.find(0)
	if err != nil {
		t.Fatal(err)
	}
	task.totals.mu.Lock()
	for _, k := range task.totals.rankings {
		k.asked.Store(0)
	}
	task.totals.mu.Unlock()
	if looked := ask(1, 2); looked != 1 {
		t.Errorf("with memory given back all keys are looked through %d times", looked)
	}
	r.stop()
}
