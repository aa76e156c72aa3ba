package main

import (
	"context"
	"iter"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"tidemark/aggregator"
	"tidemark/internal/testkit"
	"tidemark/source/kafka"
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

func (s stallingStore) Apply(ctx context.Context, totals iter.Seq2[[]byte, []byte], next aggregator.Progress) error {
	if s.Identity().Partition == 0 && s.states.once.CompareAndSwap(false, true) {
		close(s.states.begun)
		<-s.states.may
	}
	return s.Store.Apply(ctx, totals, next)
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
	stalling := stallingStates{begun: make(chan struct{}), may: make(chan struct{}), once: new(atomic.Bool)}
	m := enter(t, s.cfg, client, fetcher, aggregator.Tuning{
		Topic: "sales", ApplyRecords: 2, ApplyInterval: 20 * time.Millisecond, FlushInterval: time.Minute, SnapshotInterval: time.Minute, Keep: 2,
	}, func(p *aggregator.Parts) {
		stalling.States = p.States
		p.States = stalling
	})
	defer m.stop()

	select {
	case <-stalling.begun:
	case <-time.After(30 * time.Second):
		t.Fatalf("nothing is applied: %+v", m.processor.Status())
	}
	began, first := time.Now(), m.group.group.Load().Status()
	b.Produce("sales", 0, repeated(20, `{"userId":"a","revenue":1}`)...)
	b.Produce("sales", 1, repeated(7, `{"userId":"b","revenue":1}`)...)
	testkit.Eventually(t, time.Minute, func() bool {
		return m.group.group.Load().Status().LastHeartbeat.Sub(began) > 2*session
	}, "heartbeats are answered for two session timeouts")
	if p := m.is(1); p.State != aggregator.Live || p.Position != 7 {
		t.Errorf("meanwhile the other partition is %+v", p)
	}
	if last := m.group.group.Load().Status(); last.Generation != first.Generation || last.MemberID != first.MemberID || last.Silent || last.Problem != "" {
		t.Errorf("the member was %+v and is %+v", first, last)
	}
	close(stalling.may)
	testkit.Eventually(t, 30*time.Second, func() bool { p := m.is(0); return p.State == aggregator.Live && p.Position == 25 }, "partition 0 goes on")
	if c := m.is(0).Counts.Results; c[aggregator.Folded] != 25 {
		t.Errorf("25 records count as %v", c)
	}
}
