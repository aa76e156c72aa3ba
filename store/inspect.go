package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"tidemark/aggregator"
)

// Inspection is what a state directory holds.
type Inspection struct {
	Path       string
	Partitions []PartitionInfo // by number
}

// PartitionInfo is what one partition's state holds.
type PartitionInfo struct {
	Path     string
	Err      error // why the rest is missing, nil where it is not
	Format   int
	Identity aggregator.Identity
	Progress aggregator.Progress
	Keys     int64 // counted
	Guards   int64 // counted
	Bytes    int64 // of its files
}

// Inspect looks at a state directory, or at the directory of one partition
// (also a checkpoint), and writes nothing. Every key is read, so it takes about
// a second for two million. A directory in use is ErrLocked, with the likely
// holder; one that holds no state is aggregator.ErrNoState. A partition that
// cannot be read has an Err and does not keep the others from being read.
func Inspect(dir string) (*Inspection, error) {
	l := layout{vfs.Default, dir}
	names, err := l.fs.List(dir)
	if err != nil {
		return nil, fmt.Errorf("inspect %s: %w", dir, err)
	}
	unlock, err := holdOff(l)
	if err != nil {
		return nil, err
	}
	defer unlock.Close()
	in := &Inspection{Path: dir}
	numbers, err := l.numbers()
	switch {
	case err == nil:
		for _, n := range numbers {
			in.Partitions = append(in.Partitions, inspectPartition(l.fs, l.partition(n)))
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("inspect %s: %w", dir, err)
	case len(names) > 0 && probe(l.fs, dir) != ErrNoMarker:
		in.Partitions = []PartitionInfo{inspectPartition(l.fs, dir)}
	default:
		return nil, fmt.Errorf("inspect %s: %w", dir, aggregator.ErrNoState)
	}
	return in, nil
}

// holdOff keeps a service from opening dir, or the state directory that the
// partition's directory dir is in, until the closer is closed.
func holdOff(l layout) (io.Closer, error) {
	roots := []string{l.root}
	if abs, err := filepath.Abs(l.root); err == nil && filepath.Base(filepath.Dir(abs)) == partitionsName {
		roots = append(roots, filepath.Dir(filepath.Dir(abs)))
	}
	var held closers
	for _, root := range roots {
		of := layout{l.fs, root}
		c, err := lockFileShared(of.lock())
		switch {
		case err == nil:
			held = append(held, c)
		case errors.Is(err, errBusy):
			return nil, errors.Join(of.inUse(), held.Close())
		case !errors.Is(err, fs.ErrNotExist):
			return nil, errors.Join(fmt.Errorf("lock %s: %w", of.lock(), err), held.Close())
		}
	}
	return held, nil
}

type closers []io.Closer

func (c closers) Close() error {
	var errs []error
	for _, one := range c {
		errs = append(errs, one.Close())
	}
	return errors.Join(errs...)
}

func inspectPartition(disk vfs.FS, path string) PartitionInfo {
	info := PartitionInfo{Path: path}
	if err := info.read(disk); err != nil {
		info.Err = fmt.Errorf("read the state in %s: %w", path, err)
	}
	return info
}

func (info *PartitionInfo) read(disk vfs.FS) (err error) {
	names, err := disk.List(info.Path)
	if err != nil {
		return err
	}
	for _, name := range names {
		stat, err := disk.Stat(disk.PathJoin(info.Path, name))
		if err != nil {
			return err
		}
		info.Bytes += stat.Size()
	}
	if err := probe(disk, info.Path); err != nil {
		return err
	}
	db, err := pebble.Open(info.Path, readOnlyOptions(disk))
	if err != nil {
		return notOpened(err)
	}
	defer func() { err = errors.Join(err, damaged(db.Close())) }()
	s, err := readState(db)
	if err != nil {
		return err
	}
	info.Format, info.Identity, info.Progress = s.Format, s.Identity, s.Progress
	if info.Keys, err = countKeys(db, totalPrefix, totalEnd); err != nil {
		return err
	}
	info.Guards, err = countKeys(db, guardPrefix, guardEnd)
	return err
}

func countKeys(db *pebble.DB, from, to []byte) (n int64, err error) {
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
	if err != nil {
		return 0, damaged(err)
	}
	for ok := it.First(); ok; ok = it.Next() {
		n++
	}
	return n, damaged(it.Close())
}

// readOnlyFS refuses all that would change a file, and locks nothing: holdOff
// has done it.
type readOnlyFS struct{ vfs.FS }

func refuse(op, path string) error { return &fs.PathError{Op: op, Path: path, Err: os.ErrPermission} }

func (readOnlyFS) Lock(string) (io.Closer, error) { return closers(nil), nil }
func (readOnlyFS) Create(name string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, refuse("create", name)
}
func (readOnlyFS) OpenReadWrite(name string, _ vfs.DiskWriteCategory, _ ...vfs.OpenOption) (vfs.File, error) {
	return nil, refuse("open for writing", name)
}
func (readOnlyFS) ReuseForWrite(old, name string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, refuse("reuse", name)
}
func (readOnlyFS) Link(_, name string) error                 { return refuse("link", name) }
func (readOnlyFS) Remove(name string) error                  { return refuse("remove", name) }
func (readOnlyFS) RemoveAll(name string) error               { return refuse("remove", name) }
func (readOnlyFS) Rename(_, name string) error               { return refuse("rename", name) }
func (readOnlyFS) MkdirAll(name string, _ os.FileMode) error { return refuse("mkdir", name) }
