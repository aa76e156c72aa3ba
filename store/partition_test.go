package store_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"tidemark/aggregator"
	"tidemark/event"
	"tidemark/store"
)

// nonZero fails for every field in v, however deep, that is zero.
func nonZero(t *testing.T, name string, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			nonZero(t, name+"."+v.Type().Field(i).Name, v.Field(i))
		}
	case reflect.Pointer:
		nonZero(t, name, v.Elem())
	default:
		if v.IsZero() {
			t.Errorf("%s is zero: whether it is stored is not tested", name)
		}
	}
}

// A progress and an identity in which nothing is zero come back whole.
func TestIdentityAndProgressSurvive(t *testing.T) {
	id := identity(3)
	nonZero(t, "Identity", reflect.ValueOf(id))
	path := t.TempDir()
	d := openDir(t, path, options(t))
	made, err := d.Create(identity(3), aggregator.Progress{Position: 7})
	if err != nil {
		t.Fatal(err)
	}
	want := aggregator.Progress{Position: 1 << 40, Seeded: true, Documents: 3, Epoch: 5, Gap: 6, Placement: 5}
	for i := range want.Counts.Results {
		want.Counts.Results[i] = int64(100 + i)
	}
	for i := 1; i < event.NumReasons; i++ {
		want.Counts.Reasons[i] = int64(200 + i)
	}
	nonZero(t, "Progress", reflect.ValueOf(want))
	if err := made.Apply(t.Context(), sorted(nil), want); err != nil {
		t.Fatal(err)
	}
	if got := made.Progress(); got != want {
		t.Errorf("progress before closing\n got %+v\nwant %+v", got, want)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	p := openPartition(t, openDir(t, path, options(t)), 3)
	if got := p.Progress(); got != want {
		t.Errorf("progress after opening\n got %+v\nwant %+v", got, want)
	}
	if got := p.Identity(); !reflect.DeepEqual(got, id) {
		t.Errorf("identity\n got %+v\nwant %+v", got, id)
	}
}

// The totals are the straight fold of the deltas, whatever was flushed, closed
// and compacted between the applies, by Get, by Scan and by a View's Get.
func TestTotalsAreTheStraightFold(t *testing.T) {
	path := t.TempDir()
	rng := rand.New(rand.NewPCG(1, 2))
	want := make(map[string]sum)
	d := openDir(t, path, options(t))
	p := created(t, d, 0)
	for position := int64(1); position <= 60; position++ {
		deltas := make(map[string]int64)
		for range rng.IntN(300) {
			deltas[fmt.Sprintf("key%d", rng.IntN(500))] += rng.Int64N(2000) - 1000
		}
		apply(t, p, deltas, position)
		for key, v := range deltas {
			s := want[key]
			want[key] = sum{s.sum + v, s.count + 1}
		}
		switch rng.IntN(6) {
		case 0:
			if err := p.Flush(); err != nil {
				t.Fatal(err)
			}
		case 1:
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			d = openDir(t, path, options(t))
			p = openPartition(t, d, 0)
		case 2: // nothing is compacted before the first flush after an open
			if err := errors.Join(p.Flush(), p.Compact(t.Context())); err != nil {
				t.Fatal(err)
			}
		}
		got, at := contents(t, p)
		if at != position || !maps.Equal(got, want) {
			t.Fatalf("after %d applies: position %d, %d keys of %d", position, at, len(got), len(want))
		}
	}
	v, err := p.View()
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	for key, s := range want {
		byGet, ok, err := read(p, []byte("dst"), []byte(key))
		if err != nil || !ok || string(byGet[:3]) != "dst" || decoded(t, byGet[3:]) != s {
			t.Fatalf("Get %q = %q, %v, %v, want %+v", key, byGet, ok, err, s)
		}
		byView, ok, err := v.Get(nil, []byte(key))
		if err != nil || !ok || string(byView) != string(byGet[3:]) {
			t.Fatalf("View.Get %q = %q, %v, %v, want %q", key, byView, ok, err, byGet[3:])
		}
	}
	for _, absent := range []string{"", "key", "key500", "zzz", "/"} {
		if got, ok, err := read(p, nil, []byte(absent)); ok || err != nil {
			t.Errorf("Get %q = %q, %v, %v, want nothing", absent, got, ok, err)
		}
	}
}

// Keys of any bytes are kept apart from each other and from what else is in
// the store, and Scan begins where it is told.
func TestKeysOfAnyBytes(t *testing.T) {
	d := openDir(t, t.TempDir(), options(t))
	p := created(t, d, 0)
	keys := []string{"\x00", "\x00\x00", "a", "a/", "a/b", "a0", "k/", "m/progress", "\xff", "\xff\xff", "é"}
	deltas := make(map[string]int64)
	for i, key := range keys {
		deltas[key] = int64(i)
	}
	apply(t, p, deltas, 1)
	for _, from := range append(keys, "", "b", "\xfe") {
		want := 0
		for key := range deltas {
			if key >= from {
				want++
			}
		}
		v, err := p.View()
		if err != nil {
			t.Fatal(err)
		}
		got := 0
		for key := range v.Scan([]byte(from)) {
			if string(key) < from {
				t.Errorf("scan from %q yields %q", from, key)
			}
			got++
		}
		if err := errors.Join(v.Err(), v.Close()); err != nil || got != want {
			t.Errorf("scan from %q yields %d keys, want %d (%v)", from, got, want, err)
		}
	}
}

// A view does not see what is applied after it was opened; position and totals
// go together.
func TestViewIsConsistent(t *testing.T) {
	d := openDir(t, t.TempDir(), options(t))
	p := created(t, d, 0)
	apply(t, p, map[string]int64{"a": 1}, 10)
	v, err := p.View()
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	apply(t, p, map[string]int64{"a": 2, "b": 3}, 20)
	if at, err := v.Position(); at != 10 || err != nil {
		t.Errorf("position %d, %v, want 10", at, err)
	}
	if got, ok, err := v.Get(nil, []byte("a")); err != nil || !ok || decoded(t, got) != (sum{1, 1}) {
		t.Errorf("a = %x, %v, %v", got, ok, err)
	}
	if _, ok, err := v.Get(nil, []byte("b")); ok || err != nil {
		t.Errorf("b is there (%v)", err)
	}
	// Nor is what it looked at seen by a view that is opened after it was closed.
	for _, when := range []string{"beside it", "after it"} {
		got, at := contents(t, p)
		if want := map[string]sum{"a": {3, 2}, "b": {3, 1}}; at != 20 || !maps.Equal(got, want) {
			t.Errorf("%s: %v at %d, want %v at 20", when, got, at, want)
		}
		if err := v.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A scan that is left in the middle lets go of the state.
func TestS05ScansLeftMidwayHoldNothing(t *testing.T) {
	d := openDir(t, t.TempDir(), options(t))
	p := created(t, d, 0)
	deltas := make(map[string]int64)
	for i := range 2000 {
		deltas[fmt.Sprintf("key%04d", i)] = 1
	}
	for round := range int64(20) {
		apply(t, p, deltas, round+1)
		for range 50 {
			v, err := p.View()
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for range v.Scan(nil) {
				if n++; n == 3 {
					break
				}
			}
			if err := errors.Join(v.Err(), v.Close()); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	m := p.DB().Metrics()
	if s := p.Stats(); s.InUse != 0 || m.Table.ZombieCount != 0 || m.Snapshots.Count != 0 {
		t.Errorf("after 1000 scans: %+v, %d zombie tables, %d snapshots", s, m.Table.ZombieCount, m.Snapshots.Count)
	}
}

// The obsolete bytes that an open view holds are shown.
func TestS05ObsoleteBytesAreShown(t *testing.T) {
	d := openDir(t, t.TempDir(), options(t))
	p := created(t, d, 0)
	apply(t, p, map[string]int64{"a": 1}, 1)
	if err := p.Flush(); err != nil {
		t.Fatal(err)
	}
	v, err := p.View()
	if err != nil {
		t.Fatal(err)
	}
	for range v.Scan(nil) { // holds the tables while it runs
		apply(t, p, map[string]int64{"a": 1}, 2)
		if err := p.Flush(); err != nil {
			t.Fatal(err)
		}
		if err := p.Compact(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s := p.Stats(); s.Obsolete == 0 || s.InUse != 1 {
			t.Errorf("with an open scan: %+v", s)
		}
	}
	if err := v.Close(); err != nil {
		t.Fatal(err)
	}
}

// Close waits for an open view, and closes when it is done.
func TestS06CloseWaitsForViews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := openDir(t, "state", options(t).WithFS(vfs.NewMem()))
		p := created(t, d, 0)
		apply(t, p, map[string]int64{"a": 1}, 1)
		v, err := p.View()
		if err != nil {
			t.Fatal(err)
		}
		closed := make(chan error)
		go func() { closed <- p.Close() }()
		synctest.Wait()
		select {
		case err := <-closed:
			t.Fatalf("closed with an open view: %v", err)
		default:
		}
		if _, err := p.View(); !errors.Is(err, aggregator.ErrClosing) {
			t.Errorf("a view while closing: %v", err)
		}
		if _, ok, err := v.Get(nil, []byte("a")); !ok || err != nil {
			t.Errorf("the open view reads %v, %v", ok, err)
		}
		if err := v.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-closed; err != nil {
			t.Fatal(err)
		}
		if err := v.Close(); err != nil {
			t.Errorf("closing a view again: %v", err)
		}
	})
}

// A view that is never closed does not hold a shutdown for ever: the error
// says so, and a later Close succeeds.
func TestS06CloseSaysThatViewsAreOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := openDir(t, "state", options(t).WithFS(vfs.NewMem()))
		p := created(t, d, 0)
		v, err := p.View()
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Close(); err == nil || err.Error() != "close partition 0: 1 views, reads or applies are still under way after 10s" {
			t.Errorf("close with an open view: %v", err)
		}
		if err := v.Close(); err != nil {
			t.Fatal(err)
		}
		if err := p.Close(); err != nil {
			t.Errorf("close after the view: %v", err)
		}
		if err := p.Close(); err != nil {
			t.Errorf("closing again: %v", err)
		}
	})
}

