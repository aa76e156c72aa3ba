package bootstrap

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// found is what a server says of itself and of the indices before they are
// read.
type found struct {
	server  string // for messages
	pits    bool   // points in time, sorted by _shard_doc, are there
	indices []string
	// Of the primary shards of the indices, 0 where the login may not see them.
	shards, fewest int
	window         int // the least max_result_window of the indices, 0 where it is not known
}

// find asks who answers and what the indices are, and refuses those that
// cannot be read exactly.
func (e *Elastic) find(ctx context.Context) (*found, error) {
	f := &found{}
	if err := e.identify(ctx, f); err != nil {
		return nil, e.fail("read", err)
	}
	if err := e.settings(ctx, f); err != nil {
		return nil, e.fail("read", err)
	}
	if err := e.mappings(ctx); err != nil {
		return nil, e.fail("read", err)
	}
	e.log.Info("reading the history", "history", e.Name(), "server", f.server, "indices", f.indices, "primary_shards", f.shards)
	return f, nil
}

// root is what GET / tells.
type root struct {
	Tagline string `json:"tagline"`
	Version struct {
		Number       string `json:"number"`
		Distribution string `json:"distribution"`
		Lucene       string `json:"lucene_version"`
	} `json:"version"`
}

const (
	productHeader = "X-Elastic-Product"
	product       = "Elasticsearch"
	unnamed       = "a server that does not say what it is"
)

// hidden are answers of servers whose indices may be read though GET / may not.
var hidden = []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed}

// identify asks who answers. A server that does not tell is read in the way
// that all of them know.
func (e *Elastic) identify(ctx context.Context, f *found) error {
	var r root
	a, err := e.get(ctx, "/", &r)
	genuine := a.header.Get(productHeader) == product
	var no *refusal
	if errors.As(err, &no) && slices.Contains(hidden, no.status) {
		f.server, f.pits = unnamed, genuine
		e.log.Info("the history's server does not say what it is", "history", e.Name(), "answer", no.Error())
		return nil
	}
	if err != nil {
		return err
	}
	v := r.Version
	major, minor := version(v.Number)
	switch {
	case v.Distribution == "opensearch":
		f.server = "OpenSearch " + v.Number
	case genuine, strings.Contains(r.Tagline, "for Search"), v.Lucene != "":
		f.server = "Elasticsearch " + v.Number
		if major < 7 {
			return hopeless("the server is %s: Elasticsearch 7 or later, or OpenSearch, is wanted", f.server)
		}
		f.pits = major > 7 || minor >= 12
	default:
		return hopeless("neither Elasticsearch nor OpenSearch answers at %s", e.client.addresses)
	}
	return nil
}

// version reads the beginning of a version's number.
func version(number string) (major, minor int) {
	parts := strings.SplitN(number, ".", 3)
	major, _ = strconv.Atoi(parts[0])
	if len(parts) > 1 {
		minor, _ = strconv.Atoi(parts[1])
	}
	return major, minor
}

// settings finds the indices, how many primary shards they have, and whether
// the page fits them.
func (e *Elastic) settings(ctx context.Context, f *found) error {
	var all map[string]struct {
		Settings map[string]any `json:"settings"`
	}
	_, err := e.get(ctx, e.target+"/_settings?flat_settings=true", &all)
	if forbidden(err) {
		e.log.Warn("the login may not see the indices' settings: synthetic sources and page sizes are not checked, and one slice is read (grant view_index_metadata)",
			"history", e.Name(), "err", err)
		return nil
	}
	if err != nil {
		return e.orMissing(err)
	}
	if len(all) == 0 {
		return e.noneMatch()
	}
	f.indices = slices.Sorted(maps.Keys(all))
	for i, name := range f.indices {
		s := all[name].Settings
		of := func(key, fallback string) string {
			if text, ok := s[key].(string); ok {
				return text
			}
			return fallback
		}
		window, err := strconv.Atoi(of("index.max_result_window", "10000"))
		if err == nil && e.o.PageSize > window {
			return hopeless("history.elasticsearch.page_size is %d, and index %s gives at most %d documents at once (index.max_result_window): set it to that or less",
				e.o.PageSize, name, window)
		}
		if err == nil && (f.window == 0 || window < f.window) {
			f.window = window
		}
		mode, source := of("index.mode", ""), of("index.mapping.source.mode", "")
		if source == "synthetic" || source == "" && (mode == "logsdb" || mode == "time_series") {
			return syntheticSource(name)
		}
		if source == "disabled" {
			return noSource(name)
		}
		n, _ := strconv.Atoi(of("index.number_of_shards", "1"))
		f.shards += n
		if f.fewest = min(f.fewest, n); i == 0 {
			f.fewest = n
		}
	}
	return nil
}

