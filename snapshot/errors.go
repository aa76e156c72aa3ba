package snapshot

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"tidemark/aggregator"
)

// What a caller decides on. That another owner has the partition is
// aggregator.ErrFenced, with the facts in a FencedError.
var (
	// ErrNoSnapshot: the store has no snapshot that could be taken.
	ErrNoSnapshot = aggregator.ErrNoSnapshot
	// ErrDamaged: a manifest or a file is missing, cut off or not what it was;
	// the facts are in a DamagedError. The snapshot before it may be whole.
	ErrDamaged = errors.New("snapshot is damaged")
	// ErrNewer: a newer program wrote the manifest or the state.
	ErrNewer = aggregator.ErrNewer
	// ErrOtherState: the lineage holds snapshots of another definition, topic
	// or cut.
	ErrOtherState = errors.New("snapshots are of another state")
	// ErrNoBucket: the bucket or container does not exist, or this login may
	// not see it.
	ErrNoBucket = errors.New("no such bucket")
	// ErrNotCreateOnly: the store overwrites what it was told to create only,
	// so that two owners could not be told apart.
	ErrNotCreateOnly = errors.New("store overwrites objects that were to be created only")
	// ErrOccupied: the folder to restore into has files in it.
	ErrOccupied = errors.New("folder is not empty")
)

// FencedError says who has the partition. It is aggregator.ErrFenced.
type FencedError struct {
	Lineage Lineage
	Own     int64 // epoch of the owner that is fenced
	Seq     int64 // the manifest that shows it
	Epoch   int64 // of that manifest, -1 where it cannot be read
	Writer  string
}

func (e *FencedError) Error() string {
	if e.Epoch < 0 {
		return fmt.Sprintf("snapshot %d of %s is another owner's: %v", e.Seq, e.Lineage, aggregator.ErrFenced)
	}
	return fmt.Sprintf("snapshot %d of %s was written in epoch %d by %s, this owner has epoch %d: %v",
		e.Seq, e.Lineage, e.Epoch, e.Writer, e.Own, aggregator.ErrFenced)
}

func (e *FencedError) Unwrap() error { return aggregator.ErrFenced }

// DamagedError says what of a snapshot is damaged. It is ErrDamaged.
type DamagedError struct {
	Lineage Lineage
	Seq     int64
	Object  string // key of the object
	Name    string // of the file, "" for the manifest
	Reason  string
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("snapshot %d of %s: %s: %v", e.Seq, e.Lineage, e.what(), ErrDamaged)
}

// what is the damage without the snapshot, which may share it with others.
func (e *DamagedError) what() string {
	what := "its manifest"
	if e.Name != "" {
		what = "file " + e.Name
	}
	return fmt.Sprintf("%s (object %s) %s", what, e.Object, e.Reason)
}

func (e *DamagedError) Unwrap() error { return ErrDamaged }

// MissingError says that there is no snapshot of a number. It is ErrNoSnapshot.
type MissingError struct {
	Lineage Lineage
	Seq     int64
	There   []int64 // the numbers that there are, in order
}

func (e *MissingError) Error() string {
	what := fmt.Sprintf("there is no snapshot %d of partition %d", e.Seq, e.Lineage.Partition)
	if len(e.There) == 0 {
		return what + ", nor any other"
	}
	if e.Seq < e.There[len(e.There)-1] { // numbers are given once each, in order
		what += " any more"
	}
	numbers := make([]string, len(e.There))
	for i, seq := range e.There {
		numbers[i] = strconv.FormatInt(seq, 10)
	}
	return what + ", only " + strings.Join(numbers, ", ")
}

func (e *MissingError) Unwrap() error { return ErrNoSnapshot }

// noneWhole is ErrNoSnapshot where there are some and each is damaged: one
// sentence, in which a damage that several share stands once.
type noneWhole struct{ damage []error }

// noneLeft is ErrNoSnapshot, with the damage where it is that.
func noneLeft(damage []error) error {
	if len(damage) == 0 {
		return ErrNoSnapshot
	}
	return &noneWhole{damage}
}

func (e *noneWhole) Error() string {
	var whats []string
	of := make(map[string][]string, len(e.damage))
	for _, err := range e.damage {
		what, seq := err.Error(), ""
		if d := (*DamagedError)(nil); errors.As(err, &d) {
			what, seq = d.what(), strconv.FormatInt(d.Seq, 10)
		}
		if of[what] == nil {
			whats = append(whats, what)
		}
		of[what] = append(of[what], seq)
	}
	for i, what := range whats {
		if seqs := strings.Join(of[what], ", "); seqs != "" {
			whats[i] = fmt.Sprintf("of %s, %s", seqs, what)
		}
	}
	return fmt.Sprintf("no snapshot is whole: %s", strings.Join(whats, "; "))
}

func (e *noneWhole) Unwrap() []error { return append([]error{ErrNoSnapshot}, e.damage...) }

// What a bucket says.
var (
	errExists   = errors.New("object exists")
	errNotFound = errors.New("object does not exist")
	errRefused  = errors.New("the store refuses it") // permission, an argument: no repetition mends it
)
