package store_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"tidemark/aggregator"
	"tidemark/store"
)

// record is what the log of crash tests holds at an offset: pure, so that the
// state at any position can be computed anew.
func record(offset int64) (key string, v int64) {
	r := rand.New(rand.NewPCG(uint64(offset), 9))
	return fmt.Sprintf("key%d", r.IntN(300)), r.Int64N(1000) - 300
}

// seeds are what the history of crash tests holds.
func seeds() map[string]sum {
	all := make(map[string]sum)
	for i := range int64(400) {
		all[fmt.Sprintf("key%d", i)] = sum{i, 1}
	}
	return all
}

// fold adds the records [from, to) to totals.
func fold(totals map[string]sum, from, to int64) map[string]sum {
	for offset := from; offset < to; offset++ {
		key, v := record(offset)
		s := totals[key]
		totals[key] = sum{s.sum + v, s.count + 1}
	}
	return totals
}

func progressAt(position int64) aggregator.Progress {
	p := aggregator.Progress{Seeded: true, Documents: 400, Position: position, Epoch: position / 100}
	p.Counts.Results[aggregator.Folded] = position
	return p
}

// crashOptions make small tables, so that flushes and compactions are many.
func crashOptions(t testing.TB, fs vfs.FS) store.Options {
	return options(t).WithFS(fs).WithTune(func(o *pebble.Options) {
		o.MemTableSize = 64 << 10
		o.L0CompactionThreshold = 2
		o.LBaseMaxBytes = 64 << 10
		for i := range o.TargetFileSizes {
			o.TargetFileSizes[i] = 16 << 10
		}
	})
}

// cuttable is a disk that CrashClone may be called on beside any operation.
// MemFS.Link takes the lock twice that CrashClone waits for, and both wait for
// ever where that comes between.
type cuttable struct {
	*vfs.MemFS
	links sync.Mutex
}

func (c *cuttable) Link(from, to string) error {
	c.links.Lock()
	defer c.links.Unlock()
	return c.MemFS.Link(from, to)
}

func (c *cuttable) CrashClone(cfg vfs.CrashCloneCfg) *vfs.MemFS {
	c.links.Lock()
	defer c.links.Unlock()
	return c.MemFS.CrashClone(cfg)
}

// writer applies the deltas up to next.Position.
type writer func(p *store.Partition, deltas map[string]sum, next aggregator.Progress) error

func wholeApply(p *store.Partition, deltas map[string]sum, next aggregator.Progress) error {
	return p.Apply(context.Background(), sortedSums(deltas), next)
}

// tornApply writes the totals, and then the position: what must not be done.
func tornApply(p *store.Partition, deltas map[string]sum, next aggregator.Progress) error {
	for key, total := range sortedSums(deltas) {
		if err := p.MergeRaw(append([]byte("k/"), key...), total); err != nil {
			return err
		}
	}
	return p.Apply(context.Background(), sorted(nil), next)
}

// wereTables says whether an apply of a life was large enough for a table.
var wereTables atomic.Bool

// life opens the state on a disk and lets write run until a crash at a random
// moment. It returns the disk as the crash leaves it, and the position that was
// durable before.
func life(t *testing.T, from *vfs.MemFS, rng *rand.Rand, survives int, write writer) (*vfs.MemFS, int64) {
	t.Helper()
	disk := &cuttable{MemFS: from}
	d := openDir(t, "state", crashOptions(t, disk))
	p := openPartition(t, d, 0)
	start := p.Progress().Position
	crashAt := start + rng.Int64N(6000)
	dice := rand.New(rand.NewPCG(rng.Uint64(), 1))
	var stop atomic.Bool
	var durable atomic.Int64
	durable.Store(start)
	reached := make(chan struct{})
	reach := sync.OnceFunc(func() { close(reached) })
	var applying sync.WaitGroup
	applying.Go(func() {
		defer reach()
		for from := start; !stop.Load(); {
			next := from + 1 + dice.Int64N(400)
			if dice.IntN(10) == 0 {
				next += 4000 // a batch that is a table by itself
			}
			if err := write(p, fold(make(map[string]sum), from, next), progressAt(next)); err != nil {
				t.Error(err)
				return
			}
			if dice.IntN(8) == 0 {
				if err := p.Flush(); err != nil {
					t.Error(err)
					return
				}
				durable.Store(next)
			}
			if p.DB().Metrics().Ingest.Count > 0 {
				wereTables.Store(true)
			}
			if from = next; from > crashAt {
				reach()
			}
		}
	})
	<-reached
	flushed := durable.Load()
	crashed := disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: survives, RNG: rng})
	stop.Store(true)
	applying.Wait()
	return crashed, flushed
}

