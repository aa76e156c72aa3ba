package store

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"tidemark/aggregator"
)

// slowDisk is how long a write may take before it is reported.
const slowDisk = 5 * time.Second

// Dir is the state directory of one member. It is locked while it is open. Its
// methods may be called from any goroutine.
type Dir struct {
	opts   Options
	layout layout
	hold   *hold
	space  *space
	shared *shared
	health io.Closer // watches for slow writes

	low func(pebble.LowDiskSpaceInfo) // of all partitions: they are on one disk

	ending sync.Mutex // one Close at a time
	mu     sync.Mutex
	open   map[int32]*Partition // nil for one that is being opened, made or removed
	closed bool
	failed []error // of closing databases
}

var _ aggregator.States = (*Dir)(nil)

// Open opens the state directory dir, making it where it is missing, and locks
// it. A directory in use is waited for, up to LockWait; then the error is
// ErrLocked and names the likely holder. What an interrupted Create or
// Install has left is removed, and checkpoints are. No partition is opened yet.
func Open(dir string, opts Options) (*Dir, error) {
	if err := opts.complete(); err != nil {
		return nil, err
	}
	d := &Dir{opts: opts, open: make(map[int32]*Partition)}
	d.low = d.diskLow()
	disk, lock := vfs.Default, lockFile
	if opts.fs != nil {
		disk, lock = opts.fs, func(path string) (io.Closer, error) {
			c, err := opts.fs.Lock(path)
			if err != nil {
				err = errors.Join(errBusy, err)
			}
			return c, err
		}
	}
	d.layout = layout{disk, dir}
	if err := d.layout.make(); err != nil {
		return nil, fmt.Errorf("make the state directory %s: %w; see state.dir", dir, err)
	}
	hold, err := d.layout.acquire(lock, opts.LockWait)
	if err != nil {
		return nil, err
	}
	d.hold = hold
	removed, err := d.layout.tidy()
	for _, path := range removed {
		opts.Logger.Warn("removed what was unfinished", "path", path)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the state directory %s: %w", dir, err), hold.release())
	}
	d.space = newSpace(disk, dir, opts.MinFree, opts.Logger)
	watched, health := vfs.WithDiskHealthChecks(vfs.OnDiskFull(orderedFS{disk}, d.space.full), slowDisk, nil, d.diskSlow())
	d.health = health
	d.shared = newShared(watched, opts.Memory, opts.Compactions)
	if _, _, err := d.space.free(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// Room keeps room for bytes that are about to be written beside the states, and
// for opening what they become, until free is called. It returns
// aggregator.ErrNoSpace where less than MinFree would be left.
func (d *Dir) Room(bytes int64) (free func(), err error) { return d.space.keep(bytes + openRoom) }

// diskSlow returns what is told of slow writes; it must not wait for the disk.
func (d *Dir) diskSlow() func(vfs.DiskSlowInfo) {
	var limit throttle
	return func(info vfs.DiskSlowInfo) {
		limit.do(func(held int) {
			d.opts.Logger.Warn("disk is slow", "path", info.Path, "operation", info.OpType.String(),
				"seconds", info.Duration.Seconds(), "held_back", held)
		})
	}
}

// diskLow returns what is told of little free space; it must not wait for the disk.
func (d *Dir) diskLow() func(pebble.LowDiskSpaceInfo) {
	var limit throttle
	return func(info pebble.LowDiskSpaceInfo) {
		limit.do(func(int) {
			d.opts.Logger.Warn("disk is nearly full", "free_bytes", info.AvailBytes, "total_bytes", info.TotalBytes,
				"below_percent", info.PercentThreshold)
		})
	}
}

// Open opens the state of partition. It returns aggregator.ErrNoState where
// there is none, ErrNewerFormat, ErrNoMarker or ErrCorrupt where there is one
// that cannot be used, and changes nothing then; aggregator.ErrNoSpace where
// the disk is too full to open it (below the floor it opens). It compares no
// identity; but a state of another definition than the program's is never
// rewritten: it takes no Apply, and nothing in it is merged on disk.
func (d *Dir) Open(partition int32) (aggregator.Store, error) {
	p, err := d.openPartition(partition)
	if err != nil {
		return nil, fmt.Errorf("open the state of partition %d in %s: %w", partition, d.layout.root, err)
	}
	return p, nil
}

func (d *Dir) openPartition(partition int32) (*Partition, error) {
	open, err := d.reserve(partition)
	if err != nil {
		return nil, err
	}
	p, err := d.openReserved(partition, open)
	d.settle(partition, p)
	return p, err
}

// openReserved opens a partition that is reserved.
func (d *Dir) openReserved(partition int32, open int) (*Partition, error) {
	there, err := d.layout.has(partition)
	if err != nil {
		return nil, err
	}
	if !there {
		return nil, aggregator.ErrNoState
	}
	path := d.layout.partition(partition)
	if err := probe(d.layout.fs, path); err != nil {
		return nil, err
	}
	if err := d.space.checkOpen(); err != nil {
		return nil, err
	}
	p, err := d.openDatabase(partition, path, open, false)
	if err != nil {
		return nil, err
	}
	if err := p.load(); err != nil {
		return nil, errors.Join(err, p.db.Close())
	}
	if p.identity.Partition != partition {
		return nil, errors.Join(fmt.Errorf("it holds the state of partition %d: %w", p.identity.Partition, ErrCorrupt), p.db.Close())
	}
	p.events.ready.Store(true)
	if p.writable {
		p.rest()
		p.seat.arm()
	}
	return p, nil
}

// openDatabase opens the Pebble database at path, or makes it where create is
// set. It compacts nothing before its seat is armed.
func (d *Dir) openDatabase(partition int32, path string, open int, create bool) (*Partition, error) {
	log := d.opts.Logger.With("partition", partition)
	p := &Partition{
		dir: d, number: partition, path: path,
		shut:   make(chan struct{}),
		seat:   d.shared.limiter.seat(),
		events: newEvents(log, func(reason string) { d.opts.Fatal(fmt.Sprintf("state of partition %d: %s", partition, reason)) }, d.low),
		gate:   newGate(),
		keys:   newKeyCount(),
	}
	p.seat.done = p.renewCursors
	m := newMerger(d.opts.codec.newTotal, func(_ []byte, err error) {
		if p.seat.isArmed() {
			p.events.fatal(err.Error())
		}
	})
	opts := d.shared.options(database{
		ended: &p.ended, merger: m.pebble(), seat: p.seat, events: p.events,
		writeBuffer: writeBuffer(d.opts.Memory, open),
	})
	opts.ErrorIfExists, opts.ErrorIfNotExists = create, !create
	if d.opts.tune != nil {
		d.opts.tune(opts)
	}
	db, err := pebble.Open(path, opts)
	if err != nil {
		if create {
			return nil, err
		}
		return nil, notOpened(err)
	}
	opts.EnsureDefaults() // as Open did with its own copy
	p.db, p.opts = db, opts
	return p, nil
}

// load reads what the state is, and tries whether its totals can be read.
func (p *Partition) load() error {
	s, err := readState(p.db)
	if err != nil {
		return err
	}
	p.identity, p.progress = s.Identity, s.Progress
	p.writable = p.identity.Definition.Equal(p.dir.opts.codec.definition)
	if p.writable {
		if err := p.tryTotal(); err != nil {
			return err
		}
	}
	return p.keys.load(p.db)
}

// tryTotal decodes the first total there is: one of a newer encoding is told
// now, with both versions, and not by a compaction.
func (p *Partition) tryTotal() error {
	it, err := p.db.NewIter(&pebble.IterOptions{LowerBound: totalPrefix, UpperBound: totalEnd})
	if err != nil {
		return damaged(err)
	}
	if it.First() {
		value, verr := it.ValueAndErr()
		if verr == nil {
			verr = p.dir.opts.codec.newTotal().Merge(value)
		}
		if verr != nil {
			err = fmt.Errorf("read the total of key %q: %w", trimPrefix(it.Key()), verr)
		}
	}
	return damaged(errors.Join(err, it.Close()))
}

// Create makes an empty state with identity and progress, durable on return.
// It returns ErrExists where the partition has a state, or files that may be
// one, and aggregator.ErrNoSpace below the floor of free disk. A crash leaves
// either the state, or nothing but what the next Open removes.
func (d *Dir) Create(id aggregator.Identity, progress aggregator.Progress) (aggregator.NewStore, error) {
	p, err := d.create(id, progress)
	if err != nil {
		return nil, fmt.Errorf("make a state of partition %d in %s: %w", id.Partition, d.layout.root, err)
	}
	return p, nil
}

func (d *Dir) create(id aggregator.Identity, progress aggregator.Progress) (*Partition, error) {
	switch {
	case id.Partition < 0 || progress.Position < 0:
		return nil, fmt.Errorf("partition %d at position %d: neither may be negative", id.Partition, progress.Position)
	case !id.Definition.Equal(d.opts.codec.definition):
		return nil, errOther
	}
	if err := d.space.check(); err != nil {
		return nil, err
	}
	open, err := d.reserve(id.Partition)
	if err != nil {
		return nil, err
	}
	var p *Partition
	if err = d.build(id, progress, open); err == nil {
		p, err = d.openReserved(id.Partition, open)
	}
	d.settle(id.Partition, p)
	return p, err
}

// build makes the state under a name that is not a state's, and renames it
// when it is whole and durable.
func (d *Dir) build(id aggregator.Identity, progress aggregator.Progress, open int) error {
	if there, err := d.layout.has(id.Partition); err != nil || there {
		return errors.Join(err, ErrExists)
	}
	fs, path := d.shared.fs, d.layout.partition(id.Partition)
	making := path + makingSuffix
	if err := fs.RemoveAll(making); err != nil {
		return err
	}
	p, err := d.openDatabase(id.Partition, making, open, true)
	if err != nil {
		return err
	}
	if err := errors.Join(p.inscribe(id, progress), p.db.Close()); err != nil {
		return err
	}
	if err := fs.RemoveAll(path); err != nil { // at most an empty directory
		return err
	}
	if err := fs.Rename(making, path); err != nil {
		return err
	}
	return d.layout.sync(d.layout.partitions())
}

// inscribe writes and flushes what every state has.
func (p *Partition) inscribe(id aggregator.Identity, progress aggregator.Progress) error {
	identity, err := encodeIdentity(id)
	if err != nil {
		return fmt.Errorf("encode the identity: %w", err)
	}
	b := p.db.NewBatch()
	defer b.Close()
	if err := errors.Join(
		b.Set(identityKey, identity, nil),
		p.setProgress(b, progress),
		b.Set(formatKey, encodeFormat(), nil),
		b.Commit(pebble.NoSync),
	); err != nil {
		return err
	}
	return p.waitFlushed()
}

// Partition returns the open state of a partition, nil where it is not open.
func (d *Dir) Partition(partition int32) *Partition {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p := d.open[partition]; p != nil && !p.isClosed() {
		return p
	}
	return nil
}

// opened returns the open partitions, and those being closed, by number.
func (d *Dir) opened() []*Partition {
	d.mu.Lock()
	defer d.mu.Unlock()
	var open []*Partition
	for _, p := range d.open {
		if p != nil {
			open = append(open, p)
		}
	}
	slices.SortFunc(open, func(a, b *Partition) int { return cmp.Compare(a.number, b.number) })
	return open
}

// Partitions lists the partitions that have a state here, open or not.
func (d *Dir) Partitions() ([]int32, error) {
	numbers, err := d.layout.numbers()
	if err != nil {
		return nil, fmt.Errorf("list the states in %s: %w", d.layout.root, err)
	}
	return numbers, nil
}

// reserve takes a partition's place, so that nobody else opens it, and returns
// how many places are taken. It waits for one that is being closed. settle must
// follow.
func (d *Dir) reserve(partition int32) (open int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p := d.open[partition]; p != nil && p.isClosed() {
		d.mu.Unlock()
		<-p.shut
		d.mu.Lock()
	}
	if d.closed {
		return 0, errors.New("the state directory is closed")
	}
	if _, taken := d.open[partition]; taken {
		return 0, errors.New("it is open already")
	}
	d.open[partition] = nil
	return len(d.open), nil
}

// settle puts a partition into its place, or frees it where p is nil.
func (d *Dir) settle(partition int32, p *Partition) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p == nil {
		delete(d.open, partition)
		return
	}
	d.open[partition] = p
}

// forget frees the place of a partition that is closed, with what went wrong.
func (d *Dir) forget(p *Partition, err error) {
	d.settle(p.number, nil)
	if err != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.failed = append(d.failed, err)
	}
}

// Close closes the partitions that are still open, as their own Close does,
// and unlocks the directory. Where one does not close, the directory stays
// locked, and Close may be called again. Closing what is closed is no error.
func (d *Dir) Close() error {
	d.ending.Lock()
	defer d.ending.Unlock()
	d.mu.Lock()
	closed := d.closed
	d.mu.Unlock()
	if closed {
		return nil
	}
	var errs []error
	for _, p := range d.opened() {
		errs = append(errs, p.Close())
		if p.isClosed() {
			<-p.shut
		}
	}
	d.mu.Lock()
	errs = append(errs, d.failed...)
	left := len(d.open)
	d.closed = left == 0
	d.mu.Unlock()
	if left > 0 {
		return errors.Join(append(errs, fmt.Errorf("close the state directory %s: %d partitions are still open", d.layout.root, left))...)
	}
	close(d.space.closing)
	d.shared.close()
	errs = append(errs, d.health.Close())
	if err := d.hold.release(); err != nil {
		errs = append(errs, fmt.Errorf("unlock the state directory %s: %w", d.layout.root, err))
	}
	return errors.Join(errs...)
}
