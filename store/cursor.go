package store

import (
	"errors"
	"fmt"
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// idleCursors is how many cursors of a partition wait for the next read: as many
// as read at once on most machines. Each keeps some blocks of the cache.
const idleCursors = 4

// cursor is an iterator over a partition's totals, as they were when it was
// opened, and how far they went. It belongs to one goroutine at a time.
type cursor struct {
	it       *pebble.Iterator
	position int64
	commits  uint64 // of the cursors, when it was opened
	key      []byte // room for one
}

// cursors keeps cursors from read to read, as long as nothing is applied: to
// open one looks into all that is in memory and in the tables, and costs more
// than a read by it. A cursor keeps the write buffers and files that it looks at,
// so the idle ones are closed with each apply, behind each flush that was asked for
// and each compaction, and where there is too little space.
type cursors struct {
	mu      sync.Mutex
	commits uint64 // so far
	idle    []*cursor
}

// take returns a cursor that shows at least what was applied before the call.
func (c *cursors) take(db *pebble.DB) (*cursor, error) {
	c.mu.Lock()
	if n := len(c.idle); n > 0 {
		cur := c.idle[n-1]
		c.idle = c.idle[:n-1]
		c.mu.Unlock()
		return cur, nil
	}
	commits := c.commits // before it is opened: a commit in between makes it old too early, not too late
	c.mu.Unlock()
	return openCursor(db, commits)
}

// give takes a cursor back that no read has failed on.
func (c *cursors) give(cur *cursor) error {
	c.mu.Lock()
	keep := cur.commits == c.commits && len(c.idle) < idleCursors
	if keep {
		c.idle = append(c.idle, cur)
	}
	c.mu.Unlock()
	if keep {
		return nil
	}
	return cur.it.Close()
}

// renew closes the idle cursors; those that are taken will be when they come
// back. Their errors are those of reads, which have returned them.
func (c *cursors) renew() {
	c.mu.Lock()
	c.commits++
	idle := c.idle
	c.idle = nil
	c.mu.Unlock()
	for _, cur := range idle {
		_ = cur.it.Close()
	}
}

// openCursor opens a cursor: what it shows, and the position of it, are of one
// moment.
func openCursor(db *pebble.DB, commits uint64) (*cursor, error) {
	it, err := db.NewIter(nil)
	if err != nil {
		return nil, err
	}
	if !it.SeekPrefixGE(progressKey) {
		err = errors.Join(it.Error(), it.Close())
		if err == nil {
			err = fmt.Errorf("the state has no progress: %w", ErrCorrupt)
		}
		return nil, err
	}
	value, err := it.ValueAndErr()
	var position int64
	if err == nil {
		position, _, err = decodePosition(value)
	}
	if err != nil {
		return nil, errors.Join(err, it.Close())
	}
	it.SetBounds(totalPrefix, totalEnd)
	return &cursor{it: it, position: position, commits: commits}, nil
}

// at is the store's key of a total; valid until the next call.
func (c *cursor) at(key []byte) []byte {
	c.key = append(append(c.key[:0], totalPrefix...), key...)
	return c.key
}

// get appends the total of a key to dst.
func (c *cursor) get(dst, key []byte) ([]byte, bool, error) {
	if !c.it.SeekPrefixGE(c.at(key)) {
		return dst, false, c.it.Error()
	}
	value, err := c.it.ValueAndErr()
	if err != nil {
		return dst, false, err
	}
	return append(dst, value...), true, nil
}
