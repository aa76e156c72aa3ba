package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/IBM/sarama"
	"golang.org/x/sync/errgroup"

	"tidemark/aggregator"
)

// Handler takes the partitions that the group grants, and lets them go. Calls
// for one partition come one after the other, for several at once.
type Handler interface {
	// Assign takes a partition; it returns at once.
	Assign(partition int32)
	// Revoke lets a partition go and returns when it is let go of, or when ctx
	// ends: the group hands it to another member then.
	Revoke(ctx context.Context, partition int32)
}

// Observer is told of rebalances. It returns at once.
type Observer interface {
	// Assigned: the member is in a new generation, with these partitions,
	// possibly none, took after it asked to join. member is "" at first where
	// the group's leader is another program.
	Assigned(generation int32, member string, partitions []int32, took time.Duration)
}

// Group is this process as a member of the consumer group. It is an
// aggregator.Commits.
//
// A cooperative rebalance calls the handler for the partitions that come and go
// alone. An eager one, which is the case while the group has members that know
// no other, revokes all and assigns anew.
type Group struct {
	cfg      Config
	client   *Client
	observer Observer
	log      *slog.Logger
	clientID string // of this process alone, so that its members can be told in the group
	beat     chan struct{}
	released chan struct{} // a claim has ended

	state state
}

// NewGroup returns a member that is not joining yet. observer may be nil.
func NewGroup(client *Client, observer Observer) *Group {
	cfg := client.cfg
	return &Group{
		cfg:      cfg,
		client:   client,
		observer: observer,
		log:      cfg.logger().With("group", cfg.GroupID),
		clientID: fmt.Sprintf("%s-%08x", cfg.clientID(), rand.Uint32()),
		beat:     make(chan struct{}, 1),
		released: make(chan struct{}, 1),
		state:    newState(),
	}
}

var _ aggregator.Commits = (*Group)(nil)

// ErrInstanceFenced: another process took over the group.instance.id.
var ErrInstanceFenced = errors.New("another process uses the same group.instance.id")

// errOldMembers: the group has members that know no cooperative rebalance.
var errOldMembers = errors.New("group has members without the cooperative protocol")

// Run is a member of the group until ctx ends; then it lets go of all
// partitions, leaves, unless the membership is static, and returns nil. Brokers
// that are away, and a topic that does not exist, are waited for. The error is
// ErrInstanceFenced.
func (g *Group) Run(ctx context.Context, h Handler) error {
	eg, beating := errgroup.WithContext(ctx)
	eg.Go(func() error { return g.heartbeats(beating) })
	eg.Go(func() error {
		for eager := false; ; eager = true {
			err := g.join(ctx, h, eager)
			if !errors.Is(err, errOldMembers) {
				return err
			}
			g.log.Warn("the group has members without cooperative rebalancing: all partitions pause at each rebalance until this process starts again without them")
		}
	})
	return eg.Wait()
}

// join is a member with one sarama group: cooperative, or eager.
func (g *Group) join(ctx context.Context, h Handler, eager bool) error {
	dial := newDialer(ctx, rebalanceTimeout+15*time.Second) // JoinGroup is answered when all have joined
	defer dial.sever()
	group := g.opened(ctx, dial, eager)
	if group == nil {
		return nil
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for err := range group.Errors() {
			g.log.Debug("group member", "err", err)
		}
	}()
	err := g.consume(ctx, group, dial, &claims{g: g, h: h, group: group, run: ctx})
	g.close(ctx, group, dial)
	<-ended
	return err
}

// opened is open, again and again, since the file of a secret may come later;
// nil where ctx ends.
func (g *Group) opened(ctx context.Context, dial *dialer, eager bool) sarama.ConsumerGroup {
	waits := newWaits()
	for {
		group, err := g.open(dial, eager)
		if err != nil {
			g.problem(err)
		}
		if err == nil || !waits.sleep(ctx) {
			return group // nil with err
		}
	}
}

