package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"tidemark/aggregator"
)

// tableShare is the part of a write buffer, as a divisor, that an apply's bytes
// may come to before it is written as a table. In the buffer a total takes
// several times its bytes.
const tableShare = 16

// table is a large apply that is being written. It does not go through a batch
// and a write buffer: the totals, which come in key order, are written as they
// come into a table that the database takes in as it is (Pebble's ingest). That
// saves the memory of both, and half of what a key costs until it is on disk.
// The table holds the progress too, so it counts whole or not at all.
type table struct {
	p    *Partition
	path string
	w    *sstable.Writer
	key  []byte // room for one
	n    int    // totals that were added
}

// askEvery is how many totals are added between two questions whether the apply
// is still wanted.
const askEvery = 4096

// newTable begins a table with the totals of b, beside the directory of the
// state: a crash leaves a file that the next Open removes.
func (p *Partition) newTable(b *pebble.Batch) (*table, error) {
	path := p.path + tableSuffix
	// Under this name a crash may have left a link of a table that the database
	// has: it is removed, not written over.
	if err := p.opts.FS.RemoveAll(path); err != nil {
		return nil, err
	}
	file, err := p.opts.FS.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, p.full(err)
	}
	format := p.db.FormatMajorVersion().MaxTableFormat()
	t := &table{p: p, path: path, w: sstable.NewWriter(objstorageprovider.NewFileWritable(file), p.opts.MakeWriterOptions(0, format))}
	for r := b.Reader(); ; {
		_, key, value, more, err := r.Next()
		if err != nil || !more {
			return t, err
		}
		if err := t.w.Merge(key, value); err != nil {
			return t, p.full(err)
		}
	}
}

// awaitTables waits while compaction is far behind, as the database would, which
// nothing could end. With a disk that fills meanwhile it returns
// aggregator.ErrNoSpace, and ctx's error where that ends.
func (p *Partition) awaitTables(ctx context.Context) error {
	if p.events.await(ctx, func() bool { return p.tables() < p.opts.L0StopWritesThreshold }) {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("wait for compaction: %w", err)
	}
	return p.noSpace()
}

// tables is how many tables lie one above the other.
func (p *Partition) tables() int { return int(p.db.Metrics().Levels[0].Sublevels) }

// add adds a total, unless ctx has ended a while ago.
func (t *table) add(ctx context.Context, key, value []byte) error {
	if t.n++; t.n%askEvery == 0 && ctx.Err() != nil {
		return fmt.Errorf("write a table: %w", ctx.Err())
	}
	t.key = append(append(t.key[:0], totalPrefix...), key...)
	t.p.keys.add(key)
	return t.p.full(t.w.Merge(t.key, value))
}

// commit adds what is behind all totals and makes the table a part of the
// database: visible at once, durable after Flush, as a batch is.
func (t *table) commit(next aggregator.Progress) error {
	progress, err := appendProgress(nil, next)
	if err != nil {
		return fmt.Errorf("encode the progress: %w", err)
	}
	if registers := t.p.keys.pending(); registers != nil {
		err = t.w.Set(keysKey, registers)
	}
	if err == nil {
		err = t.w.Set(progressKey, progress)
	}
	if err = errors.Join(err, t.close()); err != nil {
		return t.p.full(err)
	}
	err = t.p.db.Ingest(context.Background(), []string{t.path}) //nolint:forbidigo // an apply is not given up half-way
	if err != nil {
		return t.p.full(err)
	}
	t.p.committed()
	return nil
}

// close writes what is buffered; the file is synced.
func (t *table) close() error {
	w := t.w
	t.w = nil
	if w == nil {
		return nil
	}
	return w.Close()
}

// drop removes a table that the database has not taken. The next table would
// take its place, and the next Open removes it, so nothing depends on it.
func (t *table) drop() {
	if t == nil {
		return
	}
	if err := errors.Join(t.close(), t.p.opts.FS.RemoveAll(t.path)); err != nil {
		t.p.events.log.Debug("a table that was not taken is left", "path", t.path, "err", err)
	}
}

// full marks the error of a write that found no room with
// aggregator.ErrNoSpace.
func (p *Partition) full(err error) error {
	if isFull(err) {
		return errors.Join(p.noSpace(), err)
	}
	return err
}

// noSpace says that the disk is full.
func (p *Partition) noSpace() error {
	return fmt.Errorf("%w: the disk of %s is full", aggregator.ErrNoSpace, p.dir.layout.root)
}
