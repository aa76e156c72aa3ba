package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tidemark/aggregator"
	"tidemark/store"
)

// smallDisk is a disk with room for so many bytes of tables.
type smallDisk struct {
	*vfs.MemFS
	room int64
}

// tables are the bytes that the tables of a partition take, whoever keeps them.
func (d *smallDisk) tables(path string) (bytes int64) {
	names, err := d.List(path)
	if err != nil {
		return 0 // it is not there yet
	}
	for _, name := range names {
		at := d.PathJoin(path, name)
		info, err := d.Stat(at)
		switch {
		case err != nil: // it has gone meanwhile
		case info.IsDir():
			bytes += d.tables(at)
		case strings.HasSuffix(name, ".sst"):
			bytes += info.Size()
		}
	}
	return bytes
}

func (d *smallDisk) GetDiskUsage(string) (vfs.DiskUsage, error) {
	free := uint64(max(0, d.room-d.tables("state")))
	return vfs.DiskUsage{AvailBytes: free, TotalBytes: uint64(d.room), UsedBytes: uint64(d.room) - free}, nil
}

// onSmallDisk opens a partition with rounds tables of the same 3,000 keys.
func onSmallDisk(t *testing.T, rounds int64, catchUp bool) (*smallDisk, *store.Partition, map[string]int64) {
	disk := &smallDisk{MemFS: vfs.NewMem(), room: 1 << 30}
	o := options(t).WithFS(disk)
	o.MinFree = 1 << 20
	d := openDir(t, "state", o)
	p := created(t, d, 0)
	p.CatchUp(catchUp)
	deltas := make(map[string]int64)
	for k := range 3000 {
		deltas[fmt.Sprintf("key%06d", k)] = 1
	}
	for n := range rounds {
		apply(t, p, deltas, n+1)
		if err := p.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	return disk, p, deltas
}

// ask reads a key, and leaves a cursor behind.
func ask(t *testing.T, p *store.Partition) {
	t.Helper()
	if _, ok, err := read(p, nil, []byte("key000001")); !ok || err != nil {
		t.Fatalf("a key is read as %v, %v", ok, err)
	}
}

// Reads do not keep the tables that compaction has replaced: nothing else may come
// that would let go of them, where the partition waits for room.
func TestS04S05ReadsKeepNoTables(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, p, _ := onSmallDisk(t, 3, false)
		full := disk.tables("state")
		ask(t, p)
		if err := p.Compact(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			ask(t, p)
			synctest.Wait()
		}
		if now := disk.tables("state"); now > full/2 {
			t.Errorf("the tables take %d bytes, before compaction they took %d", now, full)
		}
	})
}

// Tables gather no longer where there is too little space: merged they take less.
func TestS04NoTablesGatherWithoutSpace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, p, deltas := onSmallDisk(t, 20, true)
		full := disk.tables("state")
		disk.room = full + 1<<20 - 1 // just below the floor
		ask(t, p)
		again := func() error { return p.Apply(t.Context(), sorted(deltas), progressAt(21)) }
		if err := again(); !errors.Is(err, aggregator.ErrNoSpace) {
			t.Fatalf("an apply below the floor: %v", err)
		}
		<-time.After(time.Second) // who waits for space tries again each second
		if err := again(); err != nil {
			t.Errorf("a second later: %v; %d bytes of tables of %d", err, disk.tables("state"), full)
		}
	})
}
