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
	partitionsName = "partitions"
	lockName       = "LOCK"
	holderName     = "holder"
	ballastName    = "ballast"

	// A partition's directory that is being made or removed has one of these
	// behind its number. What they hold is no state.
	makingSuffix   = ".new"
	removingSuffix = ".drop"
)

// layout is a state directory's paths.
type layout struct {
	fs   vfs.FS
	root string
}

func (l layout) partitions() string { return l.fs.PathJoin(l.root, partitionsName) }
func (l layout) lock() string       { return l.fs.PathJoin(l.root, lockName) }
func (l layout) holder() string     { return l.fs.PathJoin(l.root, holderName) }

func (l layout) partition(n int32) string {
	return l.fs.PathJoin(l.partitions(), strconv.Itoa(int(n)))
}

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

// tidy removes what an interrupted Create or Drop has left, and returns the
// paths.
func (l layout) tidy() (removed []string, err error) {
	names, err := l.fs.List(l.partitions())
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		number, found := strings.CutSuffix(name, makingSuffix)
		if !found {
			number, found = strings.CutSuffix(name, removingSuffix)
		}
		if _, valid := parseNumber(number); !found || !valid {
			continue
		}
		path := l.fs.PathJoin(l.partitions(), name)
		if err := l.fs.RemoveAll(path); err != nil {
			return removed, fmt.Errorf("remove the unfinished %s: %w", path, err)
		}
		removed = append(removed, path)
	}
	if removed == nil {
		return nil, nil
	}
	return removed, l.sync(l.partitions())
}

// numbers lists the partitions that have a directory, in order.
func (l layout) numbers() ([]int32, error) {
	names, err := l.fs.List(l.partitions())
	if err != nil {
		return nil, err
	}
	var numbers []int32
	for _, name := range names {
		if n, ok := parseNumber(name); ok && n <= 1<<31-1 {
			numbers = append(numbers, int32(n))
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// has says whether the partition's directory is there with files in it.
func (l layout) has(n int32) (bool, error) {
	names, err := l.fs.List(l.partition(n))
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
