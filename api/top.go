package api

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"tidemark/aggregator"
	"tidemark/event"
)

// order is an order of rows: by one column, nulls last, ties by key.
type order struct {
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

// compare says which of two rows comes first: negative for a.
func (o order) compare(a *event.Value, aKey []byte, b *event.Value, bKey []byte) int {
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

// leaders keeps the first rows of all that are offered. It holds its rows as a
// heap with the last of them at the root, so that a row which is not among
// them costs one comparison and no memory.
type leaders struct {
	order
	limit int
	rows  []leader
}

type leader struct {
	value event.Value // owns its bytes
	item  item
}

func (l *leaders) after(i, j int) bool {
	a, b := &l.rows[i], &l.rows[j]
	return l.compare(&a.value, a.item.Key, &b.value, b.item.Key) > 0
}

// offer takes a row in if it is among the first. It copies what it keeps.
func (l *leaders) offer(value event.Value, key, total []byte, marks []mark) {
	full := len(l.rows) == l.limit
	if full && l.compare(&value, key, &l.rows[0].value, l.rows[0].item.Key) > 0 {
		return
	}
	value.Bytes = bytes.Clone(value.Bytes)
	row := leader{value, item{Key: bytes.Clone(key), Total: bytes.Clone(total), Marks: marks}}
	if full {
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

func (l *leaders) down(i int) {
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

// items are the rows in order.
func (l *leaders) items() []item {
	slices.SortFunc(l.rows, func(a, b leader) int {
		return l.compare(&a.value, a.item.Key, &b.value, b.item.Key)
	})
	items := make([]item, len(l.rows))
	for i := range l.rows {
		items[i] = l.rows[i].item
	}
	return items
}

const (
	firstScanPage = 1024    // keys
	maxScanPage   = 16_384  // keys: looking through what is pending once a page then costs little
	scanPageBytes = 8 << 20 // of totals, about
)

// Top implements source: one pass over each partition, one after the other,
// under a slot that only full scans take.
func (l *local) Top(ctx context.Context, of []int32, q topQuestion) (answer, error) {
	if err := acquire(ctx, l.scans); err != nil {
		return answer{}, err
	}
	defer release(l.scans)
	var (
		top   = leaders{order: q.order, limit: q.Limit}
		total = l.program.NewTotal()
		seen  = map[int32]moment{}
		a, _  = l.begin(of)
	)
	for _, st := range a.Standings {
		as, whole, err := l.pass(ctx, st.Partition, func(key, encoded []byte) error {
			total.Reset()
			if err := total.Merge(encoded); err != nil {
				return fmt.Errorf("read the total of a key: %w", err)
			}
			top.offer(total.Value(q.Column, key), key, encoded, nil)
			return nil
		})
		if err != nil {
			return answer{}, fmt.Errorf("scan partition %d: %w", st.Partition, err)
		}
		if whole {
			seen[st.Partition] = as
		}
	}
	// The standings after the scan speak of at least what it has seen.
	a, h := l.begin(of)
	a.Standings = slices.DeleteFunc(a.Standings, func(st standing) bool {
		_, ok := seen[st.Partition]
		return !ok
	})
	for i := range a.Standings {
		st := &a.Standings[i]
		st.Position, st.Answers = seen[st.Partition].Position, seen[st.Partition].Answers
	}
	a.Items = top.items()
	for i := range a.Items {
		it := &a.Items[i]
		at := h.places(it.Key)
		for _, st := range a.Standings {
			if h.may(st.Partition, &at) {
				it.Marks = append(it.Marks, mark{st.Partition, st.Position})
			}
		}
	}
	return a, nil
}

// pass calls f for every key of a partition. as is how it stood at the first of
// them; whole is false where it went away before the last.
func (l *local) pass(ctx context.Context, partition int32, f func(key, total []byte) error) (as moment, whole bool, err error) {
	var from []byte
	for limit := firstScanPage; ; {
		if err := ctx.Err(); err != nil {
			return as, false, err
		}
		page, err := l.reader.Scan(ctx, partition, from, nil, limit)
		if gone(err) || as.Answers && !page.Answers {
			return as, false, nil
		}
		if err != nil {
			return as, false, err
		}
		if from == nil {
			as = moment{mark{partition, page.Position}, page.Answers}
		}
		size := 1
		for _, e := range page.Entries {
			if err := f(e.Key, e.Total); err != nil {
				return as, false, err
			}
			size += len(e.Key) + len(e.Total)
		}
		if !page.More || len(page.Entries) == 0 {
			return as, true, nil
		}
		from = after(page.Entries[len(page.Entries)-1].Key)
		limit = min(max(len(page.Entries)*scanPageBytes/size, 1), maxScanPage)
	}
}

// top answers a listing with order.
func (s *Server) top(w http.ResponseWriter, r *http.Request, p *params) error {
	o := p.order(s.program)
	limit := p.limit()
	opts := p.readOptions()
	for _, name := range []string{"cursor", "prefix"} {
		if p.values.Has(name) {
			p.fail("%s does not go with order", name)
		}
	}
	if p.err != nil {
		return p.err
	}
	ctx, cancel := context.WithTimeout(r.Context(), workLimit)
	defer cancel()

	g, items, err := s.leading(ctx, o, limit, opts)
	if err != nil {
		return err
	}
	return s.respondRows(w, g, items, opts, "")
}

// leading finds the first rows of an order. Where each key lies in one
// partition alone, every member looks through its own; else keys must be
// merged over all members before they can be compared.
func (s *Server) leading(ctx context.Context, o order, limit int, opts readOptions) (*gathered, []item, error) {
	stand, err := s.ask(ctx, opts.local, readQuestion{})
	if err != nil {
		return nil, nil, err
	}
	if blocked := stand.blocked(nil); len(blocked) > 0 && !opts.partial {
		return nil, nil, blockedAnswer(blocked)
	}
	top := leaders{order: o, limit: limit}
	total := s.program.NewTotal()
	take := func(items []item) error {
		for i := range items {
			total.Reset()
			if err := total.Merge(items[i].Total); err != nil {
				return fmt.Errorf("read the total of a key: %w", err)
			}
			top.offer(total.Value(o.Column, items[i].Key), items[i].Key, items[i].Total, items[i].Marks)
		}
		return nil
	}
	if disjoint(stand.standings(), stand.partitions) {
		g, err := s.ask(ctx, opts.local, topQuestion{o, limit})
		if err != nil {
			return nil, nil, err
		}
		if blocked := g.blocked(nil); len(blocked) > 0 && !opts.partial {
			return nil, nil, blockedAnswer(blocked)
		}
		if disjoint(g.standings(), g.partitions) {
			for _, a := range g.answers {
				if err := take(a.Items); err != nil {
					return nil, nil, err
				}
			}
			return g, top.items(), nil
		}
	}
	g, err := s.walk(ctx, opts, take)
	if err != nil {
		return nil, nil, err
	}
	return g, top.items(), nil
}

// walkLimit is how many keys a walk through all reads at once.
const walkLimit = 10_000

// walk passes all keys through take, merged over all members. It stops where
// some partition does not count, unless part of the keys will do.
func (s *Server) walk(ctx context.Context, opts readOptions, take func([]item) error) (*gathered, error) {
	q := scanQuestion{Limit: walkLimit}
	var blockedBefore []blocked
	for {
		g, err := s.ask(ctx, opts.local, q)
		if err != nil {
			return nil, err
		}
		blockedNow := g.blocked(nil)
		if len(blockedNow) > 0 && !opts.partial {
			return nil, blockedAnswer(blockedNow)
		}
		blockedBefore = append(blockedBefore, blockedNow...)
		items, more, err := mergeItems(s.program, g.answers, q.Limit)
		if err != nil {
			return nil, fmt.Errorf("merge a page: %w", err)
		}
		if err := take(g.mark(items)); err != nil {
			return nil, err
		}
		if !more {
			g.before = blockedBefore
			return g, nil
		}
		if len(items) == 0 {
			return nil, errors.New("a page has no keys, and more are to follow")
		}
		q.From = after(items[len(items)-1].Key)
	}
}

// order reads order.
func (p *params) order(program *aggregator.Program) (o order) {
	text := p.values.Get("order")
	name := text
	if len(text) > 0 && text[0] == '-' {
		o.Descending, name = true, text[1:]
	}
	columns := program.Query().Columns
	o.Column = -1
	var names []string
	for i, c := range columns {
		names = append(names, c.Name)
		if c.Name == text { // a name may begin with a minus
			o = order{Column: i}
			break
		}
		if c.Name == name {
			o.Column = i
		}
	}
	if o.Column < 0 {
		p.fail("order=%s: there is no result %q; the results are %s", text, name, strings.Join(names, ", "))
	}
	return o
}
