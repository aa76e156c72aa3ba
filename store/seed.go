package store

import (
	"fmt"
	"iter"

	"github.com/cockroachdb/pebble/v2"

	"tidemark/event"
)

// seedBatch, in bytes, is where a batch of seeds is committed. Seeds need not
// be atomic: a state that is not Seeded is dropped after a crash.
const seedBatch = 16 << 20

// Seed writes totals, which come in key order: merged with what is there, or
// in its place. It returns ErrSeeded once the history is in, and
// aggregator.ErrNoSpace as Apply does, perhaps with some of them written. What
// it wrote is durable after a later Flush.
func (p *Partition) Seed(totals iter.Seq2[[]byte, []byte], replace bool) error {
	return p.seed("seed", func(add func(func(b *pebble.Batch) error) bool) {
		for key, value := range totals {
			ok := add(func(b *pebble.Batch) error {
				if !replace {
					p.mergeInto(b, key, value)
					return nil
				}
				p.keys.add(key)
				return b.Set(totalKey(key), value, nil)
			})
			if !ok {
				return
			}
		}
	})
}

// Guards writes the instants of keys, for Guard, in key order; a later instant
// of a key takes the place of an earlier one. Errors are as of Seed.
func (p *Partition) Guards(guards iter.Seq2[[]byte, event.Time]) error {
	return p.seed("write guards of", func(add func(func(b *pebble.Batch) error) bool) {
		var value [guardLen]byte
		for key, t := range guards {
			ok := add(func(b *pebble.Batch) error {
				return b.Set(guardKey(key), appendGuard(value[:0], t), nil)
			})
			if !ok {
				return
			}
		}
	})
}

// seed runs fill, which adds to one batch after the other until add is false.
func (p *Partition) seed(verb string, fill func(add func(func(b *pebble.Batch) error) bool)) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s partition %d: %w", verb, p.number, err)
		}
	}()
	if p.Progress().Seeded {
		return ErrSeeded
	}
	if err := p.begin(); err != nil {
		return err
	}
	defer p.gate.leave()
	p.seat.hold(false) // nothing here asks how many tables have gathered
	b := p.db.NewBatch()
	defer func() { b.Close() }()
	commit := func() error {
		if b.Empty() {
			return nil
		}
		return p.commit(b)
	}
	fill(func(put func(b *pebble.Batch) error) bool {
		if err = put(b); err == nil && b.Len() >= seedBatch {
			if err = commit(); err == nil {
				err = b.Close()
				b = p.db.NewBatch()
			}
			if err == nil {
				err = p.dir.space.check()
			}
		}
		return err == nil
	})
	if err != nil {
		return err
	}
	return commit()
}
