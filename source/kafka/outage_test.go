package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/aggregator"
	"tidemark/internal/testkit"
)

// gate lets connections to the brokers through, or none.
type gate struct {
	mu    sync.Mutex
	shut  bool
	conns []net.Conn
}

type gated struct {
	net.Listener
	g *gate
}

func (g *gate) listen(network, addr string) (net.Listener, error) {
	l, err := net.Listen(network, addr)
	return gated{l, g}, err
}

func (l gated) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		l.g.mu.Lock()
		shut := l.g.shut
		if !shut {
			l.g.conns = append(l.g.conns, c)
		}
		l.g.mu.Unlock()
		if !shut {
			return c, nil
		}
		c.Close()
	}
}

func (g *gate) set(shut bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut = shut; shut {
		for _, c := range g.conns {
			c.Close()
		}
		g.conns = nil
	}
}

// gatedBroker is a broker, which keeps its groups, with the network before it.
func gatedBroker(t testing.TB, partitions int32) (*gate, Config) {
	g := &gate{}
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: topic, Partitions: partitions, More: []kfake.Opt{kfake.ListenFn(g.listen)}})
	return g, configOf(t, b)
}

// untouched fails where partitions were not held without a break.
func (m *member) untouched(partitions ...int32) {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range partitions {
		if m.assigns[p] != 1 || m.revokes[p] != 0 {
			m.t.Errorf("%s: partition %d was assigned %d times and revoked %d times, want once and never", m.name, p, m.assigns[p], m.revokes[p])
		}
	}
}

func (m *member) inTouch() bool {
	s := m.group.Status()
	return !s.Silent && s.Problem == "" && time.Since(s.LastHeartbeat) < 5*time.Second
}

func TestPartitionsStayWhileBrokersAreAwayForLessThanASession(t *testing.T) {
	t.Parallel()
	g, cfg := gatedBroker(t, 3)
	m := joinGroup(t, cfg, newLedger(t), "a")
	began := time.Now()
	testkit.Eventually(t, settle, func() bool {
		return len(m.owns()) == 3 && m.group.Status().LastHeartbeat.Sub(began) > heartbeatInterval // sarama has begun by then
	}, "it has all")
	generation := m.group.Status().Generation
	g.set(true)
	testkit.Eventually(t, settle, func() bool { return time.Since(m.group.Status().LastHeartbeat) > 15*time.Second }, "the brokers are away for 15 s")
	if s := m.group.Status(); s.Silent {
		t.Errorf("silent after 15 s of 45: %+v", s)
	}
	m.untouched(0, 1, 2)
	g.set(false)
	testkit.Eventually(t, settle, m.inTouch, "it is in touch again")
	m.untouched(0, 1, 2)
	if s := m.group.Status(); s.Generation != generation {
		t.Errorf("generation %d after %d: the session was lost", s.Generation, generation)
	}
	if err := m.group.Commit(t.Context(), 1, aggregator.Commit{Offset: 1}); err != nil {
		t.Error(err)
	}
}

// Longer than the session: silent, and the partitions are kept until the group
// says whose they are. Here it is the same member: it takes them anew, unless
// the group has answered it in the old generation, so that nobody else had them.
func TestPartitionsStayWhileBrokersAreAwayForLongerThanASession(t *testing.T) {
	t.Parallel()
	g, cfg := gatedBroker(t, 3)
	cfg.SessionTimeout = 6 * time.Second
	m := joinGroup(t, cfg, newLedger(t), "a")
	testkit.Eventually(t, settle, func() bool { return len(m.owns()) == 3 && m.inTouch() }, "it has all")
	g.set(true)
	testkit.Eventually(t, settle, func() bool { return m.group.Status().Silent && m.group.Status().Problem != "" }, "it is silent, and says why")
	m.untouched(0, 1, 2)
	before := m.generations()
	g.set(false)
	testkit.Eventually(t, settle, func() bool { return m.inTouch() && m.generations() > before && len(m.owns()) == 3 }, "it is in touch again")
	m.mu.Lock()
	defer m.mu.Unlock()
	for p := range int32(3) {
		if m.revokes[p] > 1 || m.assigns[p] != m.revokes[p]+1 {
			t.Errorf("partition %d was assigned %d times and revoked %d times, want to have it, anew at most once", p, m.assigns[p], m.revokes[p])
		}
	}
}

