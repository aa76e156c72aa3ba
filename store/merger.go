package store

import (
	"fmt"
	"io"
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// mergerName is stored by Pebble and compared at open. It never changes: the
// format number says how values are encoded.
const mergerName = "tidemark.total"

// maxPooled bounds the memory, in bytes, that a pooled operand keeps.
const maxPooled = 1 << 20

// merger merges the totals of one partition for Pebble, in reads, flushes and
// compactions, on any goroutine. A key that has one operand is not decoded.
type merger struct {
	pool sync.Pool // *operands
	// failed is told of bytes that do not merge. Without it a compaction would
	// be tried again for ever.
	failed func(key []byte, err error)
}

func newMerger(newTotal func() total, failed func(key []byte, err error)) *merger {
	m := &merger{failed: failed}
	m.pool.New = func() any { return &operands{m: m, total: newTotal()} }
	return m
}

func (m *merger) pebble() *pebble.Merger {
	return &pebble.Merger{
		Name: mergerName,
		Merge: func(key, value []byte) (pebble.ValueMerger, error) {
			o := m.pool.Get().(*operands)
			o.key = append(o.key[:0], key...)
			o.value = append(o.value[:0], value...)
			o.decoded = false
			return o, nil
		},
	}
}

// operands are the operands of one key, merged so far. Merging commutes, so
// newer and older are one.
type operands struct {
	m       *merger
	key     []byte
	value   []byte // the first operand, and later the result
	total   total  // of all operands, where decoded
	decoded bool
}

func (o *operands) MergeNewer(value []byte) error { return o.add(value) }
func (o *operands) MergeOlder(value []byte) error { return o.add(value) }

func (o *operands) add(value []byte) error {
	if !o.decoded {
		o.total.Reset()
		o.decoded = true
		if err := o.merge(o.value); err != nil {
			return err
		}
	}
	return o.merge(value)
}

func (o *operands) merge(value []byte) error {
	err := o.total.Merge(value)
	if err != nil {
		err = fmt.Errorf("merge the total of key %q: %w", trimPrefix(o.key), err)
		o.m.failed(o.key, err)
	}
	return err
}

// Finish returns the merged total; it is valid until the closer is closed.
func (o *operands) Finish(bool) ([]byte, io.Closer, error) {
	if o.decoded {
		o.value = o.total.Append(o.value[:0])
	}
	return o.value, o, nil
}

// Close takes the operands back into the pool.
func (o *operands) Close() error {
	if cap(o.value) <= maxPooled {
		o.m.pool.Put(o)
	}
	return nil
}

func trimPrefix(key []byte) []byte { return key[min(len(key), len(totalPrefix)):] }

// countingMerger takes the place of a merger where totals are only counted: it
// keeps the first operand and decodes none.
var countingMerger = &pebble.Merger{
	Name:  mergerName,
	Merge: func(_, value []byte) (pebble.ValueMerger, error) { return firstOperand(value), nil },
}

type firstOperand []byte

func (f firstOperand) MergeNewer([]byte) error { return nil }
func (f firstOperand) MergeOlder([]byte) error { return nil }
func (f firstOperand) Finish(bool) ([]byte, io.Closer, error) {
	return f, nil, nil
}
