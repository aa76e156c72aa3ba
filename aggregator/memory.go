package aggregator

import "math/bits"

// memory is where accumulators keep what does not fit in their row: texts and
// long keys in bytes, sets in words, sums beyond 128 bits in sums. Rows name
// it by refs, not by pointers, so the garbage collector has nothing to look at
// in a delta of a million keys.
type memory struct {
	bytes byteArena
	words wordArena
	sums  bigSums
}

// reset forgets all contents and keeps the space.
func (m *memory) reset() {
	m.bytes.reset()
	m.words.reset()
	m.sums.reset()
}

// used is the memory in use, in bytes, an estimate.
func (m *memory) used() int {
	return m.bytes.used + m.words.used*8 + m.sums.used()
}

// ref is a place in an arena: chunk<<32 | offset. It stays below 1<<56.
type ref uint64

func newRef(chunk, offset int) ref { return ref(chunk)<<32 | ref(offset) }
func (r ref) chunk() int           { return int(r >> 32) }
func (r ref) offset() int          { return int(uint32(r)) }

const (
	smallChunk = 256     // the first chunk of an arena, in bytes or words: a Total needs no more
	largeChunk = 1 << 17 // chunks double up to it
)

// nextChunk is the length of the chunk that follows one of length last and is
// to hold n.
func nextChunk(last, n int) int {
	return max(n, min(max(2*last, smallChunk), largeChunk))
}

// byteArena hands out bytes that live until the reset.
type byteArena struct {
	chunks [][]byte
	chunk  int // in use
	off    int // first free byte of it
	used   int
}

func (a *byteArena) reset() { a.chunk, a.off, a.used = 0, 0, 0 }

// alloc returns n bytes of undefined contents.
func (a *byteArena) alloc(n int) (ref, []byte) {
	for {
		if a.chunk == len(a.chunks) {
			last := 0
			if a.chunk > 0 {
				last = len(a.chunks[a.chunk-1])
			}
			a.chunks = append(a.chunks, make([]byte, nextChunk(last, n)))
		}
		c := a.chunks[a.chunk]
		if a.off+n <= len(c) {
			r := newRef(a.chunk, a.off)
			b := c[a.off : a.off+n : a.off+n]
			a.off += n
			a.used += n
			return r, b
		}
		a.chunk++
		a.off = 0
	}
}

// at returns the n bytes at r.
func (a *byteArena) at(r ref, n int) []byte {
	o := r.offset()
	return a.chunks[r.chunk()][o : o+n : o+n]
}

// A text in a row is two words: its ref, and length<<32 | room. Room is kept so
// that a text that replaces another of about its length takes its place.

// putText makes the two words hold text, in the place that they name already
// where it fits. Words that are both zero name none.
func (m *memory) putText(place, size *uint64, text []byte) {
	n := len(text)
	if room := int(uint32(*size)); n <= room && room > 0 {
		copy(m.bytes.at(ref(*place), n), text)
		*size = uint64(n)<<32 | uint64(room)
		return
	}
	room := (n + 7) &^ 7
	if *size != 0 {
		room = max(room, 2*int(uint32(*size))) // it grows: waste at most half
	}
	r, b := m.bytes.alloc(room)
	copy(b, text)
	*place, *size = uint64(r), uint64(n)<<32|uint64(room)
}

// text returns the text of the two words; valid until the reset, or until
// putText replaces it.
func (m *memory) text(place, size uint64) []byte {
	if size>>32 == 0 {
		return nil
	}
	return m.bytes.at(ref(place), int(size>>32))
}

// wordArena hands out blocks of words in sizes that are powers of two, and
// takes them back.
type wordArena struct {
	chunks [][]uint64
	chunk  int
	off    int
	used   int
	free   [33]uint64 // by class: ref+1 of the first free block, whose first word names the next
}

// minClass is the smallest block: 1<<minClass words.
const minClass = 2

func (a *wordArena) reset() {
	a.chunk, a.off, a.used = 0, 0, 0
	a.free = [33]uint64{}
}

// classFor is the class of the smallest block of n words or more.
func classFor(n int) int { return max(minClass, bits.Len(uint(max(n, 1)-1))) }

// alloc returns a block of 1<<class words of undefined contents.
func (a *wordArena) alloc(class int) ref {
	n := 1 << class
	a.used += n
	if f := a.free[class]; f != 0 {
		r := ref(f - 1)
		a.free[class] = a.at(r, 1)[0]
		return r
	}
	for {
		if a.chunk == len(a.chunks) {
			last := 0
			if a.chunk > 0 {
				last = len(a.chunks[a.chunk-1])
			}
			a.chunks = append(a.chunks, make([]uint64, nextChunk(last, n)))
		}
		if a.off+n <= len(a.chunks[a.chunk]) {
			r := newRef(a.chunk, a.off)
			a.off += n
			return r
		}
		a.chunk++
		a.off = 0
	}
}

// release takes a block back.
func (a *wordArena) release(r ref, class int) {
	a.at(r, 1)[0] = a.free[class]
	a.free[class] = uint64(r) + 1
	a.used -= 1 << class
}

// at returns the first n words of the block at r.
func (a *wordArena) at(r ref, n int) []uint64 {
	o := r.offset()
	return a.chunks[r.chunk()][o : o+n : o+n]
}
