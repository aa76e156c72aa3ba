package store_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"tidemark/aggregator"
	"tidemark/store"
)

// many are deltas of so many keys, too large for a batch of crashOptions.
func many(n int) map[string]int64 {
	all := make(map[string]int64, n)
	for i := range n {
		all[fmt.Sprintf("key%05d", i)] = int64(i)
	}
	return all
}

// added adds deltas to what is there.
func added(to map[string]sum, deltas map[string]int64) map[string]sum {
	all := maps.Clone(to)
	for key, v := range deltas {
		s := all[key]
		all[key] = sum{s.sum + v, s.count + 1}
	}
	return all
}

func holds(t *testing.T, p *store.Partition, want map[string]sum, position int64) {
	t.Helper()
	got, at := contents(t, p)
	if at != position || !maps.Equal(got, want) {
		t.Errorf("%d keys at %d, want %d at %d", len(got), at, len(want), position)
	}
}

// Large and small applies are seen alike, in their order, and kept over a
// restart, with the number of keys.
func TestLargeAppliesAreTables(t *testing.T) {
	disk := vfs.NewCrashableMem()
	d := openDir(t, "state", crashOptions(t, disk))
	p := created(t, d, 0)
	want := map[string]sum{}
	var position int64
	for _, n := range []int{3, 2000, 5, 2000, 1000, 1} {
		deltas := many(n)
		position += int64(n)
		apply(t, p, deltas, position)
		want = added(want, deltas)
		holds(t, p, want, position)
	}
	if n := p.DB().Metrics().Ingest.Count; n != 3 {
		t.Errorf("%d applies were tables, want 3", n)
	}
	if err := p.Flush(); err != nil {
		t.Fatal(err)
	}
	crashed := disk.CrashClone(vfs.CrashCloneCfg{})
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	for _, disk := range []*vfs.MemFS{disk, crashed} {
		d := openDir(t, "state", crashOptions(t, disk))
		p := openPartition(t, d, 0)
		holds(t, p, want, position)
		if keys := p.Keys(); keys < 1900 || keys > 2100 {
			t.Errorf("%d keys, want about 2000", keys)
		}
	}
}

