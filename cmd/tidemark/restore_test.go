package main

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"tidemark/aggregator"
	"tidemark/internal/testkit"
	"tidemark/source/kafka"
)

// heldSnapshots begins a restore when it may.
type heldSnapshots struct {
	aggregator.Snapshots
	begun, may chan struct{}
}

func (h heldSnapshots) Restore(ctx context.Context, topic aggregator.Topic, partition int32, position int64, progress func(have, need int64)) (aggregator.Snapshot, error) {
	close(h.begun)
	select {
	case <-h.may:
	case <-ctx.Done():
		return aggregator.Snapshot{}, ctx.Err()
	}
	return h.Snapshots.Restore(ctx, topic, partition, position, progress)
}

// TestK09RestoreOutlastsTheSession: a restore that lasts for several session
// timeouts leaves the member in its generation, its other partitions live, and
// goes on from there.
func TestK09RestoreOutlastsTheSession(t *testing.T) {
	t.Parallel()
	const session = 6 * time.Second
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: "sales", Partitions: 3})
	for range 5 {
		b.Produce("sales", 0, testkit.Text("", `{"userId":"user3","revenue":2}`))
		b.Produce("sales", 1, testkit.Text("", `{"userId":"user4","revenue":1}`))
	}
	s := newShop(t, "file://"+t.TempDir(), b.Addrs()[0])
	s.cfg.Kafka.SessionTimeout = session
	log := slog.New(slog.DiscardHandler)
	client, err := kafka.Open(kafkaConfig(s.cfg, log, "http://127.0.0.1:1"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	fetcher := kafka.NewFetcher(client, kafka.FetchOptions{})
	topic, err := fetcher.Topic(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.publish(topic.ID, 0, 3)

	held := heldSnapshots{begun: make(chan struct{}), may: make(chan struct{})}
	m := enter(t, s.cfg, client, fetcher, aggregator.Tuning{
		Topic: "sales", ApplyRecords: 100, ApplyInterval: time.Second, FlushInterval: time.Minute, SnapshotInterval: time.Minute, Keep: 2,
	}, func(p *aggregator.Parts) {
		held.Snapshots = p.Snapshots
		p.Snapshots = held
	})
	defer m.stop()

	select {
	case <-held.begun:
	case <-time.After(30 * time.Second):
		t.Fatalf("no restore begins: %+v", m.processor.Status())
	}
	testkit.Eventually(t, 30*time.Second, func() bool { return m.is(1).State == aggregator.Live && m.is(1).Position == 5 }, "partition 1 is live")
	began := time.Now()
	first := m.group.group.Load().Status()
	testkit.Eventually(t, time.Minute, func() bool {
		return m.group.group.Load().Status().LastHeartbeat.Sub(began) > 3*session
	}, "heartbeats are answered for three session timeouts")
	if p := m.is(0); p.State != aggregator.Restoring || p.Answers {
		t.Errorf("meanwhile the partition is %+v", p)
	}
	close(held.may)
	testkit.Eventually(t, 30*time.Second, func() bool { return m.is(0).State == aggregator.Live && m.is(0).Position == 5 }, "partition 0 is live")
	if m.is(0).Counts.Results[aggregator.Folded] != 5 {
		t.Errorf("three records of the snapshot and two of the log make %v", m.is(0).Counts.Results)
	}
	if last := m.group.group.Load().Status(); last.Generation != first.Generation || last.MemberID != first.MemberID || last.Silent || last.Problem != "" {
		t.Errorf("the member was %+v and is %+v", first, last)
	}
}
