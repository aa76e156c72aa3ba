package aggregator

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestAnyRestart is the model: whatever the batches, crashes and hand-overs
// between two members, the totals are the straight fold of the log, byte for
// byte, and the counts add up to the records consumed.
func TestAnyRestart(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint("seed", seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			r := newRig(t, 1)
			values := mixed(rnd, 600)
			r.tuning.ApplyRecords = 1 + rnd.IntN(40)
			batches := rand.New(rand.NewPCG(seed, 2))
			r.log.batches = func(n int) int { return 1 + batches.IntN(min(n, 90)) } // under the log's lock
			for at := 0; at < len(values); {
				n := min(len(values)-at, rnd.IntN(150))
				r.start(0)
				r.log.produce(0, values[at:at+n]...)
				at += n
				stopAt := rnd.Int64N(int64(at + 1))
				r.until(0, "there", func(s PartitionStatus) bool { return s.Position >= stopAt })
				crash := rnd.IntN(2) == 0
				r.stop()
				if crash { // as if the last applies had never reached the disk
					s := r.states.states[0]
					s.durable = 1 + rnd.IntN(len(s.applies))
					r.states.crash(0, func(n int) int { return 0 })
				}
			}
			r.start(0)
			r.caughtUp(0)
			status := r.p.Status()[0]
			r.stop()
			r.straight(0, r.states.states[0], status.Counts)
		})
	}
}

// TestReadsDuringApplies: a reader never sees a record twice, nor an answer go
// back, while deltas are frozen and applied beneath it.
func TestReadsDuringApplies(t *testing.T) {
	r := newRig(t, 1)
	r.tuning.ApplyRecords = 3
	r.start(0)
	r.caughtUp(0)
	const n = 2000
	go func() {
		for range n {
			r.log.produce(0, sale(1, "1"))
		}
	}()
	var last int64
	for last < n {
		got, err := r.p.Get(context.Background(), 0, []byte("1"))
		if err != nil {
			t.Fatal(err)
		}
		var count, revenue int64
		if row := render(t, r.program, []byte("1"), got.Parts); row != "" {
			if _, err := fmt.Sscanf(row, `{"userId":1,"sales":%d,"revenue":%d}`, &count, &revenue); err != nil {
				t.Fatalf("%s: %v", row, err)
			}
		}
		if count != got.Position || revenue != count {
			t.Fatalf("at position %d: %d sales with revenue %d", got.Position, count, revenue)
		}
		if count < last {
			t.Fatalf("%d sales after %d", count, last)
		}
		last = count
		page, err := r.p.Scan(context.Background(), 0, nil, nil, 10)
		if err != nil {
			t.Fatal(err)
		}
		if page.Position > 0 {
			want := fmt.Sprintf(`{"userId":1,"sales":%d,"revenue":%d}`, page.Position, page.Position)
			if len(page.Entries) != 1 || render(t, r.program, []byte("1"), page.Entries[0].Parts) != want {
				t.Fatalf("scan at %d: %v", page.Position, page.Entries)
			}
		}
	}
}

// TestScanMergesStoreAndDeltas: keys come once, in order, whatever holds them.
func TestScanMergesStoreAndDeltas(t *testing.T) {
	r := newRig(t, 1)
	r.start(0)
	for i := range 300 {
		r.log.produce(0, sale(100+i%100, "1"))
	}
	r.caughtUp(0)
	var keys []string
	from := []byte("12")
	for {
		page, err := r.p.Scan(context.Background(), 0, from, []byte("1"), 7)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Entries {
			keys = append(keys, string(e.Key))
			if row := render(t, r.program, e.Key, e.Parts); row != fmt.Sprintf(`{"userId":%s,"sales":3,"revenue":3}`, e.Key) {
				t.Errorf("row %s", row)
			}
			from = append(e.Key, 0)
		}
		if !page.More {
			break
		}
	}
	if len(keys) != 80 || !slices.IsSorted(keys) || keys[0] != "120" {
		t.Errorf("got %d keys: %v", len(keys), keys)
	}
}

