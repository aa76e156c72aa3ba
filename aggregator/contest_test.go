package aggregator

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestLookKeepsUpWithFolding: who asks for the first rows looks at the keys of
// a large delta a slice at a time, and a slice of a batch is folded between any two
// of them. It comes to an end all the same: what is folded meanwhile is noted, so
// that it need not begin again.
func TestLookKeepsUpWithFolding(t *testing.T) {
	const users = 200_000
	p := compile(t, salesQuery)
	store, decoder := openEmpty(t, newMemStates(p))
	totals := newTotals(p)
	totals.open(store, 1)
	fold := func(n int) {
		totals.mu.Lock()
		defer totals.mu.Unlock()
		for range n {
			at := totals.active.Next
			record := Record{Offset: at, Value: fmt.Appendf(nil, `{"userId":%d,"revenue":1}`, at%users)}
			if out, err := decoder.Fold(totals.active, 0, &record); err != nil || out.Result != Folded {
				t.Fatal(out, err)
			}
			totals.active.Next++
		}
	}
	o := Order{Column: 2, Descending: true}
	ask := func() {
		t.Helper()
		rows, position, err := totals.first(t.Context(), o, 1, make(chan struct{}, 1))
		if err != nil || len(rows) != 1 || position != totals.active.Next {
			t.Fatal(rows, position, err)
		}
	}
	fold(1)
	ask()
	for _, slices := range []int{2 * users / foldSlice, 10} {
		fold(slices * foldSlice)
		looks := 0
		for totals.follow(o) {
			if looks++; looks > 6*users/totals.reach.slice {
				t.Fatalf("after %d slices of folding it is not through %d keys in %d looks", slices, users, looks)
			}
			fold(foldSlice)
		}
		ask()
	}
}

// TestLooksAfterManyChanges asks now and then, more and less often than changes are
// lost, and gives some looks up: the first row is that of the highest total
// whenever it asks.
func TestLooksAfterManyChanges(t *testing.T) {
	const users = 30
	p := compile(t, salesQuery)
	seed := rand.Uint64()
	t.Log("seed", seed)
	for round := range 200 {
		r := rand.New(rand.NewPCG(seed, uint64(round)))
		store, decoder := openEmpty(t, newMemStates(p))
		totals := newTotals(p)
		totals.reach = reach{spare: r.IntN(3), carry: 1 + r.IntN(3), ask: 1 + r.IntN(3), changes: 1 + r.IntN(8), slice: 1 + r.IntN(5)}
		totals.open(store, 1)
		some := 1 + r.IntN(users) // of them are new for a while, and come again
		var totalOf [users]int
		fold := func(n int) {
			for range n {
				user, revenue := r.IntN(some), r.IntN(100)
				if r.IntN(40) == 0 {
					revenue = 3000
				}
				totalOf[user] += revenue
				record := Record{Offset: totals.active.Next, Value: fmt.Appendf(nil, `{"userId":%d,"revenue":%d}`, user, revenue)}
				if out, err := decoder.Fold(totals.active, 0, &record); err != nil || out.Result != Folded {
					t.Fatal(out, err)
				}
				totals.active.Next++
			}
		}
		o := Order{Column: 2, Descending: true}
		fold(1)
		for range 40 {
			fold(r.IntN(3 * users))
			some = min(users, some+r.IntN(3))
			for range r.IntN(4) {
				totals.follow(o)
				fold(r.IntN(4))
			}
			if r.IntN(6) == 0 {
				delta, next := totals.freeze()
				if delta != nil && r.IntN(2) == 0 {
					if err := store.Apply(t.Context(), delta.Sorted(nil), next); err != nil {
						t.Fatal(err)
					}
					totals.thaw(next)
				}
			}
			if r.IntN(3) > 0 {
				continue
			}
			rows, position, err := totals.first(t.Context(), o, 1, make(chan struct{}, 1))
			if err != nil || len(rows) != 1 || position != totals.active.Next {
				t.Fatal(rows, position, err)
			}
			user, best := 0, 0
			if _, err := fmt.Sscan(string(rows[0].Key), &user); err != nil {
				t.Fatal(err)
			}
			for i := range totalOf {
				if totalOf[i] > totalOf[best] {
					best = i
				}
			}
			if totalOf[user] != totalOf[best] {
				t.Fatalf("round %d, at %d: user %d with %d is the first, and user %d has %d",
					round, position, user, totalOf[user], best, totalOf[best])
			}
		}
	}
}
