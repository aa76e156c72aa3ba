package store_test

import (
	"errors"
	"io/fs"
	"maps"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"tidemark/aggregator"
)

// Below the floor nothing begins, and the error has the numbers; reads go on;
// once there is room again so do applies.
func TestS04BelowTheFloorNothingIsApplied(t *testing.T) {
	disk := vfs.NewMem()
	free := func(bytes uint64) {
		disk.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: bytes, TotalBytes: 1 << 40, UsedBytes: 1<<40 - bytes})
	}
	free(1 << 30)
	o := options(t).WithFS(disk)
	o.MinFree = 4 << 20
	d := openDir(t, "state", o)
	p := created(t, d, 0)
	unseeded, err := d.Create(identity(1), aggregator.Progress{})
	if err != nil {
		t.Fatal(err)
	}
	apply(t, p, map[string]int64{"a": 1}, 1)

	free(3 << 20)
	_, createErr := d.Create(identity(2), aggregator.Progress{})
	for what, err := range map[string]error{
		"apply":  p.Apply(t.Context(), sorted(map[string]int64{"a": 1}), progressAt(2)),
		"seed":   unseeded.Seed(sorted(nil), false),
		"guards": unseeded.Guards(nil),
		"create": createErr,
	} {
		if !errors.Is(err, aggregator.ErrNoSpace) || !strings.Contains(err.Error(), "3.0 MiB is free at state and state.min_free is 4.0 MiB") {
			t.Errorf("%s below the floor: %v", what, err)
		}
	}
	if got, at := contents(t, p); at != 1 || !maps.Equal(got, map[string]sum{"a": {1, 1}}) {
		t.Errorf("below the floor %v at %d", got, at)
	}
	free(4 << 20)
	apply(t, p, map[string]int64{"a": 1}, 2)
}

// fullDisk is a disk that can be full: then writes fail, until the ballast is
// removed where that is what it takes.
type fullDisk struct {
	*vfs.MemFS
	full    atomic.Bool
	logs    atomic.Bool // writes to Pebble's log fail
	tables  bool        // only writes of large applies fail
	ballast atomic.Bool // its removal makes room
	failed  atomic.Int64
}

// full is the error of a write on a full disk.
func full(path string) error { return &fs.PathError{Op: "write", Path: path, Err: syscall.ENOSPC} }

func (f *fullDisk) fs() vfs.FS {
	return removals{errorfs.Wrap(f.MemFS, errorfs.InjectorFunc(func(op errorfs.Op) error {
		switch {
		case f.logs.Load() && strings.HasSuffix(op.Path, ".log") && op.Kind == errorfs.OpFileWrite:
			return full(op.Path)
		case !f.full.Load() || f.tables != strings.HasSuffix(op.Path, ".apply") || !f.tables && !strings.HasSuffix(op.Path, ".sst"):
			return nil
		case op.Kind == errorfs.OpFileWrite || op.Kind == errorfs.OpCreate:
			f.failed.Add(1)
			return full(op.Path)
		}
		return nil
	})), f}
}

type removals struct {
	vfs.FS
	disk *fullDisk
}

func (r removals) Remove(path string) error {
	err := r.FS.Remove(path)
	if strings.HasSuffix(path, "ballast") && err == nil && r.disk.ballast.Load() {
		r.disk.full.Store(false)
	}
	return err
}

