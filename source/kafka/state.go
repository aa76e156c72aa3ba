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
	Lapses        int       // how often the member was silent until the next assignment
	LastHeartbeat time.Time // when the last one that was answered was sent
	Partitions    []int32   // of this member, by the last assignment
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
	whole      bool      // members are of this generation
	joining    time.Time // when the request to join went out, zero where none is
	told       []int32   // the partitions that it called this member's
	heard      time.Time
	lapsed     bool // nothing was heard for a session timeout before the last assignment
	lapses     int
	trouble    string
}

func newState() state { return state{generation: -1} }

// joins notes that a request to join goes out which calls the partitions this
// member's, and returns the generation that it has them of.
func (s *state) joins(now time.Time, owned []int32) (generation int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.joining.IsZero() {
		s.joining = now
	}
	s.told = owned
	return s.generation
}

// left says that no request is out: Consume has returned.
func (s *state) left() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.joining, s.told = time.Time{}, nil
}

// lapse says once whether others may have had this member's partitions before
// the last assignment.
func (s *state) lapse() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.lapsed
	s.lapsed = false
	return was
}

func (s *state) isJoining() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.joining.IsZero()
}

// others says of a partition whether the present generation gives it to another
// member; unknown where the members of the generation are not known.
func (s *state) others() func(p int32, unknown bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	members, whole, me := s.members, s.whole, s.member
	return func(p int32, unknown bool) bool {
		if !whole {
			return unknown
		}
		return slices.ContainsFunc(members, func(m Member) bool { return m.ID != me && slices.Contains(m.Partitions, p) })
	}
}

// withheld lists partitions that the group withholds from all: the last request
// to join called them this member's, and they are nobody's in the generation
// that came of it.
func (s *state) withheld() []int32 {
	other := s.others()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.joining.IsZero() {
		return nil // told again
	}
	var list []int32
	for _, p := range s.told {
		if !slices.Contains(s.partitions, p) && !other(p, false) {
			list = append(list, p)
		}
	}
	return list
}

// assignment is the last one.
func (s *state) assignment() []int32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.partitions
}

// allKnow says that every member is this program, so that whichever of them
// leads reads what a member owns where this program tells it.
func (s *state) allKnow() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.whole && !slices.ContainsFunc(s.members, func(m Member) bool { return m.Address == "" })
}

// assigned takes a new generation and returns the member's id and how long it
// took. The id is "" where the leader did not tell it; it stays what it was.
// session is the session timeout: a member that heard nothing for so long may
// have lost its partitions, and others may have had them, in the meantime.
func (s *state) assigned(now time.Time, session time.Duration, generation int32, member string, partitions []int32, members []Member) (string, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var took time.Duration
	if !s.joining.IsZero() {
		took = now.Sub(s.joining)
	}
	if s.isAssigned && now.Sub(s.heard) > session {
		s.lapsed = true
		s.lapses++
	}
	if s.joining.After(s.heard) {
		s.heard = s.joining // it was answered
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

// as says under which generation and id this member commits.
func (s *state) as() (generation int32, member string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.generation, s.member
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
		Silent: s.isAssigned && time.Since(s.heard) > g.cfg.sessionTimeout(),
		Lapses: s.lapses, LastHeartbeat: s.heard, Partitions: s.partitions, Members: s.members, Problem: s.trouble,
	}
}
