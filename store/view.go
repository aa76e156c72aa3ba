package store

import (
	"errors"
	"fmt"
	"iter"

	"tidemark/aggregator"
)

// view is the state after some apply. While it is open its files stay on disk, so
// it is to be closed soon. It belongs to one goroutine at a time.
type view struct {
	p   *Partition
	cur *cursor // nil once closed
	err error
}

// View opens a consistent read view; the caller closes it soon.
func (p *Partition) View() (aggregator.View, error) {
	if !p.gate.enter() {
		return nil, fmt.Errorf("read partition %d: %w", p.number, aggregator.ErrClosing)
	}
	cur, err := p.cursors.take(p.db)
	if err != nil {
		p.gate.leave()
		return nil, fmt.Errorf("read partition %d: %w", p.number, damaged(err))
	}
	return &view{p: p, cur: cur}, nil
}

// renewCursors closes the idle cursors of a partition that is not being closed:
// Close does it then.
func (p *Partition) renewCursors() {
	if p.gate.enter() {
		p.cursors.renew()
		p.gate.leave()
	}
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
	if v.cur == nil {
		return 0, v.wrap(errViewClosed)
	}
	return v.cur.position, nil
}

// Get appends the key's total to dst; false where there is none. A Scan that is
// under way ends with it.
func (v *view) Get(dst, key []byte) ([]byte, bool, error) {
	if v.cur == nil {
		return dst, false, v.wrap(errViewClosed)
	}
	dst, ok, err := v.cur.get(dst, key)
	return dst, ok, v.wrap(err)
}

// Scan yields the totals of keys >= from in key order; both slices are valid
// until the next step. It ends early on an error, which Err returns.
func (v *view) Scan(from []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, total []byte) bool) {
		if v.cur == nil {
			v.wrap(errViewClosed)
			return
		}
		it := v.cur.it
		for ok := it.SeekGE(v.cur.at(from)); ok; ok = it.Next() {
			value, err := it.ValueAndErr()
			if err != nil {
				v.wrap(err)
				return
			}
			if !yield(it.Key()[len(totalPrefix):], value) {
				return
			}
		}
		v.wrap(it.Error())
	}
}

// Err is the first error of the view.
func (v *view) Err() error { return v.err }

// Close lets the state go; closing again is no error.
func (v *view) Close() error {
	if v.cur == nil {
		return nil
	}
	var err error
	if v.err != nil {
		_ = v.cur.it.Close() // its error has been returned
	} else {
		err = v.wrap(v.p.cursors.give(v.cur))
	}
	v.cur = nil
	v.p.gate.leave()
	return err
}
