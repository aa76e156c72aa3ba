package aggregator

import (
	"encoding/binary"

	"tidemark/decimal"
	"tidemark/event"
)

// avg is the exact sum and the count; the division is the answer's. A count of
// 0 has no sum.
type avg struct{}

// avgScale is the number of decimals of an average without a cast.
const avgScale = 10

func (avg) words() int { return sumWords + 1 }

func (avg) fold(m *memory, row []uint64, o *operand) {
	if o.count > 0 {
		addSum(m, row, &o.value.Num)
		addCount(&row[sumWords], o.count)
	}
}

func (avg) append(dst []byte, m *memory, row []uint64) []byte {
	dst = binary.AppendUvarint(dst, row[sumWords])
	if row[sumWords] == 0 {
		return dst
	}
	return loadSum(m, row).Append(dst)
}

func (avg) read(src []byte, o *operand) (rest []byte, err error) {
	if o.count, rest, err = readUvarint(src); err != nil || o.count == 0 {
		return rest, err
	}
	if rest, err = readSum(rest, &o.value); err == nil && o.value.Kind == event.Null {
		err = errTag
	}
	return rest, err
}

func (a avg) answer(m *memory, row []uint64, v *event.Value) { a.quotient(m, row, avgScale, v) }

// quotient is the average, rounded HALF_UP to scale.
func (avg) quotient(m *memory, row []uint64, scale int32, v *event.Value) {
	v.Kind = event.Null
	if n := row[sumWords]; n > 0 {
		v.Kind, v.Num = event.Decimal, loadSum(m, row).QuoInt(n, scale)
	}
}

// truncated is the average without its fraction.
func (avg) truncated(m *memory, row []uint64, v *event.Value) {
	v.Kind = event.Null
	n := row[sumWords]
	if n == 0 {
		return
	}
	total := loadSum(m, row)
	q := total.QuoInt(n, 0)
	// HALF_UP may have gone one too far from zero.
	if q.Abs().Mul(decimal.New(0, n, 0)).Cmp(total.Abs()) > 0 {
		q = q.Sub(decimal.FromInt64(int64(total.Sign())))
	}
	v.Kind, v.Num = event.Decimal, q
}
