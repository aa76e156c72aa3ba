package store

import (
	"strings"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// endingFS is the file system of one database. Once the database is being
// closed it makes no more tables, so a compaction under way ends at its next
// one, and not when most of the state is written anew. Pebble takes the error
// for that of a compaction that something else went before: it removes what
// there is of it and says nothing.
type endingFS struct {
	vfs.FS
	ended *atomic.Bool
}

// Create makes a file.
func (e endingFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if e.ended.Load() && strings.HasSuffix(name, ".sst") {
		return nil, pebble.ErrCancelledCompaction
	}
	return e.FS.Create(name, category)
}

// Unwrap implements vfs.FS.
func (e endingFS) Unwrap() vfs.FS { return e.FS }
