package aggregator

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"tidemark/query"
)

// TestRankings folds random events, applies them now and then, also while all
// keys are looked through, and asks for the first rows of random orders. They
// must be the first of a sort of everything, byte for byte, at the position that
// the answer gives.
func TestRankings(t *testing.T) { rapid.Check(t, checkRankings) }

func checkRankings(t *rapid.T) {
	m := drawModel(t)
	def, err := query.Parse(m.sql())
	if err != nil {
		t.Fatalf("%s: %v", m.sql(), err)
	}
	p, err := Compile(def, Options{SetLimit: m.limit})
	if err != nil {
		t.Fatal(err)
	}
	r := newRankingRig(t, p)
	events := rapid.SliceOfN(rapid.Custom(drawEvent), 1, 150).Draw(t, "events")
	orders := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Order {
		return Order{rapid.IntRange(0, len(def.Columns)-1).Draw(t, "column"), rapid.Bool().Draw(t, "descending")}
	}), 1, 2).Draw(t, "orders")
	r.scanned = func() {
		if n := rapid.IntRange(0, 3).Draw(t, "events in a scan"); n > 0 && !r.applying {
			events = r.fold(events, n)
			if rapid.Bool().Draw(t, "applied in a scan") {
				r.apply()
			} else {
				r.totals.freeze()
			}
		}
	}
	for len(events) > 0 {
		events = r.fold(events, rapid.OneOf(rapid.IntRange(1, 4), rapid.IntRange(1, 25)).Draw(t, "events"))
		// More often than not nothing, so that who asks finds changes of a delta of
		// which much was looked at before.
		switch rapid.IntRange(0, 10).Draw(t, "then") {
		case 4:
			r.discard()
		case 0:
			r.apply()
		case 1:
			r.totals.freeze()
		case 2: // the store has it, and the totals do not know yet
			delta, next := r.totals.freeze()
			if delta != nil && !r.stored {
				r.store(delta, next)
			}
		}
		for range rapid.IntRange(0, 3).Draw(t, "questions") {
			if r.stored {
				r.apply() // a question waits for the end of an apply
			}
			o := rapid.SampledFrom(orders).Draw(t, "order of a look")
			for range rapid.IntRange(0, 2).Draw(t, "looks") { // of a question that was given up
				r.totals.follow(o)
				events = r.fold(events, rapid.IntRange(0, 2).Draw(t, "events between looks"))
			}
			r.ask(rapid.SampledFrom(orders).Draw(t, "order"), rapid.IntRange(1, 3).Draw(t, "limit"))
		}
	}
}

// rankingRig is one partition's totals with a store in memory.
type rankingRig struct {
	t        *rapid.T
	totals   *totals
	states   *memStates
	decoder  *Decoder
	offset   int64
	stored   bool // the frozen delta is in the store, and not thawed
	applying bool
	truth    map[int64]*Delta // all that was folded before a position
	all      []Record
	scanned  func() // called while all keys are looked through
}

func newRankingRig(t *rapid.T, p *Program) *rankingRig {
	r := &rankingRig{t: t, totals: newTotals(p), states: newMemStates(p), truth: map[int64]*Delta{}}
	r.totals.reach = reach{
		spare: rapid.IntRange(0, 3).Draw(t, "spare rows"),
		carry: rapid.IntRange(1, 3).Draw(t, "contenders of an apply"), ask: rapid.IntRange(1, 3).Draw(t, "contenders of an answer"),
		changes: rapid.IntRange(1, 6).Draw(t, "changes that are noted"), slice: rapid.IntRange(1, 3).Draw(t, "keys of a look"),
	}
	var store Store
	store, r.decoder = openEmpty(t, r.states)
	r.totals.open(store, 1)
	return r
}

