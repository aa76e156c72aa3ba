package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"tidemark/aggregator"
	"tidemark/config"
	"tidemark/snapshot"
	"tidemark/store"
)

// tryDamaged says what serve does about each state in state.dir that is damaged:
// it puts the newest snapshot in its place, and cannot go on where there is none
// that it takes. With s or topic nil it is not known whether there is.
func tryDamaged(ctx context.Context, cfg *config.Config, s *snapshot.Store, topic *aggregator.Topic) (steps []checked) {
	_, damaged, err := store.PeekAll(cfg.State.Dir)
	if err != nil {
		return nil // tryDefinition says why
	}
	for _, partition := range slices.Sorted(maps.Keys(damaged)) {
		damage := damaged[partition]
		warn := func(text string) { steps = append(steps, checked{"warning", cfg.State.Dir, true, text}) }
		fail := func(err error) { steps = append(steps, outcome("state", cfg.State.Dir, "", err)) }
		if s == nil || topic == nil {
			warn(fmt.Sprintf("the state of partition %d is damaged; serve puts the newest snapshot in its place, and ends where there is none: "+
				"check --connect looks, when Kafka and the snapshot store answer: %v", partition, damage))
			continue
		}
		m, err := s.Newest(ctx, snapshot.Lineage{Group: cfg.Kafka.GroupID, Topic: topic.Name, TopicID: topic.ID, Partition: partition})
		if err == nil {
			err = cfg.Program.Vet(m.Identity, "newest snapshot")
		}
		switch {
		case err == nil:
			warn(fmt.Sprintf("the state of partition %d is damaged; serve puts snapshot %d, at position %d, in its place: %v", partition, m.Seq, m.Position(), damage))
		case errors.Is(err, snapshot.ErrNoSnapshot):
			fail(fmt.Errorf("the state of partition %d is damaged, and there is nothing to put in its place; bring it or a snapshot back from a copy, "+
				"or choose another state.dir and group.id to start over: %w: %w", partition, damage, err))
		default:
			fail(fmt.Errorf("the state of partition %d is damaged, and the newest snapshot cannot take its place: %w: %w", partition, damage, err))
		}
	}
	return steps
}
