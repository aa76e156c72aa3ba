package bootstrap

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"tidemark/aggregator"
	"tidemark/internal/testkit/search"
)

var flavours = map[string]search.Flavour{"Elasticsearch": search.Elasticsearch, "OpenSearch": search.OpenSearch}

// eachFlavour runs a test on a server of each kind.
func eachFlavour(t *testing.T, test func(t *testing.T, s *search.Server)) {
	t.Helper()
	for name, flavour := range flavours {
		t.Run(name, func(t *testing.T) { test(t, search.New(t, flavour)) })
	}
}

// elastic is a source on the server's index sales, with the options changed,
// that waits as long as a test may.
func elastic(t testing.TB, s *search.Server, change func(*ElasticOptions)) *Elastic {
	t.Helper()
	o := ElasticOptions{
		Addresses: []string{s.URL}, Index: []string{"sales"}, PageSize: 10, Slices: 2,
		Timeout: 10 * time.Second, Patience: 10 * time.Second,
	}
	if change != nil {
		change(&o)
	}
	e, err := NewElastic(o)
	if err != nil {
		t.Fatal(err)
	}
	e.firstWait, e.longestWait = time.Millisecond, 4*time.Millisecond
	return e
}

// documents are n of them, each another.
func documents(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(`{ "userId" : "U-%d","totalRevenue":%d.50,"totalPoints":%d, "productList":["%d","\u00e9\\\"}"],"latestSaleTimestamp":"2015-07-29T09:17:12Z"}`, i, i, i, i%7)
	}
	return list
}

// read reads a source and returns its documents, sorted, as they are stored.
func read(t testing.TB, e *Elastic) ([]string, error) {
	t.Helper()
	var got []string
	err := e.Read(t.Context(), func(d *Document) error {
		got = append(got, string(d.Source))
		if d.Read != int64(len(got)) || d.Total < d.Read || len(d.ID) == 0 {
			t.Errorf("document %s is %d of %d", d.ID, d.Read, d.Total)
		}
		return nil
	})
	slices.Sort(got)
	return got, err
}

// wantAll checks that a read gives the documents, each once, and leaves
// nothing open.
func wantAll(t testing.TB, s *search.Server, e *Elastic, want []string) {
	t.Helper()
	got, err := read(t, e)
	if err != nil {
		t.Fatal(err)
	}
	want = slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		t.Errorf("%d documents were read, of %d", len(got), len(want))
		for i := range min(len(got), len(want)) {
			if got[i] != want[i] {
				t.Fatalf("document %s is read, want %s", got[i], want[i])
			}
		}
	}
	if n := s.OpenContexts(); n != 0 {
		t.Errorf("%d snapshots are left open", n)
	}
}

// wantError checks that a read fails with an error that says what, hopeless or
// not, and leaves nothing open.
func wantError(t testing.TB, s *search.Server, e *Elastic, never bool, what ...string) {
	t.Helper()
	_, err := read(t, e)
	if err == nil {
		t.Fatal("no error")
	}
	if errors.Is(err, aggregator.ErrHopeless) != never {
		t.Errorf("%v: hopeless is %t", err, !never)
	}
	for _, w := range what {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not say %q", err, w)
		}
	}
	if n := s.OpenContexts(); n != 0 {
		t.Errorf("%d snapshots are left open", n)
	}
}

// TestElasticReadsEveryDocumentOnce: whatever the shards, slices and pages.
func TestElasticReadsEveryDocumentOnce(t *testing.T) {
	eachFlavour(t, func(t *testing.T, s *search.Server) {
		want := documents(137)
		for _, shards := range []int{1, 2, 5} {
			index := fmt.Sprint("sales", shards)
			s.Add(index, shards, want...)
			for _, slices := range []int{1, 2, 3, 8} {
				for _, size := range []int{1, 10, 137, 1000} {
					wantAll(t, s, elastic(t, s, func(o *ElasticOptions) { o.Index, o.Slices, o.PageSize = []string{index}, slices, size }), want)
				}
			}
		}
		s.Add("empty", 2)
		wantAll(t, s, elastic(t, s, func(o *ElasticOptions) { o.Index = []string{"empty"} }), nil)
		for _, r := range s.Requests() {
			if r.Kind == search.Page && strings.Contains(r.Body, `"slice":{"id":`) && strings.Contains(r.Body, `"max":8`) {
				t.Fatal("more slices are read than there are shards")
			}
		}
	})
}

