package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"tidemark/aggregator"
)

// Top implements source: the first rows of each partition. Where keys must be
// looked through, the reader bounds in how many partitions at a time.
func (l *local) Top(ctx context.Context, of []int32, q topQuestion) (answer, error) {
	a, _ := l.begin(of)
	pages := make([]*aggregator.Page, len(a.Standings)) // nil where the partition went away
	looking, ctx := errgroup.WithContext(ctx)
	for i, st := range a.Standings {
		looking.Go(func() error {
			page, err := l.reader.First(ctx, st.Partition, q.Order, q.Limit)
			if gone(err) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("find the first keys of partition %d: %w", st.Partition, err)
			}
			pages[i] = &page
			return nil
		})
	}
	if err := looking.Wait(); err != nil {
		return answer{}, err
	}
	top := aggregator.NewLeaders[item](q.Order, q.Limit)
	total := l.program.NewTotal()
	seen := map[int32]moment{}
	for i, st := range a.Standings {
		page := pages[i]
		if page == nil {
			continue
		}
		seen[st.Partition] = moment{mark{st.Partition, page.Position}, page.Answers}
		for _, e := range page.Entries {
			if err := offer(top, total, &item{Key: e.Key, Parts: e.Parts}, q.Column); err != nil {
				return answer{}, err
			}
		}
	}
	// The standings after the look speak of at least what it has seen.
	a, h := l.begin(of)
	a.Standings = slices.DeleteFunc(a.Standings, func(st standing) bool {
		_, ok := seen[st.Partition]
		return !ok
	})
	for i := range a.Standings {
		st := &a.Standings[i]
		st.Position, st.Answers = seen[st.Partition].Position, seen[st.Partition].Answers
	}
	a.Items = items(top)
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

// offer offers an item to the first of an order by column; total is scratch. What
// is kept of it is copied: it shares its room with all the items of its page.
func offer(top *aggregator.Leaders[item], total *aggregator.Total, it *item, column int) error {
	total.Reset()
	if err := total.MergeParts(it.Parts); err != nil {
		return fmt.Errorf("read the total of a key: %w", err)
	}
	value := total.Value(column, it.Key)
	if top.Takes(&value, it.Key) {
		top.Offer(value, it.Key, item{bytes.Clone(it.Key), bytes.Clone(it.Parts), slices.Clone(it.Marks)})
	}
	return nil
}

// items are the first of an order.
func items(top *aggregator.Leaders[item]) []item {
	rows := top.Rows()
	items := make([]item, len(rows))
	for i := range rows {
		items[i] = rows[i].Of
	}
	return items
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
func (s *Server) leading(ctx context.Context, o aggregator.Order, limit int, opts readOptions) (*gathered, []item, error) {
	stand, err := s.ask(ctx, opts.local, readQuestion{})
	if err != nil {
		return nil, nil, err
	}
	if blocked := stand.blocked(nil); len(blocked) > 0 && !opts.partial {
		return nil, nil, blockedAnswer(blocked)
	}
	top := aggregator.NewLeaders[item](o, limit)
	total := s.program.NewTotal()
	take := func(items []item) error {
		for i := range items {
			if err := offer(top, total, &items[i], o.Column); err != nil {
				return err
			}
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
			return g, items(top), nil
		}
	}
	g, err := s.walk(ctx, opts, take)
	if err != nil {
		return nil, nil, err
	}
	return g, items(top), nil
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
		items, more := mergeItems(g.answers, q.Limit)
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
func (p *params) order(program *aggregator.Program) (o aggregator.Order) {
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
			o = aggregator.Order{Column: i}
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
