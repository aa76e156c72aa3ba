package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/IBM/sarama"
	"github.com/cenkalti/backoff/v5"
)

// heartbeats sends heartbeats of its own besides sarama's, which does not say
// when one was answered and sends none while it waits for a rebalance. They are
// of the member and generation that sarama has, on another connection, so they
// tell for how long the coordinator surely keeps the partitions for it. Now and
// then the coordinator is also asked who the members are: a static member that
// comes back at another address causes no rebalance.
func (g *Group) heartbeats(ctx context.Context) error {
	every := min(heartbeatInterval, g.cfg.sessionTimeout()/3)
	tick := time.NewTicker(every)
	defer tick.Stop()
	var described time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-g.beat:
		}
		generation, member, ok := g.state.identity()
		if !ok {
			continue
		}
		within, cancel := context.WithTimeout(ctx, max(every, g.cfg.sessionTimeout()/3))
		sent := time.Now()
		err := g.client.heartbeat(within, generation, member)
		if err == nil {
			g.state.answered(sent)
		}
		if time.Since(described) > describeInterval || g.state.needsTable() {
			if members, err := g.client.members(within); err == nil {
				g.state.table(generation, members)
				described = time.Now()
			} else {
				g.log.Debug("describe the group", "err", err)
			}
		}
		cancel()
		if err != nil && ctx.Err() == nil {
			g.log.Debug("heartbeat", "generation", generation, "err", err)
		}
	}
}

const describeInterval = 10 * time.Second

// heartbeat is nil where the coordinator knows the member in the generation,
// also when it wants it to join again.
func (c *Client) heartbeat(ctx context.Context, generation int32, member string) error {
	addr, err := c.cluster.findCoordinator(ctx)
	if err != nil {
		return err
	}
	req := &sarama.HeartbeatRequest{Version: 4, GroupId: c.cfg.GroupID, GenerationId: generation, MemberId: member}
	if c.cfg.GroupInstanceID != "" {
		req.GroupInstanceId = &c.cfg.GroupInstanceID
	}
	var resp *sarama.HeartbeatResponse
	err = c.cluster.ask(ctx, addr, func(b *sarama.Broker) (err error) {
		resp, err = b.Heartbeat(req)
		return err
	})
	if err == nil && resp.Err != sarama.ErrNoError && resp.Err != sarama.ErrRebalanceInProgress {
		err = resp.Err
	}
	if err != nil && mends(err) {
		c.cluster.doubt()
	}
	return err
}

// describeGroup asks the coordinator about the group.
func (c *Client) describeGroup(ctx context.Context) (*sarama.GroupDescription, error) {
	var group *sarama.GroupDescription
	err := c.cluster.atCoordinator(ctx, func(b *sarama.Broker) error {
		req := &sarama.DescribeGroupsRequest{Version: 5}
		req.AddGroup(c.cfg.GroupID)
		resp, err := b.DescribeGroups(req)
		if err != nil {
			return err
		}
		if len(resp.Groups) != 1 {
			return fmt.Errorf("the answer is about %d groups", len(resp.Groups))
		}
		group = resp.Groups[0]
		if group.Err != sarama.ErrNoError && group.Err != sarama.ErrGroupIDNotFound {
			return group.Err
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("describe group %s: %w", c.cfg.GroupID, err)
	}
	return group, nil
}

var errNotStable = errors.New("group is rebalancing: nothing is known of its members")

// members asks the coordinator who is in the group, by id.
func (c *Client) members(ctx context.Context) ([]Member, error) {
	group, err := c.describeGroup(ctx)
	if err != nil {
		return nil, err
	}
	if group.State != "Stable" {
		return nil, errNotStable
	}
	list := make([]Member, 0, len(group.Members))
	for id, m := range group.Members {
		meta, err := m.GetMemberMetadata()
		if err != nil {
			return nil, fmt.Errorf("read the subscription of member %s: %w", id, err)
		}
		has, err := m.GetMemberAssignment()
		if err != nil {
			return nil, fmt.Errorf("read the assignment of member %s: %w", id, err)
		}
		member := Member{ID: id}
		if meta != nil {
			sub, _ := subscriptionIn(meta.UserData)
			member.Address = sub.Address
		}
		if has != nil {
			member.Partitions = slices.Sorted(slices.Values(has.Topics[c.cfg.Topic]))
		}
		list = append(list, member)
	}
	slices.SortFunc(list, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
	return list, nil
}

// leave takes the members with a client id out of the group.
func (c *Client) leave(ctx context.Context, clientID string) error {
	group, err := c.describeGroup(ctx)
	if err != nil {
		return err
	}
	req := &sarama.LeaveGroupRequest{Version: 4, GroupId: c.cfg.GroupID}
	for id, m := range group.Members {
		if m.ClientId == clientID {
			req.Members = append(req.Members, sarama.MemberIdentity{MemberId: id})
		}
	}
	if len(req.Members) == 0 {
		return nil
	}
	err = c.cluster.atCoordinator(ctx, func(b *sarama.Broker) error {
		resp, err := b.LeaveGroup(req)
		if err == nil && resp.Err != sarama.ErrNoError {
			err = resp.Err
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("leave group %s: %w", c.cfg.GroupID, err)
	}
	return nil
}

// waits are growing pauses between tries.
type waits struct{ b *backoff.ExponentialBackOff }

func newWaits() waits {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval, b.Multiplier = 100*time.Millisecond, 5*time.Second, 2
	return waits{b}
}

func (w waits) reset() { w.b.Reset() }

// sleep is the next pause; false where ctx ends.
func (w waits) sleep(ctx context.Context) bool {
	timer := time.NewTimer(w.b.NextBackOff())
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