// TestB08ElasticAsksPlainly: none of the requests makes the server write the
// documents' numbers anew, none pages by from, and every search refuses parts.
func TestB08ElasticAsksPlainly(t *testing.T) {
	t.Setenv("ELASTIC_CLIENT_APIVERSIONING", "true")
	eachFlavour(t, func(t *testing.T, s *search.Server) {
		want := []string{
			`{"userId":1,"totalRevenue":12345678901234567.89,"x":1.50e2}`, `{"userId":2,"totalRevenue":267.640}`,
			`{"userId":3,"totalRevenue":12345678901234567890.123 }`, `{"userId":4,"totalRevenue":1e400,"b":100.00}`, `{"userId":5,"totalRevenue":9007199254740993}`,
		}
		s.Add("sales", 2, want...)
		wantAll(t, s, elastic(t, s, func(o *ElasticOptions) { o.PageSize = 2 }), want)
		for _, r := range s.Requests() {
			for _, word := range []string{"filter_path", "pretty", "_source", `"from"`, "format="} {
				if strings.Contains(r.URL+r.Body, word) {
					t.Errorf("%s %s %s: it asks with %s", r.Method, r.URL, r.Body, word)
				}
			}
			if all := fmt.Sprint(r.Header); strings.Contains(all, "compatible-with") || strings.Contains(all, "gzip") {
				t.Errorf("%s %s: headers %s", r.Method, r.URL, all)
			}
			first := r.Kind == search.Open && strings.Contains(r.URL, "scroll") || r.Kind == search.Count || r.Kind == search.Page && strings.Contains(r.URL, "/_search?")
			if first && !strings.Contains(r.URL, "allow_partial_search_results=false") {
				t.Errorf("%s %s: parts are not refused", r.Method, r.URL)
			}
		}
	})
}

// TestElasticReadsSeveralIndices: names, aliases and patterns; an _id may be in
// more than one.
func TestElasticReadsSeveralIndices(t *testing.T) {
	eachFlavour(t, func(t *testing.T, s *search.Server) {
		all := documents(60)
		s.Add("sales-1", 1, all[:20]...)
		s.Add("sales-2", 3, all[20:]...)
		s.Alias("both", "sales-1", "sales-2")
		for _, target := range [][]string{{"both"}, {"sales-*"}, {"sales-1", "sales-2"}} {
			wantAll(t, s, elastic(t, s, func(o *ElasticOptions) { o.Index = target }), all)
		}
		s.Add("other", 1, `{"a":1}`)
		in := map[string]int{}
		e := elastic(t, s, func(o *ElasticOptions) { o.Index = []string{"both", "other"} })
		if err := e.Read(t.Context(), func(d *Document) error { in[string(d.Index)]++; return nil }); err != nil {
			t.Fatal(err)
		}
		if in["sales-1"] != 20 || in["sales-2"] != 40 || in["other"] != 1 {
			t.Errorf("documents by index: %v", in)
		}
		for _, target := range []string{"nothing-*", "missing"} {
			wantError(t, s, elastic(t, s, func(o *ElasticOptions) { o.Index = []string{target} }), true, target, "history.elasticsearch.index")
		}
	})
}