// TestOtherDefinition ends the process and names the clause.
func TestOtherDefinition(t *testing.T) {
	r := newRig(t, 3)
	r.start(0, 1, 2)
	for p := range int32(3) {
		r.caughtUp(p)
	}
	r.stop()
	r.program = compile(t, strings.Replace(salesQuery, "sum(revenue)", "max(revenue)", 1))
	r.start(0, 1, 2)
	err := r.end()
	if text := err.Error(); strings.Contains(text, "\n") || strings.Count(text, "another definition") != 1 {
		t.Errorf("not one sentence: %s", text)
	}
	if !errors.Is(err, ErrOtherDefinition) || !strings.Contains(err.Error(), "sum(revenue)") || !strings.Contains(err.Error(), "max(revenue)") {
		t.Errorf("got %v", err)
	}
}

// TestSeedingIsSharedAndWhole: one pass for all partitions that open together;
// a pass that fails leaves nothing of it.
func TestB12SeedingIsSharedAndWhole(t *testing.T) {
	r := newRig(t, 3)
	r.seeder.history = []string{
		`{"userId":1,"sales":10,"revenue":100.10}`, `{"userId":2,"sales":1,"revenue":0.20}`,
		`{"userId":3,"sales":2,"revenue":5}`, `{"userId":4,"revenue":7}`,
	}
	hopeless := fmt.Errorf("a document too bad: %w", ErrHopeless)
	r.seeder.seed = func(context.Context) error { return hopeless }
	r.start(0, 1, 2)
	if err := r.end(); !errors.Is(err, ErrHopeless) {
		t.Fatalf("got %v", err)
	}
	for p, s := range r.states.states {
		if s.progress().Seeded {
			t.Errorf("partition %d passes for seeded", p)
		}
	}
	// The process is killed halfway through a pass.
	half := make(chan struct{})
	r.seeder.seed = func(ctx context.Context) error { close(half); <-ctx.Done(); return ctx.Err() }
	r.start(0, 1, 2)
	<-half
	if s := r.p.Status(); s[0].State != Bootstrapping || s[0].Answers {
		t.Errorf("during the pass: %+v", s[0])
	}
	r.stop()
	r.seeder.passes, r.seeder.seed = nil, nil
	r.start(0, 1, 2)
	for p := range int32(3) {
		r.caughtUp(p)
	}
	if want := [][]int32{{0, 1, 2}}; fmt.Sprint(r.seeder.passes) != fmt.Sprint(want) {
		t.Errorf("passes %v, want %v", r.seeder.passes, want)
	}
	docs := int64(0)
	for _, s := range r.p.Status() {
		docs += s.Documents
	}
	if docs != 4 {
		t.Errorf("%d documents in the seeds", docs)
	}
	one := Murmur2.Partition([]byte("1"), 3)
	r.log.produce(one, sale(1, "0.90"))
	r.caughtUp(one)
	r.expect(one, "1", `{"userId":1,"sales":11,"revenue":101}`)
	r.stop()
	r.start(0, 1, 2) // and it is not read again
	r.caughtUp(one)
	r.expect(one, "1", `{"userId":1,"sales":11,"revenue":101}`)
	if len(r.seeder.passes) != 1 {
		t.Errorf("passes %v", r.seeder.passes)
	}
}

// TestRevokeAppliesAndCloses: what was folded is on disk when Revoke returns,
// and reads are told that the partition is gone.
func TestRevokeAppliesAndCloses(t *testing.T) {
	r := newRig(t, 2)
	r.tuning.ApplyInterval, r.tuning.ApplyRecords = time.Hour, 1_000_000
	r.start(0, 1)
	r.log.produce(0, sale(1, "1"), sale(2, "1"))
	r.caughtUp(0)
	r.p.Revoke(context.Background(), 0)
	if at := r.stored(0); at != 2 {
		t.Errorf("position %d on disk", at)
	}
	if _, err := r.p.Get(context.Background(), 0, []byte("1")); !errors.Is(err, ErrNotOwned) {
		t.Errorf("got %v", err)
	}
	r.caughtUp(1)
	r.p.Assign(0)
	r.caughtUp(0)
	r.expect(0, "1", `{"userId":1,"sales":1,"revenue":1}`)
}

