package snapshot

import (
	"log/slog"
	"time"

	"tidemark/aggregator"
	"tidemark/internal/crashpoint"
)

// Defaults of Options.
const (
	DefaultTransfers = 4
	DefaultSettle    = 15 * time.Second
)

// Options tune a Store. The zero value works.
type Options struct {
	Logger   *slog.Logger // default: discards
	Observer Observer     // nil: nobody is told
	// Inspect opens a checkpoint, read-only, and says what it holds; a
	// snapshot is published only if it succeeds. Nil: the state that the
	// publisher was given is believed, and nothing may be applied during a
	// publish until the checkpoint is made.
	Inspect func(dir string) (State, error)
	// Format is the highest format of states that this program reads; a
	// snapshot above it is not restored. 0: any.
	Format int
	// Transfers bounds how many objects move at the same time, over all
	// partitions. Each takes up to 16 MiB of memory.
	Transfers int
	// Settle is how long an object that must be there is asked for when it is
	// not found.
	Settle time.Duration
	// Clock is the time of day; only ages of objects and times of creation
	// come from it.
	Clock func() time.Time

	// patience is how long a request that moves little, or a transfer in which
	// nothing comes, is waited for. For tests; else callTimeout.
	patience time.Duration
	// step, where not nil, is called before each step of a publish, a restore
	// or a clean-up; an error ends it there, as a crash would. For tests; by
	// default the names are those of package crashpoint.
	step func(name string) error
}

func (o *Options) complete() {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Observer == nil {
		o.Observer = nobody{}
	}
	if o.Transfers <= 0 {
		o.Transfers = DefaultTransfers
	}
	if o.Settle <= 0 {
		o.Settle = DefaultSettle
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.patience <= 0 {
		o.patience = callTimeout
	}
	if o.step == nil {
		o.step = func(name string) error {
			crashpoint.Hit(name)
			return nil
		}
	}
}

// Observer is told what was moved, for metrics. Calls come from many
// goroutines.
type Observer interface {
	// Published: a snapshot was published; bytes were uploaded for it.
	Published(bytes int64, seconds float64)
	// Restored: a snapshot was restored; bytes were downloaded for it.
	Restored(bytes int64, seconds float64)
}

type nobody struct{}

func (nobody) Published(int64, float64) {}
func (nobody) Restored(int64, float64)  {}

// State is what a copy of a partition's state holds.
type State struct {
	Identity aggregator.Identity
	Progress aggregator.Progress
	Format   int // of the state on disk
}

// Checkpointer makes copies of the state of a partition. *store.Partition is
// one.
type Checkpointer interface {
	// Checkpoint flushes and makes, at dir, which does not exist, a copy of
	// the state: plain files, which do not change while they are there.
	Checkpoint(dir string) error
}
