package api

import (
	"sync"

	"tidemark/aggregator"
)

// Which partitions may hold a key?
//
// The state of each partition keeps the set of partitioners that agree with
// every key in it. While the set is not empty, a key that none of them places
// in the partition is surely not in it; the partitions that they do name are
// asked, though one that agrees with several partitioners has no key on which
// they differ. The positions of an answer then do not depend on what happens
// to be there. A set that has become empty says nothing, and neither does one
// that was kept for another number of partitions than the topic has now.
//
// The set speaks of what the partition has folded. That is all there is to ask
// for while the partition counts. While it is still catching up, its log may
// hold keys that its set does not know of, so it may hold any key, unless this
// process has known the partition before, at an earlier owner: then what it
// knew is as good as the answers that it gave. A partition that stands still
// in a gap, or is paused, is taken at its word, so that it holds back its own
// keys and not all of them; with nothing in it, it has no word to give.

// placed is what is known of the keys of one partition.
type placed struct {
	placement  aggregator.Placement
	partitions int32 // of the topic, for placement
}

// trusted says whether a standing's placement speaks for all keys that the
// partition may be asked for.
func (st *standing) trusted() bool {
	if st.Partitions == 0 {
		return false
	}
	return st.Answers || st.Holds && (st.State == aggregator.Gap || st.State == aggregator.Paused)
}

func (st *standing) placed() placed { return placed{st.Placement, st.Partitions} }

// knowledge is what this process has learnt of the placement in partitions,
// its own and others'. Sets only shrink. A member that was silent for a session
// timeout forgets: others have folded on, and it was told of nothing.
type knowledge struct {
	mu     sync.Mutex
	of     []placed // by partition; the zero placed where nothing is known
	lapses int
}

// heed forgets where the member was, or is, out of touch with the group.
func (k *knowledge) heed(view *View) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if view.Silent || view.Lapses != k.lapses {
		k.of, k.lapses = nil, view.Lapses
	}
}

// learn takes in standings.
func (k *knowledge) learn(standings []standing) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range standings {
		st := &standings[i]
		if !st.trusted() {
			continue
		}
		for int(st.Partition) >= len(k.of) {
			k.of = append(k.of, placed{})
		}
		now := st.placed()
		if was := k.of[st.Partition]; was.partitions == now.partitions {
			now.placement &= was.placement
		}
		k.of[st.Partition] = now
	}
}

// holders decides which partitions of a topic may hold a key.
type holders struct {
	partitions int32                // of the topic
	known      []placed             // by partition; the zero placed, or none: it may hold any key
	any        aggregator.Placement // partitioners that some partition goes by
}

// newHolders takes standings at their word where that is good, and goes by
// what was known before for the rest.
func newHolders(k *knowledge, standings []standing, partitions int32) *holders {
	h := &holders{partitions: partitions, known: make([]placed, partitions)}
	k.mu.Lock()
	copy(h.known, k.of)
	k.mu.Unlock()
	for i := range standings {
		if st := &standings[i]; st.trusted() && st.Partition < partitions {
			h.known[st.Partition] = st.placed()
		}
	}
	for _, p := range h.known {
		h.any |= p.placement
	}
	return h
}

// places is where each partitioner that some partition goes by places a key.
type places [aggregator.NumPartitioners]int32

func (h *holders) places(key []byte) (at places) {
	for b := range aggregator.NumPartitioners {
		if h.any&(1<<b) != 0 {
			at[b] = b.Partition(key, h.partitions)
		}
	}
	return at
}

// may says whether partition may hold the key with the places.
func (h *holders) may(partition int32, at *places) bool {
	if int(partition) >= len(h.known) {
		return true
	}
	p := h.known[partition]
	if p.placement == 0 || p.partitions != h.partitions {
		return true
	}
	for b := range aggregator.NumPartitioners {
		if p.placement&(1<<b) != 0 && at[b] == partition {
			return true
		}
	}
	return false
}

// disjoint says whether each key lies in one partition alone, by the sets that
// the partitions keep of what they hold now.
func disjoint(standings []standing, partitions int32) bool {
	if partitions == 1 || len(standings) <= 1 {
		return true
	}
	all := ^aggregator.Placement(0)
	for i := range standings {
		if standings[i].Partitions != partitions {
			return false
		}
		all &= standings[i].Placement
	}
	return all&(1<<aggregator.NumPartitioners-1) != 0
}
