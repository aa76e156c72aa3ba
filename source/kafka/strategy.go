package kafka

import (
	"encoding/binary"
	"encoding/json"
	"maps"
	"slices"

	"github.com/IBM/sarama"
)

// Member is a member of the group.
type Member struct {
	ID         string  `json:"id"`
	Address    string  `json:"address"` // of its HTTP interface, "" where it told none
	Partitions []int32 `json:"partitions"`
}

// subscription is what a member tells the leader with its request to join. In
// the user data it stands behind four bytes: the generation that sarama's and
// Java's cooperative assignors expect there and read alone.
//
// It also says what the member holds, since sarama calls nothing a member's own
// that has lost its session. The leader withholds that from others until it is
// let go of, unless another has it of a later generation.
type subscription struct {
	Address    string  `json:"address"`
	Owned      []int32 `json:"owned,omitempty"`
	Generation int32   `json:"generation,omitempty"` // that it was assigned in
}

const generationBytes = 4

// assignment is what the leader tells a member besides its partitions.
type assignment struct {
	You     string          `json:"you"`               // the member's own id
	Members json.RawMessage `json:"members,omitempty"` // []Member: the whole group
}

// maxTables bounds the tables of a generation, all members' together: the
// coordinator keeps them in one record, of 1 MB by default. Above it members
// ask the coordinator for the table.
const maxTables = 256 << 10

// strategy is one of sarama's balance strategies, with the members' addresses
// on the way to the leader and the table of all members on the way back. Its
// methods are called by one Consume at a time.
type strategy struct {
	sarama.BalanceStrategy
	g     *Group
	eager bool   // the group's protocol
	table []byte // of the plan in hand, nil where it is too large
}

var (
	_ sarama.RebalanceProtocolBalanceStrategy    = (*strategy)(nil)
	_ sarama.SubscriptionUserDataBalanceStrategy = (*strategy)(nil)
	_ sarama.OnAssignmentBalanceStrategy         = (*strategy)(nil)
)

// SupportedProtocols are those of the strategy inside.
func (s *strategy) SupportedProtocols() []sarama.RebalanceProtocol {
	if inner, ok := s.BalanceStrategy.(sarama.RebalanceProtocolBalanceStrategy); ok {
		return inner.SupportedProtocols()
	}
	return []sarama.RebalanceProtocol{sarama.RebalanceProtocolEager}
}

// SubscriptionUserData is called right before each request to join. It waits
// until all partitions are let go of where the request would set others free to
// take them: own heartbeats go on meanwhile.
func (s *strategy) SubscriptionUserData(topics []string) ([]byte, error) {
	sub := s.g.joins(s.eager)
	none := int32(-1)
	data := binary.BigEndian.AppendUint32(nil, uint32(none))
	if inner, ok := s.BalanceStrategy.(sarama.SubscriptionUserDataBalanceStrategy); ok {
		var err error
		if data, err = inner.SubscriptionUserData(topics); err != nil {
			return nil, err
		}
	}
	tail, err := json.Marshal(sub)
	return append(data, tail...), err
}

// subscriptionIn is what a member's user data says; false where the member is
// another program.
func subscriptionIn(userData []byte) (sub subscription, ok bool) {
	if len(userData) <= generationBytes || json.Unmarshal(userData[generationBytes:], &sub) != nil {
		return subscription{}, false
	}
	return sub, true
}

// Plan is called at the leader. It leaves members as it is: sarama takes
// entries out of it while it asks for AssignmentData.
func (s *strategy) Plan(members map[string]sarama.ConsumerGroupMemberMetadata, topics map[string][]int32) (sarama.BalanceStrategyPlan, error) {
	inner := make(map[string]sarama.ConsumerGroupMemberMetadata, len(members))
	addresses := make(map[string]string, len(members))
	for id, m := range members {
		if sub, ok := subscriptionIn(m.UserData); ok {
			addresses[id] = sub.Address
			m.OwnedPartitions = nil
			if len(sub.Owned) > 0 {
				m.OwnedPartitions = []*sarama.OwnedPartition{{Topic: s.g.cfg.Topic, Partitions: sub.Owned}}
				m.GenerationID = max(m.GenerationID, sub.Generation)
			}
		}
		if len(m.UserData) > generationBytes {
			m.UserData = m.UserData[:generationBytes:generationBytes]
		}
		inner[id] = m
	}
	plan, err := s.BalanceStrategy.Plan(inner, topics)
	if err != nil {
		return nil, err
	}
	list := make([]Member, 0, len(members))
	for _, id := range slices.Sorted(maps.Keys(members)) {
		if plan[id] == nil {
			plan[id] = map[string][]int32{} // else AssignmentData is not asked for
		}
		partitions := slices.Clone(plan[id][s.g.cfg.Topic])
		slices.Sort(partitions)
		list = append(list, Member{ID: id, Address: addresses[id], Partitions: partitions})
	}
	if s.table, err = json.Marshal(list); err != nil {
		return nil, err
	}
	if len(s.table)*len(list) > maxTables {
		s.table = nil
	}
	return plan, nil
}

// AssignmentData is called at the leader for each member of the plan.
func (s *strategy) AssignmentData(member string, _ map[string][]int32, _ int32) ([]byte, error) {
	return json.Marshal(assignment{You: member, Members: s.table})
}

// OnAssignment is called when the member has its assignment, before it lets go
// of partitions or takes new ones.
func (s *strategy) OnAssignment(a *sarama.ConsumerGroupMemberAssignment, generation int32) {
	if inner, ok := s.BalanceStrategy.(sarama.OnAssignmentBalanceStrategy); ok {
		inner.OnAssignment(a, generation)
	}
	var told assignment
	var members []Member
	if json.Unmarshal(a.UserData, &told) != nil {
		told = assignment{} // the leader is another program
	} else if json.Unmarshal(told.Members, &members) != nil {
		members = nil
	}
	partitions := slices.Clone(a.Topics[s.g.cfg.Topic])
	slices.Sort(partitions)
	s.g.assigned(generation, told.You, partitions, members)
}