// mappings looks for indices that do not keep their documents as they came.
func (e *Elastic) mappings(ctx context.Context) error {
	var all map[string]struct {
		Mappings struct {
			Source struct {
				Enabled  any      `json:"enabled"` // a boolean, or text in old mappings
				Mode     string   `json:"mode"`
				Includes []string `json:"includes"`
				Excludes []string `json:"excludes"`
			} `json:"_source"`
		} `json:"mappings"`
	}
	_, err := e.get(ctx, e.target+"/_mapping", &all)
	if forbidden(err) {
		e.log.Warn("the login may not see the indices' mappings: sources that are not kept are found when they are read (grant view_index_metadata)",
			"history", e.Name(), "err", err)
		return nil
	}
	if err != nil {
		return e.orMissing(err)
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		s := all[name].Mappings.Source
		switch {
		case s.Enabled == false || s.Enabled == "false" || s.Mode == "disabled":
			return noSource(name)
		case s.Mode == "synthetic":
			return syntheticSource(name)
		case len(s.Includes)+len(s.Excludes) > 0:
			return hopeless("index %s keeps a filtered _source (includes or excludes in its mapping): the server wrote the numbers of its documents anew, through binary floating point; "+
				"index them again without the filter", name)
		}
	}
	return nil
}

func noSource(index string) error {
	return hopeless("index %s keeps no documents: _source is disabled in its mapping; index them again with it, or give a file", index)
}

func syntheticSource(index string) error {
	return hopeless("index %s has a synthetic _source: the server makes its documents anew from columns, in which amounts of money lose digits; "+
		"index them again with a stored one, or give a file", index)
}

func (e *Elastic) noneMatch() error {
	return hopeless("no index matches %s: see history.elasticsearch.index", e.Name())
}

// orMissing is err, or where it says that an index is not there, a sentence.
func (e *Elastic) orMissing(err error) error {
	var r *refusal
	if errors.As(err, &r) && r.kind == noIndex {
		return hopeless("%s: see history.elasticsearch.index: %w", e.Name(), r)
	}
	return err
}

// probe searches for nothing, so that an index whose shards are not all there
// is found at once: the refresh would wait a minute for them.
func (e *Elastic) probe(ctx context.Context) error {
	var p page
	body := searchBody{Size: new(0), Query: e.o.Query}
	err := e.patiently(ctx, openPatience, func() error { return e.searchPage(ctx, e.target+wholeSearch, body, &p) })
	if err == nil && p.shards.total == 0 {
		err = e.noneMatch()
	}
	return e.fail("search", e.orMissing(err))
}

// refresh makes what was written before visible to the search.
func (e *Elastic) refresh(ctx context.Context) error {
	err := e.patiently(ctx, openPatience, func() error {
		ctx, cancel := context.WithTimeout(ctx, e.o.Timeout)
		defer cancel()
		_, _, err := e.client.ask(ctx, http.MethodPost, e.target+"/_refresh", nil, nil)
		return err
	})
	var r *refusal
	switch {
	case err == nil:
		return nil
	case errors.As(err, &r) && slices.Contains([]int{http.StatusUnauthorized, http.StatusForbidden, http.StatusMethodNotAllowed}, r.status):
		e.log.Warn("the login may not refresh the indices: documents written in the last moments may not be seen (grant maintenance, or refresh them before)",
			"history", e.Name(), "err", r)
		return nil
	}
	return e.fail("refresh", e.orMissing(err))
}

// perIndex reads how many documents each index has, out of the aggregation of
// that name; nil where it does not say.
func perIndex(aggs []byte) (map[string]int64, error) {
	if aggs == nil {
		return nil, nil
	}
	var all struct {
		Indices struct {
			Others  int64 `json:"sum_other_doc_count"`
			Buckets []struct {
				Key   string `json:"key"`
				Count int64  `json:"doc_count"`
			} `json:"buckets"`
		} `json:"indices"`
	}
	if err := json.Unmarshal(aggs, &all); err != nil {
		return nil, fmt.Errorf("read the counts of indices: %w", err)
	}
	if all.Indices.Others > 0 {
		return nil, nil
	}
	counts := map[string]int64{}
	for _, b := range all.Indices.Buckets {
		counts[b.Key] = b.Count
	}
	return counts, nil
}