func (g *Group) open(dial *dialer, eager bool) (sarama.ConsumerGroup, error) {
	conf, err := g.cfg.sarama(dial)
	if err != nil {
		return nil, err
	}
	conf.ClientID = g.clientID
	conf.Net.ReadTimeout = dial.silence // conn keeps it; sarama's is above Rebalance.Timeout for the look of it
	conf.ChannelBufferSize = 8
	conf.Consumer.Return.Errors = true
	conf.Consumer.Fetch.Default = 1 // a claim is paused before it fetches; this is what it would read
	cg := &conf.Consumer.Group
	cg.InstanceId = g.cfg.GroupInstanceID
	cg.Session.Timeout = g.cfg.sessionTimeout()
	cg.Heartbeat.Interval = min(heartbeatInterval, g.cfg.sessionTimeout()/3)
	cg.Rebalance.Timeout = rebalanceTimeout
	inner := []sarama.BalanceStrategy{sarama.NewBalanceStrategyCooperativeSticky()}
	if eager {
		inner = append(inner, sarama.NewBalanceStrategyRange(), sarama.NewBalanceStrategyRoundRobin())
	}
	cg.Rebalance.Strategy, cg.Rebalance.GroupStrategies = nil, nil
	for _, s := range inner {
		cg.Rebalance.GroupStrategies = append(cg.Rebalance.GroupStrategies, &strategy{BalanceStrategy: s, g: g})
	}
	return sarama.NewConsumerGroup(g.cfg.Brokers, g.cfg.GroupID, conf)
}

// consume joins again and again until ctx ends or an error is for good. It
// returns when all claims have ended.
func (g *Group) consume(ctx context.Context, group sarama.ConsumerGroup, dial *dialer, h *claims) error {
	waits := newWaits()
	for ctx.Err() == nil {
		began := time.Now()
		err := g.forGood(g.session(ctx, group, dial, h))
		g.state.left()
		if err != nil {
			return err
		}
		if time.Since(began) > 10*time.Second {
			waits.reset()
		}
		waits.sleep(ctx)
	}
	return nil
}

// forGood is what a session's error means where joining again does not help,
// and nil where it may.
func (g *Group) forGood(err error) error {
	switch {
	case errors.Is(err, sarama.ErrFencedInstancedId):
		return fmt.Errorf("group.instance.id %q in group %s: %w; give each member an id of its own", g.cfg.GroupInstanceID, g.cfg.GroupID, ErrInstanceFenced)
	case errors.Is(err, sarama.ErrInconsistentGroupProtocol):
		return errOldMembers
	case err != nil && !errors.Is(err, context.Canceled):
		g.problem(err)
	}
	return nil
}

// session is one Consume. When ctx ends it does not wait for a rebalance that
// others hold up: it leaves by a request of its own, cuts the connections, and
// has no error.
func (g *Group) session(ctx context.Context, group sarama.ConsumerGroup, dial *dialer, h *claims) error {
	done := make(chan error, 1)
	go func() { done <- group.Consume(ctx, []string{g.cfg.Topic}, h) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	limit := time.NewTimer(shutdownTimeout + time.Second)
	defer limit.Stop()
	for late := false; !late && !g.state.onlyJoining(); {
		select {
		case err := <-done:
			g.log.Debug("group session has ended", "err", err)
			return nil
		case <-g.released:
		case <-limit.C:
			late = true
		}
	}
	g.leave(ctx)
	dial.sever()
	g.log.Debug("group session was cut off", "err", <-done)
	return nil
}

// close leaves the group, where sarama is one of its members still, and closes
// the connections.
func (g *Group) close(ctx context.Context, group sarama.ConsumerGroup, dial *dialer) {
	done := make(chan error, 1)
	go func() { done <- group.Close() }()
	limit := time.NewTimer(leaveTimeout)
	defer limit.Stop()
	var err error
	select {
	case err = <-done:
	case <-limit.C:
		g.leave(ctx)
		dial.sever()
		err = <-done
	}
	if err != nil {
		g.log.Debug("leave the group", "err", err)
	}
}

// leave takes this process out of the group. A static member stays, so that it
// comes back to its partitions without a rebalance.
func (g *Group) leave(ctx context.Context) {
	if g.cfg.GroupInstanceID != "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	if err := g.client.leave(ctx, g.clientID); err != nil {
		g.log.Warn("the group was not left; it will take its session timeout to see that this member is gone", "err", err)
	}
}

