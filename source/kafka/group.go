package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/IBM/sarama"
	"golang.org/x/sync/errgroup"

	"tidemark/aggregator"
)

// Handler takes the partitions that the group grants, and lets them go. Calls
// for one partition come one after the other, for several at once.
type Handler interface {
	// Assign takes a partition; it returns at once. It is called again for a
	// partition that is held with each assignment that names it, which changes
	// nothing.
	Assign(partition int32)
	// Revoke lets a partition go and returns when it is let go of, or when ctx
	// ends: the group hands it to another member then. It is called when the
	// group has taken the partition away, or may have for a while, in an eager
	// group before each request to join, and at the end; not because the group
	// cannot be reached.
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
// A partition is held from the assignment that names it until one comes that
// does not. Sessions with the group end earlier and more often: connections
// break, the coordinator moves or restarts, a rebalance fails half-way. The
// next request to join then says what is still held and of which generation, so
// that the leader gives it back, or withholds it from others until it is let go
// of. Whether the group still counts on this member is another question, which
// Status answers by the clock and Commit by asking.
//
// A member that heard nothing from the group for a session timeout lets go of
// everything when the next assignment comes, and takes what is in it anew:
// others may have had it, and gone on, in between.
//
// A cooperative rebalance lets go of the partitions that go alone. An eager
// one, which is the case while the group has members that know no other,
// revokes all and assigns anew.
type Group struct {
	cfg      Config
	client   *Client
	observer Observer
	log      *slog.Logger
	clientID string // of this process alone, so that its members can be told in the group
	beat     chan struct{}
	stirs    chan struct{} // something changed that the one who waits for a session looks at

	state state
	held  *holding
	fresh atomic.Bool // a session begins, and is not set up yet
}

// NewGroup returns a member that is not joining yet. observer may be nil.
func NewGroup(client *Client, observer Observer) *Group {
	cfg := client.cfg
	log, stirs := cfg.logger().With("group", cfg.GroupID), make(chan struct{}, 1)
	return &Group{
		cfg:      cfg,
		client:   client,
		observer: observer,
		log:      log,
		clientID: fmt.Sprintf("%s-%08x", cfg.clientID(), rand.Uint32()),
		beat:     make(chan struct{}, 1),
		stirs:    stirs,
		state:    newState(),
		held:     newHolding(log, stirs),
	}
}

var _ aggregator.Commits = (*Group)(nil)

// ErrInstanceFenced: another process took over the group.instance.id.
var ErrInstanceFenced = errors.New("another process uses the same group.instance.id")

// errOldMembers: the group has members that know no cooperative rebalance.
var errOldMembers = errors.New("group has members without the cooperative protocol")

// Run is a member of the group until ctx ends; then it lets go of all
// partitions, leaves where Config.LeaveOnShutdown says so, and returns nil. Brokers
// that are away, and a topic that does not exist, are waited for. The error is
// ErrInstanceFenced.
func (g *Group) Run(ctx context.Context, h Handler) error {
	g.held.begin(ctx, h)
	// Heartbeats go on while partitions are let go of at the end.
	var eg errgroup.Group
	beating, stop := context.WithCancel(context.WithoutCancel(ctx))
	eg.Go(func() error { return g.heartbeats(beating) })
	eg.Go(func() error {
		defer stop()
		for eager := false; ; eager = true {
			err := g.join(ctx, eager)
			if !errors.Is(err, errOldMembers) {
				return err
			}
			g.log.Warn("the group has members without cooperative rebalancing: all partitions pause at each rebalance until this process starts again without them")
		}
	})
	return eg.Wait()
}

// join is a member with one sarama group: cooperative, or eager. Nothing is
// held when it returns, but for errOldMembers.
func (g *Group) join(ctx context.Context, eager bool) error {
	dial := newDialer(ctx, rebalanceTimeout+15*time.Second) // JoinGroup is answered when all have joined
	defer dial.sever()
	client, group := g.opened(ctx, dial, eager)
	if group == nil {
		g.held.end()
		return nil
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for err := range group.Errors() {
			g.log.Debug("group member", "err", err)
		}
	}()
	err := g.consume(ctx, group, dial)
	if !errors.Is(err, errOldMembers) {
		g.held.end()
	}
	g.close(ctx, group, dial)
	<-ended
	if err := client.Close(); err != nil {
		g.log.Debug("close the group's connections", "err", err)
	}
	return err
}

// opened is open, again and again, since the file of a secret may come later;
// nil where ctx ends.
func (g *Group) opened(ctx context.Context, dial *dialer, eager bool) (sarama.Client, sarama.ConsumerGroup) {
	waits := newWaits()
	for {
		client, group, err := g.open(dial, eager)
		if err == nil {
			return client, group
		}
		g.problem(err)
		if !waits.sleep(ctx) {
			return nil, nil
		}
	}
}

func (g *Group) open(dial *dialer, eager bool) (sarama.Client, sarama.ConsumerGroup, error) {
	conf, err := g.cfg.sarama(dial)
	if err != nil {
		return nil, nil, err
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
		cg.Rebalance.GroupStrategies = append(cg.Rebalance.GroupStrategies, &strategy{BalanceStrategy: s, g: g, eager: eager})
	}
	client, err := newPatientClient(g.cfg.Brokers, conf, g.cfg.sessionTimeout())
	if err != nil {
		return nil, nil, err
	}
	group, err := sarama.NewConsumerGroupFromClient(g.cfg.GroupID, client)
	if err != nil {
		return nil, nil, errors.Join(err, client.Close())
	}
	return client, group, nil
}

// consume joins again and again until ctx ends or an error is for good. It
// returns when all claims have ended.
func (g *Group) consume(ctx context.Context, group sarama.ConsumerGroup, dial *dialer) error {
	waits := newWaits()
	for ctx.Err() == nil {
		began := time.Now()
		err := g.session(ctx, group, dial)
		g.state.left()
		if errors.Is(err, errUntold) {
			continue
		}
		if err = g.forGood(err); err != nil {
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

// session is one Consume. When ctx ends it lets go of all partitions, while
// sarama's heartbeats go on, and then leaves; it does not wait for a rebalance
// that others hold up, but leaves by a request of its own, cuts the
// connections, and has no error.
func (g *Group) session(ctx context.Context, group sarama.ConsumerGroup, dial *dialer) error {
	inner, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	done := make(chan error, 1)
	c := &claims{g: g, group: group}
	g.fresh.Store(true)
	go func() { done <- group.Consume(inner, []string{g.cfg.Topic}, c) }()
	var untold <-chan time.Time
	telling := false
	for running := true; running; {
		select {
		case err := <-done:
			if telling {
				return errUntold
			}
			return err
		case <-g.stirs:
			if untold == nil && g.keepsFromOthers() {
				untold = time.After(tellAfter)
			}
		case <-untold:
			if untold = nil; g.keepsFromOthers() {
				telling = true
				end()
			}
		case <-ctx.Done():
			running = false
		}
	}
	g.held.end()
	end()
	limit := time.NewTimer(leaveTimeout)
	defer limit.Stop()
	for late := false; !late && !g.state.isJoining(); {
		select {
		case err := <-done:
			g.log.Debug("group session has ended", "err", err)
			return nil
		case <-g.stirs:
		case <-limit.C:
			late = true
		}
	}
	g.leave(ctx)
	dial.sever()
	g.log.Debug("group session was cut off", "err", <-done)
	return nil
}

// errUntold ends a session so that the next request to join tells what is no
// longer held.
var errUntold = errors.New("the group withholds partitions that were let go of")

// tellAfter is how long sarama has to join again, as it does after a rebalance
// within a session, when partitions were let go of that the group withholds.
const tellAfter = 500 * time.Millisecond

// keepsFromOthers says that the group withholds partitions which this member
// has let go of, and waits to be told.
func (g *Group) keepsFromOthers() bool {
	withheld, owned := g.state.withheld(), g.held.owned()
	return len(withheld) > 0 && !slices.ContainsFunc(withheld, func(p int32) bool { return slices.Contains(owned, p) })
}

// close leaves the group, where sarama is one of its members still, and closes
// the connections. At the end of the process the member may stay.
func (g *Group) close(ctx context.Context, group sarama.ConsumerGroup, dial *dialer) {
	ending := ctx.Err() != nil
	if ending && !g.cfg.leaves() {
		dial.sever() // sarama would leave where the membership is dynamic
	}
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
	if ending && g.cfg.static() {
		g.leave(ctx) // sarama does not
	}
}

// leave takes this process out of the group, unless it is to stay: then it
// comes back to its partitions without a rebalance, or the group misses it
// after the session timeout.
func (g *Group) leave(ctx context.Context) {
	if !g.cfg.leaves() {
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

// joins notes that a request to join goes out, and returns what it tells. In an
// eager group, and for a member without a session where another program may
// lead, it is as if this member had nothing, so it lets go of all first.
func (g *Group) joins(eager bool) subscription {
	if eager || g.fresh.Load() && !g.state.allKnow() {
		g.held.release()
	}
	owned := g.held.owned()
	sub := subscription{Address: g.cfg.Address, Owned: owned}
	generation := g.state.joins(time.Now(), owned)
	if len(owned) > 0 {
		sub.Generation = generation
	}
	poke(g.stirs)
	return sub
}

// assigned notes a new generation.
func (g *Group) assigned(generation int32, member string, partitions []int32, members []Member) {
	member, took := g.state.assigned(time.Now(), g.cfg.sessionTimeout(), generation, member, partitions, members)
	g.log.Info("assigned", "generation", generation, "member", member, "partitions", append([]int32{}, partitions...), "took", took)
	poke(g.beat)
	if g.observer != nil {
		g.observer.Assigned(generation, member, partitions, took)
	}
	if !g.fresh.Load() {
		other := g.state.others()
		g.held.assigned(partitions, g.state.lapse(), func(p int32) bool { return other(p, false) })
	}
	poke(g.stirs)
}

// claims is what sarama calls in one session.
type claims struct {
	g     *Group
	group sarama.ConsumerGroup
}

// Setup notes the member's id, under which partitions are taken, and what the
// session begins with.
func (c *claims) Setup(s sarama.ConsumerGroupSession) error {
	g := c.g
	g.state.is(s.MemberID())
	poke(g.beat)
	g.fresh.Store(false)
	// There was no session before, or it was lost: others may have taken over.
	other := g.state.others()
	g.held.assigned(g.state.assignment(), g.state.lapse(), func(p int32) bool { return other(p, true) })
	poke(g.stirs)
	return nil
}

// Cleanup has nothing to do: what is held is held beyond the session.
func (c *claims) Cleanup(sarama.ConsumerGroupSession) error { return nil }

// ConsumeClaim lasts until the session ends or the partition, which a rebalance
// has taken away, was let go of. Its records are read elsewhere: sarama's own
// reading is paused before it begins.
func (c *claims) ConsumeClaim(s sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	p := claim.Partition()
	c.group.Pause(map[string][]int32{claim.Topic(): {p}})
	for open := true; open; {
		select {
		case _, open = <-claim.Messages():
		case <-s.Context().Done():
			return nil
		}
	}
	select {
	case <-c.g.held.gone(p):
	case <-s.Context().Done():
	}
	return nil
}

// Committed returns what the group has committed, as Client does.
func (g *Group) Committed(ctx context.Context) (map[int32]aggregator.Commit, error) {
	return g.client.Committed(ctx)
}

// Commit commits for one partition that is held, or about to be let go of,
// under the present generation. It is aggregator.ErrFenced where the group has
// given the partition to another member, or does not count on this one any
// more. It waits while the group goes from one generation to the next, until
// ctx ends.
func (g *Group) Commit(ctx context.Context, partition int32, c aggregator.Commit) error {
	waits := newWaits()
	for {
		if !g.held.has(partition) || g.state.others()(partition, false) {
			return fmt.Errorf("commit partition %d: %w", partition, aggregator.ErrFenced)
		}
		generation, member := g.state.as()
		refused, err := g.client.Commit(ctx, generation, member, map[int32]aggregator.Commit{partition: c})
		if err == nil {
			err = refused[partition]
		}
		if err == nil {
			return nil
		}
		if !g.passing(err, generation, member) || !waits.sleep(ctx) {
			return fmt.Errorf("commit offset %d of partition %d: %w", c.Offset, partition, err)
		}
	}
}

// passing says that a commit as a member of a generation was refused because
// the group goes from one generation to the next.
func (g *Group) passing(err error, generation int32, member string) bool {
	if now, me := g.state.as(); errors.Is(err, ErrRebalancing) || now != generation || me != member {
		return true
	}
	return errors.Is(err, sarama.ErrIllegalGeneration) && g.state.isJoining()
}