func TestShutdownWhileBrokersAreAway(t *testing.T) {
	t.Parallel()
	g, cfg := gatedBroker(t, 2)
	m := joinGroup(t, cfg, newLedger(t), "a")
	testkit.Eventually(t, settle, func() bool { return len(m.owns()) == 2 }, "it has both")
	g.set(true)
	began := time.Now()
	if err := m.stop(); err != nil {
		t.Error(err)
	}
	if d := time.Since(began); d > 15*time.Second {
		t.Errorf("it took %s to end", d)
	}
	if len(m.owns()) != 0 {
		t.Errorf("it ended with %v", m.owns())
	}
}

// cut breaks what a member sends to its coordinator under an id, until it is
// put back: to the group it is as dead as one that is stopped.
func cut(b *testkit.Broker, id string) (back func()) {
	var off atomic.Bool
	broken := errors.New("cut off by the test")
	control := func(key kmsg.Key, whose func(kmsg.Request) string) {
		b.ControlKey(int16(key), func(req kmsg.Request) (kmsg.Response, error, bool) {
			if off.Load() {
				return nil, nil, false
			}
			b.KeepControl()
			if whose(req) == id {
				return nil, broken, true
			}
			return nil, nil, false
		})
	}
	control(kmsg.Heartbeat, func(r kmsg.Request) string { return r.(*kmsg.HeartbeatRequest).MemberID })
	control(kmsg.JoinGroup, func(r kmsg.Request) string { return r.(*kmsg.JoinGroupRequest).MemberID })
	return func() { off.Store(true) }
}

// A zombie: the group takes a member for dead, gives its partitions to another,
// and the member comes back. It is silent by its own clock, cannot commit, and
// lets go of what is another's when the group says so.
func TestAZombieKeepsNothingThatIsAnothers(t *testing.T) {
	t.Parallel()
	b, cfg := groupBroker(t, 4)
	zombie := joinGroup(t, cfg, newLedger(t), "zombie")
	testkit.Eventually(t, settle, func() bool { return len(zombie.owns()) == 4 && zombie.inTouch() }, "it has all")
	back := cut(b, zombie.group.Status().MemberID)
	heir := joinGroup(t, cfg, newLedger(t), "heir")
	testkit.Eventually(t, settle, func() bool { return len(heir.owns()) == 4 }, "the heir has all")
	testkit.Eventually(t, settle, func() bool { return zombie.group.Status().Silent }, "the zombie is silent")
	zombie.untouched(0, 1, 2, 3)
	if err := zombie.group.Commit(t.Context(), 0, aggregator.Commit{Offset: 1}); !errors.Is(err, aggregator.ErrFenced) {
		t.Errorf("the zombie commits: %v", err)
	}
	back()
	testkit.Eventually(t, settle, func() bool { return len(heir.owns()) == 2 && len(zombie.owns()) == 2 && zombie.inTouch() }, "they share")
	if all := slices.Concat(heir.owns(), zombie.owns()); len(all) != 4 || slices.ContainsFunc(heir.owns(), func(p int32) bool { return slices.Contains(zombie.owns(), p) }) {
		t.Errorf("the heir has %v, the zombie %v", heir.owns(), zombie.owns())
	}
	heir.untouched(heir.owns()...)
	for _, p := range heir.owns() {
		if err := zombie.group.Commit(t.Context(), p, aggregator.Commit{Offset: 1}); !errors.Is(err, aggregator.ErrFenced) {
			t.Errorf("the zombie commits for partition %d: %v", p, err)
		}
	}
	for _, p := range zombie.owns() {
		if err := zombie.group.Commit(t.Context(), p, aggregator.Commit{Offset: 1}); err != nil {
			t.Errorf("it cannot commit for partition %d, which it has: %v", p, err)
		}
	}
}

