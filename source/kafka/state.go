package kafka

import (
	"slices"
	"sync"
	"time"
)

// Status is the group as this member knows it.
type Status struct {
	MemberID   string // "" before the first assignment
	Generation int32  // -1 before the first assignment
	Assigned   bool   // the first assignment has come, be it an empty one
	// Silent: no heartbeat was answered for a session timeout, by this
	// process's clock. The group may have given the partitions to others.
	Silent        bool
	LastHeartbeat time.Time // when the last one that was answered was sent
	Members       []Member  // of the whole group, idle ones too, by id
	Problem       string    // why the member is not in the group now, "" where it is
}

// state is what the group told. Its methods may be called from any goroutine.
type state struct {
	mu         sync.Mutex
	member     string
	generation int32
	isAssigned bool
	partitions []int32
	members    []Member
	whole      bool // members are of this generation
	claimed    map[int32]bool
	joining    time.Time // when the request to join went out, zero where none is
	heard      time.Time
	trouble    string
}

func newState() state { return state{generation: -1, claimed: make(map[int32]bool)} }

func (s *state) joins(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.joining.IsZero() {
		s.joining = now
	}
}

// left says that no request is out: Consume has returned.
func (s *state) left() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.joining = time.Time{}
}

// onlyJoining says that nothing but a request to join is left to wait for.
func (s *state) onlyJoining() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.joining.IsZero() && len(s.claimed) == 0
}

// assigned takes a new generation and returns the member's id and how long it
// took. The id is "" where the leader did not tell it; it stays what it was.
func (s *state) assigned(now time.Time, generation int32, member string, partitions []int32, members []Member) (string, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var took time.Duration
	if !s.joining.IsZero() {
		took = now.Sub(s.joining)
	}
	if s.heard.IsZero() {
		s.heard = s.joining
	}
	if member != "" {
		s.member = member
	}
	s.generation, s.partitions, s.isAssigned, s.joining, s.trouble = generation, partitions, true, time.Time{}, ""
	if s.whole = members != nil; s.whole {
		s.members = members
	}
	return s.member, took
}

// is takes the id from the session. It differs from the one that came with the
// assignment where the leader told none, and where a static member came back:
// that one gets the assignment of its former self, without a rebalance.
func (s *state) is(member string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.member != member {
		s.member, s.whole = member, false
	}
}

func (s *state) claim(partition int32, held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if held {
		s.claimed[partition] = true
	} else {
		delete(s.claimed, partition)
	}
}

// owner says under which generation and id a partition is held.
func (s *state) owner(partition int32) (generation int32, member string, held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.generation, s.member, s.claimed[partition]
}

// problem notes trouble; true where it is new.
func (s *state) problem(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := s.trouble != text
	s.trouble = text
	return changed
}

// identity says as whom to send a heartbeat; false before the first assignment.
func (s *state) identity() (generation int32, member string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.generation, s.member, s.isAssigned && s.member != ""
}

func (s *state) answered(sent time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sent.After(s.heard) {
		s.heard = sent
	}
}

// needsTable says that the leader did not tell who is in this generation.
func (s *state) needsTable() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isAssigned && !s.whole
}

// table takes the members as the coordinator describes them, where that is
// about the generation that this member is in: it has the same partitions in
// both, and none has passed meanwhile.
func (s *state) table(generation int32, members []Member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(members, func(m Member) bool { return m.ID == s.member })
	if s.generation != generation || i < 0 || !slices.Equal(members[i].Partitions, s.partitions) {
		return
	}
	s.members, s.whole = members, true
}

// Status is the group as this member knows it now. The caller does not change
// what it holds.
func (g *Group) Status() Status {
	s := &g.state
	s.mu.Lock()
	defer s.mu.Unlock()
	return Status{
		MemberID: s.member, Generation: s.generation, Assigned: s.isAssigned,
		Silent:        s.isAssigned && time.Since(s.heard) > g.cfg.sessionTimeout(),
		LastHeartbeat: s.heard, Members: s.members, Problem: s.trouble,
	}
}
