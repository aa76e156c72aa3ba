package aggregator

import (
	"tidemark/decimal"
	"tidemark/event"
	"tidemark/query"
)

// growth says what merging totals does to the answer of a column.
type growth uint8

const (
	anyhow  growth = iota // nothing is sure
	adding                // it is at most the sum of their answers, for those that have one
	picking               // it is between the least and the largest of them
)

// growth is the growth of a result column. A rounded answer may overflow, and
// be null, where its parts are not; a key's value depends on how it came.
func (p *Program) growth(column int) growth {
	c := &p.def.Columns[column]
	if c.Key >= 0 || p.columns[c.Aggregate].round != nil {
		return anyhow
	}
	switch p.columns[c.Aggregate].fn {
	case query.CountAll, query.Count, query.Sum, query.CollectSet:
		return adding
	case query.Min, query.Max, query.Avg, query.First, query.Last, query.MinBy, query.MaxBy:
		return picking
	}
	return anyhow
}

// A floor is a row that others come after, or are. One without a key comes
// before all rows of its value.
type floor = Leader[[]byte]

// sink is the floor that holds after rows behind f were merged, each with one
// total whose answer does not come before d. f is nil where there are no rows;
// then the totals are of new ones. ok is false where nothing is sure.
func (g growth) sink(o Order, f *floor, d *event.Value) (sunk *floor, ok bool) {
	if g == anyhow {
		return nil, false
	}
	sunk = f
	if g == adding && f != nil && d.Kind == event.Decimal && f.Value.Kind == event.Decimal {
		if up := d.Num.Sign(); up > 0 && o.Descending || up < 0 && !o.Descending {
			sunk = &floor{Value: decimalValue(f.Value.Num.Add(d.Num))}
		}
	}
	// A row that had no answer has the total's now; a key may be new.
	if sunk == nil || o.Compare(d, nil, &sunk.Value, sunk.Key) < 0 {
		sunk = &floor{Value: *d}
	}
	return sunk, true
}

func decimalValue(d decimal.Decimal) event.Value { return event.Value{Kind: event.Decimal, Num: d} }
