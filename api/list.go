package api

import (
	"context"
	"net/http"
)

// serveList answers GET /v1/aggregates: a page of the listing by key, or the
// first rows of an order.
func (s *Server) serveList(w http.ResponseWriter, r *http.Request) error {
	p := newParams(r, "limit", "cursor", "prefix", "order", "numbers", "partial", "local")
	if p.values.Has("order") {
		return s.top(w, r, p)
	}
	opts := p.readOptions()
	q := scanQuestion{Limit: p.limit(), Prefix: []byte(p.values.Get("prefix"))}
	q.From = p.cursor(q.Prefix)
	if p.err != nil {
		return p.err
	}
	ctx, cancel := context.WithTimeout(r.Context(), workLimit)
	defer cancel()
	g, err := s.ask(ctx, opts.local, q)
	if err != nil {
		return err
	}
	if blocked := g.blocked(nil); len(blocked) > 0 && !opts.partial {
		return blockedAnswer(blocked)
	}
	items, more := mergeItems(g.answers, q.Limit)
	cursor := ""
	if more && len(items) > 0 {
		cursor = encodeCursor(items[len(items)-1].Key)
	}
	return s.respondRows(w, g, g.mark(items), opts, cursor)
}
