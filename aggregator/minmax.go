package aggregator

import "tidemark/event"

// extreme is min (sign -1) and max (sign 1): one scalar. The order is that of
// event.Compare.
type extreme struct{ sign int }

func (extreme) words() int { return scalarWords }

func (e extreme) fold(m *memory, row []uint64, o *operand) {
	if o.value.IsNull() {
		return
	}
	if slotEmpty(row) || compareSlot(m, row, &o.value)*e.sign < 0 {
		storeScalar(m, row, &o.value)
	}
}

func (extreme) append(dst []byte, m *memory, row []uint64) []byte {
	var v event.Value
	loadScalar(m, row, &v)
	return appendScalar(dst, &v)
}

func (extreme) read(src []byte, o *operand) ([]byte, error) { return readScalar(src, &o.value) }

func (extreme) answer(m *memory, row []uint64, v *event.Value) { loadScalar(m, row, v) }
