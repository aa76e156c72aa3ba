package store

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"tidemark/aggregator"
)

const (
	// DefaultMemory is the budget for caches and write buffers, in bytes.
	DefaultMemory = 512 << 20
	// DefaultMinFree is the floor of free disk below which nothing is applied,
	// in bytes.
	DefaultMinFree = 256 << 20
	// DefaultLockWait is how long Open waits for a directory in use.
	DefaultLockWait = 10 * time.Second
	// DefaultCloseWait is how long Close waits for reads and applies under way.
	DefaultCloseWait = 10 * time.Second

	// minMemory leaves room for the write buffers of one partition.
	minMemory = 16 << 20
)

// Options are what a Dir depends on. Program and Fatal are required; the zero
// value of each of the others is its default.
type Options struct {
	// Program merges totals and says which definition a state must be of.
	Program *aggregator.Program
	// Fatal is called with one sentence when a state can no longer be trusted
	// in memory: the disk failed under a write that must not fail, or a file
	// is damaged. It ends the process and should not return; a restart replays
	// the log from what is durable. It is called from any goroutine, perhaps
	// several times, under Pebble's locks: it must not call back.
	Fatal func(reason string)

	// Memory, in bytes, is shared by the block cache and the write buffers of
	// all partitions; at least 16 MiB.
	Memory int64
	// MinFree, in bytes, is the free disk below which Apply, Seed and Create
	// return aggregator.ErrNoSpace. Negative is no floor, and no ballast.
	MinFree int64
	// Compactions bounds the compactions that run at once over all partitions.
	// Its default is half of the processors, 1 to 4: what is folded and read
	// beside them has the others.
	Compactions int
	// LockWait is how long Open waits for a directory that is in use.
	LockWait time.Duration
	// CloseWait is how long Close waits for reads and applies under way.
	CloseWait time.Duration
	// Logger is told of slow and failing disks; nil is silent.
	Logger *slog.Logger

	fs    vfs.FS                // set by tests; nil is the operating system's
	codec *codec                // set by tests; nil is Program's
	tune  func(*pebble.Options) // set by tests; nil changes nothing
}

// codec is what of a program the store uses.
type codec struct {
	definition aggregator.Definition
	newTotal   func() total
}

// total is the part of *aggregator.Total that merging needs.
type total interface {
	Reset()
	Merge(encoded []byte) error
	Append(dst []byte) []byte
}

// complete checks o and fills in defaults. Its error lists all that is wrong.
func (o *Options) complete() error {
	var errs []error
	if o.Program == nil && o.codec == nil {
		errs = append(errs, errors.New("Program is required"))
	}
	if o.Fatal == nil {
		errs = append(errs, errors.New("Fatal is required"))
	}
	switch {
	case o.Memory == 0:
		o.Memory = DefaultMemory
	case o.Memory < minMemory:
		errs = append(errs, fmt.Errorf("Memory is %s, at least %s is needed", size(o.Memory), size(minMemory)))
	}
	if o.Compactions < 0 {
		errs = append(errs, fmt.Errorf("Compactions is %d, at least 1 is needed", o.Compactions))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("store options: %w", err)
	}
	if o.MinFree == 0 {
		o.MinFree = DefaultMinFree
	}
	if o.Compactions == 0 {
		o.Compactions = min(max(runtime.GOMAXPROCS(0)/2, 1), 4)
	}
	if o.LockWait == 0 {
		o.LockWait = DefaultLockWait
	}
	if o.CloseWait == 0 {
		o.CloseWait = DefaultCloseWait
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.codec == nil {
		o.codec = &codec{
			definition: o.Program.Definition(),
			newTotal:   func() total { return o.Program.NewTotal() },
		}
	}
	return nil
}
