package store_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
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

// heldTable lets the first table that is begun once it is armed wait, as one of a
// compaction that takes its time.
type heldTable struct {
	armed       atomic.Bool
	n           atomic.Int64  // tables begun since
	begun, goOn chan struct{} // closed when it waits, and to let it go on
}

func newHeldTable() *heldTable {
	return &heldTable{begun: make(chan struct{}), goOn: make(chan struct{})}
}

// over is the disk with it.
func (h *heldTable) over(disk vfs.FS) vfs.FS {
	return errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".sst") && h.armed.Load() && h.n.Add(1) == 1 {
			close(h.begun)
			<-h.goOn
		}
		return nil
	}))
}

// A directory is closed at once also while most of a state is being written
// anew: that is given up, leaves nothing behind, and no word of it is logged.
// The partition is in no figures from its own close on.
func TestO03CloseGivesUpCompaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewMem()
		table := newHeldTable()
		var log bytes.Buffer
		o := crashOptions(t, table.over(disk)).WithTune(func(o *pebble.Options) {
			o.MemTableSize = 64 << 10
			o.L0CompactionThreshold = 2
			o.LBaseMaxBytes = 64 << 10
			for i := range o.TargetFileSizes {
				o.TargetFileSizes[i] = 1 << 10
			}
		})
		o.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelInfo}))
		d := openDir(t, "state", o)
		p := created(t, d, 0)
		want := map[string]sum{}
		p.CatchUp(true)
		for i := range int64(3) {
			apply(t, p, many(2000), i+1)
			want = added(want, many(2000))
		}
		if err := p.Flush(); err != nil {
			t.Fatal(err)
		}
		tables := func() (n int) {
			names, err := disk.List("state/partitions/0")
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range names {
				if strings.HasSuffix(name, ".sst") {
					n++
				}
			}
			return n
		}
		were := tables()
		p.CatchUp(false)
		table.armed.Store(true)
		if err := p.Flush(); err != nil {
			t.Fatal(err)
		}
		<-table.begun
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		if figures := d.Stats(); len(figures) != 0 {
			t.Errorf("of what is being closed there is %+v", figures)
		}
		closed := make(chan error)
		go func() { closed <- d.Close() }()
		synctest.Wait()
		close(table.goOn)
		if err := <-closed; err != nil {
			t.Fatal(err)
		}
		if n := table.n.Load(); n != 1 {
			t.Errorf("%d tables were begun after the close, want that in hand alone", n)
		}
		if n := tables(); n != were {
			t.Errorf("%d tables are there, %d before the compaction", n, were)
		}
		if text := log.String(); text != "" {
			t.Errorf("it is logged: %s", text)
		}
		d = openDir(t, "state", crashOptions(t, disk))
		holds(t, openPartition(t, d, 0), want, 3)
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// A partition is let go of while a compaction is under way. Who opens it again
// here waits for the end of that.
func TestCloseDoesNotWaitForCompaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newHeldTable()
		d := openDir(t, "state", crashOptions(t, table.over(vfs.NewMem())))
		p := created(t, d, 0)
		want := map[string]sum{}
		p.CatchUp(true)
		for i := range int64(3) {
			apply(t, p, many(2000), i+1)
			want = added(want, many(2000))
		}
		p.CatchUp(false)
		table.armed.Store(true)
		if err := p.Flush(); err != nil {
			t.Fatal(err)
		}
		<-table.begun
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := p.View(); !errors.Is(err, aggregator.ErrClosing) {
			t.Errorf("a view after it: %v", err)
		}
		again := make(chan *store.Partition)
		go func() { again <- openPartition(t, d, 0) }()
		synctest.Wait()
		select {
		case <-again:
			t.Fatal("it was opened while it was being closed")
		default:
		}
		close(table.goOn)
		p = <-again
		holds(t, p, want, 3)
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// A directory may be closed by several at once: all come back when it is.
func TestDirIsClosedByManyAtOnce(t *testing.T) {
	for range 20 {
		disk := vfs.NewMem()
		d := openDir(t, "state", crashOptions(t, disk))
		apply(t, created(t, d, 0), many(3), 1)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				if err := d.Close(); err != nil {
					t.Error(err)
				}
				if _, err := disk.Stat("state/holder"); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("it is still locked: %v", err)
				}
			})
		}
		all.Wait()
	}
}

// An apply that waits for compaction, or a large one that is being written, when
// nobody wants it any more is given up, with nothing changed and no file left.
func TestO03AppliesAreGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewMem()
		table := newHeldTable()
		d := openDir(t, "state", crashOptions(t, table.over(disk)).WithTune(func(o *pebble.Options) {
			o.MemTableSize = 64 << 10
			o.L0CompactionThreshold, o.L0StopWritesThreshold = 1, 1
		}))
		p := created(t, d, 0)
		apply(t, p, many(2000), 1)
		<-time.After(time.Second) // compacted
		table.armed.Store(true)
		apply(t, p, many(2000), 2)
		<-table.begun
		want := added(added(map[string]sum{}, many(2000)), many(2000))
		var ctx context.Context
		for _, n := range []int{2000, 1} {
			var cancel context.CancelFunc
			ctx, cancel = context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- p.Apply(ctx, sorted(many(n)), progressAt(3)) }()
			synctest.Wait()
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("an apply of %d that waited: %v", n, err)
			}
			holds(t, p, want, 2)
		}
		close(table.goOn)
		<-time.After(time.Second)
		if err := p.Apply(ctx, sorted(many(10_000)), progressAt(3)); !errors.Is(err, context.Canceled) {
			t.Errorf("an apply that was being written: %v", err)
		}
		holds(t, p, want, 2)
		if _, err := disk.Stat("state/partitions/0.apply"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a table was left: %v", err)
		}
		apply(t, p, many(10_000), 3)
		holds(t, p, added(want, many(10_000)), 3)
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
