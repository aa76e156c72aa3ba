package aggregator

import (
	"bytes"
	"encoding/binary"
	"slices"

	"tidemark/decimal"
	"tidemark/event"
)

// A list is the half of a set, in two words of its row:
//
//	0  the class of its block in memory.words <<56 | the block's ref
//	1  the number of its sorted members <<32 | the number of all, 31 bits each;
//	   the top bit is the set's
//
// The members in the block are words: sorted and distinct in front, and behind
// them, once the list is longer than smallList, those that came since, as they
// came. So a member of a small list is inserted where it belongs, and one of a
// large list costs its share of the sort that the tail gets when it is full.
const (
	smallList = 64
	listMask  = 1<<31 - 1
	blockMask = 1<<56 - 1
)

func listLen(words []uint64) int    { return int(words[1] & listMask) }
func listSorted(words []uint64) int { return int(words[1] >> 32 & listMask) }

// setListLen makes the list n members long, all sorted.
func setListLen(words []uint64, n int) {
	words[1] = words[1]&setCapped | uint64(n)<<32 | uint64(n)
}

// listBlock is the list's members.
func listBlock(m *memory, words []uint64) []uint64 {
	n := listLen(words)
	if n == 0 {
		return nil
	}
	return m.words.at(ref(words[0]&blockMask), n)
}

// growList makes room for one more member and returns the block with it.
func growList(m *memory, words []uint64) []uint64 {
	n := listLen(words)
	class := int(words[0] >> 56)
	if class == 0 {
		words[0] = uint64(minClass)<<56 | uint64(m.words.alloc(minClass))
	} else if n == 1<<class {
		r := m.words.alloc(class + 1)
		old := ref(words[0] & blockMask)
		copy(m.words.at(r, n), m.words.at(old, n))
		m.words.release(old, class)
		words[0] = uint64(class+1)<<56 | uint64(r)
	}
	words[1]++
	return m.words.at(ref(words[0]&blockMask), n+1)
}

// insertWord puts w at place i of a list that is all sorted.
func insertWord(m *memory, words []uint64, i int, w uint64) {
	b := growList(m, words)
	copy(b[i+1:], b[i:])
	b[i] = w
	words[1] += 1 << 32
}

// tailFull says whether the list's tail is long enough to be sorted in.
func tailFull(words []uint64) bool {
	sorted := listSorted(words)
	return listLen(words)-sorted >= max(smallList, sorted/4)
}

// replaceList makes the list hold the sorted members.
func replaceList(m *memory, words []uint64, members []uint64) {
	if class := int(words[0] >> 56); class < classFor(len(members)) {
		m.words.release(ref(words[0]&blockMask), class)
		class = classFor(len(members))
		words[0] = uint64(class)<<56 | uint64(m.words.alloc(class))
	}
	copy(m.words.at(ref(words[0]&blockMask), len(members)), members)
	setListLen(words, len(members))
}

