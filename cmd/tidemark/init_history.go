package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"tidemark/bootstrap"
	"tidemark/config"
	"tidemark/event"
	"tidemark/query"
)

// historyFit is how documents fit a proposal.
type historyFit struct {
	keys   []event.Path          // history.key, nil where they have the names of the results
	fields map[string]event.Path // history.fields
	guard  event.Path            // the document's time of its last event, nil where nothing looks like it
}

// sampleDocuments reads the first documents of the history that cfg names, and
// what they hold.
func sampleDocuments(ctx context.Context, cfg *config.Config) (s *sample, docs []*bootstrap.Document, err error) {
	if es := cfg.History.Elasticsearch; len(es.Addresses) > 0 {
		var source *bootstrap.Elastic
		if source, err = newElastic(es, nil, nil); err != nil {
			return nil, nil, usageError{err}
		}
		for _, s := range source.Check(ctx) {
			if s.Err != nil {
				return nil, nil, fmt.Errorf("look at the history: %s of %s: %w", s.Name, s.Object, s.Err)
			}
		}
		docs, err = source.Sample(ctx, sampled)
	} else {
		docs, err = sampleFile(ctx, bootstrap.NewFile(cfg.History.File))
	}
	if err != nil {
		return nil, nil, fmt.Errorf("look at the history: %w", err)
	}
	s = newSample()
	for _, d := range docs {
		s.add(nil, d.Source)
	}
	if s.objects == 0 {
		return nil, nil, fmt.Errorf("the history %s has no document that is a JSON object: leave it out to begin at zero", historyName(cfg))
	}
	return s, docs, nil
}

// fit makes the proposal's results those of the documents: names of theirs
// where they have one that is alike, and off what no document has, since a
// history that lacks a field is refused.
func (p *proposal) fit(docs *sample, keys []string) (historyFit, error) {
	fit := historyFit{fields: map[string]event.Path{}}
	if len(keys) > 0 && len(keys) != len(p.keys) {
		return fit, usageError{fmt.Errorf("--history-key names %d fields, and the key has %d", len(keys), len(p.keys))}
	}
	for i, k := range p.keys {
		f := docs.find(k.last(), false)
		if len(keys) > 0 {
			f = docs.named(keys[i])
		}
		switch {
		case f == nil && len(keys) > 0:
			return fit, usageError{fmt.Errorf("--history-key %s: no document has that field; they have %s", keys[i], docs.names())}
		case f == nil:
			return fit, fmt.Errorf("no field of the documents looks like the key %s; they have %s: name it with --history-key", k.name(), docs.names())
		}
		fit.keys = append(fit.keys, f.path)
	}
	if !slices.ContainsFunc(p.keys, func(k *field) bool {
		return !slices.ContainsFunc(fit.keys, func(path event.Path) bool { return len(path) == 1 && path[0] == k.last() })
	}) {
		fit.keys = nil // they are found under their own names
	}
	used := map[*field]bool{}
	for i := range p.columns {
		c := &p.columns[i]
		if c.from == nil {
			continue
		}
		f := docs.find(c.name, false)
		if f == nil {
			f = docs.find(c.from[len(c.from)-1], c.time)
		}
		switch {
		case f == nil || f.values() < docs.objects || used[f]:
			if !c.off {
				c.off, c.why = true, "the documents of the history do not all have it"
			}
			continue
		case len(f.path) == 1:
			c.name = f.path[0]
		default:
			fit.fields[c.name] = f.path
		}
		used[f] = !c.off
		if c.time && !c.off {
			fit.guard = f.path
		}
	}
	p.rename()
	return fit, nil
}

// find is the field whose name is alike, or with ends ends alike: that of
// saleTimestamp may be latestSaleTimestamp.
func (s *sample) find(name string, ends bool) *field {
	for _, f := range s.fields {
		if alike(f.last(), name) {
			return f
		}
	}
	if ends {
		for _, f := range s.fields {
			if strings.HasSuffix(strings.Join(words(f.last()), ""), strings.Join(words(name), "")) {
				return f
			}
		}
	}
	return nil
}

// named is the field of a path as the query writes it, nil where there is none.
func (s *sample) named(path string) *field {
	for _, f := range s.fields {
		if f.name() == path {
			return f
		}
	}
	return nil
}

// names lists the fields.
func (s *sample) names() string {
	var names []string
	for _, f := range s.fields {
		names = append(names, f.name())
	}
	return strings.Join(names, ", ")
}

// checkCut says what keeps a cut from being made.
func (p *proposal) checkCut(cut string, fit historyFit) error {
	if cut != "guard" {
		return nil
	}
	var missing []error
	if p.time == nil {
		missing = append(missing, errors.New("no field of every event looks like its time"))
	}
	if fit.guard == nil {
		missing = append(missing, errors.New("no field of every document looks like the time of its last event"))
	}
	if len(missing) > 0 {
		return usageError{fmt.Errorf("--cut guard compares the time of an event with that of the document: %w; choose earliest, latest or an instant", errors.Join(missing...))}
	}
	return nil
}

// paths writes paths for the configuration.
func paths(of []event.Path) string {
	texts := make([]string, len(of))
	for i, p := range of {
		texts[i] = quoteYAML(query.QuotePath(p))
	}
	return "[" + strings.Join(texts, ", ") + "]"
}
