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