// problem notes why the member is not in the group, and logs a change.
func (g *Group) problem(err error) {
	err = g.explained(err)
	if g.state.problem(err.Error()) {
		g.log.Warn("not in the group now; trying again", "err", err)
	}
}

// explained says what a refusal is about, in words of the configuration.
func (g *Group) explained(err error) error {
	switch {
	case errors.Is(err, sarama.ErrUnknownTopicOrPartition):
		return fmt.Errorf("topic %s does not exist, or may not be seen; it is waited for", g.cfg.Topic)
	case errors.Is(err, sarama.ErrOutOfBrokers):
		return fmt.Errorf("no broker can be talked to (%w); tidemark check --connect tells the step that fails", err)
	}
	return denied(err, fmt.Sprintf("Describe and Read on topic %s and Read on group %s", g.cfg.Topic, g.cfg.GroupID))
}

// joins notes that a request to join goes out.
func (g *Group) joins() { g.state.joins(time.Now()) }

// assigned notes a new generation.
func (g *Group) assigned(generation int32, member string, partitions []int32, members []Member) {
	member, took := g.state.assigned(time.Now(), generation, member, partitions, members)
	g.log.Info("assigned", "generation", generation, "member", member, "partitions", partitions, "took", took)
	poke(g.beat)
	if g.observer != nil {
		g.observer.Assigned(generation, member, partitions, took)
	}
}

// claims is what sarama calls.
type claims struct {
	g     *Group
	h     Handler
	group sarama.ConsumerGroup
	run   context.Context // of Run: its end shortens what Revoke may take
}

// Setup notes the member's id.
func (c *claims) Setup(s sarama.ConsumerGroupSession) error {
	c.g.state.is(s.MemberID())
	poke(c.g.beat)
	return nil
}

// Cleanup has nothing to do: each claim was let go of.
func (c *claims) Cleanup(sarama.ConsumerGroupSession) error { return nil }

// ConsumeClaim holds a partition until the group takes it back. Its records are
// read elsewhere: sarama's own reading is paused before it begins.
func (c *claims) ConsumeClaim(s sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	p := claim.Partition()
	c.group.Pause(map[string][]int32{claim.Topic(): {p}})
	c.g.state.claim(p, true)
	defer poke(c.g.released)
	defer c.g.state.claim(p, false)
	c.h.Assign(p)
	for held := true; held; {
		select {
		case _, held = <-claim.Messages():
		case <-s.Context().Done():
			held = false
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.run), revokeTimeout)
	defer cancel()
	defer context.AfterFunc(c.run, func() {
		defer time.AfterFunc(shutdownTimeout, cancel)
	})()
	c.h.Revoke(ctx, p)
	if ctx.Err() != nil {
		c.g.log.Warn("a partition was not let go of in time", "partition", p)
	}
	return nil
}

// Committed returns what the group has committed, as Client does.
func (g *Group) Committed(ctx context.Context) (map[int32]aggregator.Commit, error) {
	return g.client.Committed(ctx)
}

// Commit commits for one partition that is claimed, or about to be let go of,
// under the present generation; aggregator.ErrFenced where it is not this
// member's any more. It waits while the group goes from one generation to the
// next.
func (g *Group) Commit(ctx context.Context, partition int32, c aggregator.Commit) error {
	waits := newWaits()
	for {
		generation, member, held := g.state.owner(partition)
		if !held {
			return fmt.Errorf("commit partition %d: %w", partition, aggregator.ErrFenced)
		}
		refused, err := g.client.Commit(ctx, generation, member, map[int32]aggregator.Commit{partition: c})
		if err == nil {
			err = refused[partition]
		}
		if err == nil {
			return nil
		}
		if now, _, _ := g.state.owner(partition); !errors.Is(err, ErrRebalancing) && now == generation {
			return fmt.Errorf("commit offset %d of partition %d: %w", c.Offset, partition, err)
		}
		if !waits.sleep(ctx) {
			return fmt.Errorf("commit offset %d of partition %d: %w", c.Offset, partition, err)
		}
	}
}