// TestB01LostSnapshotIsReadAgain: a snapshot that the server dropped ends the
// read, which may be repeated from its beginning, and the next one is kept for
// longer.
func TestB01LostSnapshotIsReadAgain(t *testing.T) {
	eachFlavour(t, func(t *testing.T, s *search.Server) {
		want := documents(100)
		s.Add("sales", 1, want...)
		s.Fault = func(r search.Request) *search.Fault {
			if r.Kind == search.Page && r.N == 3 {
				return &search.Fault{Status: 404, Body: search.Refusal(404, "search_context_missing_exception", "No search context found for id [36]")}
			}
			return nil
		}
		observed := &seen{}
		e := elastic(t, s, func(o *ElasticOptions) { o.Observer = observed })
		wantError(t, s, e, false, "search_context_missing_exception", "again from its beginning")
		if n := observed.retried.Load(); n != 1 {
			t.Errorf("%d retries are observed", n)
		}
		before := len(s.Requests())
		wantAll(t, s, e, want)
		for _, r := range s.Requests()[before:] {
			if r.Kind == search.Open && !strings.Contains(r.URL, "=600s") {
				t.Errorf("%s: it is not kept for longer", r.URL)
			}
		}
	})
}

const wholeShards = `"_shards":{"failed":0,"skipped":0,"successful":2,"total":2}`

// parts are answers of 200 that are not all that was asked for.
var parts = map[string]func(string) string{
	"a failed shard": func(b string) string {
		return strings.Replace(b, wholeShards, `"_shards":{"total":2,"successful":1,"skipped":0,"failed":1,"failures":[{"shard":1,"index":"sales","node":"n","reason":{"type":"no_shard_available_action_exception","reason":null}}]}`, 1)
	},
	"a shard that is not named": func(b string) string { return strings.Replace(b, `"successful":2`, `"successful":1`, 1) },
	"a queue that is full": func(b string) string {
		return strings.Replace(b, wholeShards, `"_shards":{"total":2,"successful":1,"skipped":0,"failed":1,"failures":[{"shard":1,"index":"sales","node":"n","reason":{"type":"es_rejected_execution_exception","reason":"rejected execution of x"}}]}`, 1)
	},
	"a timeout":    func(b string) string { return strings.Replace(b, `"timed_out":false`, `"timed_out":true`, 1) },
	"half of it":   func(b string) string { return b[:len(b)/2] },
	"a login page": nil, // of a proxy: nothing is done
	"no shards":    func(b string) string { return strings.Replace(b, wholeShards, `"x":0`, 1) },
}

// TestB03PartsAreNotTheWhole: an answer of 200 that is a part is never taken,
// be it of the opening, the count or a page.
func TestB03PartsAreNotTheWhole(t *testing.T) {
	for name, part := range parts {
		for _, kind := range []search.Kind{search.Open, search.Count, search.Page} {
			t.Run(name+"/"+string(kind), func(t *testing.T) {
				eachFlavour(t, func(t *testing.T, s *search.Server) {
					if s.Flavour == search.OpenSearch && kind == search.Count || s.Flavour == search.Elasticsearch && kind == search.Open {
						return // is not asked, or says nothing of shards
					}
					want := documents(100)
					s.Add("sales", 2, want...)
					for _, always := range []bool{false, true} {
						from := 1
						if kind == search.Page {
							from = 4
						}
						s.Fault = func(r search.Request) *search.Fault {
							switch {
							case r.Kind != kind || r.N < from || r.N > from && !always:
								return nil
							case part == nil:
								return &search.Fault{Status: 200, Body: "<html>log in</html>"}
							}
							return &search.Fault{Change: part}
						}
						e := elastic(t, s, func(o *ElasticOptions) { o.Patience = 50 * time.Millisecond })
						switch {
						case always:
							wantError(t, s, e, false)
						case s.Flavour == search.OpenSearch && kind == search.Page:
							wantError(t, s, e, false, "again from its beginning")
						default:
							e.o.Patience = 10 * time.Second
							wantAll(t, s, e, want)
						}
						s.Fault = nil
					}
				})
			})
		}
	}
}

