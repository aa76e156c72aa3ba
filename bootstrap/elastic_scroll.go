package bootstrap

import (
	"context"
	"errors"
	"fmt"
)

// prepareScrolls makes the slices, which open their scrolls with their first
// pages: each is a snapshot of its own, of the shards that it reads.
func (r *reading) prepareScrolls() {
	n := max(1, min(r.o.Slices, r.found.fewest))
	all := make([]*scrollSlice, n)
	for i := range all {
		all[i] = &scrollSlice{r: r, slice: slice{i, n}}
		r.slices = append(r.slices, all[i])
	}
	r.close = func(ctx context.Context) error {
		var ids []string
		for _, s := range all {
			ids = append(ids, s.ids...)
		}
		if len(ids) == 0 {
			return nil
		}
		return r.closeBy(ctx, "/_search/scroll", map[string][]string{"scroll_id": ids})
	}
}

// scrollSlice walks a slice by a scroll in the order of _doc, the order on the
// disk. A page that was read is passed: it cannot be asked for again.
type scrollSlice struct {
	r      *reading
	slice  slice
	ids    []string // the newest is the last; more than one where an opening was repeated
	shards int64    // asked by the opening
	doubt  bool
}

func (s *scrollSlice) next(ctx context.Context, p *page) error {
	if s.shards == 0 {
		return s.open(ctx, p)
	}
	newest := &s.ids[len(s.ids)-1]
	body := struct {
		ID   string `json:"scroll_id"`
		Keep string `json:"scroll"`
	}{*newest, s.r.keep()}
	err := s.r.patiently(ctx, s.r.o.Patience, func() error {
		err := s.r.searchPage(ctx, "/_search/scroll", body, p)
		if err == nil || errors.Is(err, errCutOff) {
			return nil // some versions end each page of a scroll early, and say so
		}
		return s.repeatable(err)
	})
	if err != nil {
		return s.r.lost(err)
	}
	if p.shards.total != s.shards {
		return fmt.Errorf("%w: the scroll began with %d shards, and now %d answer", errLost, s.shards, p.shards.total)
	}
	if p.scroll != "" {
		*newest = p.scroll
	}
	return nil
}

// open opens the scroll, which gives the first page.
func (s *scrollSlice) open(ctx context.Context, p *page) error {
	body := searchBody{Size: new(s.r.scrollPage()), Query: s.r.o.Query, Sort: []string{"_doc"}, TrackTotalHits: new(true), Aggs: s.r.perIndexAggs()}
	if s.slice.Max > 1 {
		body.Slice = &s.slice
	}
	path := s.r.target + wholeSearch + "&scroll=" + s.r.keep()
	err := s.r.patiently(ctx, openPatience, func() error {
		opening, cancel := outlast(ctx, s.r.o.Timeout)
		defer cancel()
		p.scroll = ""
		err := s.r.searchPage(opening, path, body, p)
		if p.scroll != "" {
			s.ids = append(s.ids, p.scroll) // from here on it is closed, whole or not
		}
		return err
	})
	switch {
	case err != nil:
		return s.r.lost(err)
	case p.shards.total == 0:
		return s.r.noneMatch()
	case p.scroll == "":
		return hopeless("the server opens no scroll")
	}
	s.shards = p.shards.total
	return nil
}

// repeatable says whether a page that failed may be asked for again. Where no
// answer came, or one in part, the scroll has gone on. Where the server, or one
// before it, refused, it most often has not; if it has, the count will tell.
func (s *scrollSlice) repeatable(err error) error {
	var p *passing
	if !errors.As(err, &p) || p.unsent {
		return err
	}
	var no *refusal
	if !errors.As(err, &no) {
		return fmt.Errorf("%w: a page of a scroll is lost: %w", errLost, p.err)
	}
	s.doubt = true
	return err
}

func (s *scrollSlice) unsure() bool { return s.doubt }
