package aggregator

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// draftRig is one partition's totals whose keys are looked through no further
// than the test lets them.
type draftRig struct {
	t      *testing.T
	totals *totals
	store  Store
	decode *Decoder
	slots  chan struct{}
	gate   chan struct{} // a look through all keys waits for it, at its first key
	scans  int
}

var byRevenue = Order{Column: 2, Descending: true}

// newDraftRig has users 0 to users-1, who spent what their number is.
func newDraftRig(t *testing.T, users int) *draftRig {
	states := newMemStates(compile(t, salesQuery))
	r := &draftRig{t: t, totals: newTotals(states.program), slots: make(chan struct{}, 1), gate: make(chan struct{})}
	r.store, r.decode = openEmpty(t, states)
	states.scanned = func() {
		r.scans++
		<-r.gate
	}
	for user := range users {
		r.apply(user, user)
	}
	return r
}

// apply applies what a user spends behind the back of the totals.
func (r *draftRig) apply(user, revenue int) {
	r.t.Helper()
	d := r.totals.program.NewDelta(0, 1)
	d.Reset(r.store.Progress().Position)
	r.fold(d, user, revenue)
	if err := r.store.Apply(r.t.Context(), d.Sorted(nil), r.store.Progress().after(d)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *draftRig) fold(d *Delta, user, revenue int) {
	r.t.Helper()
	out, err := r.decode.Fold(d, 0, &Record{Offset: d.Next, Value: []byte(sale(user, fmt.Sprint(revenue)))})
	if err != nil || out.Result != Folded {
		r.t.Fatal(out, err)
	}
	d.Next++
}

// sell folds what a user spends, as the folding goroutine does.
func (r *draftRig) sell(user, revenue int) {
	r.t.Helper()
	r.totals.mu.Lock()
	defer r.totals.mu.Unlock()
	r.fold(r.totals.active, user, revenue)
}

// draftAnswer is what a request comes to.
type draftAnswer struct {
	rows     []Leader[[]byte]
	position int64
	err      error
}

// ask asks for the first row, in a goroutine of its own.
func (r *draftRig) ask(ctx context.Context, o Order) <-chan draftAnswer {
	answers := make(chan draftAnswer, 1)
	go func() {
		rows, position, err := r.totals.first(ctx, o, 1, r.slots)
		answers <- draftAnswer{rows, position, err}
	}()
	return answers
}

// expect wants user to be the first, as of position.
func (a draftAnswer) expect(t *testing.T, user string, position int64) {
	t.Helper()
	if a.err != nil || a.position != position || len(a.rows) != 1 || string(a.rows[0].Key) != user {
		t.Errorf("at %d the first are %s, %v; want user %s at %d", a.position, shown(a.rows), a.err, user, position)
	}
}

// TestDraftGoesOnWithoutItsRequest: the request that has all keys looked through
// gives up. One that comes while they still are waits for the same look, and one
// that comes later finds what it came to; both see what was folded meanwhile.
func TestDraftGoesOnWithoutItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newDraftRig(t, 5)
		r.totals.open(r.store, 1)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if a := <-r.ask(ctx, byRevenue); !errors.Is(a.err, context.DeadlineExceeded) {
			t.Errorf("a request that gives up: %v", a.err)
		}
		r.sell(1, 100)
		second := r.ask(t.Context(), byRevenue)
		other := r.ask(t.Context(), Order{Column: 1, Descending: true}) // one at a time
		synctest.Wait()
		if r.scans != 1 {
			t.Errorf("all keys are looked through %d times at once", r.scans)
		}
		close(r.gate)
		(<-second).expect(t, "1", 6)
		(<-other).expect(t, "1", 6)
		r.sell(2, 200)
		(<-r.ask(t.Context(), byRevenue)).expect(t, "2", 7)
		if r.scans != 2 {
			t.Errorf("all keys are looked through %d times for two orders", r.scans)
		}
		r.totals.close()
	})
}

