package store

import (
	"errors"
	"fmt"
	"syscall"

	"tidemark/aggregator"
)

var (
	// ErrLocked is returned by Open and Inspect when another process, or
	// another Dir of this one, holds the state directory.
	ErrLocked = errors.New("state directory is in use")
	// ErrNewerFormat is returned for a state that a newer version of this
	// program wrote. The text names both numbers.
	ErrNewerFormat = errors.New("state has a newer format")
	// ErrNoMarker is returned for a directory that holds files but no format
	// marker: it is no state, or half of one. It is never wiped.
	ErrNoMarker = errors.New("missing format marker")
	// ErrCorrupt is returned for a state whose files are damaged.
	ErrCorrupt = aggregator.ErrDamaged
	// ErrExists is returned by Create for a partition that has a state.
	ErrExists = errors.New("state exists already")
	// errOther is returned when a state would be changed that was made by
	// another definition than the program's.
	errOther = fmt.Errorf("the state is of %w", aggregator.ErrOtherDefinition)
	// ErrSeeded is returned by Seed and Guards for a state whose history
	// is in, whole.
	ErrSeeded = errors.New("the history is in the state already")
)

// isFull says whether err comes from a disk without space left.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// size is n bytes for people.
func size(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d B", n)
}
