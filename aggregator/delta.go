package aggregator

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"iter"

	"tidemark/event"
	"tidemark/query"
)

// Delta is the change of one partition's totals by the records in
// [First, Next). One goroutine at a time; those that only read it (Len, Bytes,
// Get, Sorted, Smallest) may do so side by side. See index for who reads it in
// order while it is folded into.
//
// It is a hash table with open addressing over rows of words. Neither table
// nor rows hold pointers, and a key that was seen before costs no allocation.
type Delta struct {
	First, Next int64
	Counts      Counts
	// Placement holds the partitioners that agree with every key of the delta.
	Placement Placement

	program               *Program
	partition, partitions int32

	table  []uint64   // hash <<32 | row+1; 0 is free
	slabs  [][]uint64 // in each slabRows rows, behind the first words of their keys
	guards [][]uint64 // two words for each row, made when the first guard comes
	rows   int        // in use
	live   int        // of those, touched by an event or a document
	keys   keyArena
	memory memory
	index  index

	changes []uint32 // rows that were folded into, in order; nil where they are not noted
	lost    int64    // changes before them that are not there any more
}

const (
	slabShift = 9
	slabRows  = 1 << slabShift
	minTable  = 1 << 8
)

// NewDelta returns an empty delta for partition, one of partitions.
func (p *Program) NewDelta(partition, partitions int32) *Delta {
	return &Delta{
		Placement:  allPartitioners,
		program:    p,
		partition:  partition,
		partitions: partitions,
		table:      make([]uint64, minTable),
	}
}

// Len is the number of keys.
func (d *Delta) Len() int { return d.live }

// Bytes is the memory in use, an estimate.
func (d *Delta) Bytes() int {
	n := 8*len(d.table) + 8*(d.program.rowWords+1)*d.rows + d.keys.used + d.memory.used() + 4*len(d.changes)
	if d.guards != nil {
		n += 16 * d.rows
	}
	return n
}

// fills says whether the delta has so many records, or takes so many bytes.
func (d *Delta) fills(records int64, bytes int) bool {
	return d.Counts.Consumed() >= records || d.Bytes() >= bytes
}

// Reset empties the delta and keeps its memory for the next, but for what is far
// too much for what came.
func (d *Delta) Reset(first int64) {
	d.table = d.table[:d.nextTable()]
	if n := len(d.slabs); n > 8 && d.rows < n*slabRows/4 {
		clear(d.slabs[n/2:])
		d.slabs = d.slabs[:n/2]
	}
	clear(d.table)
	d.First, d.Next = first, first
	d.Counts = Counts{}
	d.Placement = allPartitioners
	d.rows, d.live = 0, 0
	d.keys.reset()
	d.memory.reset()
	d.index.reset()
	d.changes, d.lost = d.changes[:0], 0
}

// nextTable is how long the table of the next delta is: one that is far too large
// for what came is cleared and searched in vain.
func (d *Delta) nextTable() int {
	n := len(d.table)
	used := d.rows > 0 || d.First < d.Next // nothing is known of the need of one that was not
	if n > minTable && used && d.rows < n/16 {
		n /= 2
	}
	return n
}

// successor is an empty delta with a table of so many entries, nextTable's, since
// one that grows holds up readers; its rows get memory as they come.
func (d *Delta) successor(table int) *Delta {
	next := d.program.NewDelta(d.partition, d.partitions)
	next.table = make([]uint64, table)
	return next
}

// note lets the delta note which rows are folded into from here on: the last few
// of them, or as many as there are rows; 0 is none.
func (d *Delta) note(few int) {
	switch {
	case few == 0:
		d.changes = nil
	case d.changes == nil, len(d.changes) == 0 && cap(d.changes) > 4*few:
		d.changes = make([]uint32, 0, few)
	}
}

// noted is how many changes were noted so far.
func (d *Delta) noted() int64 { return d.lost + int64(len(d.changes)) }

// change notes that a row is folded into. Nothing is lost before all rows could
// have been looked at: who does that, while others fold, would never be done.
func (d *Delta) change(row int) {
	if len(d.changes) == cap(d.changes) && len(d.changes) >= d.rows {
		d.lost += int64(len(d.changes))
		d.changes = d.changes[:0]
	}
	d.changes = append(d.changes, uint32(row))
}

// Get appends the key's encoded total to dst; false where the delta has none.
func (d *Delta) Get(dst, key []byte) ([]byte, bool) {
	var f found
	d.place(&f, key)
	d.find(&f, key)
	row := f.row
	if row == nil || row[rowFlags]&flagTouched == 0 {
		return dst, false
	}
	return d.program.appendTotal(dst, &d.memory, row), true
}

