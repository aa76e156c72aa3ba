package api

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"tidemark/aggregator"
)

// Whatever producers did, a partition that has a key is among those that may
// hold it; and with one partitioner that all keys agree with, it is alone.
func TestHoldersHaveTheKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int32Range(1, 8).Draw(t, "partitions")
		partitioner := rapid.SampledFrom([]aggregator.Partitioner{aggregator.Murmur2, aggregator.FNV1a, aggregator.CRC32}).Draw(t, "partitioner")
		stray := rapid.Float64Range(0, 0.2).Draw(t, "stray")
		standings := make([]standing, n)
		for p := range n {
			standings[p] = standing{Partition: p, Answers: true, Placement: 1<<aggregator.NumPartitioners - 1, Partitions: n}
			if rapid.IntRange(0, 9).Draw(t, "grown") == 0 {
				standings[p].Partitions = n - 1 // made when the topic was smaller
			}
		}
		held := map[string][]int32{}
		for range rapid.IntRange(0, 60).Draw(t, "keys") {
			key := fmt.Sprint(rapid.IntRange(0, 40).Draw(t, "key"))
			p := partitioner.Partition([]byte(key), n)
			if rapid.Float64Range(0, 1).Draw(t, "dice") < stray {
				p = rapid.Int32Range(0, n-1).Draw(t, "where")
			}
			held[key] = append(held[key], p)
			for b := range aggregator.NumPartitioners {
				if at := standings[p].Partitions; at == 0 || b.Partition([]byte(key), at) != p {
					standings[p].Placement &^= 1 << b
				}
			}
		}
		var k knowledge
		k.learn(standings)
		for _, h := range []*holders{newHolders(&k, standings, n), newHolders(&k, nil, n)} {
			for key, partitions := range held {
				at := h.places([]byte(key))
				for _, p := range partitions {
					if !h.may(p, &at) {
						t.Fatalf("partition %d has %s, and may not", p, key)
					}
				}
			}
		}
		owner := map[string]int32{}
		apart := true
		for key, partitions := range held {
			for _, p := range partitions {
				if was, ok := owner[key]; ok && was != p {
					apart = false
				}
				owner[key] = p
			}
		}
		if disjoint(standings, n) && !apart {
			t.Fatal("a key is in two partitions, and they say they are disjoint")
		}
	})
}

func TestHoldersAreFew(t *testing.T) {
	const murmur2, crc32 = 1 << aggregator.Murmur2, 1 << aggregator.CRC32
	standings := []standing{
		{Partition: 0, Answers: true, Placement: murmur2, Partitions: 4},
		{Partition: 1, Answers: true, Placement: murmur2 | crc32, Partitions: 4},
		{Partition: 2, Answers: true, Placement: 0, Partitions: 4},       // agrees with none
		{Partition: 3, Answers: true, Placement: murmur2, Partitions: 3}, // made when there were 3
	}
	h := newHolders(&knowledge{}, standings, 4)
	for i := range 200 {
		key := []byte(fmt.Sprint(i))
		at := h.places(key)
		for p, want := range []bool{
			at[aggregator.Murmur2] == 0,
			at[aggregator.Murmur2] == 1 || at[aggregator.CRC32] == 1,
			true,
			true,
		} {
			if got := h.may(int32(p), &at); got != want {
				t.Errorf("%s in %d: got %v", key, p, got)
			}
		}
	}
}

// Only standings that speak for all keys are learnt from; what was learnt
// outlives the owner, and never grows.
func TestKnowledge(t *testing.T) {
	const all = aggregator.Placement(1<<aggregator.NumPartitioners - 1)
	var k knowledge
	key := []byte(keyAt(0, 2))
	may := func(standings ...standing) bool {
		h := newHolders(&k, standings, 2)
		at := h.places(key)
		return h.may(1, &at)
	}
	if !may() {
		t.Error("nothing is known, and it may not hold the key")
	}
	for _, st := range []standing{
		{Partition: 1, State: aggregator.CatchingUp, Placement: 1, Partitions: 2, Holds: true},
		{Partition: 1, State: aggregator.Restoring},
		{Partition: 1, State: aggregator.Paused, Placement: 1, Partitions: 2}, // has nothing
		{Partition: 1, State: aggregator.Gap, Holds: true},
	} {
		k.learn([]standing{st})
		if !may(st) || !may() {
			t.Errorf("%+v is believed", st)
		}
	}
	gap := standing{Partition: 1, State: aggregator.Gap, Placement: 1 << aggregator.Murmur2, Partitions: 2, Holds: true}
	if may(gap) {
		t.Error("a gap with keys is not believed")
	}
	live := standing{Partition: 1, State: aggregator.Live, Answers: true, Placement: 1 << aggregator.Murmur2, Partitions: 2}
	k.learn([]standing{live})
	restoring := standing{Partition: 1, State: aggregator.CatchingUp, Placement: all, Partitions: 2}
	if may() || may(restoring) {
		t.Error("what was known is forgotten")
	}
	live.Placement = 0
	k.learn([]standing{live})
	live.Placement = all
	k.learn([]standing{live})
	if !may() {
		t.Error("a set has grown")
	}
}

// What was known before a silence says nothing of what others have folded
// meanwhile: a key may be anywhere again.
func TestKnowledgeEndsWithASilence(t *testing.T) {
	of := []standing{{Partition: 0, Partitions: 4, Placement: 1 << aggregator.Murmur2, Answers: true}}
	for _, c := range []struct {
		view  View
		known bool
	}{{View{}, true}, {View{Generation: 7}, true}, {View{Silent: true}, false}, {View{Lapses: 1}, false}} {
		k := &knowledge{}
		k.learn(of)
		k.heed(&c.view)
		if h := newHolders(k, nil, 4); (h.known[0] != placed{}) != c.known {
			t.Errorf("%+v: partition 0 is known as %+v", c.view, h.known[0])
		}
	}
}
