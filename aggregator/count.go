package aggregator

import (
	"encoding/binary"
	"math"

	"tidemark/decimal"
	"tidemark/event"
)

// count is count(*) and count(x): one word. It stands still at 2^64-1, which
// keeps it associative whatever bytes are merged.
type count struct{}

func (count) words() int { return 1 }

func (count) fold(_ *memory, row []uint64, o *operand) { addCount(&row[0], o.count) }

func (count) append(dst []byte, _ *memory, row []uint64) []byte {
	return binary.AppendUvarint(dst, row[0])
}

func (count) read(src []byte, o *operand) (rest []byte, err error) {
	o.count, rest, err = readUvarint(src)
	return rest, err
}

func (count) answer(_ *memory, row []uint64, v *event.Value) {
	v.Kind, v.Num = event.Decimal, decimal.New(0, row[0], 0)
}

// addCount adds n to the word.
func addCount(word *uint64, n uint64) {
	total := *word + n
	if total < n {
		total = math.MaxUint64
	}
	*word = total
}