// hashed yields the rows that count, in no order, with the hashes of their keys.
func (d *Delta) hashed() iter.Seq2[[]uint64, uint32] {
	return func(yield func(row []uint64, hash uint32) bool) {
		for i := range d.rows {
			row := d.row(i)
			if row[rowFlags]&flagTouched == 0 {
				continue
			}
			if !yield(row, d.hashOf(row)) {
				return
			}
		}
	}
}

// hashOf is the hash of a row's key.
func (d *Delta) hashOf(row []uint64) uint32 {
	var key []byte
	if row[1]&0xff > shortKey {
		key = d.keys.at(row[rowFlags] >> flagBits)
	}
	return d.program.hash(key, row[0], row[1])
}

// row is the words of row i.
func (d *Delta) row(i int) []uint64 {
	w := d.program.rowWords
	at := slabRows + (i&(slabRows-1))*w
	return d.slabs[i>>slabShift][at : at+w : at+w]
}

// hash is a hash of a key and its words. The seeds are the process's: hashes
// decide about places in memory, never about an order.
func (p *Program) hash(key []byte, w0, w1 uint64) uint32 {
	if len(key) > shortKey {
		return uint32(maphash.Bytes(p.seed, key))
	}
	h := mix(w0^p.seeds[0], w1^p.seeds[1])
	return uint32(mix(h, 0x9e3779b97f4a7c15))
}

// found is where a key is in a delta, or where it belongs.
type found struct {
	row    []uint64 // nil where the delta does not have the key
	index  int      // of row
	place  uint32   // in the table
	hash   uint32
	w0, w1 uint64
}

// place begins the search for a key.
func (d *Delta) place(f *found, key []byte) {
	f.row = nil
	f.w0, f.w1 = keyWords(key)
	f.hash = d.program.hash(key, f.w0, f.w1)
}

// find looks for a key that place was asked for.
func (d *Delta) find(f *found, key []byte) {
	mask := uint32(len(d.table) - 1)
	for f.place = f.hash & mask; ; f.place = (f.place + 1) & mask {
		e := d.table[f.place]
		if e == 0 {
			return
		}
		if uint32(e>>32) != f.hash {
			continue
		}
		index := int(uint32(e)) - 1
		row := d.row(index)
		if row[0] != f.w0 || row[1] != f.w1 {
			continue
		}
		if f.w1&0xff <= shortKey || bytes.Equal(d.keys.at(row[rowFlags]>>flagBits), key) {
			f.row, f.index = row, index
			return
		}
	}
}

// fetch reads from the places of keys and then from the rows that are named
// there: most of the time their own. Nothing depends on what it reads; it is for
// the cache misses of several keys to overlap.
//
//go:noinline
func (d *Delta) fetch(keys []scanned) (sum uint64) {
	if len(keys) == 1 {
		return 0
	}
	mask := uint32(len(d.table) - 1)
	var entries [ahead]uint64
	for i := range keys {
		entries[i&(ahead-1)] = d.table[keys[i].at.hash&mask]
	}
	for _, e := range entries[:len(keys)] {
		if e != 0 {
			row := d.row(int(uint32(e)) - 1)
			sum += row[0] + row[len(row)-1]
		}
	}
	return sum
}

// enter returns the key's row, a new one where there is none. It counts for
// nothing until it is touched.
func (d *Delta) enter(key []byte) (row []uint64, index int) {
	var f found
	d.place(&f, key)
	d.find(&f, key)
	if f.row == nil {
		d.insert(&f, key)
	}
	return f.row, f.index
}

// insert makes a row for a key that find did not find; nothing was inserted
// since.
func (d *Delta) insert(f *found, key []byte) {
	f.index = d.rows
	if f.index>>slabShift == len(d.slabs) {
		d.slabs = append(d.slabs, make([]uint64, slabRows*(1+d.program.rowWords)))
	}
	d.rows++
	f.row = d.row(f.index)
	clear(f.row)
	f.row[0], f.row[1] = f.w0, f.w1
	d.slabs[f.index>>slabShift][f.index&(slabRows-1)] = f.w0
	if len(key) > shortKey {
		f.row[rowFlags] = d.keys.put(key) << flagBits
	}
	if d.guards != nil {
		clear(d.guard(f.index))
	}
	d.table[f.place] = uint64(f.hash)<<32 | uint64(f.index+1)
	if d.rows > len(d.table)/8*5 {
		d.grow()
	}
}

