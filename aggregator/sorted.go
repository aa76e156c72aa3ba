package aggregator

import (
	"bytes"
	"iter"
	"math"
	"sort"
)

// entry is a row to be put in order: the first eight bytes of its key, and its
// index.
type entry struct {
	prefix uint64
	row    uint32
}

// Sorted yields all keys >= from with their encoded totals, in key order. Both
// slices are valid until the next step. The delta must not change meanwhile.
func (d *Delta) Sorted(from []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, total []byte) bool) {
		entries := make([]entry, 0, d.live)
		w0, w1 := keyWords(from)
		for i := range d.rows {
			row := d.row(i)
			if row[rowFlags]&flagTouched != 0 && d.compareTo(row, from, w0, w1) >= 0 {
				entries = append(entries, entry{row[0], uint32(i)})
			}
		}
		keys := d.rowKeys()
		keys.sort(entries)
		d.yield(entries, yield)
	}
}

// Smallest yields, in key order, the first limit keys >= from as Sorted would.
// Its time goes by limit, and by the rows that are not in the index.
func (d *Delta) Smallest(from []byte, limit int) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, total []byte) bool) {
		limit = min(limit, d.live)
		if limit <= 0 {
			return
		}
		w0, w1 := keyWords(from)
		runs, rows := d.index.have()
		heads := make([][]entry, len(runs), len(runs)+1)
		for i, run := range runs {
			heads[i] = run[sort.Search(len(run), func(j int) bool {
				if run[j].prefix != w0 { // no row is looked at: it is a cache miss
					return run[j].prefix > w0
				}
				return d.compareTo(d.row(int(run[j].row)), from, w0, w1) >= 0
			}):]
		}
		heads = append(heads, d.tail(rows, from, limit))
		keys := d.rowKeys()
		var wanted func(row uint32) bool
		if d.live < d.rows {
			wanted = func(row uint32) bool { return d.row(int(row))[rowFlags]&flagTouched != 0 }
		}
		d.yield(keys.merge(heads, limit, wanted), yield)
	}
}

// tail is, in key order, the first limit keys >= from of the rows from one on. It
// is short: of most keys the first word alone is looked at.
func (d *Delta) tail(rows int, from []byte, limit int) []entry {
	w0, w1 := keyWords(from)
	keys := d.rowKeys()
	// The smallest so far: two of them for each one wanted, cut in half when
	// they are full; what is above the largest kept needs no place.
	room := 2 * min(limit, d.rows-rows)
	entries := make([]entry, 0, room)
	last := entry{prefix: math.MaxUint64} // the largest key that is wanted, once there are limit
	cut := false
	for s := rows >> slabShift; s<<slabShift < d.rows; s++ {
		base := s << slabShift
		words := d.slabs[s][:min(slabRows, d.rows-base)]
		for j := max(0, rows-base); j < len(words); j++ {
			e := entry{words[j], uint32(base + j)}
			if e.prefix < w0 || e.prefix > last.prefix {
				continue
			}
			row := d.row(base + j)
			if row[rowFlags]&flagTouched == 0 || d.compareTo(row, from, w0, w1) < 0 {
				continue
			}
			if cut && keys.compare(e, last) > 0 {
				continue
			}
			entries = append(entries, e)
			if len(entries) == room && room > limit {
				keys.sort(entries)
				entries = entries[:limit]
				last, cut = entries[limit-1], true
			}
		}
	}
	keys.sort(entries)
	return entries[:min(limit, len(entries))]
}

// yield yields the entries with their encoded totals.
func (d *Delta) yield(entries []entry, yield func(key, total []byte) bool) {
	var key, total []byte
	for i, e := range entries {
		if i%ahead == 0 {
			d.warm(entries[i:min(i+ahead, len(entries))])
		}
		row := d.row(int(e.row))
		key = d.appendKey(key[:0], row)
		total = d.program.appendTotal(total[:0], &d.memory, row)
		if !yield(key, total) {
			return
		}
	}
}

// warm reads from each of the rows, and then from the sets that they name. Key
// order is no order in memory, so every row is a cache miss: here the misses of
// several overlap.
//
//go:noinline
func (d *Delta) warm(entries []entry) (sum uint64) {
	for _, e := range entries {
		row := d.row(int(e.row))
		for i := 0; i < len(row); i += 8 {
			sum += row[i]
		}
		sum += row[len(row)-1]
	}
	for _, word := range d.program.sets {
		for _, e := range entries {
			if block := d.row(int(e.row))[word+setInts]; block != 0 {
				sum += d.memory.words.at(ref(block&blockMask), 1)[0]
			}
		}
	}
	return sum
}

// compareTo orders the row's key and a key with its words.
func (d *Delta) compareTo(row []uint64, key []byte, w0, w1 uint64) int {
	if row[0] != w0 {
		return order(row[0] < w0)
	}
	if row[1] != w1 {
		return order(row[1] < w1)
	}
	if w1&0xff <= shortKey {
		return 0
	}
	return bytes.Compare(d.keys.at(row[rowFlags]>>flagBits), key)
}

// radixSort sorts by prefix: least significant byte first, and only bytes in
// which prefixes differ. It takes twice the memory of entries.
func radixSort(entries []entry) {
	var differ uint64
	for _, e := range entries {
		differ |= e.prefix ^ entries[0].prefix
	}
	from, to := entries, make([]entry, len(entries))
	for shift := 0; shift < 64; shift += 8 {
		if differ>>shift&0xff == 0 {
			continue
		}
		var next [256]int
		for _, e := range from {
			next[e.prefix>>shift&0xff]++
		}
		at := 0
		for i, n := range next {
			next[i] = at
			at += n
		}
		for _, e := range from {
			b := e.prefix >> shift & 0xff
			to[next[b]] = e
			next[b]++
		}
		from, to = to, from
	}
	if &from[0] != &entries[0] {
		copy(entries, from)
	}
}
