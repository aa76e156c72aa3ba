package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/aggregator"
	"tidemark/internal/testkit"
)

// ledger sees that no partition has two owners.
type ledger struct {
	t      testing.TB
	mu     sync.Mutex
	owners map[int32]string
}

func newLedger(t testing.TB) *ledger { return &ledger{t: t, owners: make(map[int32]string)} }

func (l *ledger) owned() map[int32]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.owners)
}

// spread says how many partitions each member has.
func (l *ledger) spread() map[string]int {
	n := make(map[string]int)
	for _, m := range l.owned() {
		n[m]++
	}
	return n
}

// member is a group member with a handler that writes to a ledger.
type member struct {
	t      testing.TB
	name   string
	l      *ledger
	group  *Group
	cancel context.CancelFunc
	done   chan error
	revoke func(context.Context, int32) // called in Revoke
	mixed  bool                         // the leader may be another program

	mu       sync.Mutex
	held     map[int32]bool
	assigns  map[int32]int
	revokes  map[int32]int
	sessions []int32 // generations, as Assigned told them
}

func (m *member) Assign(p int32) {
	m.mu.Lock()
	again := m.held[p]
	m.held[p] = true
	if !again {
		m.assigns[p]++
	}
	m.mu.Unlock()
	if again {
		return
	}
	m.l.mu.Lock()
	defer m.l.mu.Unlock()
	if other, ok := m.l.owners[p]; ok {
		m.l.t.Errorf("partition %d is %s's while %s gets it", p, other, m.name)
	}
	m.l.owners[p] = m.name
}

func (m *member) Revoke(ctx context.Context, p int32) {
	if m.revoke != nil {
		m.revoke(ctx, p)
	}
	m.l.mu.Lock()
	if m.l.owners[p] == m.name {
		delete(m.l.owners, p)
	}
	m.l.mu.Unlock()
	m.mu.Lock()
	delete(m.held, p)
	m.revokes[p]++
	m.mu.Unlock()
}

func (m *member) Assigned(generation int32, id string, _ []int32, _ time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := len(m.sessions); n > 0 && m.sessions[n-1] >= generation {
		m.t.Errorf("%s is told of generation %d after %d", m.name, generation, m.sessions[n-1])
	}
	if id == "" && !m.mixed {
		m.t.Errorf("%s is assigned without an id", m.name)
	}
	m.sessions = append(m.sessions, generation)
}

func (m *member) owns() []int32 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.held))
}

func (m *member) generations() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.sessions)
}

// joinGroup starts a member; stop ends it.
func joinGroup(t testing.TB, cfg Config, l *ledger, name string, with ...func(*member)) *member {
	t.Helper()
	cfg.Address = "http://" + name
	cfg.Logger = cfg.Logger.With("me", name)
	m := &member{
		t: t, name: name, l: l, done: make(chan error, 1),
		held: make(map[int32]bool), assigns: make(map[int32]int), revokes: make(map[int32]int),
	}
	for _, f := range with {
		f(m)
	}
	client, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	m.group = NewGroup(client, m)
	ctx, cancel := context.WithCancel(context.Background())
	m.cancel = cancel
	go func() {
		err := m.group.Run(ctx, m)
		client.Close()
		m.done <- err
		close(m.done)
	}()
	t.Cleanup(func() { m.stop() })
	return m
}

// stop ends the member and returns Run's error.
func (m *member) stop() error {
	m.cancel()
	return <-m.done
}

func groupBroker(t testing.TB, partitions int32) (*testkit.Broker, Config) {
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: topic, Partitions: partitions})
	cfg := configOf(t, b)
	cfg.SessionTimeout = 6 * time.Second
	return b, cfg
}

const settle = 30 * time.Second

