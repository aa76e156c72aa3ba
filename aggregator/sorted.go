package aggregator

import (
	"bytes"
	"cmp"
	"iter"
	"math"
	"slices"
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
		d.sort(entries)
		d.yield(entries, yield)
	}
}

// Smallest yields, in key order, the first limit keys >= from as Sorted would.
// Its time is proportional to Len, but it is short: of most keys the first word
// alone is looked at.
func (d *Delta) Smallest(from []byte, limit int) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, total []byte) bool) {
		if limit <= 0 {
			return
		}
		w0, w1 := keyWords(from)
		// The smallest so far: two of them for each one wanted, cut in half
		// when they are full; what is above the largest kept needs no place.
		room := 2 * min(limit, d.live)
		entries := make([]entry, 0, room)
		var last []uint64                  // the largest key that is wanted, once there are limit
		greatest := uint64(math.MaxUint64) // its first word
		for s := range d.slabs {
			for j, word := range d.slabs[s][:max(0, min(slabRows, d.rows-s*slabRows))] {
				if word < w0 || word > greatest {
					continue
				}
				i := s*slabRows + j
				row := d.row(i)
				if row[rowFlags]&flagTouched == 0 || d.compareTo(row, from, w0, w1) < 0 {
					continue
				}
				if last != nil && d.compareRows(row, last) > 0 {
					continue
				}
				entries = append(entries, entry{word, uint32(i)})
				if len(entries) == room && room > limit {
					d.sort(entries)
					entries = entries[:limit]
					last = d.row(int(entries[limit-1].row))
					greatest = last[0]
				}
			}
		}
		d.sort(entries)
		d.yield(entries[:min(limit, len(entries))], yield)
	}
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

// compareRows orders two rows by key.
func (d *Delta) compareRows(a, b []uint64) int {
	if b[1]&0xff <= shortKey {
		return d.compareTo(a, nil, b[0], b[1])
	}
	return d.compareTo(a, d.keys.at(b[rowFlags]>>flagBits), b[0], b[1])
}

// sort puts entries in key order: by prefix first, and rows with one prefix by
// their keys.
func (d *Delta) sort(entries []entry) {
	if len(entries) < 1<<10 {
		slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.prefix, b.prefix) })
	} else {
		radixSort(entries)
	}
	for i := 0; i < len(entries); {
		j := i + 1
		for j < len(entries) && entries[j].prefix == entries[i].prefix {
			j++
		}
		if j-i > 1 {
			slices.SortFunc(entries[i:j], func(a, b entry) int {
				return d.compareRows(d.row(int(a.row)), d.row(int(b.row)))
			})
		}
		i = j
	}
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
