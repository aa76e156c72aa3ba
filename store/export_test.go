package store

import (
	"context"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"tidemark/aggregator"
)

// Total is what a codec of tests makes.
type Total = total

// WithFS returns o with the file system.
func (o Options) WithFS(fs vfs.FS) Options {
	o.fs = fs
	return o
}

// WithCodec returns o with totals of a test in place of a program's.
func (o Options) WithCodec(d aggregator.Definition, newTotal func() Total) Options {
	o.codec = &codec{definition: d, newTotal: newTotal}
	return o
}

// WithTune returns o with a change to Pebble's options.
func (o Options) WithTune(f func(*pebble.Options)) Options {
	o.tune = f
	return o
}

// SetRaw writes a key as no method does.
func (p *Partition) SetRaw(key, value []byte) error {
	p.written.Add(1)
	return p.db.Set(key, value, pebble.NoSync)
}

// DeleteRaw deletes a key as no method does.
func (p *Partition) DeleteRaw(key []byte) error {
	p.written.Add(1)
	return p.db.Delete(key, pebble.NoSync)
}

// MergeRaw merges bytes as no method does.
func (p *Partition) MergeRaw(key, value []byte) error {
	p.written.Add(1)
	return p.db.Merge(key, value, pebble.NoSync)
}

// Compact merges all tables, be they ripe or not.
func (p *Partition) Compact(ctx context.Context) error {
	p.seat.hold(false)
	return p.db.Compact(ctx, []byte("a"), []byte("z"), true)
}

// DB is the database of p.
func (p *Partition) DB() *pebble.DB { return p.db }

// FormatKey is the key of the format marker.
var FormatKey = formatKey

// FormatMajorVersion is the pinned format of Pebble.
const FormatMajorVersion = formatMajorVersion

// Limiter is the limit on compactions.
type Limiter struct{ l *limiter }

// NewLimiter returns a limit.
func NewLimiter(limit int) Limiter { return Limiter{newLimiter(limit)} }

// Seat returns the scheduler of a database that may compact.
func (l Limiter) Seat(db pebble.DBForCompaction) pebble.CompactionScheduler {
	s := l.l.seat()
	s.Register(1, db)
	s.arm()
	return s
}

// WriteBuffer is the size of the write buffers of a partition.
func WriteBuffer(memory int64, open int) uint64 { return writeBuffer(memory, open) }

// Merger is the merger of totals.
func Merger(newTotal func() Total, failed func(key []byte, err error)) *pebble.Merger {
	return newMerger(newTotal, failed).pebble()
}

// KeyCount is the estimate of keys.
type KeyCount struct{ c *keyCount }

// NewKeyCount returns an estimate of none.
func NewKeyCount() KeyCount { return KeyCount{newKeyCount()} }

// Add counts a key.
func (k KeyCount) Add(key []byte) { k.c.add(key) }

// Registers are what is stored.
func (k KeyCount) Registers() string { return string(k.c.registers[:]) }

// Estimate is the number of keys.
func (k KeyCount) Estimate() int64 { return k.c.compute() }

// The encodings of identity and progress.
var (
	EncodeIdentity = encodeIdentity
	DecodeIdentity = decodeIdentity
	AppendProgress = appendProgress
	DecodeProgress = decodeProgress
)