func TestK10CooperativeRebalanceMovesOnlyTheDifference(t *testing.T) {
	t.Parallel()
	_, cfg := groupBroker(t, 6)
	l := newLedger(t)
	a := joinGroup(t, cfg, l, "a")
	testkit.Eventually(t, settle, func() bool { return len(a.owns()) == 6 }, "a has all")
	bm := joinGroup(t, cfg, l, "b")
	testkit.Eventually(t, settle, func() bool { return len(a.owns()) == 3 && len(bm.owns()) == 3 }, "a and b have three each")
	for _, p := range a.owns() {
		a.mu.Lock()
		if a.assigns[p] != 1 || a.revokes[p] != 0 {
			t.Errorf("partition %d, which a kept, was assigned %d times and revoked %d times", p, a.assigns[p], a.revokes[p])
		}
		a.mu.Unlock()
	}
	c := joinGroup(t, cfg, l, "c")
	testkit.Eventually(t, settle, func() bool { return len(a.owns()) == 2 && len(bm.owns()) == 2 && len(c.owns()) == 2 }, "two each")
	if err := bm.stop(); err != nil {
		t.Error(err)
	}
	testkit.Eventually(t, settle, func() bool { return len(a.owns()) == 3 && len(c.owns()) == 3 }, "b's partitions are taken over")
	if len(l.owned()) != 6 {
		t.Errorf("owners are %v", l.owned())
	}
}