// A rebalance in which the connection breaks ends sarama's session, and the
// next one joins as if it had nothing. What the member holds is its own all the
// same: what it keeps it keeps without a break, what goes is withheld until it
// was let go of, and then given to the other.
func TestARebalanceThatFailsHalfWayTakesNothingAway(t *testing.T) {
	t.Parallel()
	b, cfg := groupBroker(t, 6)
	l := newLedger(t)
	a := joinGroup(t, cfg, l, "a")
	testkit.Eventually(t, settle, func() bool { return len(a.owns()) == 6 && a.inTouch() }, "a has all")
	id := a.group.Status().MemberID
	var broken atomic.Bool
	b.ControlKey(int16(kmsg.JoinGroup), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		if req.(*kmsg.JoinGroupRequest).MemberID != id || !broken.CompareAndSwap(false, true) {
			return nil, nil, false
		}
		return nil, errors.New("broken by the test"), true
	})
	other := joinGroup(t, cfg, l, "b")
	testkit.Eventually(t, settle, func() bool { return len(a.owns()) == 3 && len(other.owns()) == 3 }, "three each")
	if !broken.Load() {
		t.Error("no request to join was broken")
	}
	a.untouched(a.owns()...)
}

// K10: what does not move is not touched, however often a member comes and
// goes.
func TestK10PartitionsThatStayAreNotTouched(t *testing.T) {
	t.Parallel()
	_, cfg := groupBroker(t, 6)
	l := newLedger(t)
	stay := joinGroup(t, cfg, l, "stay")
	testkit.Eventually(t, settle, func() bool { return len(stay.owns()) == 6 }, "the first has all")
	moved := make(map[int32]bool)
	for i := range 3 {
		guest := joinGroup(t, cfg, l, fmt.Sprint("guest", i))
		testkit.Eventually(t, settle, func() bool { return len(guest.owns()) == 3 }, "guest %d has half", i)
		for _, p := range guest.owns() {
			moved[p] = true
		}
		if err := guest.stop(); err != nil {
			t.Error(err)
		}
		testkit.Eventually(t, settle, func() bool { return len(stay.owns()) == 6 }, "the first has all again")
	}
	for p := range int32(6) {
		if !moved[p] {
			stay.untouched(p)
		}
	}
}

// The coordinator of a group moves to another broker, and forgets nothing.
func TestPartitionsStayWhenTheCoordinatorMoves(t *testing.T) {
	t.Parallel()
	b := testkit.NewBroker(t, testkit.BrokerOptions{Brokers: 3, Topic: topic, Partitions: 3})
	cfg := configOf(t, b)
	cfg.SessionTimeout = 6 * time.Second
	m := joinGroup(t, cfg, newLedger(t), "a")
	testkit.Eventually(t, settle, func() bool { return len(m.owns()) == 3 && m.inTouch() }, "it has all")
	was := b.CoordinatorFor(cfg.GroupID)
	for b.CoordinatorFor(cfg.GroupID) == was {
		b.RehashCoordinators()
	}
	moved := time.Now()
	testkit.Eventually(t, settle, func() bool { return m.group.Status().LastHeartbeat.After(moved) && m.inTouch() }, "it is in touch with the new one")
	m.untouched(0, 1, 2)
}