// TestB04BusyServersAreAskedAgain: whatever a server says when it is too busy,
// with growing waits, seen in metrics; and not for ever.
func TestB04BusyServersAreAskedAgain(t *testing.T) {
	busy := map[string]*search.Fault{
		"429":            {Status: 429, Body: search.Refusal(429, "es_rejected_execution_exception", "rejected execution of x")},
		"429 breaker":    {Status: 429, Body: search.Refusal(429, "circuit_breaking_exception", "[parent] Data too large")},
		"500 rejected":   {Status: 500, Body: search.Refusal(500, "rejected_execution_exception", "Trying to create too many scroll contexts")},
		"502 of a proxy": {Status: 502, Body: "<html>Bad Gateway</html>"},
		"503":            {Status: 503, Body: search.Refusal(503, "no_shard_available_action_exception", "")},
		"504":            {Status: 504, Body: `{"error":"gateway timeout","status":504}`},
	}
	for name, fault := range busy {
		t.Run(name, func(t *testing.T) {
			eachFlavour(t, func(t *testing.T, s *search.Server) {
				want := documents(100)
				s.Add("sales", 2, want...)
				n := 0
				s.Fault = func(r search.Request) *search.Fault {
					if n++; n%3 == 0 {
						return fault
					}
					return nil
				}
				observed := &seen{}
				wantAll(t, s, elastic(t, s, func(o *ElasticOptions) { o.Observer = observed }), want)
				if observed.retried.Load() == 0 {
					t.Error("no retry is observed")
				}
				row := 0
				s.Fault = func(r search.Request) *search.Fault {
					if r.Kind == search.Page && r.N%7 == 0 {
						if row++; row <= 20 {
							return fault
						}
					}
					return nil
				}
				wantAll(t, s, elastic(t, s, nil), want)
				s.Fault = func(r search.Request) *search.Fault {
					if r.Kind == search.Page {
						return fault
					}
					return nil
				}
				e := elastic(t, s, func(o *ElasticOptions) { o.Patience = 30 * time.Millisecond })
				wantError(t, s, e, false, fmt.Sprint(fault.Status))
			})
		})
	}
}

// TestB04RetryAfterIsHonoured: no request comes sooner than the server says.
func TestB04RetryAfterIsHonoured(t *testing.T) {
	s := search.New(t, search.Elasticsearch)
	want := documents(10)
	s.Add("sales", 1, want...)
	var refusedAt, nextAt time.Time
	s.Fault = func(r search.Request) *search.Fault {
		switch {
		case r.Kind != search.Page:
		case r.N == 1:
			refusedAt = time.Now()
			return &search.Fault{Status: 429, Header: http.Header{"Retry-After": {"1"}}}
		case r.N == 2:
			nextAt = time.Now()
		}
		return nil
	}
	wantAll(t, s, elastic(t, s, nil), want)
	if d := nextAt.Sub(refusedAt); d < 900*time.Millisecond {
		t.Errorf("Retry-After 1: asked again after %s", d)
	}
	if d := retryAfter(http.Header{"Retry-After": {"3600"}}); d != time.Hour {
		t.Errorf("Retry-After 3600 is %s", d)
	}
	date := time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
	if d := retryAfter(http.Header{"Retry-After": {date}}); d < 50*time.Minute || d > time.Hour {
		t.Errorf("Retry-After %s is %s", date, d)
	}
	for _, bad := range []string{"", "soon", "-5", "Mon, 02 Jan 2006 15:04:05 GMT"} {
		if d := retryAfter(http.Header{"Retry-After": {bad}}); d != 0 {
			t.Errorf("Retry-After %q is %s", bad, d)
		}
	}
}

// TestB05PagesFitTheIndex: a page above the index's window is refused before
// anything is opened, and more documents than the window are read.
func TestB05PagesFitTheIndex(t *testing.T) {
	eachFlavour(t, func(t *testing.T, s *search.Server) {
		want := documents(10_001)
		s.Add("sales", 2, want...)
		wantAll(t, s, elastic(t, s, func(o *ElasticOptions) { o.PageSize = 10_000 }), want)
		wantError(t, s, elastic(t, s, func(o *ElasticOptions) { o.PageSize = 20_000 }), true, "page_size is 20000", "sales", "10000")
		s.Add("small", 1, want[:20]...).Settings = map[string]string{"index.max_result_window": "15"}
		s.Alias("both", "sales", "small")
		opened := s.Opened()
		wantError(t, s, elastic(t, s, func(o *ElasticOptions) { o.Index, o.PageSize = []string{"both"}, 16 }), true, "page_size is 16", "small", "15")
		if s.Opened() != opened {
			t.Error("a snapshot is opened")
		}
		// A login that may not see settings finds out by the server's refusal.
		s.Fault = func(r search.Request) *search.Fault {
			if r.Kind == search.Settings {
				return &search.Fault{Status: 403, Body: search.Refusal(403, "security_exception", "not allowed")}
			}
			return nil
		}
		wantAll(t, s, elastic(t, s, func(o *ElasticOptions) { o.Index = []string{"both"} }), slices.Concat(want, want[:20]))
		wantError(t, s, elastic(t, s, func(o *ElasticOptions) { o.PageSize = 20_000 }), true, "Result window is too large", "400")
	})
}