// openEmpty opens the state of the only partition, which is empty, and makes
// what decodes its records.
func openEmpty(t interface{ Fatal(args ...any) }, states *memStates) (Store, *Decoder) {
	if _, err := states.Create(Identity{Topic: "sales", Partitions: 1}, Progress{}); err != nil {
		t.Fatal(err)
	}
	states.states[0].open = false
	store, err := states.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	decoder, err := states.program.NewDecoder(DecodeCut{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return store, decoder
}

// fold folds the first n events and returns the others.
func (r *rankingRig) fold(events []modelEvent, n int) []modelEvent {
	n = min(n, len(events))
	for i := range events[:n] {
		events[i].at.offset = r.offset
		record := *events[i].record()
		r.totals.mu.Lock()
		if _, err := r.decoder.Fold(r.totals.active, 0, &record); err != nil {
			r.t.Fatal(err)
		}
		r.offset++
		r.totals.active.Next = r.offset
		r.totals.mu.Unlock()
		r.all = append(r.all, record)
	}
	return events[n:]
}

// discard forgets what is not applied, and folds it again.
func (r *rankingRig) discard() {
	if r.stored {
		r.apply()
	}
	r.totals.discard()
	r.totals.mu.Lock()
	defer r.totals.mu.Unlock()
	for d := r.totals.active; d.Next < r.offset; d.Next++ {
		if _, err := r.decoder.Fold(d, 0, &r.all[d.Next]); err != nil {
			r.t.Fatal(err)
		}
	}
}

func (r *rankingRig) store(delta *Delta, next Progress) {
	if err := r.totals.store.Apply(r.t.Context(), delta.Sorted(nil), next); err != nil {
		r.t.Fatal(err)
	}
	r.stored = true
}

func (r *rankingRig) apply() {
	r.applying = true
	defer func() { r.applying = false }()
	delta, next := r.totals.freeze()
	if delta == nil {
		return
	}
	if !r.stored {
		r.store(delta, next)
	}
	r.totals.thaw(next)
	r.stored = false
}

func (r *rankingRig) ask(o Order, limit int) {
	rows, position := r.first(o, limit)
	p := r.totals.program
	straight := p.NewDelta(0, 1)
	for i := range r.all[:position] {
		if _, err := r.decoder.Fold(straight, 0, &r.all[i]); err != nil {
			r.t.Fatal(err)
		}
	}
	var want []Leader[[]byte]
	total := p.NewTotal()
	for key, encoded := range straight.Sorted(nil) {
		total.Reset()
		if err := total.Merge(encoded); err != nil {
			r.t.Fatal(err)
		}
		v := total.Value(o.Column, key)
		v.Bytes = bytes.Clone(v.Bytes)
		want = append(want, Leader[[]byte]{v, bytes.Clone(key), bytes.Clone(encoded)})
	}
	slices.SortFunc(want, func(a, b Leader[[]byte]) int { return rowsCompare(o, &a, &b) })
	want = want[:min(limit, len(want))]
	if got, want := shown(rows), shown(want); got != want {
		r.t.Fatalf("%+v, %d rows at %d:\n got %s\nwant %s", o, limit, position, got, want)
	}
}

// first asks in a goroutine of its own: what happens while keys are looked
// through is drawn in the test's.
func (r *rankingRig) first(o Order, limit int) (rows []Leader[[]byte], position int64) {
	scans, happened, answered, over := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
	defer close(over)
	r.states.scanned = func() {
		select {
		case scans <- struct{}{}:
			<-happened
		case <-over: // the test ended meanwhile
		}
	}
	var err error
	go func() {
		defer close(answered)
		rows, position, err = r.totals.first(r.t.Context(), o, limit, make(chan struct{}, 1))
	}()
	for {
		select {
		case <-answered:
			if err != nil {
				r.t.Fatal(err)
			}
			return rows, position
		case <-scans:
			func() {
				defer func() { happened <- struct{}{} }()
				r.scanned()
			}()
		}
	}
}

func shown(rows []Leader[[]byte]) string {
	var b bytes.Buffer
	for _, row := range rows {
		fmt.Fprintf(&b, "%q %x\n", row.Key, row.Of)
	}
	return b.String()
}

// TestRankingIsKept shows that an order which is asked for again is not looked
// for among all keys, however much is folded and applied, as long as nobody
// passes what is kept.
func TestRankingIsKept(t *testing.T) {
	p := compile(t, salesQuery)
	states := newMemStates(p)
	scans := 0
	states.scanned = func() { scans++ }
	store, decoder := openEmpty(t, states)
	totals := newTotals(p)
	totals.open(store, 1)
	fold := func(user, revenue int) {
		record := Record{Offset: totals.active.Next, Value: fmt.Appendf(nil, `{"userId":%d,"revenue":%d}`, user, revenue)}
		if out, err := decoder.Fold(totals.active, 0, &record); err != nil || out.Result != Folded {
			t.Fatal(out, err)
		}
		totals.active.Next++
	}
	apply := func() {
		delta, next := totals.freeze()
		if err := store.Apply(t.Context(), delta.Sorted(nil), next); err != nil {
			t.Fatal(err)
		}
		totals.thaw(next)
	}
	slots := make(chan struct{}, 1)
	first := func() int {
		rows, position, err := totals.first(t.Context(), Order{Column: 2, Descending: true}, 1, slots)
		if err != nil || position != totals.active.Next {
			t.Fatal(position, err)
		}
		user := 0
		if _, err := fmt.Sscan(string(rows[0].Key), &user); err != nil {
			t.Fatal(err)
		}
		return user
	}
	const users = 700
	totalOf := map[int]int{}
	sell := func(user, revenue int) {
		totalOf[user] += revenue
		fold(user, revenue)
	}
	check := func(when string) {
		t.Helper()
		best := 0
		for user := range users {
			if totalOf[user] > totalOf[best] {
				best = user
			}
		}
		if got := first(); totalOf[got] != totalOf[best] {
			t.Fatalf("%s: user %d with %d is the first, and user %d has %d", when, got, totalOf[got], best, totalOf[best])
		}
	}
	for user := range users {
		sell(user, 1000+user)
	}
	apply()
	check("at first")
	for round := range 20 {
		for i := range users {
			sell((i*7+round)%users, 10)
		}
		sell(5, 290) // climbs from far behind by small steps
		if round == 15 {
			sell(round, 100*users*(round+1)) // comes to the front at once
		}
		check(fmt.Sprint("in round ", round))
		if round%2 == 0 {
			apply()
			check(fmt.Sprint("after round ", round))
		}
	}
	if scans != 1 {
		t.Errorf("all keys were looked through %d times", scans)
	}
	totals.close()
	if _, _, err := totals.first(t.Context(), Order{Column: 2, Descending: true}, 1, slots); !errors.Is(err, ErrClosing) {
		t.Errorf("after the close: %v", err)
	}
}
