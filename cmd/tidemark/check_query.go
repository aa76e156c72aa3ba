package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"tidemark/aggregator"
	"tidemark/config"
	"tidemark/event"
	"tidemark/snapshot"
	"tidemark/store"
)

// tryFields warns of what the query probably does not mean. Of records, the
// values of some events, those that are whole objects show which fields there
// are; without any, all that the query's text gives rise to is said.
func tryFields(cfg *config.Config, values [][]byte) (warnings []checked) {
	if cfg.Definition == nil {
		return nil // its variables are not set
	}
	warn := func(text string) { warnings = append(warnings, checked{"warning", cfg.File, true, text}) }
	paths := cfg.Definition.Paths
	scanner, seen, whole := event.NewScanner(paths, 0), make(map[string]bool), 0
	for _, value := range values {
		if reason, _ := scanner.Scan(value); reason != event.OK {
			continue
		}
		whole++
		for i, path := range paths {
			if scanner.Values[i].Kind != event.Missing {
				seen[strings.Join(path, "\x00")] = true
			}
		}
	}
	for _, doubt := range cfg.Definition.Doubts() {
		name := strings.Join(doubt.Path, "\x00")
		switch {
		case whole == 0:
			warn(doubt.String())
		case !seen[name]:
			warn(fmt.Sprintf("%s (none of the newest %d events has that field)", doubt, whole))
			seen[name] = true
		}
	}
	for _, path := range paths {
		if whole > 0 && !seen[strings.Join(path, "\x00")] {
			warn(fmt.Sprintf("none of the newest %d events has the field %s, which the query reads; a name's letters count in either case", whole, strings.Join(path, ".")))
		}
	}
	return warnings
}

// tryDefinition compares the query with what made the states in state.dir: serve
// would refuse them. It says nothing where there are none, nor of those that are
// damaged: tryDamaged does.
func tryDefinition(cfg *config.Config) []checked {
	const step = "definition"
	states, _, err := store.PeekAll(cfg.State.Dir)
	if errors.Is(err, store.ErrLocked) {
		return []checked{outcome(step, cfg.State.Dir, "is not compared: "+err.Error(), nil)}
	}
	for i := 0; i < len(states) && err == nil; i++ { // one says it
		err = cfg.Program.Vet(states[i].Identity, "state")
	}
	if len(states) == 0 && err == nil {
		return nil
	}
	return []checked{outcome(step, cfg.State.Dir, "the states there are of this query", err)}
}

// tryTopic says so where the states in state.dir are of a topic of that name which
// was deleted since: serve would pause each of their partitions.
func tryTopic(cfg *config.Config, topic aggregator.Topic) []checked {
	states, _, err := store.PeekAll(cfg.State.Dir)
	if err != nil {
		return nil // tryState and tryDefinition say why
	}
	for _, s := range states {
		if s.Identity.Topic == topic.Name && s.Identity.TopicID != topic.ID {
			return []checked{outcome("topic", cfg.State.Dir, "", errors.New(aggregator.Recreated(s.Identity, topic)))}
		}
	}
	return nil
}

// definitionOf compares the query with the group's newest snapshots of the
// topic. It says nothing where there are none.
func definitionOf(ctx context.Context, cfg *config.Config, s *snapshot.Store, topic aggregator.Topic) []checked {
	const step = "definition"
	lineages, err := s.Lineages(ctx, cfg.Kafka.GroupID)
	found := false
	for _, l := range lineages {
		if l.TopicID != topic.ID || topic.ID == "" && l.Topic != topic.Name {
			continue
		}
		m, unread := s.Newest(ctx, l)
		if errors.Is(unread, snapshot.ErrNoSnapshot) {
			continue
		}
		found = true
		if err = unread; err == nil {
			err = cfg.Program.Vet(m.Identity, "newest snapshot")
		}
		if err != nil {
			break // one says it
		}
	}
	if !found && err == nil {
		return nil
	}
	return []checked{outcome(step, s.String(), "the newest snapshots there are of this query", err)}
}