// TestB09IndicesThatKeepNoDocuments are refused by name before anything is
// opened, and where the mapping may not be seen, at the first document.
func TestB09IndicesThatKeepNoDocuments(t *testing.T) {
	for _, c := range []struct {
		mappings string
		settings map[string]string
		says     string
	}{
		{`{"_source":{"enabled":false}}`, nil, "_source is disabled"},
		{`{"_source":{"excludes":["secret.*"]}}`, nil, "filtered _source"},
		{`{"_source":{"includes":["total*"]}}`, nil, "filtered _source"},
		{`{"_source":{"mode":"synthetic"}}`, nil, "synthetic"},
		{``, map[string]string{"index.mapping.source.mode": "synthetic"}, "synthetic"},
		{``, map[string]string{"index.mapping.source.mode": "disabled"}, "_source is disabled"},
		{``, map[string]string{"index.mode": "logsdb"}, "synthetic"},
	} {
		eachFlavour(t, func(t *testing.T, s *search.Server) {
			s.Add("good", 1, documents(3)...)
			ix := s.Add("bad", 1, documents(3)...)
			ix.Mappings, ix.Settings = c.mappings, c.settings
			s.Alias("sales", "good", "bad")
			wantError(t, s, elastic(t, s, nil), true, c.says, "index bad")
			if s.Opened() != 0 {
				t.Error("a snapshot is opened")
			}
		})
	}
	eachFlavour(t, func(t *testing.T, s *search.Server) {
		s.Add("sales", 1, documents(3)...).NoSource = true
		wantError(t, s, elastic(t, s, nil), true, "has no _source", "index sales")
	})
}

// TestB10MissingFields: above the share the history is refused by the field's
// name, below it is taken.
func TestB10MissingFields(t *testing.T) {
	eachFlavour(t, func(t *testing.T, s *search.Server) {
		p := compile(t, salesQuery)
		for lacking, want := range map[int]string{300: "totalPoints is missing or null in 300 of 1000 documents", 1: ""} {
			list := documents(1000)
			for i := range lacking {
				list[i] = strings.Replace(list[i], "totalPoints", "points", 1)
			}
			index := fmt.Sprint("lacks", lacking)
			s.Add(index, 2, list...)
			r, err := bootstrap(t, p, 3, nil, func(o *Options) {
				o.Source = elastic(t, s, func(o *ElasticOptions) { o.Index, o.PageSize = []string{index}, 100 })
			})
			switch {
			case want != "":
				if err == nil || !errors.Is(err, aggregator.ErrHopeless) || !strings.Contains(err.Error(), want) {
					t.Errorf("error %v, want %s", err, want)
				}
			case err != nil:
				t.Error(err)
			case r.documents() != 1000 || r.seen.missing["totalPoints"] != 1:
				t.Errorf("%d documents, missing %v", r.documents(), r.seen.missing)
			}
			if s.OpenContexts() != 0 {
				t.Error("snapshots are left open")
			}
		}
	})
}

