package bootstrap

import (
	"errors"
	"fmt"
	"maps"
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

// TestB07SourceTextIsTheValue: what the service makes of a document is the text
// in it, and the sum is exact over all of them, whatever the server's columns.
func TestB07SourceTextIsTheValue(t *testing.T) {
	p := compile(t, salesQuery)
	texts := map[string]string{
		"19.999": "19.999", "48151.62": "48151.62", "1234567.89": "1234567.89", "1.50e2": "150", "267.640": "267.64",
		"12345678901234567.89": "12345678901234567.89", "9007199254740993": "9007199254740993",
	}
	eachFlavour(t, func(t *testing.T, s *search.Server) {
		want := map[string]string{}
		for text, value := range texts {
			key := fmt.Sprint("U-", len(want))
			want[key] = fmt.Sprintf(`{"userId":"%s","latestSaleTimestamp":"2015-07-29T09:17:12.000Z","totalRevenue":%s,"totalPoints":1,"productList":["a"],"sales":0}`, key, value)
			s.Add("sales", 2, fmt.Sprintf(`{"userId":"%s","latestSaleTimestamp":"2015-07-29T09:17:12Z","totalRevenue":%s,"totalPoints":1,"productList":"a"}`, key, text))
		}
		r, err := bootstrap(t, p, 3, nil, func(o *Options) { o.Source = elastic(t, s, nil) })
		if err != nil {
			t.Fatal(err)
		}
		if got := rows(t, p, r.stores); !maps.Equal(got, want) {
			t.Errorf("rows %v, want %v", got, want)
		}
		last := r.seen.shown[len(r.seen.shown)-1]
		if !last.Done || last.Read != int64(len(texts)) || last.Total != last.Read {
			t.Errorf("the progress ends with %+v", last)
		}
	})
}

// TestElasticNamesWhatIsSkipped: by index and _id, as they are spelt.
func TestElasticNamesWhatIsSkipped(t *testing.T) {
	p := compile(t, salesQuery)
	eachFlavour(t, func(t *testing.T, s *search.Server) {
		s.Add("sales-1", 1, `{"userId":"a","totalRevenue":1}`, `{"userId":"b","totalRevenue":"x","latestSaleTimestamp":1748944805,"totalPoints":1,"productList":[]}`)
		s.Add("sales-2", 1, `{"userId":"\ud800"}`)
		r, err := bootstrap(t, p, 1, nil, func(o *Options) {
			o.Source = elastic(t, s, func(o *ElasticOptions) { o.Index = []string{"sales-*"} })
			o.MaxMissingShare = 1
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{`_id \"1\" of index sales-1`, `_id \"0\" of index sales-2`, "bad_number", "not_"} {
			if !strings.Contains(r.log.String(), want) {
				t.Errorf("the log does not say %s:\n%s", want, r.log.String())
			}
		}
	})
}
