package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"tidemark/aggregator"
	"tidemark/event"
)

// Partition is the state of one partition: an open Pebble database. Reads may
// come from any goroutine; Apply, Seed, Guards and Close come from one at a
// time.
type Partition struct {
	dir    *Dir
	number int32
	path   string
	db     *pebble.DB
	opts   *pebble.Options // of db
	seat   *seat
	events *events
	gate   *gate
	keys   *keyCount

	cursors cursors // those that are idle are of the state as it is

	identity aggregator.Identity
	writable bool // identity is of the program's definition

	mu       sync.Mutex
	progress aggregator.Progress // as of the last apply
	closed   bool
	shut     chan struct{} // closed once the database is
	ended    atomic.Bool   // the database makes no more tables

	catchingUp atomic.Bool

	written  atomic.Int64 // batches committed since it was opened
	durable  atomic.Int64 // of them, flushed
	batchCap int          // bytes to make room for in the next batch
}

var _ aggregator.NewStore = (*Partition)(nil)

// Identity is what the state is the state of.
func (p *Partition) Identity() aggregator.Identity { return p.identity }

// Progress is as of the last Apply.
func (p *Partition) Progress() aggregator.Progress {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.progress
}

// Apply merges the totals, which come in key order, and next in one step. On
// return both are visible to View, together; they are durable after Flush, or when
// Pebble flushes by itself. Any crash keeps a prefix of the applies, each whole.
//
// It returns aggregator.ErrNoSpace, and has changed nothing, where less than
// MinFree is free or the disk has just been found full. It may wait, for a minute
// or more, for compaction to keep up. One that waits for that, or a large one that
// is being written, when ctx ends is given up: it returns ctx's error and has
// changed nothing. One that finds all write buffers in use waits out a disk that
// fills meanwhile.
func (p *Partition) Apply(ctx context.Context, totals iter.Seq2[[]byte, []byte], next aggregator.Progress) error {
	if err := p.begin(); err != nil {
		return fmt.Errorf("apply to partition %d: %w", p.number, err)
	}
	defer p.gate.leave()
	if err := p.apply(ctx, totals, next); err != nil {
		p.makeRoom(err)
		return fmt.Errorf("apply to partition %d up to offset %d: %w", p.number, next.Position, err)
	}
	return nil
}

func (p *Partition) apply(ctx context.Context, totals iter.Seq2[[]byte, []byte], next aggregator.Progress) error {
	if was := p.Progress(); next.Position < was.Position || next.Epoch < was.Epoch {
		return fmt.Errorf("position %d and epoch %d would go back from %d and %d",
			next.Position, next.Epoch, was.Position, was.Epoch)
	}
	p.gatherTables()
	if err := p.awaitTables(ctx); err != nil {
		return err
	}
	b := p.db.NewBatchWithSize(p.batchCap)
	defer b.Close()
	large, err := p.gather(ctx, b, totals)
	defer large.drop()
	switch {
	case err != nil:
		return err
	case large != nil:
		err = large.commit(next)
	default:
		if err = p.setProgress(b, next); err == nil {
			p.batchCap = b.Len() + b.Len()/8
			err = p.commit(b)
		}
	}
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.progress = next
	p.mu.Unlock()
	return nil
}

// gather adds the totals to b; where they are too many for a batch it returns a
// table that holds them.
func (p *Partition) gather(ctx context.Context, b *pebble.Batch, totals iter.Seq2[[]byte, []byte]) (large *table, err error) {
	most := int(p.opts.MemTableSize / tableShare)
	for key, value := range totals {
		if large == nil && b.Len() < most {
			p.mergeInto(b, key, value)
			continue
		}
		if large == nil {
			if large, err = p.newTable(b); err != nil {
				return large, err
			}
		}
		if err = large.add(ctx, key, value); err != nil {
			return large, err
		}
	}
	return large, nil
}

// CatchUp lets tables gather, up to half of those at which applies wait, before
// they are compacted: each compaction writes most of a state anew, whatever is
// added to it. Once it is over they are compacted after the next Flush that finds
// them ripe.
func (p *Partition) CatchUp(on bool) { p.catchingUp.Store(on) }

// gatherTables holds compaction until a Flush finds tables ripe, or there are many:
// where it is held, where all tables are compacted, and while the partition catches up.
// The goroutine that applies calls it before each apply.
func (p *Partition) gatherTables() {
	tables := p.tables()
	if p.catchingUp.Load() || p.seat.isHeld() || tables == 0 {
		p.seat.hold(p.few(tables))
	}
}