// TestB11AnyServerIsRead: one without the vendor's header, one that forbids /,
// old ones; what is no search server is refused.
func TestB11AnyServerIsRead(t *testing.T) {
	want := documents(30)
	eachFlavour(t, func(t *testing.T, s *search.Server) {
		s.Add("sales", 2, want...)
		for _, status := range []int{401, 403} {
			s.Fault = func(r search.Request) *search.Fault {
				if r.Kind == search.Root {
					return &search.Fault{Status: status, Body: search.Refusal(status, "security_exception", "no permissions for [cluster:monitor/main]")}
				}
				return nil
			}
			wantAll(t, s, elastic(t, s, nil), want)
		}
	})
	for _, c := range []struct {
		flavour search.Flavour
		root    string
		refused string
	}{
		{search.Elasticsearch, `{"version":{"number":"7.12.0","lucene_version":"8.8.0"},"tagline":"You Know, for Search"}`, ""},
		{search.OpenSearch, `{"version":{"number":"7.10.2","lucene_version":"8.7.0"},"tagline":"You Know, for Search"}`, ""}, // OpenSearch that says it is Elasticsearch
		{search.OpenSearch, `{"version":{"number":"8.1.0","lucene_version":"8.7.0"}}`, ""},                                   // has no points in time all the same
		{search.OpenSearch, `{"version":{"number":"3.1.0","distribution":"opensearch"}}`, ""},
		{search.Elasticsearch, `{"version":{"number":"6.8.23","lucene_version":"7.7.3"},"tagline":"You Know, for Search"}`, "Elasticsearch 6.8.23"},
		{search.Elasticsearch, `{"hello":"world"}`, "neither Elasticsearch nor OpenSearch"},
		{search.Elasticsearch, `[1]`, "neither Elasticsearch nor OpenSearch"},
	} {
		s := search.New(t, c.flavour)
		s.Nameless = true
		s.Add("sales", 2, want...)
		s.Fault = func(r search.Request) *search.Fault {
			if r.Kind == search.Root {
				return &search.Fault{Status: 200, Body: c.root}
			}
			return nil
		}
		if c.refused != "" {
			wantError(t, s, elastic(t, s, func(o *ElasticOptions) { o.Patience = time.Millisecond }), strings.HasPrefix(c.root, "{"))
		} else {
			wantAll(t, s, elastic(t, s, nil), want)
		}
	}
}

// TestB12ReadAgainAfterHalf: a read that ended in the middle leaves nothing
// behind, and the next one gives everything.
func TestB12ReadAgainAfterHalf(t *testing.T) {
	eachFlavour(t, func(t *testing.T, s *search.Server) {
		want := documents(500)
		s.Add("sales", 2, want...)
		e := elastic(t, s, nil)
		enough := errors.New("enough")
		n := 0
		err := e.Read(t.Context(), func(*Document) error {
			if n++; n == 200 {
				return enough
			}
			return nil
		})
		if !errors.Is(err, enough) || n != 200 {
			t.Fatalf("the read ends after %d documents with %v", n, err)
		}
		wantAll(t, s, e, want)
	})
}

// TestB15NothingIsLeftOpen: 30 reads stopped halfway, by the reader, by the end
// of the service, by an error of the server, and while a snapshot is opened.
func TestB15NothingIsLeftOpen(t *testing.T) {
	eachFlavour(t, func(t *testing.T, s *search.Server) {
		s.Add("sales", 3, documents(300)...)
		e := elastic(t, s, func(o *ElasticOptions) { o.Slices, o.Patience = 3, 20*time.Millisecond })
		stop := errors.New("stop")
		for i := range 30 {
			ctx, cancel := context.WithCancel(t.Context())
			n := 0
			s.Fault = nil
			if i%4 == 2 {
				s.Fault = func(r search.Request) *search.Fault {
					if r.Kind == search.Page && n > 50 {
						return &search.Fault{Status: 503}
					}
					return nil
				}
			}
			if i%4 == 3 {
				s.Fault = func(r search.Request) *search.Fault {
					if r.Kind == search.Open {
						cancel() // the snapshot is opened all the same
					}
					return nil
				}
			}
			err := e.Read(ctx, func(*Document) error {
				if n++; n == 100+i && i%4 == 0 {
					return stop
				}
				if n == 100+i && i%4 == 1 {
					cancel()
				}
				return nil
			})
			cancel()
			if err == nil && i%4 != 2 {
				t.Errorf("read %d: no error", i)
			}
			if open := s.OpenContexts(); open != 0 {
				t.Fatalf("read %d ends with %v and leaves %d snapshots open", i, err, open)
			}
		}
		if s.Opened() < 30 {
			t.Errorf("%d snapshots were opened", s.Opened())
		}
	})
}

