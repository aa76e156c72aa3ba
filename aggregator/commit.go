package aggregator

import (
	"encoding/json"
	"fmt"
	"strings"
)

// commitNote is the metadata of a commit that this program writes: the cut of
// the partition, so that every member of the group starts it at the same
// offset, how many partitions the topic had then and at the group's first cut,
// and the newest snapshot, which the committed offset is the position of.
type commitNote struct {
	Tidemark       int           `json:"tidemark"` // version of this note
	Partitions     int32         `json:"partitions"`
	SeedPartitions int32         `json:"seed_partitions"`
	Cut            Cut           `json:"cut"`
	Snapshot       *snapshotNote `json:"snapshot,omitempty"` // nil before the first
}

type snapshotNote struct {
	Seq   int64 `json:"seq"`
	Epoch int64 `json:"epoch"`
}

const commitNoteVersion = 1

// commitOf is the commit for a partition whose state has the identity, and
// whose newest snapshot is the one given, nil for none.
func commitOf(id Identity, newest *Snapshot) Commit {
	note := commitNote{Tidemark: commitNoteVersion, Partitions: id.Partitions, SeedPartitions: id.SeedPartitions, Cut: id.Cut}
	if len(note.Cut.EventTime) == 0 {
		note.Cut.EventTime = nil // an empty path is none, also behind a store's encoding
	}
	offset := id.Cut.Start
	if newest != nil {
		note.Snapshot, offset = &snapshotNote{newest.Seq, newest.Epoch}, newest.Progress.Position
	}
	text, err := json.Marshal(note)
	if err != nil {
		panic(fmt.Sprintf("aggregator: a cut that is no JSON: %v", err)) // a struct of texts and numbers
	}
	return Commit{Offset: offset, Metadata: string(text)}
}

// readNote returns the note in a commit's metadata; false where this program
// did not write it.
func readNote(c Commit) (commitNote, bool) {
	var n commitNote
	if !strings.HasPrefix(c.Metadata, `{"tidemark":`) {
		return n, false
	}
	if err := json.Unmarshal([]byte(c.Metadata), &n); err != nil || n.Tidemark != commitNoteVersion {
		return n, false
	}
	return n, true
}

// sameCut says whether two cuts start a partition alike.
func sameCut(a, b Cut) bool {
	return commitOf(Identity{Cut: a}, nil) == commitOf(Identity{Cut: b}, nil)
}

// configured says whether the cut is still what the configuration says: were it
// not, the history and the stream would be joined in two ways at once. A
// partition that appeared later begins at its beginning in any case.
func (id *Identity) configured(is Cut) bool {
	was := id.Cut
	was.Partitioner = ""
	if is.Start < 0 || id.Partition >= id.SeedPartitions {
		was.Start, is.Start = 0, 0
	}
	return sameCut(was, is)
}

// String says what the cut is, but for where it begins, as the configuration
// would.
func (c Cut) String() string {
	text := "with history.cut.mode " + c.Mode
	switch c.Mode {
	case "":
		return "without a history"
	case CutOffsets:
		return fmt.Sprintf("%s at offset %d", text, c.Start)
	case CutTimestamp:
		text = fmt.Sprintf("%s at %s", text, c.Before)
	}
	if c.EventTime != nil {
		text += " by " + strings.Join(c.EventTime, ".")
	}
	return text
}
