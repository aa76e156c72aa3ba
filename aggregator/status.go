package aggregator

import "time"

// State is where a partition's task stands.
type State uint8

const (
	Restoring State = iota
	Bootstrapping
	CatchingUp
	Live   // it has reached the end that was readable when it was claimed
	Gap    // retention removed records before they were folded
	Paused // it waits, for Reason
)

var stateNames = [...]string{"restoring", "bootstrapping", "catching_up", "live", "gap", "paused"}

// String is the state's name in answers.
func (s State) String() string { return stateNames[s] }

// PartitionStatus is one partition of this member at one moment.
type PartitionStatus struct {
	Topic      string
	Partition  int32
	State      State
	Reason     string // for Gap, Paused, and while something is waited for
	Answers    bool   // it was live after it was claimed: its answers count, also when Paused
	Position   int64  // the next offset
	End        int64  // the end that is readable; 0 until known
	LogStart   int64
	Epoch      int64
	Counts     Counts // with the state: over crashes and hand-overs
	Session    Counts // since this process claimed it
	Gap        int64  // records lost to retention and accepted
	Placement  Placement
	Partitions int32 // of the topic when the state was made, for Placement
	Keys       int64 // estimate
	Bytes      int64 // of its state on disk
	Cut        Cut
	Documents  int64 // of the history in its seed
	Seeded     bool
	BadShare   float64   // of the last 1000 records
	Snapshot   *Snapshot // the newest, nil where there is none or it is not known
	Restore    *Restore  // nil while none runs
}

// Standing is the part of a PartitionStatus that a read goes by: it costs next
// to nothing, where the rest is asked of the store.
type Standing struct {
	Partition  int32
	State      State
	Reason     string
	Answers    bool
	Position   int64
	Placement  Placement
	Partitions int32 // of the topic when the state was made, for Placement
	Holds      bool  // something has been folded or seeded
}

// Restore is how far the restore of a partition has come.
type Restore struct {
	Have, Need int64 // bytes
	Remaining  time.Duration
}

// Reading is one partition's answer about one key.
type Reading struct {
	Parts    []byte // for Total.MergeParts; empty where the partition has nothing of the key
	Position int64  // the next offset that Parts do not hold
	Answers  bool   // as in PartitionStatus
	State    State
	Reason   string
}

// Entry is a key with its total, in parts for Total.MergeParts: they are added where
// the total is wanted, and not on the way as well.
type Entry struct{ Key, Parts []byte }

// Page is a stretch of one partition's keys.
type Page struct {
	Entries  []Entry
	More     bool // keys follow the last entry
	Position int64
	Answers  bool
	State    State
	Reason   string
}
