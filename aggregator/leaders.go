package aggregator

import (
	"bytes"
	"cmp"
	"slices"

	"tidemark/event"
)

// Order is an order of rows: by one result column, nulls last, ties by key.
type Order struct {
	Column     int  `json:"column"`
	Descending bool `json:"descending,omitempty"`
}

// compareValues orders two values that are not null: false, true, numbers,
// text, timestamps.
func compareValues(a, b *event.Value) int {
	if a.Kind != b.Kind {
		return cmp.Compare(a.Kind, b.Kind)
	}
	switch a.Kind {
	case event.Decimal:
		return a.Num.Cmp(b.Num)
	case event.Text:
		return bytes.Compare(a.Bytes, b.Bytes)
	case event.Timestamp:
		return cmp.Or(cmp.Compare(a.Time.Sec, b.Time.Sec), cmp.Compare(a.Time.Nsec, b.Time.Nsec))
	}
	return 0
}

// Compare says which of two rows comes first: negative for a.
func (o Order) Compare(a *event.Value, aKey []byte, b *event.Value, bKey []byte) int {
	switch an, bn := a.IsNull(), b.IsNull(); {
	case an && bn:
		return bytes.Compare(aKey, bKey)
	case an:
		return 1
	case bn:
		return -1
	}
	c := compareValues(a, b)
	if o.Descending {
		c = -c
	}
	return cmp.Or(c, bytes.Compare(aKey, bKey))
}

// Leader is a row among the first: the value that it is ordered by, its key,
// and what it is the row of.
type Leader[T any] struct {
	Value event.Value
	Key   []byte
	Of    T
}

// Leaders keeps the first rows of all that are offered. It holds them as a heap
// with the last of them at the root, so that a row which is not among them
// costs one comparison and no memory. One goroutine at a time.
type Leaders[T any] struct {
	order Order
	limit int
	rows  []Leader[T]
}

// NewLeaders keeps the first limit rows, at least one, of an order.
func NewLeaders[T any](o Order, limit int) *Leaders[T] {
	return &Leaders[T]{order: o, limit: limit}
}

// last is the value of the last row so far, once there are as many as are kept.
func (l *Leaders[T]) last() (value *event.Value, full bool) {
	if len(l.rows) < l.limit {
		return nil, false
	}
	return &l.rows[0].Value, true
}

// Takes says whether a row would be among the first so far.
func (l *Leaders[T]) Takes(value *event.Value, key []byte) bool {
	return len(l.rows) < l.limit || l.order.Compare(value, key, &l.rows[0].Value, l.rows[0].Key) < 0
}

// Offer takes a row in if it is among the first. It copies value and key where
// it does; of is kept as it is.
func (l *Leaders[T]) Offer(value event.Value, key []byte, of T) {
	if !l.Takes(&value, key) {
		return
	}
	value.Bytes = bytes.Clone(value.Bytes)
	row := Leader[T]{value, bytes.Clone(key), of}
	if len(l.rows) == l.limit {
		l.rows[0] = row
		l.down(0)
		return
	}
	l.rows = append(l.rows, row)
	for i := len(l.rows) - 1; i > 0; {
		parent := (i - 1) / 2
		if !l.after(i, parent) {
			break
		}
		l.rows[i], l.rows[parent] = l.rows[parent], l.rows[i]
		i = parent
	}
}

func (l *Leaders[T]) after(i, j int) bool { return rowsCompare(l.order, &l.rows[i], &l.rows[j]) > 0 }

func (l *Leaders[T]) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(l.rows) {
			return
		}
		if child+1 < len(l.rows) && l.after(child+1, child) {
			child++
		}
		if !l.after(child, i) {
			return
		}
		l.rows[i], l.rows[child] = l.rows[child], l.rows[i]
		i = child
	}
}

// Rows are the rows in order; nothing is offered any more.
func (l *Leaders[T]) Rows() []Leader[T] {
	sortRows(l.order, l.rows)
	return l.rows
}

// rowsCompare says which of two rows comes first: negative for a.
func rowsCompare[T any](o Order, a, b *Leader[T]) int {
	return o.Compare(&a.Value, a.Key, &b.Value, b.Key)
}

func sortRows[T any](o Order, rows []Leader[T]) {
	slices.SortFunc(rows, func(a, b Leader[T]) int { return rowsCompare(o, &a, &b) })
}
