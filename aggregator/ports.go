package aggregator

import (
	"context"
	"errors"
	"iter"
	"time"

	"tidemark/event"
)

// What a task decides on.
var (
	// ErrOutOfRange: the offset asked for is below the log start or above the end.
	ErrOutOfRange = errors.New("offset out of range")
	// ErrNoSpace: less free disk than the floor, before or after what was asked
	// for, which did not begin; or the disk is full.
	ErrNoSpace = errors.New("no space left")
	// ErrNoState: there is no state of the partition here.
	ErrNoState = errors.New("no state")
	// ErrDamaged: the files of a state are damaged.
	ErrDamaged = errors.New("state is damaged")
	// ErrNoSnapshot: there is no snapshot of the partition that could be taken.
	ErrNoSnapshot = errors.New("no snapshot")
	// ErrNewer: a newer version of the program wrote the snapshots.
	ErrNewer = errors.New("snapshot is of a newer format")
	// ErrFenced: another member owns the partition now.
	ErrFenced = errors.New("fenced by another owner")
)

// Store is the durable state of one partition. View may be called from any
// goroutine; Apply from one at a time.
type Store interface {
	// Identity is what the state is the state of.
	Identity() Identity
	// Progress is as of the last Apply.
	Progress() Progress
	// Apply merges the totals, which come in key order, and next in one atomic
	// step. On return both are visible to View together; they are
	// durable after Flush, or some time later: any crash keeps a prefix of the
	// applies, each whole. ErrNoSpace where it was not begun; ctx's error where it
	// was given up, with nothing changed, since ctx ended.
	Apply(ctx context.Context, totals iter.Seq2[[]byte, []byte], next Progress) error
	// Guard returns the instant of the key's history in cut mode guard.
	Guard(key []byte) (event.Time, bool, error)
	// View opens a consistent read view; the caller closes it soon.
	View() (View, error)
	// Keys is about how many keys there are, Bytes what they take on disk.
	Keys() int64
	Bytes() int64
	// CatchUp says that applies come fast and nothing is read, or no longer: the
	// store may put off what makes reads cheap.
	CatchUp(on bool)
	// Flush makes all applies durable. ErrNoSpace where the disk is full: it may
	// be called again.
	Flush() error
	// Checkpoint flushes and makes, at dir, which does not exist and is on the
	// store's own file system, a copy that does not change. Applies go on.
	Checkpoint(dir string) error
	// Close flushes and closes; views must be closed before. ErrNoSpace where it
	// closed without the last applies, since the disk is full.
	Close() error
}

// View is a consistent view of a Store at one position.
type View interface {
	// Position is the next offset that the view does not hold.
	Position() (int64, error)
	// Get appends the key's total to dst; false where there is none. It ends a
	// Scan that is under way.
	Get(dst, key []byte) ([]byte, bool, error)
	// Scan yields the totals of keys >= from in key order; both slices are
	// valid until the next step. It ends early on an error, which Err returns.
	Scan(from []byte) iter.Seq2[[]byte, []byte]
	Err() error
	Close() error
}

// Feed is the log of one partition from some offset on.
type Feed interface {
	// Next returns the next batch, waiting for one; ErrOutOfRange where the
	// log no longer, or not yet, has the offset. The batch is valid until the
	// following call.
	Next(ctx context.Context) (*Batch, error)
	Close()
}

// DeadLetter takes bad records. It is shared by all tasks.
type DeadLetter interface {
	// Send takes one bad record; what it needs of it, it copies.
	Send(ctx context.Context, bad BadRecord) error
	// Flush returns once all that was sent is stored. The position of a bad
	// record is applied only after it.
	Flush(ctx context.Context) error
}

// Log is the topic whose records are folded.
type Log interface {
	// Topic describes the topic as it is now; ErrNoTopic where it does not exist.
	Topic(ctx context.Context) (Topic, error)
	// Bounds asks for the first offset there is, and the end that is readable.
	Bounds(ctx context.Context, partition int32) (start, end int64, err error)
	// Open starts reading partition at offset.
	Open(partition int32, offset int64) Feed
}

// Topic describes a topic.
type Topic struct {
	Name       string
	ID         string // UUID in Kafka's base64 form, "" where the servers have none
	Partitions int32
}

// ErrNoTopic: the topic does not exist (yet).
var ErrNoTopic = errors.New("no such topic")

// States opens and makes the local state of partitions.
type States interface {
	// Open opens the state of partition; ErrNoState where there is none,
	// ErrDamaged where it is seen that it cannot be read. It compares nothing: the task decides by the Identity.
	Open(partition int32) (Store, error)
	// Create makes an empty state with identity and progress, durable on return.
	Create(id Identity, p Progress) (NewStore, error)
}

// Workspace is where seeds are made before they are published: one state a
// partition, apart from those that are served. What a killed process left in it
// is gone when it is opened.
type Workspace interface {
	// Create makes an empty state with identity and progress.
	Create(id Identity, p Progress) (NewStore, error)
	// Close closes all states that are open and removes everything.
	Close() error
}

