package main

import (
	"context"
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"tidemark/aggregator"
	"tidemark/api"
	"tidemark/config"
	"tidemark/source/kafka"
	"tidemark/store"
)

// inner is a member of a group that is put together as serve does it, without
// the HTTP interface, and with parts of it replaced.
type inner struct {
	t         *testing.T
	processor *aggregator.Processor
	group     *membership
	stop      func() // ends it, and closes its stores
}

// enter lets a member in. replace may put others in the place of its states and
// snapshots. The caller defers stop, before client is closed.
func enter(t *testing.T, cfg *config.Config, client *kafka.Client, fetcher *kafka.Fetcher, tuning aggregator.Tuning, replace func(*aggregator.Parts)) *inner {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	states, err := store.Open(cfg.State.Dir, store.Options{Program: cfg.Program, MinFree: -1, Fatal: func(why string) { t.Error(why) }})
	if err != nil {
		t.Fatal(err)
	}
	metrics := api.NewMetrics(prometheus.NewRegistry(), "test", "")
	seeder, err := newSeeder(cfg, client, log, metrics)
	if err != nil {
		t.Fatal(err)
	}
	snapshots := newPublished(cfg, log, metrics, states)
	group := &membership{id: cfg.Kafka.GroupID, metrics: metrics}
	parts := aggregator.Parts{
		Program: cfg.Program, Log: fetcher, States: states, Seeder: seeder, Snapshots: snapshots, Commits: group, Logger: log,
	}
	replace(&parts)
	parts.Seeds = aggregator.NewSeeds(seeder, parts.Snapshots, nil)
	processor := aggregator.NewProcessor(parts, tuning)
	group.processor, snapshots.tasks = processor, processor

	ctx, stop := context.WithCancel(t.Context())
	var work errgroup.Group
	member, leave := context.WithCancel(context.WithoutCancel(ctx))
	work.Go(func() error { defer leave(); return processor.Run(ctx) })
	work.Go(func() error { return fetcher.Run(member) })
	work.Go(func() error { return group.enter(member, client) })
	return &inner{t, processor, group, func() {
		stop()
		for _, end := range []func() error{work.Wait, snapshots.Close, states.Close} {
			if err := end(); err != nil {
				t.Error(err)
			}
		}
	}}
}

// is is the status of a partition, the zero value where the member has it not.
func (m *inner) is(partition int32) aggregator.PartitionStatus {
	for _, p := range m.processor.Status() {
		if p.Partition == partition {
			return p
		}
	}
	return aggregator.PartitionStatus{}
}