// TestPlacementFollowsKeys: what the status says of partitioners includes keys
// that are folded and not applied.
func TestPlacementFollowsKeys(t *testing.T) {
	r := newRig(t, 3)
	r.tuning.ApplyInterval, r.tuning.ApplyRecords = time.Hour, 1_000_000
	r.start(1)
	r.caughtUp(1)
	if s := r.p.Status()[0]; s.Placement != allPartitioners {
		t.Errorf("empty: %b", s.Placement)
	}
	for user := range 60 {
		if Murmur2.Partition(fmt.Append(nil, user), 3) == 1 {
			r.log.produce(1, sale(user, "1"))
		}
	}
	r.caughtUp(1)
	if s := r.p.Status()[0]; s.Placement != 1<<Murmur2 {
		t.Errorf("murmur2 keys: %b", s.Placement)
	}
}

// TestQ08ScansHoldUpNoFolding: while ten listings stand in the middle of the
// state, records are folded, applied and answered; each listing is of one
// moment all the same.
func TestQ08ScansHoldUpNoFolding(t *testing.T) {
	const listings, users = 10, 100
	r := newRig(t, 1)
	r.tuning.ApplyRecords = 10
	for user := range users {
		r.log.produce(0, sale(user, "1"))
	}
	r.start(0)
	r.caughtUp(0)
	r.stop() // all of it is in the store
	in, release := make(chan struct{}, listings), make(chan struct{})
	r.states.mu.Lock()
	r.states.scanned = func() {
		select {
		case in <- struct{}{}:
			<-release
		default: // one that is tried again
		}
	}
	r.states.mu.Unlock()
	r.start(0)
	r.caughtUp(0)
	pages := make(chan Page, listings)
	for range listings {
		go func() {
			page, err := r.p.Scan(context.Background(), 0, nil, nil, 1000)
			if err != nil {
				t.Error(err)
			}
			pages <- page
		}()
	}
	deadline := time.After(20 * time.Second)
	for len(in) < listings {
		select {
		case <-time.After(time.Millisecond):
		case <-deadline:
			t.Fatalf("%d listings have begun", len(in))
		}
	}
	for range 5000 {
		r.log.produce(0, sale(1, "1"))
	}
	r.caughtUp(0)
	r.expect(0, "1", `{"userId":1,"sales":5001,"revenue":5001}`)
	r.until(0, "applied while listings stand", func(PartitionStatus) bool { return r.stored(0) == users+5000 })
	close(release)
	for range listings {
		page := <-pages
		var sales int64
		for _, e := range page.Entries {
			var n, revenue int64
			var user int
			if _, err := fmt.Sscanf(render(t, r.program, e.Key, e.Parts), `{"userId":%d,"sales":%d,"revenue":%d}`, &user, &n, &revenue); err != nil {
				t.Fatal(err)
			}
			sales += n
		}
		if len(page.Entries) != users || sales != page.Position {
			t.Errorf("a listing of %d keys and %d sales at position %d", len(page.Entries), sales, page.Position)
		}
	}
}

// TestK07AssignAndRevokeInAnyOrder: grants and revocations that come as fast as
// they can, twice, and for partitions that are not held, change no total.
func TestK07AssignAndRevokeInAnyOrder(t *testing.T) {
	for seed := range uint64(10) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		r := newRig(t, 2)
		r.tuning.ApplyRecords = 1 + rnd.IntN(20)
		r.start()
		for range 30 {
			p := rnd.Int32N(2)
			r.log.produce(p, mixed(rnd, rnd.IntN(20))...)
			switch rnd.IntN(4) {
			case 0:
				r.p.Revoke(context.Background(), p)
			case 1:
				r.p.Revoke(context.Background(), p)
				r.p.Assign(p)
			default:
				r.p.Assign(p)
				r.p.Assign(p)
			}
		}
		r.p.Assign(0)
		r.p.Assign(1)
		for p := range int32(2) {
			r.caughtUp(p)
		}
		status := r.p.Status()
		r.stop()
		for p := range int32(2) {
			r.straight(p, r.states.states[p], status[p].Counts)
			r.notBeyondSnapshots(p)
		}
	}
}