// rest holds compaction until the first Flush where tables had gathered when the
// state was closed, or one is not ripe: a partition that changes hands is live before
// it is tidied.
func (p *Partition) rest() {
	tables := p.tables()
	p.seat.hold(p.few(tables) && (tables > 1 || !p.ripe()))
}

// few says whether more than so many tables may gather.
func (p *Partition) few(tables int) bool { return tables < p.opts.L0StopWritesThreshold/2 }

// ripe says whether the tables that lie above the others are worth a compaction,
// which writes most of what lies beneath anew. One is not that comes to less than
// half of it. A heavy stream brings most keys with each apply, and every read looks
// into each table. Without such tables those beneath may be compacted.
func (p *Partition) ripe() bool {
	levels := p.db.Metrics().Levels
	beneath := int64(0)
	for i := range levels[1:] {
		beneath += levels[1+i].TablesSize
	}
	return levels[0].Sublevels != 1 || 2*levels[0].TablesSize >= beneath
}

// begin enters the gate for a write and checks that one may be made. The
// caller leaves it where there is no error.
func (p *Partition) begin() error {
	if !p.writable {
		return errOther
	}
	if !p.gate.enter() {
		return aggregator.ErrClosing
	}
	err := p.dir.space.check()
	if err == nil && p.events.diskFull() {
		err = p.noSpace()
	}
	if err != nil {
		p.makeRoom(err)
		p.gate.leave()
	}
	return err
}

// makeRoom gives up what takes space and need not, where err is that there is too
// little: tables that wait to be merged, and those that idle cursors keep.
func (p *Partition) makeRoom(err error) {
	if errors.Is(err, aggregator.ErrNoSpace) {
		p.seat.hold(false)
		p.cursors.renew()
	}
}

// mergeInto adds the merge of a total to a batch, without a copy in between.
func (p *Partition) mergeInto(b *pebble.Batch, key, value []byte) {
	op := b.MergeDeferred(len(totalPrefix)+len(key), len(value))
	copy(op.Key[copy(op.Key, totalPrefix):], key)
	copy(op.Value, value)
	op.Finish() // never fails for a batch that is not indexed
	p.keys.add(key)
}

func (p *Partition) setProgress(b *pebble.Batch, next aggregator.Progress) error {
	value, err := appendProgress(nil, next)
	if err != nil {
		return fmt.Errorf("encode the progress: %w", err)
	}
	return b.Set(progressKey, value, nil)
}

// commit commits a batch, with the key count where its keys have changed it.
func (p *Partition) commit(b *pebble.Batch) error {
	if registers := p.keys.pending(); registers != nil {
		if err := b.Set(keysKey, registers, nil); err != nil {
			return err
		}
	}
	if err := b.Commit(pebble.NoSync); err != nil {
		return err
	}
	p.committed()
	return nil
}

// committed notes that what was written is a part of the database.
func (p *Partition) committed() {
	p.keys.committed()
	p.written.Add(1)
	p.cursors.renew()
}

// get appends the value of a store's key to dst.
func get(db *pebble.DB, dst, key []byte) ([]byte, bool, error) {
	value, closer, err := db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return dst, false, nil
	}
	if err != nil {
		return dst, false, damaged(err)
	}
	dst = append(dst, value...)
	if err := closer.Close(); err != nil {
		return dst, false, damaged(err)
	}
	return dst, true, nil
}

// damaged marks errors that say that a file is damaged with ErrCorrupt.
func damaged(err error) error {
	if err != nil && pebble.IsCorruptionError(err) {
		return &damage{err}
	}
	return err
}

// notOpened is damaged for the error of opening a database that is there. A file
// that it names and that is gone, or has another size, is damage as well: Pebble
// does not mark those.
func notOpened(err error) error {
	if err != nil && (errors.Is(err, fs.ErrNotExist) || strings.Contains(err.Error(), "object size mismatch")) {
		return &damage{err}
	}
	return damaged(err)
}

// damage is ErrCorrupt with what was found, in one line.
type damage struct{ found error }

func (d *damage) Error() string {
	found := strings.ReplaceAll(d.found.Error(), "\n<corruption detail carrier>", "") // Pebble's, for programs
	return ErrCorrupt.Error() + ": " + strings.ReplaceAll(found, "\n", "; ")
}