// SeedStore is what a Seeder fills: the Store of a partition that is not yet
// Seeded.
type SeedStore interface {
	// Seed writes totals, which come in key order: merged with what is there,
	// or in its place.
	Seed(totals iter.Seq2[[]byte, []byte], replace bool) error
	// Guards writes the instants of keys, for Store.Guard, in key order. The
	// later of two calls wins.
	Guards(guards iter.Seq2[[]byte, event.Time]) error
	// Guard returns what Guards wrote, at once.
	Guard(key []byte) (event.Time, bool, error)
	View() (View, error)
}

// NewStore is a Store just made: it may be seeded.
type NewStore interface {
	Store
	SeedStore
}

// Seed is what a partition got of the history.
type Seed struct {
	Documents int64
	Placement Placement // the partitioners that agree with every key seeded
}

// Seeder brings the history.
type Seeder interface {
	// Cut resolves where the stream takes over in partition, as a number that
	// will be stored. later says that the partition appeared after others had
	// state: it begins at its beginning.
	Cut(ctx context.Context, topic Topic, partition int32, later bool) (Cut, error)
	// Configured is the cut as the configuration has it: what Cut returns for
	// partition, with Start only where the configuration names the number and -1
	// otherwise, and without Partitioner.
	Configured(partition int32) Cut
	// HasHistory says whether there is any; without it Seed is not called.
	HasHistory() bool
	// Seed loads the history into the stores of some partitions of the topic,
	// over which partitioner, the Cut's, spreads it, and returns what each got.
	// told is told about once a second how far it is. After an error the stores
	// are worth nothing. ErrHopeless wraps an error that no retry mends.
	Seed(ctx context.Context, topic Topic, partitioner string, stores map[int32]SeedStore, told func(SeedProgress)) (map[int32]Seed, error)
}

// SeedProgress is how far the reading of a history has come.
type SeedProgress struct {
	Documents int64 // read
	// Read is how much of Total has been read, in bytes of a file or in
	// documents of an index; Total is 0 where it is not known.
	Read, Total int64
	Took        time.Duration
	Done        bool
}

// Snapshot describes one published copy of a partition's state.
type Snapshot struct {
	Seq      int64 // its number among those of the partition, from 0
	Epoch    int64 // of the owner that published it
	Identity Identity
	Progress Progress
	Bytes    int64
	Created  time.Time
}

// Snapshots is where the states of partitions are published, for any member to
// restore. Its methods may be called from any goroutine.
type Snapshots interface {
	// Newest describes the newest snapshot of a partition that can be read;
	// ErrNoSnapshot where there is none, ErrNewer where this program cannot read
	// it: as from Claim and Restore.
	Newest(ctx context.Context, topic Topic, partition int32) (Snapshot, error)
	// Claim takes a partition over: no earlier owner publishes any more. The
	// epoch is above after, and above those of all snapshots.
	Claim(ctx context.Context, topic Topic, partition int32, after int64) (Publisher, error)
	// Restore makes the newest whole snapshot beyond position the local state
	// of the partition, in the place of the one that is there, which is closed.
	// ErrNoSnapshot where there is none, ErrNoSpace where there is too little free
	// disk: then the local state is as it was.
	// progress is told how many bytes are there of those that are needed.
	Restore(ctx context.Context, topic Topic, partition int32, position int64, progress func(have, need int64)) (Snapshot, error)
}

// Publisher is the right to publish snapshots of one partition, until another
// member claims it.
type Publisher interface {
	// Epoch is the number of this ownership.
	Epoch() int64
	// Newest is the newest snapshot; false where there is none. It asks nobody.
	Newest() (Snapshot, bool)
	// Publish makes what is applied to the store the newest snapshot, durable on
	// return; nothing is written where the newest is of the same position. One
	// whose ctx has a deadline does not wait behind those of other partitions
	// that have none. ErrFenced where another member has claimed the partition.
	Publish(ctx context.Context, s Store) (Snapshot, error)
	// Reap removes all but the newest keep snapshots.
	Reap(ctx context.Context, keep int) error
}

// ErrHopeless marks errors that end the service.
var ErrHopeless = errors.New("cannot succeed")

// Commits is what the group keeps per partition: a display and a fence, never
// the position.
type Commits interface {
	// Committed returns the group's commits of the topic, by partition.
	Committed(ctx context.Context) (map[int32]Commit, error)
	// Commit writes the commit of one partition under the member's present
	// generation. ErrFenced where the group refuses this member.
	Commit(ctx context.Context, partition int32, c Commit) error
}

// Commit is one committed offset with its metadata.
type Commit struct {
	Offset   int64
	Metadata string
}

// Observer is told what tasks do, for metrics. Calls come from many goroutines.
type Observer interface {
	// Folded: a batch of records went into a delta in the time given.
	Folded(records int, seconds float64)
	// Applied: records went to disk in one batch.
	Applied(records int, seconds float64)
	// Unpublished: a snapshot could not be published; it is tried again.
	Unpublished()
	// Unreaped: old snapshots could not be removed; it is tried again.
	Unreaped()
	// Fenced: another member has taken a partition before it was revoked.
	Fenced()
}
