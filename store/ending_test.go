package store_test

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// A directory is closed at once also while most of a state is being written
// anew: that is given up, leaves nothing behind, and no word of it is logged.
// The partition is in no figures from its own close on.
func TestO03CloseGivesUpCompaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewMem()
		var armed atomic.Bool
		var more atomic.Int64
		begun, goOn := make(chan struct{}), make(chan struct{})
		watched := errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".sst") && armed.Load() {
				if more.Add(1) == 1 {
					close(begun)
					<-goOn
				}
			}
			return nil
		}))
		var log bytes.Buffer
		o := crashOptions(t, watched).WithTune(func(o *pebble.Options) {
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
		armed.Store(true)
		if err := p.Flush(); err != nil {
			t.Fatal(err)
		}
		<-begun
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		if figures := d.Stats(); len(figures) != 0 {
			t.Errorf("of what is being closed there is %+v", figures)
		}
		closed := make(chan error)
		go func() { closed <- d.Close() }()
		synctest.Wait()
		close(goOn)
		if err := <-closed; err != nil {
			t.Fatal(err)
		}
		if n := more.Load(); n != 1 {
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