// What is closed answers with ErrClosing everywhere, and zeros in figures.
func TestClosedPartitionRefuses(t *testing.T) {
	d := openDir(t, t.TempDir(), options(t))
	p := created(t, d, 0)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	_, _, getErr := read(p, nil, []byte("a"))
	_, _, guardErr := p.Guard([]byte("a"))
	_, viewErr := p.View()
	for what, err := range map[string]error{
		"get": getErr, "guard": guardErr, "view": viewErr, "flush": p.Flush(),
		"apply":      p.Apply(t.Context(), sorted(nil), aggregator.Progress{Seeded: true}),
		"checkpoint": p.Checkpoint(t.TempDir() + "/c"),
	} {
		if !errors.Is(err, aggregator.ErrClosing) {
			t.Errorf("%s after close: %v", what, err)
		}
	}
	if s := p.Stats(); s != (store.Stats{}) || p.Bytes() != 0 {
		t.Errorf("figures after close: %+v, %d bytes", s, p.Bytes())
	}
	if d.Partition(0) != nil {
		t.Error("the directory still knows it")
	}
}

// Position and epoch never go back, and what is refused changes nothing.
func TestApplyRefusesToGoBack(t *testing.T) {
	d := openDir(t, t.TempDir(), options(t))
	p := created(t, d, 0)
	at := aggregator.Progress{Seeded: true, Position: 5, Epoch: 2}
	if err := p.Apply(t.Context(), sorted(map[string]int64{"a": 1}), at); err != nil {
		t.Fatal(err)
	}
	for _, next := range []aggregator.Progress{{Position: 4, Epoch: 2}, {Position: 6, Epoch: 1}} {
		if err := p.Apply(t.Context(), sorted(map[string]int64{"a": 1}), next); err == nil {
			t.Errorf("applied %+v after %+v", next, at)
		}
	}
	got, position := contents(t, p)
	if p.Progress() != at || position != 5 || got["a"] != (sum{1, 1}) {
		t.Errorf("%+v, %v", p.Progress(), got)
	}
}

