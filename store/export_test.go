package store

import (
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

// DB is the database of p.
func (p *Partition) DB() *pebble.DB { return p.db }

// FormatKey is the key of the format marker.
var FormatKey = formatKey

// FormatMajorVersion is the pinned format of Pebble.
const FormatMajorVersion = formatMajorVersion
