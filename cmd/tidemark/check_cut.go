package main

import (
	"context"
	"fmt"
	"strings"

	"tidemark/aggregator"
	"tidemark/bootstrap"
	"tidemark/config"
	"tidemark/source/kafka"
	"tidemark/store"
)

// mostStarts is how many partitions a step tells one by one.
const mostStarts = 12

// newCut is where partitions begin for which there is no state.
func newCut(cfg *config.Config) bootstrap.Cut {
	c := cfg.History.Cut
	return bootstrap.Cut{
		Mode: c.Mode, Reset: cfg.Kafka.AutoOffsetReset, Offsets: c.Offsets,
		Timestamp: c.Timestamp, Slack: c.Slack, EventTime: c.EventTime,
	}
}

// tryCut makes the cut as serve would, of every partition, and stores none. It
// says nothing where one was made already: the group has committed, or there
// are states here.
func tryCut(ctx context.Context, cfg *config.Config, client *kafka.Client, topic aggregator.Topic) []checked {
	ctx, cancel := context.WithTimeout(ctx, eventsWait)
	defer cancel()
	if states, damaged, err := store.PeekAll(cfg.State.Dir); err != nil || len(states)+len(damaged) > 0 {
		return nil // what is wrong with them, the steps of state.dir say
	}
	if commits, err := client.Committed(ctx); err != nil || len(commits) > 0 {
		return nil // the steps of Kafka say why they cannot be seen
	}
	step, object := "reset", cfg.Kafka.AutoOffsetReset
	if cfg.HasHistory() {
		step, object = "cut", cfg.History.Cut.Mode
	}
	starts, err := newCut(cfg).Starts(ctx, client, topic)
	texts := make([]string, 0, mostStarts+1)
	for p, start := range starts[:min(len(starts), mostStarts)] {
		texts = append(texts, fmt.Sprintf("%d:%d", p, start))
	}
	if len(starts) > mostStarts {
		texts = append(texts, "…")
	}
	return []checked{outcome(step, object, "made now, partitions begin at offsets "+strings.Join(texts, ", "), err)}
}
