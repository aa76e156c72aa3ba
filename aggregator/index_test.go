package aggregator

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// TestIndex lets keys come in rounds, of which some extend the index. What
// Smallest yields is the beginning of what Sorted yields all the same, whether
// its keys are in the index or came since; rows that hold a guard alone are in
// neither.
func TestIndex(t *testing.T) {
	p := selects(t, "count(*) AS n").program
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		prefix := rapid.SampledFrom([]string{"", "user-000", "one prefix for all, "}).Draw(t, "prefix")
		long := rapid.IntRange(0, 20).Draw(t, "longest")
		key := func() []byte {
			key := []byte(prefix)
			for range r.IntN(long + 8) {
				key = append(key, "abc"[r.IntN(3)])
			}
			return key
		}
		d := p.NewDelta(0, 1)
		for range rapid.IntRange(1, 6).Draw(t, "rounds") {
			for range rapid.SampledFrom([]int{0, 1, 100, indexTail, indexSlice + 1000}).Draw(t, "keys") {
				k := key()
				if row, _ := d.enter(k); r.IntN(8) > 0 {
					d.touch(row, k)
				}
			}
			switch rapid.IntRange(0, 4).Draw(t, "then") {
			case 0:
				d.Reset(0)
			case 1:
			default:
				d.extend(&sync.Mutex{})
				if _, rows := d.index.have(); d.rows-rows >= indexTail {
					t.Fatalf("of %d rows %d are in the index", d.rows, rows)
				}
			}
			for range 4 {
				from, limit := key(), rapid.SampledFrom([]int{1, 7, 150, 10_000}).Draw(t, "limit")
				if r.IntN(4) == 0 {
					from = nil
				}
				want := sortedKeys(d, string(from))
				want = want[:min(limit, len(want))]
				var got []string
				for k := range d.Smallest(from, limit) {
					got = append(got, string(k))
				}
				if !slices.Equal(got, want) {
					t.Fatalf("of %d keys from %q the smallest %d are %d keys, want %d:\n%q\n%q", d.Len(), from, limit, len(got), len(want), got, want)
				}
			}
		}
		runs, _ := d.index.have()
		for i := 1; i < len(runs); i++ {
			if len(runs[i-1]) < 2*len(runs[i]) {
				t.Errorf("run %d has %d rows, and the next %d", i-1, len(runs[i-1]), len(runs[i]))
			}
		}
	})
}

// TestPinnedDeltaIsNotUsedAnew: a reader that was left behind reads what it
// began with, while the partition goes on; the delta comes back to use after it.
func TestPinnedDeltaIsNotUsedAnew(t *testing.T) {
	r := newDraftRig(t, 1)
	r.totals.open(r.store, 1)
	apply := func() {
		r.sell(2, 1)
		delta, next := r.totals.freeze()
		if err := r.store.Apply(t.Context(), delta.Sorted(nil), next); err != nil {
			t.Fatal(err)
		}
		r.totals.thaw(next)
	}
	pinned := r.totals.active
	pinned.pin()
	r.sell(1, 1)
	for range 3 {
		apply()
		if r.totals.active == pinned {
			t.Fatal("a delta that is read is folded into")
		}
	}
	pinned.unpin()

	pinned = r.totals.active
	pinned.pin()
	r.totals.discard()
	if r.totals.active == pinned {
		t.Error("a delta that is read is emptied")
	}
	pinned.unpin()
	pinned = r.totals.active
	apply()
	apply()
	if r.totals.active != pinned {
		t.Error("a delta is not used anew")
	}
}

// overtaken is a store of which what is given happens once a read has looked at the
// deltas, and before it has a view.
type overtaken struct {
	Store
	by []func()
}

func (s *overtaken) View() (View, error) {
	if len(s.by) > 0 {
		happens := s.by[0]
		s.by = s.by[1:]
		happens()
	}
	return s.Store.View()
}

