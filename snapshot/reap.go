package snapshot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Reaped is what a clean-up removed.
type Reaped struct {
	Manifests int
	Files     int   // objects of files
	Bytes     int64 // of them
	Temporary int   // leftovers of killed processes, in a folder
}

func (r *Reaped) add(other Reaped) {
	r.Manifests += other.Manifests
	r.Files += other.Files
	r.Bytes += other.Bytes
	r.Temporary += other.Temporary
}

// Reap keeps the newest keep snapshots that can be read, and the files that
// they name, and removes older manifests and those files that no manifest
// names and that are older than an hour. Snapshots over the same files, as
// claims make them, count as one. Several may clean up at once, and publish
// meanwhile. While a manifest among the kept ones cannot be read no file is
// removed, since it may name it.
//
// aggregator.ErrFenced where another owner has claimed the partition: it
// cleans up.
func (o *Owner) Reap(ctx context.Context, keep int) (Reaped, error) {
	end, err := o.begin(ctx)
	if err != nil {
		return Reaped{}, err
	}
	defer end()
	c := cleaning{s: o.store, l: o.lineage, keep: keep, owner: o}
	if err := c.run(ctx); err != nil {
		errors.As(err, &o.fenced)
		return c.reaped, fmt.Errorf("clean up the snapshots of %s: %w", o.lineage, err)
	}
	return c.reaped, nil
}

// Reap is Owner.Reap by one who owns nothing.
func (s *Store) Reap(ctx context.Context, l Lineage, keep int) (Reaped, error) {
	return s.reap(ctx, l, keep, false)
}

func (s *Store) reap(ctx context.Context, l Lineage, keep int, dry bool) (Reaped, error) {
	c := cleaning{s: s, l: l, keep: keep, dry: dry}
	if err := c.run(ctx); err != nil {
		return c.reaped, fmt.Errorf("clean up the snapshots of %s: %w", l, err)
	}
	return c.reaped, nil
}

// cleaning is one clean-up of a lineage.
type cleaning struct {
	s      *Store
	l      Lineage
	keep   int
	owner  *Owner // nil where nobody in particular cleans up
	dry    bool   // it counts alone
	reaped Reaped

	looked  time.Time // when the manifests were listed
	highest int64
	kept    map[string]bool // objects that manifests name
	blind   bool            // a manifest that is kept cannot be read
}

func (c *cleaning) run(ctx context.Context) error {
	s := c.s
	if c.keep < 1 {
		return fmt.Errorf("at least one snapshot is kept, not %d", c.keep)
	}
	if t, ok := s.bucket.(tidier); ok && !c.dry {
		n, err := t.tidy(s.opts.Clock().Add(-reapAge))
		c.reaped.Temporary += n
		if err != nil {
			return fmt.Errorf("remove temporary files: %w", err)
		}
	}
	// The files are listed before the manifests: one that is old here, and was
	// named when it was young, is named by a manifest that is there by now.
	files, err := s.objects(ctx, c.l.files())
	if err != nil {
		return err
	}
	now := s.opts.Clock()
	if err := c.look(ctx, true); err != nil {
		return err
	}
	for _, f := range files {
		if _, ok := parseObject(f.name()); !ok || f.dir() || now.Sub(f.modified) <= reapAge {
			continue
		}
		if s.since(c.looked) > reapWindow/2 {
			if err := c.look(ctx, false); err != nil {
				return err
			}
		}
		if c.blind || c.kept[f.name()] {
			continue
		}
		if err := c.remove(ctx, f.key); err != nil {
			return err
		}
		c.reaped.Files++
		c.reaped.Bytes += f.size
	}
	return nil
}

// remove removes an object while the look at the manifests still holds.
func (c *cleaning) remove(ctx context.Context, key string) error {
	if c.dry {
		return nil
	}
	if err := c.s.opts.step("remove"); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, reapWindow/2)
	defer cancel()
	if err := c.s.bucket.delete(ctx, key); err != nil {
		return fmt.Errorf("remove %s: %w", key, err)
	}
	return nil
}

// look reads the manifests and decides what they keep; remove says whether to
// remove those that are too old. Where the highest number is the one of the
// last look nothing can be named that was not.
func (c *cleaning) look(ctx context.Context, remove bool) error {
	looked := c.s.opts.Clock()
	if !remove {
		numbers, err := c.s.numbers(ctx, c.l)
		if err != nil {
			return err
		}
		if len(numbers) > 0 && numbers[len(numbers)-1] == c.highest {
			c.looked = looked
			return nil
		}
		looked = c.s.opts.Clock()
	}
	k, err := c.s.look(ctx, c.l)
	if err != nil {
		return err
	}
	c.looked, c.highest, c.blind = looked, -1, false
	if n := len(k.numbers); n > 0 {
		c.highest = k.numbers[n-1]
	}
	if c.owner != nil && len(k.readable) > 0 {
		if m := k.readable[0]; m.Epoch > c.owner.epoch || m.Epoch == c.owner.epoch && m.Writer != c.owner.writer {
			return &FencedError{Lineage: c.l, Own: c.owner.epoch, Seq: m.Seq, Epoch: m.Epoch, Writer: m.Writer}
		}
	}
	stay, lowest := c.choose(k)
	c.kept = make(map[string]bool)
	for _, m := range k.readable {
		if stay[m.Seq] || !remove {
			for _, f := range m.Files {
				c.kept[f.Object] = true
			}
		}
	}
	for seq := range k.unreadable {
		c.blind = c.blind || seq >= lowest || errors.Is(k.unreadable[seq], ErrNewer)
	}
	if c.blind {
		c.s.log.Warn("no file is removed, since a snapshot cannot be read", "topic", c.l.Topic, "partition", c.l.Partition)
	}
	if !remove {
		return nil
	}
	return c.drop(ctx, k, stay, lowest)
}

// choose returns which readable manifests stay, and the lowest number of them.
func (c *cleaning) choose(k *look) (stay map[int64]bool, lowest int64) {
	stay = make(map[int64]bool)
	var kept []*Manifest
	for _, m := range k.readable {
		if len(kept) == c.keep || slices.ContainsFunc(kept, m.sameFiles) {
			continue
		}
		kept = append(kept, m)
		stay[m.Seq], lowest = true, m.Seq
	}
	return stay, lowest
}

// drop removes the manifests that do not stay, the oldest first.
func (c *cleaning) drop(ctx context.Context, k *look, stay map[int64]bool, lowest int64) error {
	for _, seq := range k.numbers {
		err := k.unreadable[seq]
		if stay[seq] || errors.Is(err, ErrNewer) || err != nil && seq >= lowest {
			continue
		}
		if err := c.remove(ctx, c.l.manifest(seq)); err != nil {
			return err
		}
		c.reaped.Manifests++
	}
	return nil
}