// A disk that fills under a flush is reported and not waited for; applies are
// refused meanwhile; reads go on; Pebble's retries do not spin; when there is
// room again all that was applied becomes durable.
func TestS04FullDiskPausesAndResumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &fullDisk{MemFS: vfs.NewMem()}
		d := openDir(t, "state", options(t).WithFS(disk.fs()))
		p := created(t, d, 0)
		apply(t, p, map[string]int64{"a": 1}, 1)
		disk.full.Store(true)
		if err := p.Flush(); !errors.Is(err, aggregator.ErrNoSpace) {
			t.Fatalf("flush on a full disk: %v", err)
		}
		for range 20 { // for as long as it stays full
			<-time.After(time.Second)
			if err := p.Apply(t.Context(), sorted(map[string]int64{"a": 1}), progressAt(2)); !errors.Is(err, aggregator.ErrNoSpace) {
				t.Fatalf("apply on a full disk: %v", err)
			}
			if err := p.Flush(); !errors.Is(err, aggregator.ErrNoSpace) {
				t.Fatalf("flush on a full disk: %v", err)
			}
		}
		if got, at := contents(t, p); at != 1 || !maps.Equal(got, map[string]sum{"a": {1, 1}}) {
			t.Errorf("on a full disk %v at %d", got, at)
		}
		if n := disk.failed.Load(); n > 100 {
			t.Errorf("%d writes failed in 20 s", n)
		}
		if s := p.Stats(); s.Errors == 0 {
			t.Error("no errors are shown")
		}
		disk.full.Store(false)
		<-time.After(5 * time.Second)
		apply(t, p, map[string]int64{"a": 1}, 2)
		if err := p.Flush(); err != nil {
			t.Fatalf("flush with room again: %v", err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// A state is closed on a full disk, at the price of the applies that are not
// durable, and the error says so.
func TestS04ClosesOnAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &fullDisk{MemFS: vfs.NewMem()}
		d := openDir(t, "state", options(t).WithFS(disk.fs()))
		p := created(t, d, 0)
		apply(t, p, map[string]int64{"a": 1}, 1)
		if err := p.Flush(); err != nil {
			t.Fatal(err)
		}
		apply(t, p, map[string]int64{"a": 1}, 2)
		disk.full.Store(true)
		if err := p.Close(); !errors.Is(err, aggregator.ErrNoSpace) {
			t.Errorf("close on a full disk: %v", err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		disk.full.Store(false)
		d = openDir(t, "state", options(t).WithFS(disk.fs()))
		p = openPartition(t, d, 0)
		if got, at := contents(t, p); at != 1 || !maps.Equal(got, map[string]sum{"a": {1, 1}}) {
			t.Errorf("after it %v at %d", got, at)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// The ballast is there while there is room, is given up when the disk is full,
// which lets the write under way succeed, and is made anew when there is room.
func TestS04BallastBuysTheRoomToClose(t *testing.T) {
	disk := &fullDisk{MemFS: vfs.NewMem()}
	disk.ballast.Store(true)
	free := func(bytes uint64) { disk.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: bytes, TotalBytes: 1 << 40}) }
	ballast := func() int64 {
		info, err := disk.Stat("state/ballast")
		if errors.Is(err, fs.ErrNotExist) {
			return 0
		}
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	free(1 << 30)
	o := options(t).WithFS(disk.fs())
	o.MinFree = 8 << 20
	d := openDir(t, "state", o)
	p := created(t, d, 0)
	if got := ballast(); got != 2<<20 {
		t.Errorf("a ballast of %d bytes, want a quarter of the floor", got)
	}
	apply(t, p, map[string]int64{"a": 1}, 1)
	disk.full.Store(true)
	free(0)
	if err := p.Close(); err != nil {
		t.Errorf("close on a full disk with a ballast: %v", err)
	}
	if got := ballast(); got != 0 {
		t.Errorf("a ballast of %d bytes on a full disk", got)
	}
	free(2 << 20)
	p = openPartition(t, d, 0)
	if got, at := contents(t, p); at != 1 || !maps.Equal(got, map[string]sum{"a": {1, 1}}) {
		t.Errorf("after it %v at %d", got, at)
	}
	free(10 << 20)
	apply(t, p, nil, 2)
	if got := ballast(); got != 0 {
		t.Errorf("a ballast of %d bytes with little room", got)
	}
	free(1 << 30)
	apply(t, p, nil, 3)
	if got := ballast(); got != 2<<20 {
		t.Errorf("a ballast of %d bytes with room again", got)
	}
}

// Room for a restore is kept above the floor, for several at once, until each
// has ended.
func TestS04RoomForRestores(t *testing.T) {
	disk := vfs.NewMem()
	free := func(bytes uint64) { disk.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: bytes, TotalBytes: 1 << 40}) }
	free(100 << 20)
	o := options(t).WithFS(disk)
	o.MinFree = 10 << 20
	d := openDir(t, "state", o)
	first, err := d.Room(50 << 20)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Room(40 << 20); !errors.Is(err, aggregator.ErrNoSpace) ||
		!strings.Contains(err.Error(), "100.0 MiB is free at state, 92.0 MiB is to be written and state.min_free is 10.0 MiB") {
		t.Errorf("room for more than there is: %v", err)
	}
	second, err := d.Room(30 << 20)
	if err != nil {
		t.Errorf("room beside another restore: %v", err)
	}
	first()
	second()
	last, err := d.Room(80 << 20)
	if err != nil {
		t.Errorf("room that was freed: %v", err)
	}
	last()
	if _, err := d.Room(90 << 20); !errors.Is(err, aggregator.ErrNoSpace) {
		t.Errorf("room below the floor: %v", err)
	}
}

// On a real disk the free space is found, and a floor above it refuses.
func TestS04RealDisk(t *testing.T) {
	o := options(t)
	o.MinFree = 1 << 60
	d := openDir(t, t.TempDir(), o)
	if _, err := d.Create(identity(0), aggregator.Progress{}); !errors.Is(err, aggregator.ErrNoSpace) {
		t.Errorf("create: %v", err)
	}
	if _, err := d.Open(0); !errors.Is(err, aggregator.ErrNoState) {
		t.Errorf("open: %v", err)
	}
}

// A restart on a full disk says so, as a thing to wait for, and ends nothing;
// a ballast from the life before is given up for it.
func TestS04RestartOnAFullDisk(t *testing.T) {
	for _, ballast := range []bool{false, true} {
		disk := vfs.NewMem()
		free := func(bytes uint64) { disk.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: bytes, TotalBytes: 1 << 40}) }
		free(1 << 30)
		o := options(t).WithFS(disk)
		o.MinFree = 8 << 20
		d := openDir(t, "state", o)
		apply(t, created(t, d, 0), map[string]int64{"a": 1}, 1)
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		if !ballast {
			if err := disk.Remove("state/ballast"); err != nil {
				t.Fatal(err)
			}
		}
		free(0)
		d = openDir(t, "state", o)
		p, err := d.Open(0)
		if !ballast {
			if !errors.Is(err, aggregator.ErrNoSpace) || !strings.Contains(err.Error(), "0 B is free at state") {
				t.Fatalf("open on a full disk: %v", err)
			}
			free(1 << 20) // below the floor, but enough to answer
			p, err = d.Open(0)
		}
		if err != nil {
			t.Fatal(err)
		}
		if got, at := contents(t, p); at != 1 || !maps.Equal(got, map[string]sum{"a": {1, 1}}) {
			t.Errorf("after it %v at %d", got, at)
		}
	}
}

// A disk that is found full only after all was flushed costs nothing.
func TestS04ClosesOnADiskThatFillsAfterTheFlush(t *testing.T) {
	disk := &fullDisk{MemFS: vfs.NewMem()}
	d := openDir(t, "state", options(t).WithFS(disk.fs()))
	p := created(t, d, 0)
	apply(t, p, map[string]int64{"a": 1}, 1)
	disk.logs.Store(true)
	if err := p.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	disk.logs.Store(false)
	p = openPartition(t, d, 0)
	if got, at := contents(t, p); at != 1 || !maps.Equal(got, map[string]sum{"a": {1, 1}}) {
		t.Errorf("after it %v at %d", got, at)
	}
}