// addInt adds n to a list of integers.
func addInt(m *memory, words []uint64, n int64) {
	b := listBlock(m, words)
	sorted := b[:listSorted(words)]
	if len(sorted) == len(b) && (len(b) == 0 || int64(b[len(b)-1]) < n) {
		insertWord(m, words, len(b), uint64(n)) // encodings come in order
		return
	}
	lo, hi := 0, len(sorted)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if int64(sorted[mid]) < n {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo < len(sorted) && int64(sorted[lo]) == n {
		return
	}
	if len(b) <= smallList {
		insertWord(m, words, lo, uint64(n))
		return
	}
	b = growList(m, words)
	b[len(b)-1] = uint64(n)
	if tailFull(words) {
		settleInts(m, words)
	}
}

// sortedInts is the list in order and distinct, in the list's own memory where
// it is so already.
func sortedInts(m *memory, words []uint64) []uint64 {
	b := listBlock(m, words)
	sorted := listSorted(words)
	if sorted == len(b) {
		return b
	}
	tail := make([]int64, 0, len(b)-sorted)
	for _, w := range b[sorted:] {
		tail = append(tail, int64(w))
	}
	slices.Sort(tail)
	all := make([]uint64, 0, len(b))
	front := b[:sorted]
	for _, n := range tail {
		for len(front) > 0 && int64(front[0]) < n {
			all = append(all, front[0])
			front = front[1:]
		}
		if len(all) == 0 || all[len(all)-1] != uint64(n) {
			all = append(all, uint64(n)) // the tail holds no member of the front
		}
	}
	return append(all, front...)
}

// settleInts sorts the tail of a list of integers in.
func settleInts(m *memory, words []uint64) {
	if listSorted(words) < listLen(words) {
		replaceList(m, words, sortedInts(m, words))
	}
}

// addOther adds an encoded scalar to a list of refs.
func addOther(m *memory, words []uint64, encoded []byte) {
	b := listBlock(m, words)
	var v event.Value
	readOther(encoded, &v)
	sorted := b[:listSorted(words)]
	if len(sorted) == len(b) && (len(b) == 0 || compareOther(m, b[len(b)-1], &v) < 0) {
		insertWord(m, words, len(b), putOther(m, encoded))
		return
	}
	i, found := slices.BinarySearchFunc(sorted, &v, func(r uint64, v *event.Value) int { return compareOther(m, r, v) })
	if found {
		return
	}
	if len(b) <= smallList {
		insertWord(m, words, i, putOther(m, encoded))
		return
	}
	b = growList(m, words)
	b[len(b)-1] = putOther(m, encoded)
	if tailFull(words) {
		settleOthers(m, words)
	}
}

// sortedOthers is sortedInts for a list of refs.
func sortedOthers(m *memory, words []uint64) []uint64 {
	b := listBlock(m, words)
	sorted := listSorted(words)
	if sorted == len(b) {
		return b
	}
	compare := func(a, b uint64) int {
		var v event.Value
		loadOther(m, b, &v)
		return compareOther(m, a, &v)
	}
	tail := slices.Clone(b[sorted:])
	slices.SortFunc(tail, compare)
	all := make([]uint64, 0, len(b))
	front := b[:sorted]
	for _, r := range tail {
		for len(front) > 0 && compare(front[0], r) < 0 {
			all = append(all, front[0])
			front = front[1:]
		}
		if len(all) == 0 || !bytes.Equal(otherBytes(m, all[len(all)-1]), otherBytes(m, r)) {
			all = append(all, r)
		}
	}
	return append(all, front...)
}

// settleOthers is settleInts for a list of refs.
func settleOthers(m *memory, words []uint64) {
	if listSorted(words) < listLen(words) {
		replaceList(m, words, sortedOthers(m, words))
	}
}

// otherHead is the length of an encoding, before it in memory.
const otherHead = 4

// putOther keeps a copy of an encoded scalar and returns its ref.
func putOther(m *memory, encoded []byte) uint64 {
	r, b := m.bytes.alloc(otherHead + len(encoded))
	binary.LittleEndian.PutUint32(b, uint32(len(encoded)))
	copy(b[otherHead:], encoded)
	return uint64(r)
}

// otherBytes is the encoding at a ref.
func otherBytes(m *memory, r uint64) []byte {
	n := int(binary.LittleEndian.Uint32(m.bytes.at(ref(r), otherHead)))
	return m.bytes.at(ref(r), otherHead+n)[otherHead:]
}

// readOther reads an encoded scalar that readScalar or appendScalar has seen
// before.
func readOther(encoded []byte, v *event.Value) { _, _ = readScalar(encoded, v) }

func loadOther(m *memory, r uint64, v *event.Value) { readOther(otherBytes(m, r), v) }

func compareOther(m *memory, r uint64, v *event.Value) int {
	var is event.Value
	loadOther(m, r, &is)
	return event.Compare(&is, v)
}

// compareIntOther orders an integer and the scalar at a ref.
func compareIntOther(m *memory, n int64, r uint64) int {
	v := event.Value{Kind: event.Decimal, Num: decimal.FromInt64(n)}
	return -compareOther(m, r, &v)
}
