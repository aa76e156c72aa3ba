package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"tidemark/aggregator"
	"tidemark/api"
	"tidemark/source/kafka"
)

// membership joins the consumer group to what needs it: the tasks commit
// through it, answers look at it, metrics hear of it. Before enter it knows
// nothing.
type membership struct {
	id        string
	metrics   *api.Metrics
	processor *aggregator.Processor
	group     atomic.Pointer[kafka.Group]
	crowded   func() // called once where the group has other members; may be nil
	told      sync.Once
}

var (
	_ aggregator.Commits = (*membership)(nil)
	_ api.Group          = (*membership)(nil)
	_ kafka.Handler      = (*aggregator.Processor)(nil)
	_ kafka.Observer     = (*membership)(nil)
)

// enter is a member of the group until ctx ends.
func (m *membership) enter(ctx context.Context, client *kafka.Client) error {
	group := kafka.NewGroup(client, m)
	m.group.Store(group)
	return group.Run(ctx, m.processor)
}

// Assigned hears of a rebalance.
func (m *membership) Assigned(_ int32, _ string, _ []int32, took time.Duration) {
	m.metrics.Rebalanced(took.Seconds())
	if group := m.group.Load(); m.crowded != nil && group != nil && len(group.Status().Members) > 1 {
		m.told.Do(m.crowded)
	}
}

// Committed asks for the group's commits. Tasks exist once the group does.
func (m *membership) Committed(ctx context.Context) (map[int32]aggregator.Commit, error) {
	return m.group.Load().Committed(ctx)
}

// Commit commits for one partition.
func (m *membership) Commit(ctx context.Context, partition int32, c aggregator.Commit) error {
	err := m.group.Load().Commit(ctx, partition, c)
	m.metrics.Committed(err == nil)
	return err
}

// View is the group at this moment.
func (m *membership) View() api.View {
	v := api.View{Group: m.id, Partitions: m.processor.Topic().Partitions}
	group := m.group.Load()
	if group == nil {
		return v
	}
	s := group.Status()
	v.Member, v.Assigned, v.Silent, v.Problem = s.MemberID, s.Assigned, s.Silent, s.Problem
	v.Generation, v.Own, v.Lapses = s.Generation, s.Partitions, s.Lapses
	for _, member := range s.Members {
		v.Members = append(v.Members, api.Member{ID: member.ID, Address: member.Address, Partitions: member.Partitions})
	}
	return v
}