// TestReadsThatAnApplyOvertakes: a key and a page hold all before their position,
// once, wherever an apply has come to when they get to the store.
func TestReadsThatAnApplyOvertakes(t *testing.T) {
	for _, c := range []struct {
		name            string
		freezes         bool // before the read
		applies, thaws  bool // in the middle of it
		another         bool // and goes on to the next apply
		tries, position int64
	}{
		{"nothing is applied", false, false, false, false, 1, 5},
		{"an apply is under way", true, false, false, false, 1, 5},
		{"the apply has written", true, true, false, false, 1, 5},
		{"the apply is over", true, true, true, false, 1, 5},
		{"the next apply is over, too", true, true, true, true, 2, 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, page := range []bool{false, true} {
				r := newDraftRig(t, 1) // user 0 has one event
				close(r.gate)
				store := &overtaken{Store: r.store}
				r.totals.open(store, 1)
				r.sell(0, 2)
				r.sell(1, 3)
				var frozen *Delta
				var next Progress
				write := func() {
					if err := r.store.Apply(t.Context(), frozen.Sorted(nil), next); err != nil {
						t.Fatal(err)
					}
				}
				if c.freezes {
					frozen, next = r.totals.freeze()
				}
				r.sell(0, 4)
				r.sell(2, 5)
				tries := int64(0)
				store.by = []func(){func() {
					tries++
					if c.applies {
						write()
					}
					if c.thaws {
						r.totals.thaw(next)
					}
					if c.another {
						r.sell(0, 6)
						frozen, next = r.totals.freeze()
						write()
						r.totals.thaw(next)
					}
				}, func() { tries++ }}
				want := map[string]int{"0": 2 + 4, "1": 3, "2": 5} // user 0 began with nothing spent
				if c.another {
					want["0"] += 6
				}
				got, position := map[string][]byte{}, int64(0)
				if page {
					entries, more, at, err := r.totals.scan(nil, nil, 10)
					if err != nil || more {
						t.Fatal(err, more)
					}
					position = at
					for _, e := range entries {
						got[string(e.Key)] = e.Parts
					}
				} else {
					parts, at, err := r.totals.get([]byte("0"))
					if err != nil {
						t.Fatal(err)
					}
					got["0"], position, want = parts, at, map[string]int{"0": want["0"]}
				}
				if position != c.position || tries != c.tries || len(got) != len(want) {
					t.Errorf("page %v: %d keys at %d after %d looks, want %d at %d after %d", page, len(got), position, tries, len(want), c.position, c.tries)
				}
				for key, revenue := range want {
					if row := render(t, r.totals.program, []byte(key), got[key]); !strings.Contains(row, fmt.Sprintf(`"revenue":%d}`, revenue)) {
						t.Errorf("page %v: %s has %s, want a revenue of %d", page, key, row, revenue)
					}
				}
			}
		})
	}
}

// TestPagesBesideFolding turns pages from several goroutines while others fold,
// apply and discard. Each page must be that of a fold of what comes before its
// position.
func TestPagesBesideFolding(t *testing.T) {
	const users, events = 3000, 8_000
	states := newMemStates(compile(t, salesQuery))
	store, decoder := openEmpty(t, states)
	totals := newTotals(states.program)
	totals.open(store, 1)
	seed := rand.Uint64()
	t.Log("seed", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	all := make([]Record, events)
	for i := range all {
		key := fmt.Sprintf("%d", r.IntN(users))
		if r.IntN(2) == 0 {
			key = "one prefix for all, " + key
		}
		all[i] = Record{Offset: int64(i), Value: fmt.Appendf(nil, `{"userId":%q,"revenue":%d}`, key, r.IntN(100))}
	}
	type turned struct {
		from     []byte
		position int64
		entries  []Entry
	}
	var pages []turned
	var mu sync.Mutex
	var folding, reading sync.WaitGroup
	folded := make(chan struct{})
	turn := make(chan struct{}, 1) // a page was asked for
	folding.Go(func() {
		defer close(folded)
		outcomes := make([]Outcome, foldSlice)
		for over := false; !over; {
			totals.mu.Lock()
			next := totals.active.Next
			if some := all[next:min(next+foldSlice, events)]; len(some) > 0 {
				if _, err := decoder.FoldAll(totals.active, 0, some, outcomes); err != nil {
					t.Error(err)
				}
				totals.active.Next += int64(len(some))
			}
			over = totals.active.Next == events
			totals.mu.Unlock()
			<-turn
		}
	})
	folding.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-folded:
				return
			default:
			}
			delta, next := totals.freeze()
			if delta == nil {
				continue
			}
			if err := store.Apply(t.Context(), delta.Sorted(nil), next); err != nil {
				t.Error(err)
			}
			totals.thaw(next)
			if n%4 == 0 {
				totals.discard()
			}
			for range 5 {
				<-turn
			}
		}
	})
	over := make(chan struct{})
	for range 3 {
		reading.Go(func() {
			var from []byte
			for {
				select {
				case <-over:
					return
				case turn <- struct{}{}:
				default:
				}
				entries, more, position, err := totals.scan(from, nil, 200)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				pages = append(pages, turned{from, position, entries})
				mu.Unlock()
				if from = nil; more {
					from = append(bytes.Clone(entries[len(entries)-1].Key), 0)
				}
			}
		})
	}
	folding.Wait()
	close(over)
	reading.Wait()
	slices.SortStableFunc(pages, func(a, b turned) int { return int(a.position - b.position) })
	straight, sum := states.program.NewDelta(0, 1), states.program.NewTotal()
	for i, page := range pages {
		for ; straight.Next < page.position; straight.Next++ {
			if _, err := decoder.Fold(straight, 0, &all[straight.Next]); err != nil {
				t.Fatal(err)
			}
		}
		if i%20 > 0 { // some of them
			continue
		}
		n := 0
		for key, total := range straight.Sorted(page.from) {
			if n == len(page.entries) {
				break
			}
			e := page.entries[n]
			sum.Reset()
			if err := sum.MergeParts(e.Parts); err != nil {
				t.Fatal(err)
			}
			if got := sum.Append(nil); !bytes.Equal(e.Key, key) || !bytes.Equal(got, total) {
				t.Fatalf("a page at %d has %q as %x, want %q as %x", page.position, e.Key, got, key, total)
			}
			n++
		}
		if n < len(page.entries) {
			t.Fatalf("a page at %d has %d keys too many", page.position, len(page.entries)-n)
		}
	}
}
