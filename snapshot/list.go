package snapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"golang.org/x/sync/errgroup"
)

// Newest returns the newest snapshot of l that can be read. Newer ones that
// are damaged are logged and passed over. ErrNoSnapshot where there is none,
// with the damage where it is that; ErrNewer where a newer program wrote it.
func (s *Store) Newest(ctx context.Context, l Lineage) (*Manifest, error) {
	m, _, err := s.newest(ctx, l)
	if err != nil {
		return nil, fmt.Errorf("look for the newest snapshot of %s: %w", l, err)
	}
	return m, nil
}

// Numbered returns the snapshot of l with that number. A *MissingError, which is
// ErrNoSnapshot, where there is none, or none any more; ErrDamaged or ErrNewer
// where its manifest cannot be read.
func (s *Store) Numbered(ctx context.Context, l Lineage, seq int64) (*Manifest, error) {
	m, err := s.manifest(ctx, l, seq)
	if errors.Is(err, errNotFound) {
		var there []int64
		if there, err = s.numbers(ctx, l); err == nil {
			err = &MissingError{l, seq, there}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("look for snapshot %d of %s: %w", seq, l, err)
	}
	return m, nil
}

// unlessGone is found, what came of reading m; a *MissingError where that is
// damage and m is there no more: a clean-up has taken its manifest, and then its
// files, meanwhile.
func (s *Store) unlessGone(ctx context.Context, m *Manifest, found error) error {
	if !errors.Is(found, ErrDamaged) {
		return found
	}
	there, err := s.numbers(ctx, m.Lineage)
	if err != nil || slices.Contains(there, m.Seq) {
		return found
	}
	return &MissingError{m.Lineage, m.Seq, there}
}

// newest is Newest, with the highest number that there is, readable or not; -1
// where there is none.
func (s *Store) newest(ctx context.Context, l Lineage) (m *Manifest, highest int64, err error) {
	numbers, err := s.numbers(ctx, l)
	if err != nil {
		return nil, -1, err
	}
	highest = -1
	var errs []error
	for _, seq := range slices.Backward(numbers) {
		highest = max(highest, seq)
		m, err := s.manifest(ctx, l, seq)
		if err == nil {
			return m, highest, nil
		}
		if !s.passOver(l, seq, err) {
			return nil, highest, err
		}
		errs = append(errs, err)
	}
	return nil, highest, noneLeft(errs)
}

// passOver says whether a manifest that cannot be read is damaged, and logs
// it. That it has gone while it was asked for is not worth a word.
func (s *Store) passOver(l Lineage, seq int64, err error) bool {
	if errors.Is(err, errNotFound) {
		return true
	}
	if !errors.Is(err, ErrDamaged) {
		return false
	}
	s.log.Error("a snapshot is damaged and passed over", "topic", l.Topic, "partition", l.Partition, "seq", seq, "err", err)
	return true
}

// numbers lists the numbers of the manifests of l, in order.
func (s *Store) numbers(ctx context.Context, l Lineage) ([]int64, error) {
	all, err := s.objects(ctx, l.manifests())
	if err != nil {
		return nil, err
	}
	var numbers []int64
	for _, o := range all {
		if seq, ok := parseSeq(o.key); ok && !o.dir() {
			numbers = append(numbers, seq)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// manifest reads a manifest that was listed. One that is not found is asked
// for again as long as it is listed; errNotFound where it no longer is.
func (s *Store) manifest(ctx context.Context, l Lineage, seq int64) (*Manifest, error) {
	var body []byte
	gone := false
	err := s.settle(ctx, func() (err error) {
		body, err = s.readSmall(ctx, l.manifest(seq))
		if !errors.Is(err, errNotFound) {
			return err
		}
		numbers, lerr := s.numbers(ctx, l)
		if lerr != nil {
			return lerr
		}
		if gone = !slices.Contains(numbers, seq); gone {
			return nil
		}
		return err
	})
	switch {
	case gone:
		return nil, fmt.Errorf("manifest %s: %w", l.manifest(seq), errNotFound)
	case errors.Is(err, errNotFound):
		return nil, &DamagedError{Lineage: l, Seq: seq, Object: l.manifest(seq), Reason: "is listed but cannot be found"}
	case err != nil:
		return nil, fmt.Errorf("read manifest %s: %w", l.manifest(seq), err)
	}
	return decode(l, seq, body)
}

// Listing is what a store shows.
type Listing struct {
	Manifests []*Manifest // by topic and partition, in each newest first
	// Unreadable are manifests that are damaged (ErrDamaged) or of a newer
	// program (ErrNewer).
	Unreadable []error
}

// List reads all manifests of l.
func (s *Store) List(ctx context.Context, l Lineage) (Listing, error) {
	var all Listing
	k, err := s.look(ctx, l)
	if err != nil {
		return all, fmt.Errorf("list the snapshots of %s: %w", l, err)
	}
	all.Manifests = k.readable
	for _, seq := range slices.Backward(k.numbers) {
		if err := k.unreadable[seq]; err != nil {
			all.Unreadable = append(all.Unreadable, err)
		}
	}
	return all, nil
}

// ListGroup reads all manifests of a group.
func (s *Store) ListGroup(ctx context.Context, group string) (Listing, error) {
	var all Listing
	lineages, err := s.Lineages(ctx, group)
	if err != nil {
		return all, err
	}
	for _, l := range lineages {
		one, err := s.List(ctx, l)
		if err != nil {
			return all, err
		}
		all.Manifests = append(all.Manifests, one.Manifests...)
		all.Unreadable = append(all.Unreadable, one.Unreadable...)
	}
	return all, nil
}

// look is what the manifests of a lineage say at one moment.
type look struct {
	numbers    []int64         // in order
	readable   []*Manifest     // newest first
	unreadable map[int64]error // ErrDamaged or ErrNewer, by number
}

// look reads all manifests of l.
func (s *Store) look(ctx context.Context, l Lineage) (*look, error) {
	numbers, err := s.numbers(ctx, l)
	if err != nil {
		return nil, err
	}
	manifests := make([]*Manifest, len(numbers))
	errs := make([]error, len(numbers))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(s.opts.Transfers)
	for i, seq := range numbers {
		g.Go(func() error {
			m, err := s.manifest(gctx, l, seq)
			manifests[i], errs[i] = m, err
			if err == nil || errors.Is(err, errNotFound) || errors.Is(err, ErrDamaged) || errors.Is(err, ErrNewer) {
				return nil
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	k := &look{unreadable: make(map[int64]error)}
	for i, seq := range numbers {
		switch {
		case errors.Is(errs[i], errNotFound):
			continue // gone since it was listed
		case errs[i] != nil:
			k.unreadable[seq] = errs[i]
		default:
			k.readable = append(k.readable, manifests[i])
		}
		k.numbers = append(k.numbers, seq)
	}
	slices.Reverse(k.readable)
	return k, nil
}

// Groups lists the groups that have snapshots here. One whose name is too long
// to stand in a key is left out.
func (s *Store) Groups(ctx context.Context) ([]string, error) {
	all, err := s.objects(ctx, "")
	if err != nil {
		return nil, fmt.Errorf("list the groups in %s: %w", s, err)
	}
	var groups []string
	for _, o := range all {
		if group, ok := unescape(o.name()); ok && o.dir() {
			groups = append(groups, group)
		}
	}
	slices.Sort(groups)
	return groups, nil
}

// Lineages lists those of a group, by topic and partition. The topic's name is
// set only where the servers have no UUIDs: elsewhere the manifests tell it.
func (s *Store) Lineages(ctx context.Context, group string) ([]Lineage, error) {
	lineages, err := s.lineages(ctx, group)
	if err != nil {
		return nil, fmt.Errorf("list the topics and partitions of group %s: %w", group, err)
	}
	return lineages, nil
}

func (s *Store) lineages(ctx context.Context, group string) ([]Lineage, error) {
	topics, err := s.objects(ctx, groupPrefix(group))
	if err != nil {
		return nil, err
	}
	var all []Lineage
	for _, t := range topics {
		topic, id, ok := parseTopicPart(t.name())
		if !ok || !t.dir() {
			continue
		}
		partitions, err := s.objects(ctx, t.key)
		if err != nil {
			return nil, err
		}
		for _, p := range partitions {
			n, err := strconv.ParseInt(p.name(), 10, 32)
			l := Lineage{Group: group, Topic: topic, TopicID: id, Partition: int32(n)}
			if err == nil && n >= 0 && p.dir() && l.prefix() == p.key {
				all = append(all, l)
			}
		}
	}
	slices.SortFunc(all, func(a, b Lineage) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.TopicID, b.TopicID), cmp.Compare(a.Partition, b.Partition))
	})
	return all, nil
}