// TestElasticAnswersThatAreLost: a page of a point in time is asked for again;
// a page of a scroll is passed, and the read must begin again. A connection
// that was not made loses nothing.
func TestElasticAnswersThatAreLost(t *testing.T) {
	eachFlavour(t, func(t *testing.T, s *search.Server) {
		want := documents(100)
		s.Add("sales", 1, want...)
		s.Fault = func(r search.Request) *search.Fault {
			return &search.Fault{Lose: r.Kind == search.Page && r.N == 3}
		}
		e := elastic(t, s, nil)
		if s.Flavour == search.OpenSearch {
			wantError(t, s, e, false, "a page of a scroll is lost")
		}
		wantAll(t, s, e, want)
	})
}

// TestElasticRefusalAfterAPageWasPassed: a scroll whose page was refused after
// it had been read shows it by its count, and is begun again.
func TestElasticRefusalAfterAPageWasPassed(t *testing.T) {
	s := search.New(t, search.OpenSearch)
	want := documents(100)
	s.Add("sales", 1, want...)
	passed := false
	s.Fault = func(r search.Request) *search.Fault {
		if r.Kind == search.Page && r.N == 3 {
			passed = true
			return &search.Fault{Change: func(string) string { return "{}" }}
		}
		return nil
	}
	wantError(t, s, elastic(t, s, nil), false, "again from its beginning")
	if !passed {
		t.Fatal("no page was passed")
	}
	s.Fault = func(r search.Request) *search.Fault {
		switch {
		case r.Kind != search.Page || r.N < 20:
			return nil
		case r.N == 20:
			return &search.Fault{Status: 504}
		}
		return nil
	}
	wantAll(t, s, elastic(t, s, nil), want)
}

// TestElasticCountsMustAgree: documents that the server left out, gave twice or
// took from another index end the history for good.
func TestElasticCountsMustAgree(t *testing.T) {
	cut := func(b string) string {
		i := strings.Index(b, `{"_id"`)
		j := strings.Index(b[i+1:], `{"_id"`)
		if i < 0 || j < 0 {
			return b
		}
		return b[:i] + b[i+1+j:]
	}
	for name, change := range map[string]func(string) string{
		"left out":      cut,
		"another index": func(b string) string { return strings.Replace(b, `"_index":"sales-`, `"_index":"other-`, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			eachFlavour(t, func(t *testing.T, s *search.Server) {
				s.Add("sales-1", 1, documents(40)...)
				s.Add("sales-2", 1, documents(40)...)
				s.Fault = func(r search.Request) *search.Fault {
					if r.Kind == search.Page && r.N == 2 {
						return &search.Fault{Change: change}
					}
					return nil
				}
				wantError(t, s, elastic(t, s, func(o *ElasticOptions) { o.Index = []string{"sales-*"} }), true, "documents", "the snapshot has")
			})
		})
	}
	t.Run("for ever", func(t *testing.T) {
		s := search.New(t, search.Elasticsearch)
		s.Add("sales", 1, documents(40)...)
		var first string
		s.Fault = func(r search.Request) *search.Fault {
			if r.Kind != search.Page {
				return nil
			}
			return &search.Fault{Change: func(b string) string {
				if first == "" {
					first = b
				}
				return first
			}}
		}
		wantError(t, s, elastic(t, s, nil), true, "more documents come")
	})
}