// TestCommitTells says what a commit that is refused comes to.
func TestCommitTells(t *testing.T) {
	t.Parallel()
	b, cfg := groupBroker(t, 2)
	m := joinGroup(t, cfg, newLedger(t), "a")
	testkit.Eventually(t, settle, func() bool { return len(m.owns()) == 2 && m.inTouch() }, "it has both")
	refuse := func(times int32, e *kerr.Error) {
		var left atomic.Int32
		left.Store(times)
		b.ControlKey(int16(kmsg.OffsetCommit), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
			b.KeepControl()
			if left.Add(-1) < 0 {
				return nil, nil, false
			}
			req := kreq.(*kmsg.OffsetCommitRequest)
			resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
			for _, rt := range req.Topics {
				st := kmsg.NewOffsetCommitResponseTopic()
				st.Topic = rt.Topic
				for _, rp := range rt.Partitions {
					sp := kmsg.NewOffsetCommitResponseTopicPartition()
					sp.Partition, sp.ErrorCode = rp.Partition, e.Code
					st.Partitions = append(st.Partitions, sp)
				}
				resp.Topics = append(resp.Topics, st)
			}
			return resp, nil, true
		})
	}
	commit := func(ctx context.Context) error { return m.group.Commit(ctx, 0, aggregator.Commit{Offset: 1}) }
	for _, e := range []*kerr.Error{kerr.UnknownMemberID, kerr.IllegalGeneration, kerr.FencedInstanceID} {
		refuse(1, e)
		if err := commit(t.Context()); !errors.Is(err, aggregator.ErrFenced) {
			t.Errorf("after %v: %v, want that it is fenced", e, err)
		}
	}
	refuse(3, kerr.RebalanceInProgress)
	if err := commit(t.Context()); err != nil {
		t.Errorf("between generations: %v", err)
	}
	m.group.state.joins(time.Now(), nil)
	refuse(2, kerr.IllegalGeneration)
	if err := commit(t.Context()); err != nil {
		t.Errorf("of the generation before, while it joins: %v", err)
	}
	refuse(1000, kerr.RebalanceInProgress)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := commit(ctx); err == nil || errors.Is(err, aggregator.ErrFenced) {
		t.Errorf("in a rebalance without end: %v", err)
	}
}

// The leader goes by what members say they hold, and of which generation.
func TestTheLeaderGoesByWhatMembersHold(t *testing.T) {
	t.Parallel()
	say := func(generation int32, owned ...int32) sarama.ConsumerGroupMemberMetadata {
		g := NewGroup(&Client{cfg: Config{Topic: topic, Address: "http://a"}}, nil)
		g.held.begin(t.Context(), handlerOf(func(int32) {}))
		g.held.assigned(owned, false, nil)
		g.state.generation = generation
		s := &strategy{BalanceStrategy: sarama.NewBalanceStrategyCooperativeSticky(), g: g}
		data, err := s.SubscriptionUserData([]string{topic})
		if err != nil {
			t.Fatal(err)
		}
		// What sarama itself says of a member without a session.
		return sarama.ConsumerGroupMemberMetadata{Version: 2, Topics: []string{topic}, UserData: data, GenerationID: -1}
	}
	for _, c := range []struct {
		what    string
		members map[string]sarama.ConsumerGroupMemberMetadata
		want    map[string][]int32
	}{
		{"a member without a session keeps what it holds", map[string]sarama.ConsumerGroupMemberMetadata{
			"a": say(5, 0, 3), "b": say(5, 1, 2),
		}, map[string][]int32{"a": {0, 3}, "b": {1, 2}}},
		{"a later generation wins over a zombie's", map[string]sarama.ConsumerGroupMemberMetadata{
			"a": say(5, 0, 1), "b": say(7, 0, 1), "c": say(7, 2, 3),
		}, map[string][]int32{"b": {0, 1}}},
		{"what goes is withheld", map[string]sarama.ConsumerGroupMemberMetadata{
			"a": say(5, 0, 1, 2, 3), "b": say(-1),
		}, map[string][]int32{"b": nil}},
	} {
		s := &strategy{BalanceStrategy: sarama.NewBalanceStrategyCooperativeSticky(), g: NewGroup(&Client{cfg: Config{Topic: topic}}, nil)}
		plan, err := s.Plan(c.members, map[string][]int32{topic: {0, 1, 2, 3}})
		if err != nil {
			t.Fatal(err)
		}
		for id, want := range c.want {
			if got := slices.Sorted(slices.Values(plan[id][topic])); !slices.Equal(got, want) {
				t.Errorf("%s: %s gets %v, want %v", c.what, id, got, want)
			}
		}
	}
}

// handlerOf is a handler that tells what it is assigned.
type handlerOf func(int32)

func (f handlerOf) Assign(p int32)                { f(p) }
func (f handlerOf) Revoke(context.Context, int32) {}