func TestEveryMemberKnowsTheWholeGroup(t *testing.T) {
	t.Parallel()
	_, cfg := groupBroker(t, 2)
	l := newLedger(t)
	list := []*member{joinGroup(t, cfg, l, "a"), joinGroup(t, cfg, l, "b"), joinGroup(t, cfg, l, "c")} // one is idle
	testkit.Eventually(t, settle, func() bool {
		for _, m := range list {
			s := m.group.Status()
			addresses := map[string]bool{}
			var partitions []int32
			for _, other := range s.Members {
				addresses[other.Address] = true
				partitions = append(partitions, other.Partitions...)
			}
			slices.Sort(partitions)
			if len(addresses) != 3 || !addresses["http://b"] || !slices.Equal(partitions, []int32{0, 1}) || s.Silent || !s.Assigned {
				return false
			}
			mine := slices.IndexFunc(s.Members, func(o Member) bool { return o.ID == s.MemberID })
			if mine < 0 || s.Members[mine].Address != "http://"+m.name || !slices.Equal(s.Members[mine].Partitions, m.owns()) {
				return false
			}
		}
		return true
	}, "three members with one table")
	// The coordinator tells the same.
	asked, err := list[0].group.client.members(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	told := list[0].group.Status().Members
	if !slices.EqualFunc(asked, told, func(a, b Member) bool {
		return a.ID == b.ID && a.Address == b.Address && slices.Equal(a.Partitions, b.Partitions)
	}) {
		t.Errorf("the coordinator says %v, the leader %v", asked, told)
	}
}

// Members come and go without a break; the ledger sees that none has what
// another has. K07.
func TestK07NoPartitionHasTwoOwners(t *testing.T) {
	t.Parallel()
	_, cfg := groupBroker(t, 8)
	l := newLedger(t)
	stay := joinGroup(t, cfg, l, "stay")
	testkit.Eventually(t, settle, func() bool { return len(stay.owns()) == 8 }, "the first has all")
	for i := range 4 {
		m := joinGroup(t, cfg, l, fmt.Sprint("guest", i))
		testkit.Eventually(t, settle, func() bool { return len(m.owns()) > 0 }, "guest %d has some", i)
		if err := m.stop(); err != nil {
			t.Error(err)
		}
		if n := l.spread()[m.name]; n != 0 {
			t.Errorf("guest %d left with %d partitions", i, n)
		}
	}
	testkit.Eventually(t, settle, func() bool { return len(stay.owns()) == 8 }, "the first has all again")
}

func TestClaimsFetchNothing(t *testing.T) {
	t.Parallel()
	b, cfg := groupBroker(t, 4)
	for p := range int32(4) {
		b.Produce(topic, p, testkit.Text("k", "v"))
	}
	fetches := b.Count(int16(kmsg.Fetch))
	l := newLedger(t)
	m := joinGroup(t, cfg, l, "a")
	testkit.Eventually(t, settle, func() bool { return len(m.owns()) == 4 }, "it has all")
	again := joinGroup(t, cfg, l, "b")
	testkit.Eventually(t, settle, func() bool { return len(again.owns()) == 2 }, "b has two")
	if n := fetches(); n > 0 {
		t.Errorf("%d fetch requests", n)
	}
}

func TestK05NewPartitionsAreSeen(t *testing.T) {
	t.Parallel()
	b, cfg := groupBroker(t, 2)
	m := joinGroup(t, cfg, newLedger(t), "a")
	testkit.Eventually(t, settle, func() bool { return len(m.owns()) == 2 }, "it has both")
	b.SetPartitions(topic, 5)
	testkit.Eventually(t, settle, func() bool { return len(m.owns()) == 5 }, "it has all five")
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.revokes[0] != 0 || m.revokes[1] != 0 {
		t.Errorf("old partitions were revoked: %v", m.revokes)
	}
}

func TestATopicThatDoesNotExistIsWaitedFor(t *testing.T) {
	t.Parallel()
	b := testkit.NewBroker(t, testkit.BrokerOptions{})
	cfg := configOf(t, b)
	m := joinGroup(t, cfg, newLedger(t), "a")
	testkit.Eventually(t, settle, func() bool { return contains(m.group.Status().Problem, "topic "+topic+" does not exist") }, "it says for what it waits")
	b.CreateTopic(topic, 3)
	testkit.Eventually(t, settle, func() bool { return len(m.owns()) == 3 && m.group.Status().Problem == "" }, "it has all")
}

// More members than partitions: the idle one is assigned, to nothing.
func TestAnIdleMemberIsAssignedToo(t *testing.T) {
	t.Parallel()
	_, cfg := groupBroker(t, 1)
	l := newLedger(t)
	a := joinGroup(t, cfg, l, "a")
	testkit.Eventually(t, settle, func() bool { return len(a.owns()) == 1 }, "a has it")
	idle := joinGroup(t, cfg, l, "idle")
	testkit.Eventually(t, settle, func() bool { return idle.group.Status().Assigned && idle.generations() > 0 }, "the idle one is assigned")
	if len(idle.owns()) != 0 {
		t.Errorf("the idle one has %v", idle.owns())
	}
}

// A group with members that only know an eager protocol is joined eagerly: with
// nothing in hand, since whoever leads gives it to others at once.
func TestEagerWithOldMembers(t *testing.T) {
	t.Parallel()
	b, cfg := groupBroker(t, 4)
	var joining atomic.Pointer[member]
	var joins atomic.Int32
	b.ControlKey(int16(kmsg.JoinGroup), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		req := kreq.(*kmsg.JoinGroupRequest)
		if m := joining.Load(); m != nil && req.MemberID != "" && req.MemberID == m.group.Status().MemberID {
			joins.Add(1)
			if owns := m.owns(); len(owns) > 0 {
				t.Errorf("it joins with %v in hand", owns)
			}
		}
		return nil, nil, false
	})
	client, err := kgo.NewClient(kgo.SeedBrokers(cfg.Brokers...), kgo.ConsumerGroup(cfg.GroupID), kgo.ConsumeTopics(topic),
		kgo.Balancers(kgo.RangeBalancer()), kgo.HeartbeatInterval(500*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	old := sync.OnceFunc(client.Close)
	t.Cleanup(old)
	polls, stop := context.WithCancel(t.Context())
	defer stop()
	var polling sync.WaitGroup
	polling.Go(func() {
		for polls.Err() == nil {
			client.PollFetches(polls)
		}
	})
	testkit.Eventually(t, settle, func() bool { _, g := client.GroupMetadata(); return g > 0 }, "the old member is in the group")
	m := joinGroup(t, cfg, newLedger(t), "new", func(m *member) { m.mixed = true })
	testkit.Eventually(t, settle, func() bool { return len(m.owns()) == 2 }, "the new member has its half")
	joining.Store(m)
	if m.group.Status().MemberID == "" {
		t.Error("the new member does not know its id")
	}
	// Where the old one leads, it tells no table, and the coordinator does.
	testkit.Eventually(t, settle, func() bool { return len(m.group.Status().Members) == 2 }, "the new member knows both")
	stop()
	polling.Wait()
	old()
	testkit.Eventually(t, settle, func() bool { return len(m.owns()) == 4 }, "the new member has all")
	if joins.Load() == 0 {
		t.Error("it did not join again")
	}
}

func TestK13ASecondProcessWithTheSameInstanceIDEndsTheFirst(t *testing.T) {
	t.Parallel()
	_, cfg := groupBroker(t, 2)
	cfg.GroupInstanceID = "agg-0"
	l := newLedger(t)
	first := joinGroup(t, cfg, l, "first")
	testkit.Eventually(t, settle, func() bool { return len(first.owns()) == 2 }, "the first has both")
	second := joinGroup(t, cfg, newLedger(t), "second")
	select {
	case err := <-first.done:
		if !errors.Is(err, ErrInstanceFenced) || !contains(err.Error(), `"agg-0"`) {
			t.Errorf("%v, want an error that names the id", err)
		}
		if owns := first.owns(); len(owns) > 0 {
			t.Errorf("the first ended with %v in hand", owns)
		}
	case <-time.After(settle):
		t.Fatal("the first goes on")
	}
	testkit.Eventually(t, settle, func() bool { return len(second.owns()) == 2 }, "the second has both")
}

func TestAStaticMemberComesBackToItsPartitions(t *testing.T) {
	t.Parallel()
	_, cfg := groupBroker(t, 4)
	l := newLedger(t)
	static := func(name string) Config { c := cfg; c.GroupInstanceID = name; return c }
	a := joinGroup(t, static("a"), l, "a")
	b := joinGroup(t, static("b"), l, "b")
	testkit.Eventually(t, settle, func() bool { return len(a.owns()) == 2 && len(b.owns()) == 2 }, "two each")
	had, kept := b.owns(), a.owns()
	if err := b.stop(); err != nil {
		t.Fatal(err)
	}
	b = joinGroup(t, static("b"), l, "b2")
	testkit.Eventually(t, settle, func() bool { return slices.Equal(b.owns(), had) }, "b has the same partitions")
	for _, p := range kept {
		a.mu.Lock()
		if a.revokes[p] != 0 {
			t.Errorf("a lost partition %d meanwhile", p)
		}
		a.mu.Unlock()
	}
	// the coordinator tells b's new address
	testkit.Eventually(t, settle, func() bool {
		members, err := a.group.client.members(t.Context())
		return err == nil && slices.ContainsFunc(members, func(m Member) bool { return m.Address == "http://b2" })
	}, "b's new address is known")
}

func TestK19TheGroupShowsTheNextOffset(t *testing.T) {
	t.Parallel()
	b, cfg := groupBroker(t, 2)
	for i := range 10 {
		b.Produce(topic, 0, testkit.Text("", fmt.Sprint(i)))
	}
	m := joinGroup(t, cfg, newLedger(t), "a")
	testkit.Eventually(t, settle, func() bool { return len(m.owns()) == 2 }, "it has both")
	commits, err := m.group.Committed(t.Context())
	if err != nil || len(commits) != 0 {
		t.Fatalf("at first: %v, %v", commits, err)
	}
	want := aggregator.Commit{Offset: 10, Metadata: `{"seq":1}`}
	if err := m.group.Commit(t.Context(), 0, want); err != nil {
		t.Fatal(err)
	}
	commits, err = m.group.Committed(t.Context())
	if err != nil || len(commits) != 1 || commits[0] != want {
		t.Errorf("committed %v, %v", commits, err)
	}
}

func TestAStaleMemberCannotCommit(t *testing.T) {
	t.Parallel()
	_, cfg := groupBroker(t, 2)
	m := joinGroup(t, cfg, newLedger(t), "a")
	testkit.Eventually(t, settle, func() bool { return len(m.owns()) == 2 }, "it has both")
	s := m.group.Status()
	c := map[int32]aggregator.Commit{0: {Offset: 1}, 1: {Offset: 2}}
	for _, who := range []struct {
		generation int32
		member     string
	}{{s.Generation - 1, s.MemberID}, {s.Generation, "nobody"}} {
		refused, err := m.group.client.Commit(t.Context(), who.generation, who.member, c)
		if err != nil || len(refused) != 2 || !errors.Is(refused[0], aggregator.ErrFenced) || !errors.Is(refused[1], aggregator.ErrFenced) {
			t.Errorf("as %v: %v, %v", who, refused, err)
		}
	}
	if err := m.group.Commit(t.Context(), 7, aggregator.Commit{Offset: 1}); !errors.Is(err, aggregator.ErrFenced) {
		t.Errorf("for a partition that is not held: %v", err)
	}
	if refused, err := m.group.client.Commit(t.Context(), s.Generation, s.MemberID, c); err != nil || len(refused) != 0 {
		t.Errorf("as the member itself: %v, %v", refused, err)
	}
}

func TestCommitWithoutAGroup(t *testing.T) {
	t.Parallel()
	_, cfg := groupBroker(t, 2)
	client := openClient(t, cfg)
	refused, err := client.Commit(t.Context(), NoGeneration, "", map[int32]aggregator.Commit{1: {Offset: 5, Metadata: "m"}})
	if err != nil || len(refused) != 0 {
		t.Fatalf("%v, %v", refused, err)
	}
	commits, err := client.Committed(t.Context())
	if err != nil || len(commits) != 1 || commits[1] != (aggregator.Commit{Offset: 5, Metadata: "m"}) {
		t.Errorf("committed %v, %v", commits, err)
	}
}

// While a peer takes its time to let go, a member that is told to end does so
// without waiting for it, and the group does not wait for it either.
func TestShutdownDoesNotWaitForARebalance(t *testing.T) {
	t.Parallel()
	_, cfg := groupBroker(t, 4)
	l := newLedger(t)
	letGo := make(chan struct{})
	slow := joinGroup(t, cfg, l, "slow", func(m *member) {
		m.revoke = func(ctx context.Context, _ int32) {
			select {
			case <-letGo:
			case <-ctx.Done():
			}
		}
	})
	testkit.Eventually(t, settle, func() bool { return len(slow.owns()) == 4 }, "the slow one has all")
	second := joinGroup(t, cfg, l, "second") // gets two of them once they are let go of
	testkit.Eventually(t, settle, func() bool { return second.generations() > 0 }, "the second is in")
	third := joinGroup(t, cfg, l, "third") // its request to join waits for the slow one
	testkit.Eventually(t, settle, func() bool {
		third.group.state.mu.Lock()
		defer third.group.state.mu.Unlock()
		return !third.group.state.joining.IsZero()
	}, "the third joins")
	began := time.Now()
	if err := third.stop(); err != nil {
		t.Error(err)
	}
	if d := time.Since(began); d > 10*time.Second {
		t.Errorf("it took %s to end", d)
	}
	close(letGo)
	testkit.Eventually(t, settle, func() bool { return len(slow.owns()) == 2 && len(second.owns()) == 2 }, "the others go on")
}

func TestSilentWithoutBrokers(t *testing.T) {
	t.Parallel()
	b, cfg := groupBroker(t, 1)
	m := joinGroup(t, cfg, newLedger(t), "a")
	testkit.Eventually(t, settle, func() bool { s := m.group.Status(); return len(m.owns()) == 1 && !s.Silent }, "it is in the group")
	b.Stop()
	testkit.Eventually(t, settle, func() bool { return m.group.Status().Silent }, "it is silent")
}

func TestBrokersThatRestartKeepTheGroup(t *testing.T) {
	t.Parallel()
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: topic, Partitions: 3, Dir: t.TempDir()})
	cfg := configOf(t, b)
	cfg.SessionTimeout = 6 * time.Second
	m := joinGroup(t, cfg, newLedger(t), "a")
	testkit.Eventually(t, settle, func() bool { return len(m.owns()) == 3 }, "it has all")
	b.Stop()
	b.Restart()
	testkit.Eventually(t, settle, func() bool {
		s := m.group.Status()
		return len(m.owns()) == 3 && !s.Silent && s.Problem == "" && time.Since(s.LastHeartbeat) < 3*time.Second
	}, "it has all again")
	m.untouched(0, 1, 2)
}

func TestTheTableIsLeftOutWhereItIsTooLarge(t *testing.T) {
	t.Parallel()
	s := &strategy{BalanceStrategy: sarama.NewBalanceStrategyCooperativeSticky(), g: NewGroup(&Client{cfg: Config{Topic: topic}}, nil)}
	data, err := s.SubscriptionUserData([]string{topic})
	if err != nil {
		t.Fatal(err)
	}
	members := make(map[string]sarama.ConsumerGroupMemberMetadata)
	partitions := make([]int32, 1000)
	for i := range 100 {
		members[fmt.Sprintf("member-%036d", i)] = sarama.ConsumerGroupMemberMetadata{Version: 1, Topics: []string{topic}, UserData: data}
	}
	for i := range partitions {
		partitions[i] = int32(i)
	}
	plan, err := s.Plan(members, map[string][]int32{topic: partitions})
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for id := range plan {
		b, err := s.AssignmentData(id, nil, 1)
		if err != nil || !contains(string(b), id) {
			t.Fatalf("member %s is told %s (%v)", id, b, err)
		}
		total += len(b)
	}
	if total > maxTables {
		t.Errorf("the tables take %d bytes", total)
	}
}