// Seeds merge or replace; guards come back; both are refused once the history
// is in.
func TestSeedsAndGuards(t *testing.T) {
	path := t.TempDir()
	d := openDir(t, path, options(t))
	p, err := d.Create(identity(0), aggregator.Progress{Position: 7})
	if err != nil {
		t.Fatal(err)
	}
	instants := map[string]event.Time{"a": {Sec: -62167219200}, "b": {Sec: 253402300799, Nsec: 999999999}}
	guards := func(yield func([]byte, event.Time) bool) {
		for _, key := range []string{"a", "b"} {
			if !yield([]byte(key), instants[key]) {
				return
			}
		}
	}
	if err := errors.Join(
		p.Seed(sorted(map[string]int64{"a": 1, "b": 10}), false),
		p.Seed(sorted(map[string]int64{"a": 2}), false),
		p.Seed(sorted(map[string]int64{"b": 5}), true),
		p.Guards(guards),
		p.Apply(t.Context(), sorted(nil), aggregator.Progress{Position: 7, Seeded: true, Documents: 4}),
		p.Flush(),
		d.Close(),
	); err != nil {
		t.Fatal(err)
	}
	d = openDir(t, path, options(t))
	p = openPartition(t, d, 0)
	if err := p.Seed(sorted(nil), false); !errors.Is(err, store.ErrSeeded) {
		t.Errorf("seed after the history: %v", err)
	}
	if err := p.Guards(guards); !errors.Is(err, store.ErrSeeded) {
		t.Errorf("guards after the history: %v", err)
	}
	got, _ := contents(t, p)
	if want := map[string]sum{"a": {3, 2}, "b": {5, 1}}; !maps.Equal(got, want) {
		t.Errorf("totals %v, want %v", got, want)
	}
	for key, want := range instants {
		if got, ok, err := p.Guard([]byte(key)); got != want || !ok || err != nil {
			t.Errorf("guard of %q = %v, %v, %v, want %v", key, got, ok, err, want)
		}
	}
	if _, ok, err := p.Guard([]byte("c")); ok || err != nil {
		t.Errorf("guard of c: %v, %v", ok, err)
	}
}