// TestDraftCountsItsNotes: what is frozen while all keys are looked through is noted
// until that ends, which is memory that others have not.
func TestDraftCountsItsNotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newDraftRig(t, 5)
		r.totals.open(r.store, 1)
		asked := r.ask(t.Context(), byRevenue)
		synctest.Wait()
		began := r.totals.ranksTake()
		for user := range 1000 {
			r.sell(user, 1)
		}
		delta, next := r.totals.freeze()
		if took := r.totals.ranksTake() - began; took < 24*1000 {
			t.Errorf("1000 notes take %d bytes", took)
		}
		if err := r.store.Apply(t.Context(), delta.Sorted(nil), next); err != nil {
			t.Fatal(err)
		}
		r.totals.thaw(next)
		close(r.gate)
		(<-asked).expect(t, "4", 1005)
		if takes := r.totals.ranksTake(); takes != began {
			t.Errorf("a ranking takes %d bytes when it is made, and took %d when it began", takes, began)
		}
		r.totals.close()
	})
}

// TestDraftIsFoundLater: all requests have given up before the look through all
// keys ends.
func TestDraftIsFoundLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newDraftRig(t, 5)
		r.totals.open(r.store, 1)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		<-r.ask(ctx, byRevenue)
		close(r.gate)
		synctest.Wait()
		(<-r.ask(t.Context(), byRevenue)).expect(t, "4", 5)
		if r.scans != 1 {
			t.Errorf("all keys are looked through %d times", r.scans)
		}
		r.totals.close()
	})
}

// TestDraftThatNobodyWants ends: while it waits for its slot, and while it looks
// through keys.
func TestDraftThatNobodyWants(t *testing.T) {
	for _, c := range []struct {
		name  string
		slot  bool // it has it
		scans int
	}{{"waiting", false, 0}, {"looking", true, 1}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newDraftRig(t, 3000)
				r.totals.open(r.store, 1)
				if !c.slot {
					r.slots <- struct{}{}
				}
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				<-r.ask(ctx, byRevenue)
				<-time.After(2 * forgetRanking)
				close(r.gate)
				if !c.slot {
					<-r.slots
				}
				synctest.Wait()
				if r.totals.draft != nil || r.totals.rankings[byRevenue] != nil || r.scans != c.scans {
					t.Errorf("after %d looks there are the draft %v and the ranking %v", r.scans, r.totals.draft, r.totals.rankings[byRevenue])
				}
				(<-r.ask(t.Context(), byRevenue)).expect(t, "2999", 3000)
				r.totals.close()
			})
		})
	}
}

// TestDraftOfAStateThatIsGone: a partition is taken by another member while all
// its keys are looked through, with and without a request that waits, and comes
// back with a state that is further on. Closing waits for the look, which comes
// to nothing, and what is answered then is of the new state.
func TestDraftOfAStateThatIsGone(t *testing.T) {
	for _, waits := range []bool{false, true} {
		t.Run(fmt.Sprintf("waits=%v", waits), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newDraftRig(t, 3)
				r.totals.open(r.store, 1)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				asked := r.ask(ctx, byRevenue)
				synctest.Wait()
				if !waits {
					cancel()
					if a := <-asked; !errors.Is(a.err, context.Canceled) {
						t.Errorf("a request that gives up: %v", a.err)
					}
				}
				closed := make(chan struct{})
				go func() {
					r.totals.close()
					close(closed)
				}()
				synctest.Wait()
				select {
				case <-closed:
					t.Error("the store is closed while it is read")
				default:
				}
				close(r.gate)
				<-closed
				if waits {
					if a := <-asked; !errors.Is(a.err, ErrClosing) {
						t.Errorf("a request while the partition goes: %v", a.err)
					}
				}
				r.apply(7, 100) // by the other member
				r.totals.open(r.store, 3)
				(<-r.ask(t.Context(), byRevenue)).expect(t, "7", 4)
				r.totals.close()
			})
		})
	}
}

// TestDraftThatWaitsHoldsUpNoClose: a partition is let go of before its turn to
// be looked through comes.
func TestDraftThatWaitsHoldsUpNoClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newDraftRig(t, 3)
		r.totals.open(r.store, 1)
		r.slots <- struct{}{}
		asked := r.ask(t.Context(), byRevenue)
		synctest.Wait()
		r.totals.close()
		if r.totals.draft != nil {
			t.Error("the store is closed, and what would have read it has not ended")
		}
		if a := <-asked; !errors.Is(a.err, ErrClosing) {
			t.Errorf("a request while the partition goes: %v", a.err)
		}
	})
}