// verdict says what is wrong with the state on a disk after a crash: it must be
// the straight fold up to its own position, which is at least durable.
func verdict(t *testing.T, disk *vfs.MemFS, durable int64) error {
	t.Helper()
	d := openDir(t, "state", crashOptions(t, disk))
	p := openPartition(t, d, 0)
	got, position := contents(t, p)
	want := fold(seeds(), 0, position)
	switch {
	case position < durable:
		return fmt.Errorf("position %d, though %d was flushed", position, durable)
	case p.Progress() != progressAt(position):
		return fmt.Errorf("progress %+v, want %+v", p.Progress(), progressAt(position))
	case !reflect.DeepEqual(p.Identity(), identity(0)):
		return fmt.Errorf("identity %+v", p.Identity())
	case !maps.Equal(got, want):
		return fmt.Errorf("the totals are not the fold up to %d", position)
	}
	if keys := p.Keys(); keys < 390 || keys > 410 {
		return fmt.Errorf("%d keys, want about 400", keys)
	}
	if err := p.DB().CheckLevels(nil); err != nil {
		return err
	}
	return errors.Join(p.Close(), d.Close())
}

// seeded makes a state that holds the seeds.
func seeded(t *testing.T, disk vfs.FS) {
	t.Helper()
	d := openDir(t, "state", crashOptions(t, disk))
	p, err := d.Create(identity(0), aggregator.Progress{})
	if err := errors.Join(err, p.Seed(sortedSums(seeds()), false), p.Apply(t.Context(), sorted(nil), progressAt(0)), d.Close()); err != nil {
		t.Fatal(err)
	}
}

// Whenever the power goes, the state is afterwards the fold of a prefix of the
// applies, with its position, and what was flushed is in it.
func TestS16PowerCutsKeepWholeApplies(t *testing.T) {
	for _, survives := range []int{0, 50, 100} {
		t.Run(fmt.Sprintf("%d%% of unsynced data survives", survives), func(t *testing.T) {
			wereTables.Store(false)
			rng := rand.New(rand.NewPCG(16, uint64(survives)))
			disk := vfs.NewCrashableMem()
			seeded(t, disk)
			advanced := 0
			for range 8 {
				crashed, durable := life(t, disk, rng, survives, wholeApply)
				if t.Failed() {
					return
				}
				if err := verdict(t, crashed, durable); err != nil {
					t.Fatal(err)
				}
				if durable > 0 {
					advanced++
				}
				disk = crashed
			}
			if advanced == 0 {
				t.Error("no life got anywhere")
			}
			if !wereTables.Load() {
				t.Error("no apply was a table")
			}
		})
	}
}

// The check of TestS16PowerCutsKeepWholeApplies finds a writer that stores
// totals and position apart.
func TestS16TornAppliesAreFound(t *testing.T) {
	rng := rand.New(rand.NewPCG(16, 99))
	for try := range 40 {
		disk := vfs.NewCrashableMem()
		seeded(t, disk)
		crashed, _ := life(t, disk, rng, 50, tornApply)
		if t.Failed() {
			return
		}
		if err := verdict(t, crashed, 0); err != nil {
			t.Logf("crash %d: %v", try+1, err)
			return
		}
	}
	t.Error("40 crashes of a writer that tears applies, and none was found")
}

