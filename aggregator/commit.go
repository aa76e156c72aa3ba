package aggregator

import (
	"encoding/json"
	"fmt"
	"strings"
)

// commitNote is the metadata of a commit that this program writes: the cut of
// the partition, so that every member of the group starts it at the same
// offset, and how many partitions the topic had then and at the group's first
// cut.
type commitNote struct {
	Tidemark       int   `json:"tidemark"` // version of this note
	Partitions     int32 `json:"partitions"`
	SeedPartitions int32 `json:"seed_partitions"`
	Cut            Cut   `json:"cut"`
}

const commitNoteVersion = 1

// cutCommit is the commit for a partition whose state has the identity.
func cutCommit(id Identity) Commit {
	note, err := json.Marshal(commitNote{commitNoteVersion, id.Partitions, id.SeedPartitions, id.Cut})
	if err != nil {
		panic(fmt.Sprintf("aggregator: a cut that is no JSON: %v", err)) // a struct of texts and numbers
	}
	return Commit{Offset: id.Cut.Start, Metadata: string(note)}
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
	return cutCommit(Identity{Cut: a}) == cutCommit(Identity{Cut: b})
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
