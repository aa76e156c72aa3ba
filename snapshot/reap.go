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

// Reap keeps the newest keep snapshots that are whole, what is newer than the
// last of them, and the files that these name, and removes older manifests and
// those files that no manifest names and that are older than an hour. Whole is
// one whose manifest can be read and whose files are all there with their
// sizes: their bytes are not looked at, which Verify does. Snapshots over the
// same files, as claims make them, count as one. Several may clean up at once,
// and publish meanwhile. While a manifest among the kept ones cannot be read no
// file is removed, since it may name it.
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
	sizes   map[string]int64 // of the objects of files
	kept    map[string]bool  // objects that manifests name
	blind   bool             // a manifest that is kept cannot be read
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
	c.measure(files)
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
	if err := c.recount(ctx, k.readable); err != nil {
		return err
	}
	stay, lowest := choose(k.readable, c.keep, c.whole)
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

// measure notes what files there are.
func (c *cleaning) measure(files []object) {
	c.sizes = make(map[string]int64)
	for _, f := range files {
		c.sizes[f.name()] = f.size
	}
}

// recount measures anew where a snapshot is not whole: it may have been
// published since the files were listed. What is not whole then is logged.
func (c *cleaning) recount(ctx context.Context, readable []*Manifest) error {
	if !slices.ContainsFunc(readable, func(m *Manifest) bool { return !c.whole(m) }) {
		return nil
	}
	files, err := c.s.objects(ctx, c.l.files())
	if err != nil {
		return err
	}
	c.measure(files)
	for _, m := range readable {
		if !c.whole(m) {
			c.s.log.Error("a snapshot lacks files, or parts of them, and does not count as one that is kept",
				"topic", c.l.Topic, "partition", c.l.Partition, "seq", m.Seq)
		}
	}
	return nil
}

// choose returns which of the manifests, which are newest first, stay, and the
// lowest number of them. One that is not whole stays where it is newer than the
// last that counts: it pushes none out that could be restored.
func choose(readable []*Manifest, keep int, whole func(*Manifest) bool) (stay map[int64]bool, lowest int64) {
	stay = make(map[int64]bool)
	var kept []*Manifest // those that differ
	for _, m := range readable {
		if keep == 0 || slices.ContainsFunc(kept, m.sameFiles) {
			continue
		}
		kept = append(kept, m)
		stay[m.Seq], lowest = true, m.Seq
		if whole(m) {
			keep--
		}
	}
	return stay, lowest
}

// whole says whether all files of m are there with their sizes, and none is
// known to be damaged.
func (c *cleaning) whole(m *Manifest) bool {
	for _, f := range m.Files {
		if f.Size == 0 {
			continue
		}
		size, there := c.sizes[f.Object]
		if _, damaged := c.s.damaged.Load(c.l.file(f.Object)); damaged || !there || size != f.Size {
			return false
		}
	}
	return true
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
