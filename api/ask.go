package api

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"tidemark/aggregator"
)

// gathered is what the members have said to one question.
type gathered struct {
	partitions int32  // of the topic
	waits      string // why the partitions are not known, where there are none
	answers    []answer
	standing   []*standing // by partition; nil where nobody answered for it
	missing    []blocked   // by partition; why there is no standing
	holders    *holders
	read       []*reading // see readings
	before     []blocked  // what earlier pages of a walk lacked
}

// blocked is a partition that keeps an answer from being whole.
type blocked struct {
	partition int32  // -1 where it is all of them
	why       string // a problem's type
	state     string
	reason    string
}

func (b *blocked) sentence() string {
	if b.partition < 0 {
		return b.reason
	}
	text := fmt.Sprintf("partition %d is %s", b.partition, b.state)
	if b.state == aggregator.Gap.String() {
		text = fmt.Sprintf("partition %d has a gap", b.partition)
	}
	if b.reason != "" {
		text += ": " + b.reason
	}
	return text
}

// standsStill says that the partition will not come by itself, or not soon.
func (b *blocked) standsStill() bool {
	return b.state == aggregator.Gap.String() || b.state == aggregator.Paused.String()
}

const (
	// grace is how long an answer that could be given is held back for members
	// that have not spoken yet and, by what is known, do not hold the key.
	grace = 250 * time.Millisecond
	// suspectFor is how long a member that was late then gets no grace.
	suspectFor = time.Second
)

// ask puts a question to the owners of all partitions, each member once and
// all at the same time, or to this member alone. Others have as long as a request
// may work, and what the question waits. Its error is one of this member; what
// others cannot say is noted in what is gathered.
func (s *Server) ask(ctx context.Context, localOnly bool, q question) (*gathered, error) {
	view := s.group.View()
	s.knowledge.heed(&view)
	owner := view.owners()
	partitions := int32(len(owner))
	g := &gathered{
		partitions: partitions,
		standing:   make([]*standing, partitions),
		missing:    make([]blocked, partitions),
	}
	if !view.Assigned {
		g.waits = "the first assignment has not come"
	} else if partitions == 0 {
		g.waits = "the partitions of the topic are not known yet"
	}
	of := make(map[string][]int32, 1)
	ask := func(member string, p int32) {
		if of[member] == nil {
			of[member] = make([]int32, 0, partitions)
		}
		of[member] = append(of[member], p)
	}
	for p := range partitions {
		g.missing[p] = blocked{p, typeMoving, "moving", "no member owns it at the moment"}
		m := owner[p]
		switch {
		case m == nil && !view.Silent:
			// The table may be older than this member's claims.
			ask(view.Member, p)
		case m == nil:
		case m.ID != view.Member && localOnly:
			g.missing[p].reason = "another member owns it"
		case m.ID == view.Member && view.Silent:
			g.missing[p].reason = "this member has not been heard by the group for a session timeout"
		default:
			g.missing[p].reason = "its owner does not have it at the moment"
			ask(m.ID, p)
		}
	}
	var err error
	if n := len(of); n == 0 || n == 1 && of[view.Member] != nil {
		var a answer
		if a, err = q.put(ctx, s.local, of[view.Member]); err == nil {
			g.accept(&a, of[view.Member])
		}
	} else {
		err = s.askAll(ctx, g, &view, of, q)
	}
	if err != nil {
		return nil, err
	}
	standings := g.standings()
	s.knowledge.learn(standings)
	g.holders = newHolders(s.knowledge, standings, partitions)
	return g, nil
}

// reply is what one member said.
type reply struct {
	member string
	answer answer
	err    error
}

func (s *Server) askAll(ctx context.Context, g *gathered, view *View, of map[string][]int32, q question) error {
	limit := workLimit
	if read, ok := q.(readQuestion); ok {
		limit += read.Wait
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	var asked sync.WaitGroup
	defer asked.Wait()
	defer cancel()
	replies := make(chan reply, len(of))
	for member, partitions := range of {
		var to source = s.local
		if member != view.Member {
			to = s.peers.source(view, member)
		}
		asked.Go(func() {
			a, err := q.put(ctx, to, partitions)
			replies <- reply{member, a, err}
		})
	}
	late := time.NewTimer(grace)
	defer late.Stop()
	outstanding := make(map[string][]int32, len(of))
	for m, p := range of {
		outstanding[m] = p
	}
	for graceful := true; len(outstanding) > 0; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-late.C:
			graceful = false
		case r := <-replies:
			delete(outstanding, r.member)
			if r.err != nil && ctx.Err() != nil {
				return ctx.Err()
			}
			if r.err != nil && r.member == view.Member {
				return r.err
			}
			s.peers.heard(r.member)
			if r.err != nil {
				if err := g.refused(of[r.member], r.err); err != nil {
					return err
				}
				continue
			}
			g.accept(&r.answer, of[r.member])
		}
		if read, ok := q.(readQuestion); ok && len(outstanding) > 0 &&
			(!graceful || s.peers.suspects(outstanding)) && s.enough(g, outstanding, &read) {
			for member, partitions := range outstanding {
				s.peers.suspect(member)
				for _, p := range partitions {
					g.missing[p] = blocked{p, typeUnreachable, "unreachable", "its owner did not answer in time"}
				}
			}
			return nil
		}
	}
	return nil
}