// What a crash leaves of a table is removed. It may be a link of one that the
// database has taken: that one stays whole.
func TestS16TablesThatWereLeft(t *testing.T) {
	disk := vfs.NewMem()
	const left = "state/partitions/0.apply"
	for _, restart := range []bool{false, true} {
		d := openDir(t, "state", crashOptions(t, disk))
		p, err := d.Open(0)
		if errors.Is(err, aggregator.ErrNoState) {
			p, err = d.Create(identity(0), aggregator.Progress{Seeded: true})
		}
		if err != nil {
			t.Fatal(err)
		}
		s := p.(*store.Partition)
		want, position := contents(t, s)
		apply(t, s, many(2000), position+1)
		want = added(want, many(2000))
		tables, err := s.DB().SSTables()
		if err != nil {
			t.Fatal(err)
		}
		linked := false
		for _, level := range tables {
			for _, table := range level {
				if !linked {
					err := disk.Link(fmt.Sprintf("state/partitions/0/%s.sst", table.BackingSSTNum), left)
					if linked = true; err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		if !linked {
			t.Fatal("there is no table")
		}
		if restart {
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			d = openDir(t, "state", crashOptions(t, disk))
			if _, err := disk.Stat(left); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("what was left is still there: %v", err)
			}
			s = openPartition(t, d, 0)
		}
		holds(t, s, want, position+1)
		apply(t, s, many(2000), position+2)
		holds(t, s, added(want, many(2000)), position+2)
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A disk that fills under a table takes nothing of it; with room again the same
// apply goes in.
func TestS04FullDiskUnderATable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &fullDisk{MemFS: vfs.NewMem(), tables: true}
		d := openDir(t, "state", crashOptions(t, disk.fs()))
		p := created(t, d, 0)
		apply(t, p, map[string]int64{"a": 1}, 1)
		disk.full.Store(true)
		for range 3 {
			if err := p.Apply(t.Context(), sorted(many(2000)), progressAt(2)); !errors.Is(err, aggregator.ErrNoSpace) {
				t.Fatalf("a large apply on a full disk: %v", err)
			}
		}
		holds(t, p, map[string]sum{"a": {1, 1}}, 1)
		disk.full.Store(false)
		<-time.After(5 * time.Second)
		apply(t, p, many(2000), 2)
		holds(t, p, added(map[string]sum{"a": {1, 1}}, many(2000)), 2)
		if _, err := disk.Stat("state/partitions/0.apply"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a table was left: %v", err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// Large applies wait while more tables lie one above the other than compaction
// has come to merge, and go on when it has.
func TestLargeAppliesWaitForCompaction(t *testing.T) {
	disk := vfs.NewMem()
	d := openDir(t, "state", crashOptions(t, disk).WithTune(func(o *pebble.Options) {
		o.MemTableSize = 64 << 10
		o.L0CompactionThreshold, o.L0StopWritesThreshold = 1, 1
	}))
	p := created(t, d, 0)
	want := map[string]sum{}
	for i := range int64(40) {
		apply(t, p, many(2000), i+1)
		want = added(want, many(2000))
		if n := p.DB().Metrics().Levels[0].Sublevels; n > 1 {
			t.Fatalf("%d tables lie one above the other", n)
		}
	}
	holds(t, p, want, 40)
	if p.Stats().Stalls == 0 {
		t.Error("no apply waited")
	}
}

// While a partition catches up its tables gather, and are compacted after the
// flush that follows the end of it. Half of those at which applies wait are
// compacted all the same.
func TestTablesGatherDuringCatchUp(t *testing.T) {
	const most = 16
	disk := vfs.NewMem()
	d := openDir(t, "state", crashOptions(t, disk).WithTune(func(o *pebble.Options) {
		o.MemTableSize = 64 << 10
		o.L0CompactionThreshold, o.L0StopWritesThreshold = 1, most
	}))
	p := created(t, d, 0)
	tables := func() int { return int(p.DB().Metrics().Levels[0].Sublevels) }
	until := func(what string, good func() bool) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); !good(); {
			if time.Now().After(deadline) {
				t.Fatalf("not %s: %d tables lie one above the other", what, tables())
			}
			<-time.After(time.Millisecond)
		}
	}
	want := map[string]sum{}
	var position int64
	more := func() {
		position++
		apply(t, p, many(2000), position)
		want = added(want, many(2000))
	}
	p.CatchUp(true)
	more()
	for n := tables(); n < most/2; n++ {
		if got := tables(); got != n {
			t.Fatalf("%d tables lie one above the other, want %d", got, n)
		}
		more()
	}
	for range most {
		more()
	}
	until("compacted", func() bool { return tables() < most/2 })
	for tables() < most/2-1 {
		more()
	}
	p.CatchUp(false)
	if err := p.Flush(); err != nil {
		t.Fatal(err)
	}
	until("compacted after it", func() bool { return tables() < 4 })
	holds(t, p, want, position)
}

// Tables that had gathered when a state was closed are compacted after the first
// flush of the next who opens it, not before: it is live first. So many that
// applies would soon wait are compacted at once.
func TestOpenedStatesRest(t *testing.T) {
	const most = 16
	for applies, rests := range map[int]bool{2: true, most/2 - 1: true, most / 2: false} {
		t.Run(fmt.Sprint(applies, " applies"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := crashOptions(t, vfs.NewMem()).WithTune(func(o *pebble.Options) {
					o.MemTableSize = 64 << 10
					o.L0CompactionThreshold, o.L0StopWritesThreshold = 2, most
				})
				d := openDir(t, "state", o)
				p := created(t, d, 0)
				want := map[string]sum{}
				p.CatchUp(true)
				for i := range applies {
					apply(t, p, many(2000), int64(i+1))
					want = added(want, many(2000))
				}
				if err := d.Close(); err != nil {
					t.Fatal(err)
				}
				d = openDir(t, "state", o)
				p = openPartition(t, d, 0)
				compacted := func() bool {
					<-time.After(time.Minute)
					return p.DB().Metrics().Compact.Count > 0
				}
				if got := compacted(); got == rests {
					t.Errorf("compacted at once: %t", got)
				}
				if err := p.Flush(); err != nil {
					t.Fatal(err)
				}
				if !compacted() {
					t.Error("not compacted after the flush")
				}
				holds(t, p, want, int64(applies))
				if err := d.Close(); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// A table is compacted after the flush behind it where it holds much of what lies
// beneath; a small one waits for the next, also where the state is closed and opened
// meanwhile.
func TestRipeTablesAreCompacted(t *testing.T) {
	const all, some = 20_000, 3_000 // totals; either are written as a table
	synctest.Test(t, func(t *testing.T) {
		o := crashOptions(t, vfs.NewMem()).WithTune(func(o *pebble.Options) { o.MemTableSize = 64 << 10 })
		d := openDir(t, "state", o)
		p := created(t, d, 0)
		tables := func() int {
			<-time.After(time.Minute)
			return int(p.DB().Metrics().Levels[0].Sublevels)
		}
		want := map[string]sum{}
		for i, c := range []struct{ totals, tables int }{{all, 0}, {all, 0}, {some, 1}, {some, 0}, {some, 1}, {all, 0}, {all, 0}, {some, 1}} {
			apply(t, p, many(c.totals), int64(i+1))
			want = added(want, many(c.totals))
			if err := p.Flush(); err != nil {
				t.Fatal(err)
			}
			if got := tables(); got != c.tables {
				t.Fatalf("flush %d, of %d totals: %d tables lie one above the other, want %d", i+1, c.totals, got, c.tables)
			}
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		d = openDir(t, "state", o)
		p = openPartition(t, d, 0)
		if got := tables(); got != 1 {
			t.Fatalf("opened anew %d tables lie one above the other, want 1", got)
		}
		apply(t, p, many(some), 9)
		want = added(want, many(some))
		if err := p.Flush(); err != nil {
			t.Fatal(err)
		}
		if got := tables(); got != 0 {
			t.Fatalf("with another small one %d tables lie one above the other, want 0", got)
		}
		holds(t, p, want, 9)
	})
}

// What a catch-up has left is compacted to the end though nothing comes any more: a
// flush that finds a compaction under way, and none of its tables left above, does
// not keep the next from beginning.
func TestIdleStatesAreCompactedToTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newHeldTable()
		var watched atomic.Bool
		o := options(t).WithFS(table.over(vfs.NewMem())).WithTune(func(o *pebble.Options) {
			o.MemTableSize, o.LBaseMaxBytes = 64<<10, 64<<10
			for i := range o.TargetFileSizes {
				o.TargetFileSizes[i] = 16 << 10
			}
			ended := o.EventListener.CompactionEnd
			o.EventListener.CompactionEnd = func(info pebble.CompactionInfo) {
				if watched.Load() && len(info.Input) > 0 && info.Input[0].Level == 0 {
					table.armed.Store(true) // for one of those beneath
				}
				ended(info)
			}
		})
		p := created(t, openDir(t, "state", o), 0)
		flush := func() {
			t.Helper()
			if err := p.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		apply(t, p, many(20_000), 1)
		flush()
		<-time.After(time.Minute)
		p.CatchUp(true)
		for i := range int64(6) {
			apply(t, p, many(20_000), 2+i)
		}
		watched.Store(true)
		p.CatchUp(false)
		flush()
		<-table.begun
		watched.Store(false)
		flush()
		close(table.goOn)
		<-time.After(time.Minute)
		for i, level := range p.DB().Metrics().Levels[:6] {
			if level.Score >= 1 {
				t.Errorf("level %d waits for a compaction: %.2f", i, level.Score)
			}
		}
	})
}
