package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"tidemark/aggregator"
	"tidemark/config"
	"tidemark/event"
	"tidemark/source/kafka"
)

const (
	// eventsSampled is how many of the newest records are looked at in each of
	// at most partsSampled partitions.
	eventsSampled = 20
	partsSampled  = 16
	// eventsWait bounds the look at them.
	eventsWait = 15 * time.Second
)

// sampledEvent is one record of the topic, and what the query makes of it.
type sampledEvent struct {
	place   string // topic/partition@offset
	outcome aggregator.Outcome
	row     string // for one that is folded
}

// says is the event in a step.
func (e sampledEvent) says() string {
	switch e.outcome.Result {
	case aggregator.Folded:
		return e.row
	case aggregator.Bad:
		return "is bad: " + e.reason()
	case aggregator.Filtered:
		return "is filtered: WHERE is not true for it"
	case aggregator.BeforeCut:
		return "is before the cut: it is in the history"
	}
	return "is a " + e.outcome.Result.String()
}

func (e sampledEvent) reason() string {
	if e.outcome.Field == "" {
		return e.outcome.Reason.String()
	}
	return e.outcome.Reason.String() + " of " + e.outcome.Field
}

// tryEvents looks at the newest records of the topic as the query does. It reads
// them, and joins no group.
func tryEvents(ctx context.Context, cfg *config.Config, client *kafka.Client, topic aggregator.Topic) []checked {
	ctx, cancel := context.WithTimeout(ctx, eventsWait)
	defer cancel()
	samples, err := newestRecords(ctx, client, topic)
	var events []sampledEvent
	if err == nil {
		events, err = decodeSamples(cfg, topic, samples)
	}
	if err != nil {
		return append([]checked{outcome("events", topic.Name, "", err)}, tryFields(cfg, nil)...)
	}
	var values [][]byte
	for _, records := range samples {
		for i := range records {
			values = append(values, records[i].Value)
		}
	}
	return append(judgeEvents(topic.Name, events), tryFields(cfg, values)...)
}

// newestRecords reads the newest records of a topic, by partition.
func newestRecords(ctx context.Context, client *kafka.Client, topic aggregator.Topic) (samples [][]aggregator.Record, err error) {
	for p := range min(topic.Partitions, partsSampled) {
		records, err := client.Newest(ctx, p, eventsSampled)
		if err != nil {
			return nil, err
		}
		samples = append(samples, records)
	}
	return samples, nil
}

// decodeSamples is decodeEvents for the records of each partition.
func decodeSamples(cfg *config.Config, topic aggregator.Topic, samples [][]aggregator.Record) (events []sampledEvent, err error) {
	for p, records := range samples {
		more, err := decodeEvents(cfg, topic, int32(p), records)
		if err != nil {
			return nil, err
		}
		events = append(events, more...)
	}
	return events, nil
}

// decodeEvents decodes records each by itself, as a partition with the
// configured cut does; in cut mode guard the history is not asked.
func decodeEvents(cfg *config.Config, topic aggregator.Topic, partition int32, records []aggregator.Record) ([]sampledEvent, error) {
	cut := aggregator.DecodeCut{EventTime: cfg.History.Cut.EventTime, Guard: cfg.History.Cut.Mode == aggregator.CutGuard}
	if cfg.History.Cut.Mode == aggregator.CutTimestamp {
		before := aggregator.Instant(cfg.History.Cut.Timestamp)
		cut.Before = &before
	}
	decoder, err := cfg.Program.NewDecoder(cut, func([]byte) (event.Time, bool, error) { return event.Time{}, false, nil })
	if err != nil {
		return nil, fmt.Errorf("decode records for the query: %w", err)
	}
	events := make([]sampledEvent, len(records))
	total := cfg.Program.NewTotal()
	for i := range records {
		delta := cfg.Program.NewDelta(partition, topic.Partitions)
		out, err := decoder.Fold(delta, partition, &records[i])
		if err != nil {
			return nil, fmt.Errorf("decode records for the query: %w", err)
		}
		events[i] = sampledEvent{place: fmt.Sprintf("%s/%d@%d", topic.Name, partition, records[i].Offset), outcome: out}
		for key, encoded := range delta.Sorted(nil) {
			total.Reset()
			if err := total.Merge(encoded); err != nil {
				return nil, fmt.Errorf("show record %s: %w", events[i].place, err)
			}
			events[i].row = string(total.AppendRow(nil, key, false))
		}
	}
	return events, nil
}

// judgeEvents is a step for all events, which fails where all are bad, and one
// for each of the first, bad ones before others of their kind.
func judgeEvents(topic string, events []sampledEvent) []checked {
	if len(events) == 0 {
		return []checked{outcome("events", topic, "there are none yet", nil)}
	}
	var results [aggregator.NumResults]int
	reasons := map[string]int{}
	for _, e := range events {
		results[e.outcome.Result]++
		if e.outcome.Result == aggregator.Bad {
			reasons[e.reason()]++
		}
	}
	texts := []string{}
	for r, n := range results {
		if n > 0 {
			texts = append(texts, fmt.Sprintf("%d %s", n, aggregator.Result(r)))
		}
	}
	why := make([]string, 0, len(reasons))
	for reason, n := range reasons {
		why = append(why, fmt.Sprintf("%s in %d", reason, n))
	}
	slices.Sort(why)
	all := outcome("events", topic, fmt.Sprintf("of the newest %d: %s", len(events), strings.Join(texts, ", ")), nil)
	if len(why) > 0 {
		all.Detail += ": " + strings.Join(why, "; ")
	}
	all.OK = results[aggregator.Bad] < len(events)
	steps := []checked{all}
	left := map[bool]int{true: shown, false: shown} // of those that are bad, and of the others
	for _, e := range events {
		bad := e.outcome.Result == aggregator.Bad
		if left[bad] > 0 {
			left[bad]--
			steps = append(steps, outcome("event", e.place, e.says(), nil))
		}
	}
	return steps
}
