package aggregator

import (
	"encoding/binary"
	"math/bits"
)

// One key's accumulators are a row of machine words, in slabs without
// pointers. A row begins with headWords:
//
//	0, 1  the key: see keyWords
//	2     in a delta, for a key of more than shortKey bytes, its place in the
//	      key arena <<flagBits; below it the flags
//
// and goes on with the words of each aggregate, in SELECT order.
const (
	headWords = 3
	rowFlags  = 2 // the word of the flags
)

// The flags of a row. In an encoding they are a uvarint of the documents and,
// above them, the text columns.
const (
	flagBits      = 28
	flagDocuments = 3 // documents that are in: 0, 1, or 2 for more
	flagTouched   = 4 // an event or a document was folded; else the row only holds a guard
	flagTextShift = 3 // for each key column: something carried it as text
	flagTexts     = (1<<MaxKeyColumns - 1) << flagTextShift
)

// addDocuments adds n, which is 0, 1 or 2, to the documents of the flags.
func addDocuments(row []uint64, n uint64) {
	n = min(row[rowFlags]&flagDocuments+n, 2)
	row[rowFlags] = row[rowFlags]&^flagDocuments | n
}

// encodedFlags is what of the row's flags goes into its encoding.
func encodedFlags(row []uint64) uint64 {
	f := row[rowFlags]
	return f&flagDocuments | (f&flagTexts)>>flagTextShift<<2
}

// mergeFlags merges encoded flags into row; false where they are none.
func mergeFlags(row []uint64, f uint64) bool {
	if f&flagDocuments == 3 || f>>2 >= 1<<MaxKeyColumns {
		return false
	}
	addDocuments(row, f&flagDocuments)
	row[rowFlags] |= f >> 2 << flagTextShift
	return true
}

// appendTotal appends the encoding of a row.
func (p *Program) appendTotal(dst []byte, m *memory, row []uint64) []byte {
	dst = append(dst, FormatVersion)
	dst = binary.AppendUvarint(dst, encodedFlags(row))
	for i := range p.columns {
		c := &p.columns[i]
		dst = c.acc.append(dst, m, row[c.word:c.word+c.words])
	}
	return dst
}

// shortKey is the length of the longest key that fits in its two words.
const shortKey = 15

// keyWords packs the first 15 bytes of key, zeros after its end, and its
// length, 16 for all longer ones, into two words. As numbers, first one and
// then the other, they order keys by bytes, but for keys that are equal in
// both and longer than shortKey.
func keyWords(key []byte) (w0, w1 uint64) {
	n := len(key)
	switch {
	case n >= 16:
		w0 = binary.BigEndian.Uint64(key)
		w1 = binary.BigEndian.Uint64(key[8:])&^0xff | shortKey + 1
	case n > 8:
		w0 = binary.BigEndian.Uint64(key)
		// The last eight bytes, without those that w0 has.
		w1 = binary.BigEndian.Uint64(key[n-8:])<<(8*(16-n)) | uint64(n)
	case n == 8:
		w0, w1 = binary.BigEndian.Uint64(key), 8
	case n >= 4:
		hi, lo := binary.BigEndian.Uint32(key), binary.BigEndian.Uint32(key[n-4:])
		w0 = uint64(hi)<<32 | uint64(lo<<(8*(8-n)))
		w1 = uint64(n)
	default:
		for i := range n {
			w0 |= uint64(key[i]) << (56 - 8*i)
		}
		w1 = uint64(n)
	}
	return w0, w1
}

// appendShortKey appends the key of two words, of at most shortKey bytes.
func appendShortKey(dst []byte, w0, w1 uint64) []byte {
	dst = binary.BigEndian.AppendUint64(dst, w0)
	dst = binary.BigEndian.AppendUint64(dst, w1)
	return dst[:len(dst)-16+int(w1&0xff)]
}

// mix folds the 128-bit product of two words.
func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}