// When a manifest marker is made or removed, a power cut at that moment leaves a
// manifest that the marker left there names: opening, closing, and each
// roll-over of a manifest keeps to it.
func TestS16MarkerNamesADurableManifest(t *testing.T) {
	disk := &cuttable{MemFS: vfs.NewCrashableMem()}
	moves := 0
	var mu sync.Mutex // Pebble writes from several goroutines
	watched := errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		name := disk.PathBase(op.Path)
		if !strings.HasPrefix(name, "marker.manifest.") || (op.Kind != errorfs.OpCreate && op.Kind != errorfs.OpRemove) {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		moves++
		dir := disk.PathDir(op.Path)
		crashed := disk.CrashClone(vfs.CrashCloneCfg{})
		names, err := crashed.List(dir)
		if err != nil {
			t.Error(err)
		}
		if op.Kind == errorfs.OpCreate { // it may survive from here on
			names = append(names, name)
		} else { // and this one may not
			names = slices.DeleteFunc(names, func(n string) bool { return n == name })
		}
		newest := ""
		for _, n := range names {
			if strings.HasPrefix(n, "marker.manifest.") {
				newest = max(newest, n)
			}
		}
		if manifest := newest[strings.LastIndex(newest, ".")+1:]; !slices.Contains(names, manifest) {
			t.Errorf("operation %d on %s: a crash leaves %v", op.Kind, name, names)
		}
		return nil
	}))
	o := options(t).WithFS(watched).WithTune(func(o *pebble.Options) { o.MaxManifestFileSize = 1 })
	for range 2 {
		d := openDir(t, "state", o)
		p, err := d.Open(0)
		if errors.Is(err, aggregator.ErrNoState) {
			p, err = d.Create(identity(0), aggregator.Progress{Seeded: true})
		}
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			next := p.Progress()
			next.Position++
			if err := errors.Join(p.Apply(t.Context(), sorted(map[string]int64{"a": 1}), next), p.Flush()); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if moves < 12 {
		t.Errorf("only %d moves of markers were seen", moves)
	}
}

// everyStep runs f on a disk, and then for each of its operations on a disk that
// crashed just before it.
func everyStep(t *testing.T, prepare func(disk vfs.FS), f func(disk vfs.FS), after func(step int, disk *vfs.MemFS)) {
	t.Helper()
	disk := &cuttable{MemFS: vfs.NewCrashableMem()}
	prepare(disk)
	rng := rand.New(rand.NewPCG(4, 4))
	var crashed []*vfs.MemFS
	var mu sync.Mutex // Pebble writes from several goroutines
	f(errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			for _, survives := range []int{0, 50} {
				crashed = append(crashed, disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: survives, RNG: rng}))
			}
		}
		return nil
	})))
	if len(crashed) < 10 {
		t.Fatalf("only %d crashes", len(crashed))
	}
	for step, disk := range crashed {
		after(step, disk)
	}
}

// A crash at any step of Create leaves a whole state or none, and Create
// succeeds afterwards.
func TestS16CreateIsAtomic(t *testing.T) {
	start := aggregator.Progress{Position: 7, Epoch: 1}
	none, whole := 0, 0
	everyStep(t, func(vfs.FS) {}, func(disk vfs.FS) {
		d := openDir(t, "state", options(t).WithFS(disk))
		if _, err := d.Create(identity(0), start); err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}, func(step int, disk *vfs.MemFS) {
		d := openDir(t, "state", options(t).WithFS(disk))
		s, err := d.Open(0)
		if errors.Is(err, aggregator.ErrNoState) {
			none++
			s, err = d.Create(identity(0), start)
		} else {
			whole++
		}
		if err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
		if s.Progress() != start || !reflect.DeepEqual(s.Identity(), identity(0)) {
			t.Errorf("step %d: %+v, %+v", step, s.Progress(), s.Identity())
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	})
	if none == 0 || whole == 0 {
		t.Errorf("%d crashes left no state, %d a whole one", none, whole)
	}
}
