package store_test

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"tidemark/aggregator"
	"tidemark/store"
)

// sizes of applies: of batches that lie in a write buffer beside tables, of
// tables one behind the other, and of one that a Flush is between.
var tableSizes = []int{3, 2000, 5, 900, 900, 900, 900, 900, 1, 2000}

// until is the state after the applies of tableSizes up to a position; false
// where none of them ends there.
func until(position int64) (map[string]sum, bool) {
	all := map[string]sum{}
	if position == 0 {
		return all, true
	}
	for i, n := range tableSizes {
		all = added(all, many(n))
		if int64(i+1) == position {
			return all, true
		}
	}
	return nil, false
}

// A crash at any step of applies that are tables, beside those that are batches,
// leaves a prefix of them, each whole, with what was flushed in it.
func TestS16TablesAtEveryStep(t *testing.T) {
	var flushed atomic.Int64
	type crash struct{ flushed int64 }
	var crashes []crash
	everyStep(t, func(disk vfs.FS) {
		d := openDir(t, "state", crashOptions(t, disk))
		created(t, d, 0)
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}, func(disk vfs.FS) {
		var mu sync.Mutex
		watched := errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
			mu.Lock()
			defer mu.Unlock()
			if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
				crashes = append(crashes, crash{flushed.Load()})
			}
			return nil
		}))
		d := openDir(t, "state", crashOptions(t, watched))
		p := openPartition(t, d, 0)
		for i, n := range tableSizes {
			apply(t, p, many(n), int64(i+1))
			if i == 3 || i == 6 {
				if err := p.Flush(); err != nil {
					t.Fatal(err)
				}
				flushed.Store(int64(i + 1))
			}
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}, func(step int, disk *vfs.MemFS) {
		if step%7 > 1 {
			return
		}
		d := openDir(t, "state", crashOptions(t, disk))
		p := openPartition(t, d, 0)
		got, at := contents(t, p)
		want, whole := until(at)
		if !whole || !maps.Equal(got, want) {
			t.Fatalf("step %d: %d keys at %d, want %d", step, len(got), at, len(want))
		}
		// One crash may have been taken a moment before the note of it.
		if least := crashes[max(step/2-8, 0)].flushed; at < least {
			t.Fatalf("step %d: at %d, and %d was flushed", step, at, least)
		}
		if err := p.DB().CheckLevels(nil); err != nil {
			t.Fatal(err)
		}
		if at < int64(len(tableSizes)) {
			apply(t, p, many(tableSizes[at]), at+1)
			want, _ = until(at + 1)
			holds(t, p, want, at+1)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	})
	t.Log(len(crashes), "steps")
}

// A step of a table that fails for want of space leaves the state as it was; the
// same apply goes in, once, when there is room, and no file is left of it. (A
// manifest that cannot be written ends the process.)
func TestS04FullDiskAtEveryStepOfATable(t *testing.T) {
	failed := map[string]bool{}
	for step, last := 0, false; !last; step++ {
		synctest.Test(t, func(t *testing.T) {
			hit, err := fullAtStep(t, step)
			if last = hit == ""; err != nil {
				failed[hit] = true
			}
		})
	}
	if len(failed) < 3 {
		t.Errorf("what failed is %v alone", failed)
	}
}

// fullAtStep lets a step of a table fail, and returns what it was, "" where there
// are fewer, and the error of the apply.
func fullAtStep(t *testing.T, step int) (hit string, err error) {
	const state = "state/partitions/0"
	disk := vfs.NewMem()
	var mu sync.Mutex // Pebble writes from several goroutines
	armed, n := false, 0
	d := openDir(t, "state", crashOptions(t, errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		what := ""
		switch {
		case op.Kind == errorfs.OpLink:
			what = "link"
		case op.Kind == errorfs.OpFileSync && op.Path == state:
			what = "sync of the directory"
		case strings.HasSuffix(op.Path, ".apply"):
			what = map[errorfs.OpKind]string{errorfs.OpCreate: "create", errorfs.OpFileWrite: "write", errorfs.OpFileSync: "sync"}[op.Kind]
		}
		mu.Lock()
		defer mu.Unlock()
		if !armed || what == "" {
			return nil
		}
		if n++; n <= step || n > step+3 { // it may be tried again
			return nil
		}
		if hit == "" {
			hit = what
		}
		return full(op.Path)
	}))))
	arm := func(on bool) {
		mu.Lock()
		defer mu.Unlock()
		armed = on
	}
	p := created(t, d, 0)
	apply(t, p, map[string]int64{"a": 1}, 1)
	if err := p.Flush(); err != nil {
		t.Fatal(err)
	}
	<-time.After(time.Second) // compaction has ended
	arm(true)
	err = p.Apply(t.Context(), sorted(many(2000)), aggregator.Progress{Seeded: true, Position: 2})
	arm(false)
	before := map[string]sum{"a": {1, 1}}
	after := added(before, many(2000))
	if err != nil {
		if !errors.Is(err, aggregator.ErrNoSpace) {
			t.Errorf("%s: %v", hit, err)
		}
		holds(t, p, before, 1)
	}
	<-time.After(5 * time.Second) // also where a flush behind the apply failed: the disk is not taken to be full any more
	if err != nil {
		apply(t, p, many(2000), 2)
	}
	holds(t, p, after, 2)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if names, err := disk.List("state/partitions"); err != nil || len(names) != 1 {
		t.Errorf("%s: it left %v, %v", hit, names, err)
	}
	d = openDir(t, "state", crashOptions(t, disk))
	holds(t, openPartition(t, d, 0), after, 2)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	return hit, err
}