func (d *damage) Unwrap() []error { return []error{ErrCorrupt, d.found} }

// Guard returns the instant of the key's history in cut mode guard.
func (p *Partition) Guard(key []byte) (event.Time, bool, error) {
	if !p.gate.enter() {
		return event.Time{}, false, fmt.Errorf("read partition %d: %w", p.number, aggregator.ErrClosing)
	}
	defer p.gate.leave()
	var room [guardLen]byte
	value, ok, err := get(p.db, room[:0], guardKey(key))
	if err != nil || !ok {
		if err != nil {
			err = fmt.Errorf("read a guard of partition %d: %w", p.number, err)
		}
		return event.Time{}, false, err
	}
	t, err := decodeGuard(value)
	return t, err == nil, err
}

// Flush makes all applies durable, and waits for it. Where the disk is found
// full meanwhile it returns aggregator.ErrNoSpace; Pebble goes on trying.
func (p *Partition) Flush() error {
	if !p.gate.enter() {
		return fmt.Errorf("flush partition %d: %w", p.number, aggregator.ErrClosing)
	}
	defer p.gate.leave()
	if err := p.flush(); err != nil {
		return err
	}
	if !p.catchingUp.Load() {
		p.seat.hold(!p.ripe())
	}
	return nil
}

// flush is Flush within the gate, or behind it.
func (p *Partition) flush() error {
	written := p.written.Load()
	if written == p.durable.Load() {
		return nil
	}
	err := p.waitFlushed()
	if err != nil {
		return fmt.Errorf("flush partition %d: %w", p.number, err)
	}
	p.durable.Store(written)
	p.cursors.renew() // they keep the write buffers
	return nil
}

func (p *Partition) waitFlushed() error {
	if p.events.diskFull() {
		return p.noSpace()
	}
	select {
	case <-p.events.full: // an old report
	default:
	}
	flushed, err := p.db.AsyncFlush()
	if err != nil {
		return err
	}
	select {
	case <-flushed:
		return nil
	case <-p.events.full:
		return p.noSpace()
	}
}

// Checkpoint flushes and makes, at path, a copy of the state as it is on disk
// then: hard links, so path must be on the same file system, and not exist.
// The position of the copy is in it. Applies may go on meanwhile.
func (p *Partition) Checkpoint(path string) error {
	if !p.gate.enter() {
		return fmt.Errorf("checkpoint partition %d: %w", p.number, aggregator.ErrClosing)
	}
	defer p.gate.leave()
	if err := p.flush(); err != nil {
		return err
	}
	if err := p.db.Checkpoint(path); err != nil {
		return fmt.Errorf("checkpoint partition %d: %w", p.number, err)
	}
	return nil
}

// Close lets nothing more in, waits up to CloseWait for views, reads and
// applies under way, and flushes. A compaction under way is given up; the
// database is closed behind it, since the table in hand is written to its end
// before. Until then the partition's place in Dir is taken: Open and Install wait
// for it, and Dir's Close, which also returns what went wrong. Where some views
// are still under way the state stays open, and Close may be called again. With a
// full disk it closes without the last applies, and the error is
// aggregator.ErrNoSpace: the log still has them. Closing what is closed is no
// error.
func (p *Partition) Close() error {
	idle := p.gate.close()
	timeout := time.NewTimer(p.dir.opts.CloseWait)
	defer timeout.Stop()
	select {
	case <-idle:
	case <-timeout.C:
		return fmt.Errorf("close partition %d: %d views, reads or applies are still under way after %s",
			p.number, p.gate.count(), p.dir.opts.CloseWait)
	}
	if !p.markClosed() {
		return nil
	}
	err := p.flush()
	go p.shutDown()
	return err
}

// markClosed is true for the first call.
func (p *Partition) markClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.closed
	p.closed = true
	return !was
}

func (p *Partition) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// shutDown closes the database, without a flush.
func (p *Partition) shutDown() {
	defer close(p.shut)
	p.seat.disarm()
	p.cursors.renew()
	p.ended.Store(true)
	err := p.db.Close()
	if isFull(err) {
		// What is durable is known by now; what a full disk has kept from being
		// written is the end of the log that is not used.
		p.events.log.Warn("closed on a full disk", "err", err.Error())
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("close partition %d: %w", p.number, err)
		p.events.log.Error("the state was not closed cleanly", "err", err.Error())
	}
	p.dir.forget(p, err)
}
