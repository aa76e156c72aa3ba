package aggregator

import "tidemark/event"

// extremeBy is min_by (sign -1) and max_by (sign 1): the y that leads, its x,
// and their position. Ties of y go to the first by position; ties of that,
// which only documents of one key can have, to the smaller x.
type extremeBy struct{ sign int }

const (
	byX  = scalarWords
	byAt = 2 * scalarWords
)

func (extremeBy) words() int { return 2*scalarWords + positionWords }

func (a extremeBy) fold(m *memory, row []uint64, o *operand) {
	if o.by.IsNull() {
		return
	}
	if !slotEmpty(row) {
		c := compareSlot(m, row, &o.by) * a.sign
		if c > 0 {
			return
		}
		if c == 0 {
			at := loadPosition(row[byAt:])
			c = at.compare(&o.at)
			if c < 0 || c == 0 && compareSlot(m, row[byX:], &o.value) <= 0 {
				return
			}
		}
	}
	storeScalar(m, row, &o.by)
	storeScalar(m, row[byX:], &o.value)
	o.at.store(row[byAt:])
}

func (extremeBy) append(dst []byte, m *memory, row []uint64) []byte {
	var v event.Value
	loadScalar(m, row, &v)
	dst = appendScalar(dst, &v)
	if v.Kind == event.Null {
		return dst
	}
	loadScalar(m, row[byX:], &v)
	dst = appendScalar(dst, &v)
	at := loadPosition(row[byAt:])
	return at.append(dst)
}

func (extremeBy) read(src []byte, o *operand) (rest []byte, err error) {
	rest, err = readScalar(src, &o.by)
	if err != nil || o.by.Kind == event.Null {
		return rest, err
	}
	if rest, err = readScalar(rest, &o.value); err != nil {
		return nil, err
	}
	if o.value.Kind == event.Null {
		return nil, errTag
	}
	return o.at.read(rest)
}

func (extremeBy) answer(m *memory, row []uint64, v *event.Value) { loadScalar(m, row[byX:], v) }
