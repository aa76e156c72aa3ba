package event

import (
	"bytes"
	"cmp"
	"math"

	"tidemark/decimal"
)

// Compare orders scalars as min, max and collect_set do without a cast: null
// (or missing), false, true, numbers exactly, texts by bytes, and after them
// instants. Equal is what is one member of a set: 1 and 1.0, but not 47 and
// "47". A JSON number must be in range (Value.Decimal says so); one out of
// range counts as the lowest number. Arrays and objects come last, by bytes.
func Compare(v, w *Value) int {
	a, b := v.Kind.rank(), w.Kind.rank()
	if a != b {
		return cmp.Compare(a, b)
	}
	switch a {
	case rankNumber:
		return v.number().Cmp(w.number())
	case rankTime:
		return v.Time.Compare(w.Time)
	case rankText, rankRest:
		return bytes.Compare(v.Bytes, w.Bytes)
	}
	return 0
}

const (
	rankNull = iota
	rankFalse
	rankTrue
	rankNumber
	rankText
	rankTime
	rankRest
)

func (k Kind) rank() int {
	switch k {
	case Missing, Null:
		return rankNull
	case False:
		return rankFalse
	case True:
		return rankTrue
	case Number, Decimal:
		return rankNumber
	case Text:
		return rankText
	case Timestamp:
		return rankTime
	}
	return rankRest
}

// outOfRange is below every number that is in range.
var outOfRange = decimal.New(math.MinInt64, 0, 0)

func (v *Value) number() decimal.Decimal {
	d, reason := v.Decimal()
	if reason != OK {
		return outOfRange
	}
	return d
}
