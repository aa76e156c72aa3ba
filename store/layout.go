package store

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// The names in a state directory; FORMAT.md says what each is.
const (
	partitionsName  = "partitions"
	restoresName    = "restores"
	checkpointsName = "checkpoints"
	lockName        = "LOCK"
	holderName      = "holder"
	ballastName     = "ballast"

	// A partition's directory that is being made or removed has one of these
	// behind its number. What they hold is no state.
	makingSuffix   = ".new"
	removingSuffix = ".drop"
	// The file with this behind the number is an apply that is being written.
	tableSuffix = ".apply"
)

// layout is a state directory's paths.
type layout struct {
	fs   vfs.FS
	root string
}

func (l layout) partitions() string { return l.fs.PathJoin(l.root, partitionsName) }
func (l layout) lock() string       { return l.fs.PathJoin(l.root, lockName) }
func (l layout) holder() string     { return l.fs.PathJoin(l.root, holderName) }

func (l layout) checkpoints() string { return l.fs.PathJoin(l.root, checkpointsName) }

func (l layout) partition(n int32) string  { return l.of(n, l.partitions()) }
func (l layout) restore(n int32) string    { return l.of(n, l.fs.PathJoin(l.root, restoresName)) }
func (l layout) checkpoint(n int32) string { return l.of(n, l.checkpoints()) }

// of is the directory of partition n in dir.
func (l layout) of(n int32, dir string) string { return l.fs.PathJoin(dir, strconv.Itoa(int(n))) }

// make makes the directories that are missing, durable on return.
func (l layout) make() error {
	var parents []string // of those that are made
	for path := l.partitions(); ; path = l.fs.PathDir(path) {
		_, err := l.fs.Stat(path)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		parents = append(parents, l.fs.PathDir(path))
	}
	if err := l.fs.MkdirAll(l.partitions(), 0o755); err != nil {
		return err
	}
	for _, parent := range parents {
		if err := l.sync(parent); err != nil {
			return err
		}
	}
	return nil
}

// sync makes durable which names dir holds.
func (l layout) sync(dir string) error {
	d, err := l.fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// tidy removes what an interrupted Create, Install, Apply or snapshot has left,
// and returns the paths.
func (l layout) tidy() (removed []string, err error) {
	unfinished := func(name string) bool {
		number, suffix, found := strings.Cut(name, ".")
		_, valid := parseNumber(number)
		return found && valid && slices.Contains([]string{makingSuffix, removingSuffix, tableSuffix}, "."+suffix)
	}
	checkpoint := func(name string) bool {
		_, valid := parseNumber(name)
		return valid
	}
	removed, err = l.clear(l.partitions(), unfinished)
	if err != nil {
		return removed, err
	}
	more, err := l.clear(l.checkpoints(), checkpoint)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return append(removed, more...), err
}

// clear removes what is left over in dir, durable on return,
// and returns their paths.
func (l layout) clear(dir string, left func(name string) bool) (removed []string, err error) {
	names, err := l.fs.List(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if !left(name) {
			continue
		}
		path := l.fs.PathJoin(dir, name)
		if err := l.fs.RemoveAll(path); err != nil {
			return removed, fmt.Errorf("remove the unfinished %s: %w", path, err)
		}
		removed = append(removed, path)
	}
	if removed == nil {
		return nil, nil
	}
	return removed, l.sync(dir)
}

// retire takes the partition's state, where there is one, out of its place, so
// that it is a state no more; durable on return. bury removes it.
func (l layout) retire(n int32) (was bool, err error) {
	path := l.partition(n)
	removing := path + removingSuffix
	if err := l.fs.RemoveAll(removing); err != nil { // of a removal that failed
		return false, err
	}
	if err := l.fs.Rename(path, removing); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return false, err
	}
	return true, l.sync(l.partitions())
}

// reinstate takes back what retire did.
func (l layout) reinstate(n int32) error {
	path := l.partition(n)
	err := l.fs.Rename(path+removingSuffix, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, l.sync(l.partitions()))
}

// bury removes what was retired.
func (l layout) bury(n int32) error {
	return errors.Join(l.fs.RemoveAll(l.partition(n)+removingSuffix), l.sync(l.partitions()))
}

// numbers lists the partitions that have a directory, in order.
func (l layout) numbers() ([]int32, error) {
	names, err := l.fs.List(l.partitions())
	if err != nil {
		return nil, err
	}
	var numbers []int32
	for _, name := range names {
		// 007 is not the folder of partition 7.
		if n, ok := parseNumber(name); ok && n <= 1<<31-1 && strconv.FormatInt(n, 10) == name {
			numbers = append(numbers, int32(n))
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// has says whether the partition's directory is there with files in it.
func (l layout) has(n int32) (bool, error) { return hasFiles(l.fs, l.partition(n)) }

// hasFiles says whether dir is there with files in it.
func hasFiles(disk vfs.FS, dir string) (bool, error) {
	names, err := disk.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return len(names) > 0, err
}

// parseNumber reads a plain decimal number without a sign; leading zeros are
// allowed.
func parseNumber(s string) (int64, bool) {
	n, err := strconv.ParseUint(s, 10, 63)
	return int64(n), err == nil
}
