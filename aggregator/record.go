package aggregator

import (
	"slices"
	"time"

	"tidemark/event"
)

// Record is one record of the log. Key and Value are only valid until the
// batch that holds them is released.
type Record struct {
	Offset    int64
	Timestamp int64  // milliseconds since the epoch, as the log keeps it
	Key       []byte // nil where there is none
	Value     []byte // nil is a tombstone
}

// Batch is a stretch [First, Next) of one partition of the log. Records lie in
// it in order of offset; offsets may be missing (compaction, aborted
// transactions, transaction markers), also at both ends.
type Batch struct {
	First, Next int64
	Records     []Record
	End         int64 // the end that was readable when the batch was fetched
	LogStart    int64 // the log start then
}

// Result is what became of a record that was consumed.
type Result uint8

const (
	Folded    Result = iota // it is in the totals
	Filtered                // WHERE was not true for it
	Bad                     // it has a Reason
	Tombstone               // nil value
	BeforeCut               // the history holds it already
	NumResults
)

var resultNames = [NumResults]string{"folded", "filtered", "bad", "tombstone", "before_cut"}

// String is the result's name in metrics and answers.
func (r Result) String() string { return resultNames[r] }

// Outcome is what a Decoder made of one record.
type Outcome struct {
	Result Result
	Reason event.Reason // for Bad
	Field  string       // for Bad: the field at fault, "" where the record as a whole is
}

// Counts are the records consumed, by result, and the bad ones by reason.
type Counts struct {
	Results [NumResults]int64
	Reasons [event.NumReasons]int64
}

// Add adds other to c.
func (c *Counts) Add(other Counts) {
	for i, n := range other.Results {
		c.Results[i] += n
	}
	for i, n := range other.Reasons {
		c.Reasons[i] += n
	}
}

// subtract takes other from c.
func (c *Counts) subtract(other Counts) {
	for i, n := range other.Results {
		c.Results[i] -= n
	}
	for i, n := range other.Reasons {
		c.Reasons[i] -= n
	}
}

// Consumed is the number of records behind c.
func (c *Counts) Consumed() (n int64) {
	for _, r := range c.Results {
		n += r
	}
	return n
}

// Cut modes, as the configuration names them.
const (
	CutEarliest  = "earliest"
	CutLatest    = "latest"
	CutOffsets   = "offsets"
	CutTimestamp = "timestamp"
	CutGuard     = "guard"
)

// Cut says where the stream takes over from the history in one partition. It
// is resolved once, stored before the history is read, and kept.
type Cut struct {
	Mode  string // "" without history, else earliest, latest, offsets, timestamp, guard
	Start int64  // first offset to fold
	// Before, where not nil, is the instant of mode timestamp: events before
	// it are in the history already.
	Before *event.Time
	// EventTime is the path of the instant that Before and mode guard compare;
	// nil is the record's timestamp.
	EventTime event.Path
	// Partitioner is by which the history is spread over the partitions, ""
	// without one. All partitions of a group have the same.
	Partitioner string
}

// Identity is what a partition's state is the state of. It is written when the
// state is made, before anything else, and never changes.
type Identity struct {
	Topic      string
	TopicID    string // UUID of the topic, "" where the servers have none
	Partition  int32
	Partitions int32 // of the topic when the state was made
	Definition Definition
	Cut        Cut
	HasHistory bool // the state begins with a seed
	// SeedPartitions are the partitions over which the history is spread: those
	// of the topic when the first cut of the group was taken. A partition that
	// appeared later gets none of it.
	SeedPartitions int32
}

// Definition identifies a definition in a state.
type Definition struct {
	SQL         string
	Fingerprint string
	Clauses     []Clause
}

// Clause is one part of a definition in canonical text.
type Clause struct{ Name, Text string }

// Progress is what changes with each apply, written in the same batch as the
// totals.
type Progress struct {
	Position  int64 // the next offset
	Seeded    bool  // the history is in, whole; true from the start without one
	Documents int64 // of the history that went into this partition's seed
	Epoch     int64 // of the ownership, only ever rises
	Counts    Counts
	Gap       int64     // records that retention removed before they were folded, accepted
	Placement Placement // which partitioners agree with every key so far
}

// Placement is a set of partitioners, bit 1<<Partitioner for each.
type Placement uint8

// BadRecord is a record that went to no total, for the log and the dead
// letter. Key and Value are valid during the call alone.
type BadRecord struct {
	Topic     string
	Partition int32
	Record    Record
	Reason    event.Reason
	Field     string
	Error     string // one sentence
}

// Same says whether two states are of one history: of the same topic, clauses
// and cut, so that each is what the other becomes, or was.
func (id *Identity) Same(other Identity) bool {
	return id.Topic == other.Topic && id.TopicID == other.TopicID && id.Partition == other.Partition &&
		id.Partitions == other.Partitions && id.SeedPartitions == other.SeedPartitions &&
		id.HasHistory == other.HasHistory && id.Definition.Equal(other.Definition) && sameCut(id.Cut, other.Cut)
}

// Equal says whether two definitions have the same clauses.
func (d Definition) Equal(other Definition) bool {
	return d.Fingerprint == other.Fingerprint && slices.Equal(d.Clauses, other.Clauses)
}

// Instant is t as an event.Time.
func Instant(t time.Time) event.Time {
	return event.Time{Sec: t.Unix(), Nsec: int32(t.Nanosecond())}
}
