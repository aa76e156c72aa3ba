package snapshot

import (
	"context"
	"fmt"
)

// Prune cleans up a whole group: Reap for all partitions of the topic whose
// UUID is topicID, and everything of other UUIDs of a topic of its name, which
// the topic had before it was created again. What of the group is of topics of
// other names stays. Nobody may publish for the old topic meanwhile. told, where
// not nil, hears of each lineage that is done.
func (s *Store) Prune(ctx context.Context, group, topic, topicID string, keep int, told func(l Lineage, whole bool, r Reaped)) (Reaped, error) {
	return s.prune(ctx, group, topic, topicID, keep, told, false)
}

// PlanPrune tells what Prune would remove now, but for temporary files, and
// removes nothing.
func (s *Store) PlanPrune(ctx context.Context, group, topic, topicID string, keep int, told func(l Lineage, whole bool, r Reaped)) (Reaped, error) {
	return s.prune(ctx, group, topic, topicID, keep, told, true)
}

func (s *Store) prune(ctx context.Context, group, topic, topicID string, keep int, told func(l Lineage, whole bool, r Reaped), dry bool) (Reaped, error) {
	var all Reaped
	lineages, err := s.Lineages(ctx, group)
	if err != nil {
		return all, err
	}
	for _, l := range lineages {
		old := l.TopicID != topicID
		if old {
			name, err := s.topicOf(ctx, l)
			if err != nil {
				return all, fmt.Errorf("look at %s: %w", l, err)
			}
			if name != topic {
				continue
			}
		}
		l.Topic = topic
		var r Reaped
		if old {
			r, err = s.drop(ctx, l, dry)
		} else {
			r, err = s.reap(ctx, l, keep, dry)
		}
		all.add(r)
		if err != nil {
			return all, err
		}
		if told != nil {
			told(l, old, r)
		}
	}
	return all, nil
}

// topicOf is the name of the topic of l, "" where no manifest tells it.
func (s *Store) topicOf(ctx context.Context, l Lineage) (string, error) {
	if l.Topic != "" {
		return l.Topic, nil
	}
	k, err := s.look(ctx, l)
	if err != nil || len(k.readable) == 0 {
		return "", err
	}
	return k.readable[0].Lineage.Topic, nil
}

// Drop removes all snapshots of l, manifests first, so that what is left after
// a crash is no snapshot. Nobody may publish meanwhile.
func (s *Store) Drop(ctx context.Context, l Lineage) (Reaped, error) { return s.drop(ctx, l, false) }

func (s *Store) drop(ctx context.Context, l Lineage, dry bool) (Reaped, error) {
	var r Reaped
	for _, prefix := range []string{l.manifests(), l.files()} {
		all, err := s.objects(ctx, prefix)
		if err != nil {
			return r, fmt.Errorf("drop the snapshots of %s: %w", l, err)
		}
		for _, o := range all {
			if o.dir() {
				continue
			}
			if !dry {
				if err := s.remove(ctx, o.key); err != nil {
					return r, fmt.Errorf("drop the snapshots of %s: remove %s: %w", l, o.key, err)
				}
			}
			if prefix == l.manifests() {
				r.Manifests++
			} else {
				r.Files++
				r.Bytes += o.size
			}
		}
	}
	if t, ok := s.bucket.(tidier); ok && !dry {
		t.forget(l.prefix())
	}
	return r, nil
}
