package bootstrap

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
)

// errNoPITs is what a server means that does not know points in time.
var errNoPITs = errors.New("no points in time")

const wholeSearch = "/_search?allow_partial_search_results=false"

// openPIT opens a point in time and counts its documents.
func (r *reading) openPIT(ctx context.Context) error {
	ids := []*string{}
	r.close = func(ctx context.Context) error { return r.closePITs(ctx, ids) }
	var id *string
	err := r.patiently(ctx, openPatience, func() error {
		opening, cancel := outlast(ctx, r.o.Timeout)
		defer cancel()
		_, body, err := r.client.ask(opening, http.MethodPost, r.target+"/_pit?keep_alive="+r.keep(), nil, nil)
		var no *refusal
		if errors.As(err, &no) && no.kind == "" && slices.Contains([]int{http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed}, no.status) {
			return fmt.Errorf("%w: %w", errNoPITs, no)
		}
		if err != nil {
			return err
		}
		p := page{body: body}
		if err := p.scan(); err != nil {
			return err
		}
		if p.pit == "" {
			return &passing{err: fmt.Errorf("the answer names no point in time: %s", excerpt(body))}
		}
		id = &p.pit
		ids = append(ids, id) // from here on it is closed, whole or not
		if p.shards.seen {
			return p.whole()
		}
		return nil
	})
	if err != nil {
		return err
	}

	var p page
	count := searchBody{Size: new(0), TrackTotalHits: new(true), Query: r.o.Query, PIT: &pointInTime{*id, r.keep()}, Aggs: r.perIndexAggs()}
	if err := r.patiently(ctx, openPatience, func() error { return r.searchPage(ctx, wholeSearch, count, &p) }); err != nil {
		return r.lost(err)
	}
	if p.shards.total == 0 {
		return r.noneMatch()
	}
	if err := r.take(&p); err != nil {
		return err
	}
	r.counts = true
	if p.pit != "" {
		*id = p.pit
	}
	shards := r.found.shards
	if shards == 0 {
		shards = int(p.shards.total)
	}
	n := max(1, min(r.o.Slices, shards))
	for i := range n {
		s := &pitSlice{r: r, id: new(*id), slice: slice{i, n}, size: r.firstPage()}
		ids = append(ids, s.id)
		r.slices = append(r.slices, s)
	}
	return nil
}

// perIndexAggs asks for the number of documents of each index, where there may
// be several.
func (r *reading) perIndexAggs() json.RawMessage {
	if len(r.found.indices) == 1 {
		return nil
	}
	return fmt.Appendf(nil, `{"indices":{"terms":{"field":"_index","size":%d}}}`, max(100, len(r.found.indices)))
}

// lost notes that the server has dropped the snapshot: the next one is to be
// kept for longer.
func (r *reading) lost(err error) error {
	if errors.Is(err, errLost) {
		r.keepLonger()
	}
	return err
}

// pitSlice walks a slice of a point in time in the order of _shard_doc, the
// only one that no two documents share. Any of its pages may be asked for
// again.
type pitSlice struct {
	r     *reading
	id    *string // of the point in time; it may change with each answer
	slice slice
	after json.RawMessage // the last document's place in the order
	size  int             // of the next page, in documents
}

func (s *pitSlice) next(ctx context.Context, p *page) error {
	body := searchBody{
		Query: s.r.o.Query, Sort: []string{"_shard_doc"}, TrackTotalHits: new(false),
		PIT: &pointInTime{*s.id, s.r.keep()}, SearchAfter: s.after,
	}
	if s.slice.Max > 1 {
		body.Slice = &s.slice
	}
	err := s.r.patiently(ctx, s.r.o.Patience, func() error {
		for {
			body.Size = &s.size
			err := s.r.searchFor(ctx, wholeSearch, body, p, s.r.longest(s.size))
			if err == nil {
				return nil
			}
			var now bool
			if s.size, now = s.r.fewer(s.size, err); !now {
				return err
			}
		}
	})
	if err != nil {
		return s.r.lost(err)
	}
	if p.pit != "" {
		*s.id = p.pit
	}
	if len(p.hits) == 0 {
		return nil
	}
	last := p.hits[len(p.hits)-1]
	if len(last.sort) == 0 {
		return hopeless("the server gives documents without their place in the order: nothing can be read after them")
	}
	s.after = slices.Clone(json.RawMessage(last.sort))
	s.size = s.r.nextPage(p)
	return nil
}

func (s *pitSlice) unsure() bool { return false }

// closePITs closes points in time that are known by several ids.
func (r *reading) closePITs(ctx context.Context, ids []*string) error {
	closed := map[string]bool{}
	var failures []error
	for _, id := range ids {
		if closed[*id] {
			continue
		}
		closed[*id] = true
		failures = append(failures, r.closeBy(ctx, "/_pit", map[string]string{"id": *id}))
	}
	return errors.Join(failures...)
}

// closeBy closes what a body names; it is no error where it is gone already.
func (r *reading) closeBy(ctx context.Context, path string, what any) error {
	body, err := json.Marshal(what)
	if err != nil {
		return err
	}
	err = r.patiently(ctx, openPatience, func() error {
		_, _, err := r.client.ask(ctx, http.MethodDelete, path, body, nil)
		return err
	})
	var no *refusal
	if errors.As(err, &no) && no.status == http.StatusNotFound {
		return nil
	}
	return err
}