// grow doubles the table. The entries hold their hashes: no row is looked at.
func (d *Delta) grow() {
	table := make([]uint64, 2*len(d.table))
	mask := uint32(len(table) - 1)
	for _, e := range d.table {
		if e == 0 {
			continue
		}
		place := uint32(e>>32) & mask
		for table[place] != 0 {
			place = (place + 1) & mask
		}
		table[place] = e
	}
	d.table = table
}

// touch makes the row count as a key of the delta.
func (d *Delta) touch(row []uint64, key []byte) {
	if row[rowFlags]&flagTouched != 0 {
		return
	}
	row[rowFlags] |= flagTouched
	d.live++
	if d.Placement != 0 {
		d.Placement = d.Placement.keep(key, d.partition, d.partitions)
	}
}

// fold adds an operand for each aggregate to a row; texts has bit 1<<column
// for each key column that came as text.
func (d *Delta) fold(row []uint64, texts uint64, operands []operand) {
	row[rowFlags] |= texts << flagTextShift
	columns := d.program.columns
	for i := range columns {
		// The usual aggregates are called by name: so they are inlined.
		switch c := &columns[i]; c.fn {
		case query.CountAll:
			addCount(&row[c.word], operands[i].count)
		case query.Sum:
			sum{}.fold(&d.memory, row[c.word:c.word+sumWords], &operands[i])
		case query.Max:
			extreme{1}.fold(&d.memory, row[c.word:c.word+scalarWords], &operands[i])
		default:
			c.acc.fold(&d.memory, row[c.word:c.word+c.words], &operands[i])
		}
	}
}

// A guard in a delta is two words: the seconds, and the nanoseconds with its
// state above them.
const (
	guardAsked = 1 << 32 // the history was asked for it
	guardHas   = 1 << 33 // and has it
)

// guard is the guard's words of row i; without guards in the delta they are
// made.
func (d *Delta) guard(i int) []uint64 {
	for len(d.guards) <= i>>slabShift {
		d.guards = append(d.guards, make([]uint64, 2*slabRows))
	}
	at := (i & (slabRows - 1)) * 2
	return d.guards[i>>slabShift][at : at+2 : at+2]
}

// guarded says whether the key's guard is at or after t: whether the history
// holds an event of that time. look is called where the delta does not know
// the guard yet.
func (d *Delta) guarded(key []byte, index int, t event.Time, look func(key []byte) (event.Time, bool, error)) (bool, error) {
	words := d.guard(index)
	if words[1]&guardAsked == 0 {
		g, has, err := look(key)
		if err != nil {
			return false, err
		}
		words[0], words[1] = uint64(g.Sec), uint64(uint32(g.Nsec))|guardAsked
		if has {
			words[1] |= guardHas
		}
	}
	if words[1]&guardHas == 0 {
		return false, nil
	}
	g := event.Time{Sec: int64(words[0]), Nsec: int32(words[1])}
	return t.Compare(g) <= 0, nil
}

// appendKey appends the key of a row.
func (d *Delta) appendKey(dst []byte, row []uint64) []byte {
	if row[1]&0xff > shortKey {
		return append(dst, d.keys.at(row[rowFlags]>>flagBits)...)
	}
	return appendShortKey(dst, row[0], row[1])
}

// keyArena holds keys of more than shortKey bytes: a length of two bytes, and
// the key. A place is chunk<<16 | offset and fits beside the flags of a row.
type keyArena struct {
	chunks [][]byte
	chunk  int
	off    int
	used   int
}

const keyChunk = 1 << 16

func (a *keyArena) reset() { a.chunk, a.off, a.used = 0, 0, 0 }

// put keeps a copy of key. Percent-encoded, a key is below 4 KiB.
func (a *keyArena) put(key []byte) uint64 {
	n := 2 + len(key)
	if len(a.chunks) > 0 && a.off+n > keyChunk {
		a.chunk++
		a.off = 0
	}
	if a.chunk == len(a.chunks) {
		a.chunks = append(a.chunks, make([]byte, keyChunk))
	}
	b := a.chunks[a.chunk][a.off:]
	binary.LittleEndian.PutUint16(b, uint16(len(key)))
	copy(b[2:], key)
	place := uint64(a.chunk)<<16 | uint64(a.off)
	a.off += n
	a.used += n
	return place
}

func (a *keyArena) at(place uint64) []byte {
	b := a.chunks[place>>16][place&(keyChunk-1):]
	n := binary.LittleEndian.Uint16(b)
	return b[2 : 2+n : 2+n]
}