// Seeds that fill many batches are whole.
func TestLargeSeed(t *testing.T) {
	d := openDir(t, t.TempDir(), options(t))
	p, err := d.Create(identity(0), aggregator.Progress{})
	if err != nil {
		t.Fatal(err)
	}
	const n = 18_000
	key := make([]byte, 0, 1000)
	err = p.Seed(func(yield func(k, v []byte) bool) {
		for i := range n {
			key = fmt.Appendf(key[:0], "%05d%900d", i, 0)
			if !yield(key, encoded(int64(i))) {
				return
			}
		}
	}, false)
	if err != nil {
		t.Fatal(err)
	}
	got, _ := contents(t, p)
	if len(got) != n || got[fmt.Sprintf("%05d%900d", n-1, 0)] != (sum{n - 1, 1}) {
		t.Errorf("%d keys of %d", len(got), n)
	}
}

// Reads and applies on many goroutines see whole applies only.
func TestS16ReadersSeeWholeApplies(t *testing.T) {
	d := openDir(t, t.TempDir(), options(t).WithTune(func(o *pebble.Options) { o.MemTableSize = 64 << 10 }))
	p := created(t, d, 0)
	done := make(chan struct{})
	results := make(chan error, 4)
	for range cap(results) {
		go func() {
			for {
				select {
				case <-done:
					results <- nil
					return
				default:
				}
				v, err := p.View()
				if err != nil {
					results <- err
					return
				}
				at, err := v.Position()
				for _, key := range []string{"a", "b", "c"} {
					total, ok, gerr := v.Get(nil, []byte(key))
					var s sum
					if ok {
						gerr = errors.Join(gerr, s.Merge(total))
					}
					if s.count != at {
						gerr = errors.Join(gerr, fmt.Errorf("%q was added to %d times at position %d", key, s.count, at))
					}
					err = errors.Join(err, gerr)
				}
				if err = errors.Join(err, v.Close()); err != nil {
					results <- err
					return
				}
			}
		}()
	}
	for i := range int64(2000) {
		deltas := map[string]int64{"a": 1, "b": 1, "c": 1}
		if i%200 < 5 { // one that is a table, behind batches or other tables
			maps.Copy(deltas, many(1000))
		}
		apply(t, p, deltas, i+1)
		if i%200 == 0 {
			if err := p.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	close(done)
	if p.DB().Metrics().Ingest.Count < 50 {
		t.Error("large applies were no tables")
	}
	for range cap(results) {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
}
