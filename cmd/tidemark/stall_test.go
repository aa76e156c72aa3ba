package main

import (
	"context"
	"iter"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"tidemark/aggregator"
	"tidemark/api"
	"tidemark/internal/testkit"
	"tidemark/source/kafka"
	"tidemark/store"
)

// stallingStates have an apply that takes as long as it is told to.
type stallingStates struct {
	aggregator.States
	begun chan struct{} // closed when an apply stalls
	may   chan struct{} // closed when it may go on
	once  *atomic.Bool
}

func (s stallingStates) Open(partition int32) (aggregator.Store, error) {
	st, err := s.States.Open(partition)
	if err != nil {
		return nil, err
	}
	return stallingStore{st, s}, nil
}

func (s stallingStates) Create(id aggregator.Identity, p aggregator.Progress) (aggregator.NewStore, error) {
	st, err := s.States.Create(id, p)
	if err != nil {
		return nil, err
	}
	return struct {
		stallingStore
		aggregator.SeedStore
	}{stallingStore{st, s}, st}, nil
}

type stallingStore struct {
	aggregator.Store
	states stallingStates
}

func (s stallingStore) Apply(totals iter.Seq2[[]byte, []byte], next aggregator.Progress) error {
	if s.Identity().Partition == 0 && s.states.once.CompareAndSwap(false, true) {
		close(s.states.begun)
		<-s.states.may
	}
	return s.Store.Apply(totals, next)
}

// TestK12StalledWriteOutlastsTheSession: one write that takes several session
// timeouts costs the member nothing: its generation stays, its other partition
// folds and answers, and afterwards everything is folded, once.
func TestK12StalledWriteOutlastsTheSession(t *testing.T) {
	t.Parallel()
	const session = 6 * time.Second
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: "sales", Partitions: 2})
	b.Produce("sales", 0, repeated(5, `{"userId":"a","revenue":1}`)...)
	s := newShopConfig(t, "file://"+t.TempDir(), b.Addrs()[0])
	s.cfg.Kafka.SessionTimeout = session
	log := slog.New(slog.DiscardHandler)
	client, err := kafka.Open(kafkaConfig(s.cfg, log, "http://127.0.0.1:1"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	fetcher := kafka.NewFetcher(client, kafka.FetchOptions{})
	states, err := store.Open(s.cfg.State.Dir, store.Options{Program: s.cfg.Program, MinFree: -1, Fatal: func(why string) { t.Error(why) }})
	if err != nil {
		t.Fatal(err)
	}
	stalling := stallingStates{states, make(chan struct{}), make(chan struct{}), new(atomic.Bool)}
	metrics := api.NewMetrics(prometheus.NewRegistry(), "test", "")
	seeder, err := newSeeder(s.cfg, client, log, metrics)
	if err != nil {
		t.Fatal(err)
	}
	snapshots := newPublished(s.cfg, log, metrics, states)
	group := &membership{id: s.cfg.Kafka.GroupID, metrics: metrics}
	processor := aggregator.NewProcessor(aggregator.Parts{
		Program: s.cfg.Program, Log: fetcher, States: stalling, Seeder: seeder, Snapshots: snapshots,
		Seeds: aggregator.NewSeeds(seeder, snapshots, nil), Commits: group, Logger: log,
	}, aggregator.Tuning{
		Topic: "sales", ApplyRecords: 2, ApplyInterval: 20 * time.Millisecond, FlushInterval: time.Minute, SnapshotInterval: time.Minute, Keep: 2,
	})
	group.processor, snapshots.tasks = processor, processor

	ctx, stop := context.WithCancel(t.Context())
	var work errgroup.Group
	member, leave := context.WithCancel(context.WithoutCancel(ctx))
	work.Go(func() error { defer leave(); return processor.Run(ctx) })
	work.Go(func() error { return fetcher.Run(member) })
	work.Go(func() error { return group.enter(member, client) })
	defer func() {
		stop()
		for _, end := range []func() error{work.Wait, snapshots.Close, states.Close} {
			if err := end(); err != nil {
				t.Error(err)
			}
		}
	}()
	is := func(partition int32) aggregator.PartitionStatus {
		for _, p := range processor.Status() {
			if p.Partition == partition {
				return p
			}
		}
		return aggregator.PartitionStatus{}
	}

	select {
	case <-stalling.begun:
	case <-time.After(30 * time.Second):
		t.Fatalf("nothing is applied: %+v", processor.Status())
	}
	began, first := time.Now(), group.group.Load().Status()
	b.Produce("sales", 0, repeated(20, `{"userId":"a","revenue":1}`)...)
	b.Produce("sales", 1, repeated(7, `{"userId":"b","revenue":1}`)...)
	testkit.Eventually(t, time.Minute, func() bool {
		return group.group.Load().Status().LastHeartbeat.Sub(began) > 2*session
	}, "heartbeats are answered for two session timeouts")
	if p := is(1); p.State != aggregator.Live || p.Position != 7 {
		t.Errorf("meanwhile the other partition is %+v", p)
	}
	if last := group.group.Load().Status(); last.Generation != first.Generation || last.MemberID != first.MemberID || last.Silent || last.Problem != "" {
		t.Errorf("the member was %+v and is %+v", first, last)
	}
	close(stalling.may)
	testkit.Eventually(t, 30*time.Second, func() bool { p := is(0); return p.State == aggregator.Live && p.Position == 25 }, "partition 0 goes on")
	if c := is(0).Counts.Results; c[aggregator.Folded] != 25 {
		t.Errorf("25 records count as %v", c)
	}
}
