package aggregator

import (
	"cmp"
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

// newBlock gives the list an empty block with room for n members and returns
// it; the caller releases the old one, which stays as it is until then.
func newBlock(m *memory, words []uint64, n int) (block []uint64, old uint64) {
	old = words[0]
	class := classFor(n)
	r := m.words.alloc(class)
	words[0] = uint64(class)<<56 | uint64(r)
	return m.words.at(r, n)[:0], old
}

// releaseBlock takes back the block of a list's first word, 0 for none.
func releaseBlock(m *memory, word uint64) {
	if word != 0 {
		m.words.release(ref(word&blockMask), int(word>>56))
	}
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

// mergeFew is up to how many integers are added one by one to a longer list.
const mergeFew = 8

// mergeInts adds integers that come in ascending order, each once.
func mergeInts(m *memory, words []uint64, ints []int64) {
	if n := listLen(words); len(ints) <= mergeFew && n > 0 {
		for _, n := range ints {
			addInt(m, words, n)
		}
		return
	}
	if len(ints) == 0 {
		return
	}
	settleInts(m, words)
	front := listBlock(m, words)
	all, old := newBlock(m, words, len(front)+len(ints))
	for _, n := range ints {
		for len(front) > 0 && int64(front[0]) < n {
			all = append(all, front[0])
			front = front[1:]
		}
		if len(front) > 0 && int64(front[0]) == n {
			front = front[1:]
		}
		all = append(all, uint64(n))
	}
	all = append(all, front...)
	releaseBlock(m, old)
	setListLen(words, len(all))
}

func compareInts(a, b uint64) int { return cmp.Compare(int64(a), int64(b)) }

// mergeTail appends to dst the members of front, sorted and distinct, and of
// tail, sorted and none of them in front.
func mergeTail(dst, front, tail []uint64, compare func(a, b uint64) int) []uint64 {
	for i, w := range tail {
		if i > 0 && compare(tail[i-1], w) == 0 {
			continue
		}
		for len(front) > 0 && compare(front[0], w) < 0 {
			dst = append(dst, front[0])
			front = front[1:]
		}
		dst = append(dst, w)
	}
	return append(dst, front...)
}

// sortedList is the list in order and distinct, without changing it: in the
// list's own memory where it is so already.
func sortedList(m *memory, words []uint64, compare func(a, b uint64) int) []uint64 {
	b := listBlock(m, words)
	sorted := listSorted(words)
	if sorted == len(b) {
		return b
	}
	tail := slices.Clone(b[sorted:])
	slices.SortFunc(tail, compare)
	return mergeTail(make([]uint64, 0, len(b)), b[:sorted], tail, compare)
}

// settleList sorts the tail of the list in.
func settleList(m *memory, words []uint64, compare func(a, b uint64) int) {
	b := listBlock(m, words)
	sorted := listSorted(words)
	if sorted == len(b) {
		return
	}
	slices.SortFunc(b[sorted:], compare)
	all, old := newBlock(m, words, len(b))
	all = mergeTail(all, b[:sorted], b[sorted:], compare)
	releaseBlock(m, old)
	setListLen(words, len(all))
}

func sortedInts(m *memory, words []uint64) []uint64 { return sortedList(m, words, compareInts) }
func settleInts(m *memory, words []uint64)          { settleList(m, words, compareInts) }

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
	i, hi := 0, len(sorted)
	for i < hi {
		mid := int(uint(i+hi) >> 1)
		switch c := compareOther(m, sorted[mid], &v); {
		case c == 0:
			return
		case c < 0:
			i = mid + 1
		default:
			hi = mid
		}
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

// compareRefs orders the scalars at two refs.
func (m *memory) compareRefs(a, b uint64) int {
	var v event.Value
	loadOther(m, b, &v)
	return compareOther(m, a, &v)
}

func sortedOthers(m *memory, words []uint64) []uint64 { return sortedList(m, words, m.compareRefs) }
func settleOthers(m *memory, words []uint64)          { settleList(m, words, m.compareRefs) }

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
