package aggregator

import "tidemark/event"

// ordered is first (sign -1) and last (sign 1): a scalar and its position. Of
// two values at one position, which only documents of one key can have, the
// smaller one stays.
type ordered struct{ sign int }

func (ordered) words() int { return scalarWords + positionWords }

func (a ordered) fold(m *memory, row []uint64, o *operand) {
	if o.value.IsNull() {
		return
	}
	if !slotEmpty(row) {
		at := loadPosition(row[scalarWords:])
		c := at.compare(&o.at) * a.sign
		if c > 0 || c == 0 && compareSlot(m, row, &o.value) <= 0 {
			return
		}
	}
	storeScalar(m, row, &o.value)
	o.at.store(row[scalarWords:])
}

func (ordered) append(dst []byte, m *memory, row []uint64) []byte {
	var v event.Value
	loadScalar(m, row, &v)
	dst = appendScalar(dst, &v)
	if v.Kind == event.Null {
		return dst
	}
	at := loadPosition(row[scalarWords:])
	return at.append(dst)
}

func (ordered) read(src []byte, o *operand) (rest []byte, err error) {
	rest, err = readScalar(src, &o.value)
	if err != nil || o.value.Kind == event.Null {
		return rest, err
	}
	return o.at.read(rest)
}

func (ordered) answer(m *memory, row []uint64, v *event.Value) { loadScalar(m, row, v) }