// enough says whether none of the keys may be in the partitions of members
// that have not answered, by what is known of those.
func (s *Server) enough(g *gathered, outstanding map[string][]int32, q *readQuestion) bool {
	if len(q.Keys) == 0 || len(q.Since) > 0 {
		return false
	}
	h := newHolders(s.knowledge, g.standings(), g.partitions)
	for _, partitions := range outstanding {
		for _, p := range partitions {
			if slices.ContainsFunc(q.Min, func(m mark) bool { return m.Partition == p }) {
				return false
			}
			for _, key := range q.Keys {
				if at := h.places(key); h.may(p, &at) {
					return false
				}
			}
		}
	}
	return true
}

// accept takes in a member's answer for partitions, which ascend.
func (g *gathered) accept(a *answer, partitions []int32) {
	for i := range a.Standings {
		p := a.Standings[i].Partition
		if _, ok := slices.BinarySearch(partitions, p); ok {
			g.standing[p] = &a.Standings[i]
		}
	}
	g.answers = append(g.answers, *a)
}

// refused notes that the owner of partitions cannot answer. A member that has
// too much to do makes the whole answer busy.
func (g *gathered) refused(partitions []int32, err error) error {
	p := problemOf(err)
	if p.Type == typeBusy {
		return p
	}
	why, state := typeUnreachable, "unreachable"
	if p.Type == typeMoving {
		why, state = typeMoving, "moving"
	}
	for _, n := range partitions {
		g.missing[n] = blocked{n, why, state, p.Detail}
	}
	return nil
}

// standings are those of all partitions that were answered for.
func (g *gathered) standings() []standing {
	out := make([]standing, 0, len(g.standing))
	for _, st := range g.standing {
		if st != nil {
			out = append(out, *st)
		}
	}
	return out
}

// readings are what was read of the index-th key of the question, by partition;
// nil where nothing was. They are valid until the next call.
func (g *gathered) readings(index int) []*reading {
	if g.read == nil {
		g.read = make([]*reading, g.partitions)
	}
	clear(g.read)
	for i := range g.answers {
		all := g.answers[i].Readings
		if index >= len(all) {
			continue
		}
		for j := range all[index] {
			if r := &all[index][j]; r.Partition >= 0 && r.Partition < g.partitions {
				g.read[r.Partition] = r
			}
		}
	}
	return g.read
}

// blocked lists the partitions that do not count and may hold the key with the
// places; any key, where they are nil.
func (g *gathered) blocked(at *places) (out []blocked) {
	if g.waits != "" {
		return []blocked{{-1, typeNotLoaded, "waiting", g.waits}}
	}
	for p := range g.partitions {
		if at != nil && !g.holders.may(p, at) {
			continue
		}
		switch st := g.standing[p]; {
		case st == nil:
			out = append(out, g.missing[p])
		case !st.Answers:
			out = append(out, notLoaded(p, st.State, st.Reason))
		}
	}
	return out
}

// notLoaded is a partition that does not count. One that is live all the same
// is about to go.
func notLoaded(p int32, state aggregator.State, reason string) blocked {
	if state == aggregator.Live {
		return blocked{p, typeMoving, "moving", "its owner is letting it go"}
	}
	return blocked{p, typeNotLoaded, strings.ReplaceAll(state.String(), "_", " "), reason}
}

// complete says whether nothing is missing.
func (g *gathered) complete() bool {
	return len(g.before) == 0 && len(g.blocked(nil)) == 0
}

// mark adds to items the positions of partitions that may hold their keys and
// turned out to hold nothing, at members that have no such key.
func (g *gathered) mark(items []item) []item {
	if len(g.answers) <= 1 {
		return items
	}
	for i := range items {
		it := &items[i]
		at := g.holders.places(it.Key)
		for p, st := range g.standing {
			known := slices.ContainsFunc(it.Marks, func(m mark) bool { return m.Partition == int32(p) })
			if st != nil && !known && g.holders.may(int32(p), &at) {
				it.Marks = append(it.Marks, mark{int32(p), st.Position})
			}
		}
		slices.SortFunc(it.Marks, func(a, b mark) int { return int(a.Partition - b.Partition) })
	}
	return items
}