// TestElasticRefusals: what a server refuses for good names the index, the
// status, the type and the reason; the rest is waited for.
func TestElasticRefusals(t *testing.T) {
	for _, c := range []struct {
		kind   search.Kind
		status int
		body   string
		never  bool
		says   string
	}{
		{search.Page, 403, search.Refusal(403, "security_exception", "action [indices:data/read/search] is unauthorized for user [u]"), true, "403 security_exception: action [indices:data/read/search]"},
		{search.Open, 401, search.Refusal(401, "security_exception", "unable to authenticate user [u]"), true, "401 security_exception: unable"},
		{search.Page, 400, search.Refusal(400, "illegal_argument_exception", "Cannot parse scroll id"), true, "400 illegal_argument_exception: Cannot parse"},
		{search.Page, 404, search.Refusal(404, "index_not_found_exception", "no such index [sales]"), true, "404 index_not_found_exception"},
		{search.Open, 400, search.Refusal(400, "index_closed_exception", "closed"), true, "index_closed_exception"},
		{search.Page, 406, `{"error":"Content-Type header [x] is not supported","status":406}`, true, "406: Content-Type header"},
		{search.Page, 413, "<html>too large</html>", true, "413: <html>too large"},
		{search.Open, 302, "", true, "302"},
		{search.Page, 503, `{"error":{"root_cause":[],"type":"search_phase_execution_exception","reason":"all shards failed","phase":"query","failed_shards":[]},"status":503}`, false, "503 search_phase_execution_exception: all shards failed"},
		{search.Page, 503, `{"error":{"root_cause":[],"type":"search_phase_execution_exception","reason":"","caused_by":{"type":"search_phase_execution_exception","reason":"Search rejected due to missing shards [[red][1]]"}},"status":503}`, false, "Search rejected due to missing shards [[red][1]]"},
		{search.Settings, 503, `{"error":{"root_cause":[{"type":"master_not_discovered_exception","reason":null}]},"status":503}`, false, "master_not_discovered_exception"},
		{search.Refresh, 500, search.Refusal(500, "null_pointer_exception", "oops"), false, "null_pointer_exception"},
	} {
		eachFlavour(t, func(t *testing.T, s *search.Server) {
			if s.Flavour == search.Elasticsearch || c.kind != search.Open || c.status != 302 {
				s.Add("sales", 1, documents(40)...)
				s.Fault = func(r search.Request) *search.Fault {
					if r.Kind == c.kind {
						return &search.Fault{Status: c.status, Body: c.body}
					}
					return nil
				}
				wantError(t, s, elastic(t, s, func(o *ElasticOptions) { o.Patience = 20 * time.Millisecond }), c.never, c.says, "history sales")
			}
		})
	}
}

// TestElasticMayNotRefresh: it is said, and the read goes on.
func TestElasticMayNotRefresh(t *testing.T) {
	s := search.New(t, search.Elasticsearch)
	s.Add("sales", 1, documents(4)...)
	s.Fault = func(r search.Request) *search.Fault {
		if r.Kind == search.Refresh || r.Kind == search.Mapping {
			return &search.Fault{Status: 403, Body: search.Refusal(403, "security_exception", "no")}
		}
		return nil
	}
	var log bytes.Buffer
	wantAll(t, s, elastic(t, s, func(o *ElasticOptions) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) }), documents(4))
	for _, want := range []string{"may not refresh", "maintenance", "view_index_metadata"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not say %q:\n%s", want, log.String())
		}
	}
}

// TestO09ElasticIsAway: a server that is not there is waited for, and of
// several addresses one is enough.
func TestO09ElasticIsAway(t *testing.T) {
	s := search.New(t, search.OpenSearch)
	want := documents(50)
	s.Add("sales", 2, want...)
	away := "http://127.0.0.1:1"
	wantError(t, s, elastic(t, s, func(o *ElasticOptions) { o.Addresses, o.Patience = []string{away}, 10*time.Millisecond }), false, away, "refused")
	wantAll(t, s, elastic(t, s, func(o *ElasticOptions) { o.Addresses = []string{away, s.URL + "/"} }), want)
	// A server that does not answer is given up in time.
	never := make(chan struct{})
	defer close(never)
	s.Fault = func(r search.Request) *search.Fault {
		if r.Kind == search.Refresh {
			return &search.Fault{Wait: never}
		}
		return nil
	}
	wantError(t, s, elastic(t, s, func(o *ElasticOptions) { o.Timeout, o.Patience = 20*time.Millisecond, 30*time.Millisecond }), false, "no answer came in time")
}