// A disk that fills while an apply waits for compaction is said to be full: the
// apply can be given up, and the partition closed.
func TestS04FullDiskUnderAnApplyThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewMem()
		var noRoom atomic.Bool
		o := crashOptions(t, errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if !noRoom.Load() || op.Kind != errorfs.OpCreate || !strings.HasSuffix(op.Path, ".sst") {
				return nil
			}
			<-time.After(time.Second) // the apply has begun by then
			return full(op.Path)
		})))
		d := openDir(t, "state", o.WithTune(func(o *pebble.Options) {
			o.MemTableSize = 64 << 10
			o.L0CompactionThreshold, o.L0StopWritesThreshold = 1, 1
		}))
		p := created(t, d, 0)
		apply(t, p, many(2000), 1)
		<-time.After(time.Second)
		noRoom.Store(true)
		apply(t, p, many(2000), 2)
		done := make(chan error, 1)
		go func() {
			done <- p.Apply(t.Context(), sorted(many(2000)), aggregator.Progress{Seeded: true, Position: 3})
		}()
		select {
		case err := <-done:
			if !errors.Is(err, aggregator.ErrNoSpace) {
				t.Errorf("an apply that waited: %v", err)
			}
		case <-time.After(time.Minute):
			t.Error("the apply waits for ever")
		}
		noRoom.Store(false)
		<-time.After(10 * time.Second)
		want := added(added(map[string]sum{}, many(2000)), many(2000))
		if !t.Failed() {
			holds(t, p, want, 2)
			apply(t, p, many(2000), 3)
			holds(t, p, added(want, many(2000)), 3)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// Checkpoints that are made while large and small applies go in hold a prefix of
// them, with all that had been applied before.
func TestS02CheckpointsBesideTables(t *testing.T) {
	path := t.TempDir()
	d := openDir(t, path, options(t).WithTune(func(o *pebble.Options) { o.MemTableSize = 64 << 10 }))
	p := created(t, d, 0)
	var applied atomic.Int64
	over := make(chan struct{})
	go func() {
		defer close(over)
		for i := range 60 {
			n := tableSizes[i%len(tableSizes)]
			if err := p.Apply(t.Context(), sorted(many(n)), aggregator.Progress{Seeded: true, Position: int64(i + 1)}); err != nil {
				t.Error(err)
				return
			}
			applied.Store(int64(i + 1))
		}
	}()
	for i := 0; ; i++ {
		before := applied.Load()
		copied := filepath.Join(path, "checkpoints", fmt.Sprint(i))
		if err := p.Checkpoint(copied); err != nil {
			t.Fatal(err)
		}
		s, err := store.Peek(copied)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]sum{}
		for i := range s.Progress.Position {
			want = added(want, many(tableSizes[int(i)%len(tableSizes)]))
		}
		if s.Progress.Position < before {
			t.Errorf("a checkpoint at %d after an apply up to %d", s.Progress.Position, before)
		}
		of := filepath.Join(path, fmt.Sprint("of", i))
		if err := vfs.Default.MkdirAll(filepath.Join(of, "partitions"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := vfs.Default.Rename(copied, filepath.Join(of, "partitions", "0")); err != nil {
			t.Fatal(err)
		}
		holds(t, openPartition(t, openDir(t, of, options(t)), 0), want, s.Progress.Position)
		select {
		case <-over:
			if before == 60 {
				t.Log(i, "checkpoints")
				return
			}
		default:
		}
	}
}
