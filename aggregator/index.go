package aggregator

import (
	"bytes"
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
)

// An index has the first rows of a delta in key order. Who reads the delta in
// order makes it, and extends it by the rows that came since: folding pays
// nothing for it. It goes by what of a row does not change once it is there:
// its key.
type index struct {
	readers atomic.Int32 // of rows outside the delta's lock: it is not reset meanwhile
	growing sync.Mutex   // held by the one that extends it
	long    []uint64     // as in rowKeys; under growing

	mu   sync.Mutex
	runs [][]entry // each in key order, and twice as long as the next, or more; they do not change
	rows int       // so many are in them; written under growing, too
}

const (
	// indexTail is how many rows behind the index are looked through by each
	// read: fewer are not worth a run.
	indexTail = 512
	// indexSlice is how many rows are looked at under the delta's lock at once.
	indexSlice = 4096
)

func (x *index) reset() { x.runs, x.rows, x.long = nil, 0, nil }

// have are the runs, and how many rows are in them.
func (x *index) have() (runs [][]entry, rows int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.runs, x.rows
}

// pin keeps the delta from being used anew until unpin. The caller holds the
// delta's lock.
func (d *Delta) pin()   { d.index.readers.Add(1) }
func (d *Delta) unpin() { d.index.readers.Add(-1) }

// pinned says whether somebody reads rows outside the delta's lock.
func (d *Delta) pinned() bool { return d.index.readers.Load() > 0 }

// extend brings the index up to the rows there are, but for a few. The caller
// has pinned the delta, and does not hold its lock, under which others may fold into it.
func (d *Delta) extend(lock sync.Locker) {
	x := &d.index
	x.growing.Lock()
	defer x.growing.Unlock()
	keys, rows := rowKeys{long: x.long}, 0
	for more := true; more; {
		lock.Lock()
		rows, more = keys.see(d)
		lock.Unlock()
	}
	x.long = keys.long
	if rows < x.rows+indexTail {
		return
	}
	run := make([]entry, rows-x.rows)
	for i := range run {
		row := uint32(x.rows + i)
		run[i] = entry{keys.slabs[row>>slabShift][row&(slabRows-1)], row}
	}
	keys.sort(run)
	runs := slices.Clone(x.runs)
	for n := len(runs); n > 0 && len(runs[n-1]) < 2*len(run); n-- {
		run = keys.merge([][]entry{runs[n-1], run}, len(runs[n-1])+len(run), nil)
		runs = runs[:n-1]
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.runs, x.rows = append(runs, run), rows
}

// see takes in more of the rows there are, and returns how many it has; more
// says that there are others. The caller holds the delta's lock.
func (k *rowKeys) see(d *Delta) (rows int, more bool) {
	k.words, k.slabs, k.arena.chunks = d.program.rowWords, d.slabs, d.keys.chunks
	if d.keys.used == 0 { // all are short
		return d.rows, false
	}
	rows = min(len(k.long)+indexSlice, d.rows)
	for i := len(k.long); i < rows; i++ {
		k.long = append(k.long, d.row(i)[rowFlags]>>flagBits)
	}
	return rows, rows < d.rows
}

// rowKeys are the keys of a delta's first rows.
type rowKeys struct {
	words int
	slabs [][]uint64
	arena keyArena
	long  []uint64 // the places in the arena, by row; nil where the rows are asked
}

// rowKeys are those of all rows. They last until the delta changes.
func (d *Delta) rowKeys() rowKeys {
	return rowKeys{words: d.program.rowWords, slabs: d.slabs, arena: d.keys}
}

// row is the words of a row, of which the first two are its key's.
func (k *rowKeys) row(i uint32) []uint64 {
	at := slabRows + int(i&(slabRows-1))*k.words
	return k.slabs[i>>slabShift][at : at+k.words]
}

// key is a key of more than shortKey bytes.
func (k *rowKeys) key(i uint32, row []uint64) []byte {
	if k.long != nil {
		return k.arena.at(k.long[i])
	}
	return k.arena.at(row[rowFlags] >> flagBits)
}

// compare orders two rows by key.
func (k *rowKeys) compare(a, b entry) int {
	if a.prefix != b.prefix {
		return order(a.prefix < b.prefix)
	}
	x, y := k.row(a.row), k.row(b.row)
	if x[1] != y[1] {
		return order(x[1] < y[1])
	}
	if x[1]&0xff <= shortKey {
		return 0
	}
	return bytes.Compare(k.key(a.row, x), k.key(b.row, y))
}

// sort puts entries in key order: by prefix first, and rows with one prefix by
// their keys.
func (k *rowKeys) sort(entries []entry) {
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
			slices.SortFunc(entries[i:j], k.compare)
		}
		i = j
	}
}

// merge returns the first limit entries of runs, which are in key order, that
// are wanted; with nil all are. It cuts the runs.
func (k *rowKeys) merge(runs [][]entry, limit int, wanted func(row uint32) bool) []entry {
	all := 0
	for _, run := range runs {
		all += len(run)
	}
	out := make([]entry, 0, min(limit, all))
	for len(out) < limit {
		least := -1
		for i, run := range runs {
			if len(run) > 0 && (least < 0 || k.compare(run[0], runs[least][0]) < 0) {
				least = i
			}
		}
		if least < 0 {
			break
		}
		if e := runs[least][0]; wanted == nil || wanted(e.row) {
			out = append(out, e)
		}
		runs[least] = runs[least][1:]
	}
	return out
}
