package store

import (
	"errors"
	"fmt"
	"iter"

	"github.com/cockroachdb/pebble/v2"

	"tidemark/aggregator"
)

// view is a Pebble snapshot: the state after some apply. While it is open the
// operands behind it are kept apart and its files stay on disk, so it is to be
// closed soon. It belongs to one goroutine at a time.
type view struct {
	p        *Partition
	snapshot *pebble.Snapshot // nil once closed
	err      error
}

// View opens a consistent read view; the caller closes it soon.
func (p *Partition) View() (aggregator.View, error) {
	if !p.gate.enter() {
		return nil, fmt.Errorf("read partition %d: %w", p.number, aggregator.ErrClosing)
	}
	return &view{p: p, snapshot: p.db.NewSnapshot()}, nil
}

var errViewClosed = errors.New("the view is closed")

// wrap notes and returns err as the view's.
func (v *view) wrap(err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("read partition %d: %w", v.p.number, damaged(err))
	if v.err == nil {
		v.err = err
	}
	return err
}

// Position is the next offset that the view does not hold.
func (v *view) Position() (int64, error) {
	if v.snapshot == nil {
		return 0, v.wrap(errViewClosed)
	}
	value, closer, err := v.snapshot.Get(progressKey)
	if err != nil {
		return 0, v.wrap(err)
	}
	position, _, err := decodePosition(value)
	return position, v.wrap(errors.Join(err, closer.Close()))
}

// Get appends the key's total to dst; false where there is none.
func (v *view) Get(dst, key []byte) ([]byte, bool, error) {
	if v.snapshot == nil {
		return dst, false, v.wrap(errViewClosed)
	}
	dst, ok, err := get(v.snapshot, dst, totalKey(key))
	return dst, ok, v.wrap(err)
}

// Scan yields the totals of keys >= from in key order; both slices are valid
// until the next step. It ends early on an error, which Err returns.
func (v *view) Scan(from []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, total []byte) bool) {
		if v.snapshot == nil {
			v.wrap(errViewClosed)
			return
		}
		it, err := v.snapshot.NewIter(&pebble.IterOptions{LowerBound: totalKey(from), UpperBound: totalEnd})
		if err != nil {
			v.wrap(err)
			return
		}
		defer func() { v.wrap(it.Close()) }()
		for ok := it.First(); ok; ok = it.Next() {
			value, err := it.ValueAndErr()
			if err != nil {
				v.wrap(err)
				return
			}
			if !yield(it.Key()[len(totalPrefix):], value) {
				return
			}
		}
	}
}

// Err is the first error of the view.
func (v *view) Err() error { return v.err }

// Close lets the state go; closing again is no error.
func (v *view) Close() error {
	if v.snapshot == nil {
		return nil
	}
	err := v.wrap(v.snapshot.Close())
	v.snapshot = nil
	v.p.gate.leave()
	return err
}
