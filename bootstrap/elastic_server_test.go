package bootstrap

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tidemark/internal/testkit/search"
)

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
		s.Script(func(r search.Request) *search.Fault {
			if r.Kind == search.Settings {
				return &search.Fault{Status: 403, Body: search.Refusal(403, "security_exception", "not allowed")}
			}
			return nil
		})
		wantAll(t, s, elastic(t, s, func(o *ElasticOptions) { o.Index = []string{"small"} }), want[:20])
		wantError(t, s, elastic(t, s, func(o *ElasticOptions) { o.PageSize = 20_000 }), true, "Result window is too large", "400")
	})
}

// TestB05PagesSuitTheDocuments: pages whose size is not configured are small at
// first, then as many documents as make a page, and never more than the index
// gives.
func TestB05PagesSuitTheDocuments(t *testing.T) {
	for _, c := range []struct {
		name   string
		bytes  int // of a document, about
		n      int
		window string
		most   int // documents of a page
	}{
		{"small documents", 40, 12_000, "10000", maxPage},
		{"a small window", 40, 1_000, "70", 70},
		{"large documents", 20_000, 1_200, "10000", unlimitedPage},
	} {
		eachFlavour(t, func(t *testing.T, s *search.Server) {
			want := make([]string, c.n)
			for i := range want {
				want[i] = fmt.Sprintf(`{"userId":%d,"x":"%s"}`, i, strings.Repeat("x", c.bytes-20))
			}
			s.Add("sales", 1, want...).Settings = map[string]string{"index.max_result_window": c.window}
			wantAll(t, s, elastic(t, s, func(o *ElasticOptions) { o.PageSize = 0 }), want)
			var sizes []int
			for _, r := range s.Requests() {
				var body struct {
					Size *int
				}
				if err := json.Unmarshal([]byte(r.Body), &body); err == nil && body.Size != nil && *body.Size > 0 {
					sizes = append(sizes, *body.Size)
				}
			}
			if most := slices.Max(sizes); most > c.most {
				t.Errorf("%s: pages of %v documents, want at most %d", c.name, sizes, c.most)
			}
			if s.Flavour == search.Elasticsearch && c.bytes > 1000 {
				if last := sizes[len(sizes)-1]; last > 2*pageBytes/c.bytes || last < pageBytes/c.bytes/2 {
					t.Errorf("%s: pages of %v documents do not suit them", c.name, sizes)
				}
			}
			if s.Flavour == search.Elasticsearch && c.bytes < 1000 && c.most == maxPage && !slices.Contains(sizes, maxPage) {
				t.Errorf("%s: pages of %v documents", c.name, sizes)
			}
		})
	}
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

// TestB11AnyServerIsRead: one without the vendor's header, one that forbids /,
// old ones; what is no search server is refused.
func TestB11AnyServerIsRead(t *testing.T) {
	want := documents(30)
	eachFlavour(t, func(t *testing.T, s *search.Server) {
		s.Add("sales", 2, want...)
		for _, status := range []int{401, 403} {
			s.Script(func(r search.Request) *search.Fault {
				if r.Kind == search.Root {
					return &search.Fault{Status: status, Body: search.Refusal(status, "security_exception", "no permissions for [cluster:monitor/main]")}
				}
				return nil
			})
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
		s.Script(func(r search.Request) *search.Fault {
			if r.Kind == search.Root {
				return &search.Fault{Status: 200, Body: c.root}
			}
			return nil
		})
		if c.refused != "" {
			wantError(t, s, elastic(t, s, func(o *ElasticOptions) { o.Patience = time.Millisecond }), strings.HasPrefix(c.root, "{"))
		} else {
			wantAll(t, s, elastic(t, s, nil), want)
		}
	}
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
				s.Script(func(r search.Request) *search.Fault {
					if r.Kind == c.kind {
						return &search.Fault{Status: c.status, Body: c.body}
					}
					return nil
				})
				wantError(t, s, elastic(t, s, func(o *ElasticOptions) { o.Patience = 20 * time.Millisecond }), c.never, c.says, "history sales")
			}
		})
	}
}

// TestElasticMayNotRefresh: it is said, and the read goes on.
func TestElasticMayNotRefresh(t *testing.T) {
	s := search.New(t, search.Elasticsearch)
	s.Add("sales", 1, documents(4)...)
	s.Script(func(r search.Request) *search.Fault {
		if r.Kind == search.Refresh || r.Kind == search.Mapping {
			return &search.Fault{Status: 403, Body: search.Refusal(403, "security_exception", "no")}
		}
		return nil
	})
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
	s.Script(func(r search.Request) *search.Fault {
		if r.Kind == search.Refresh {
			return &search.Fault{Wait: never}
		}
		return nil
	})
	wantError(t, s, elastic(t, s, func(o *ElasticOptions) { o.Timeout, o.Patience = 20*time.Millisecond, 30*time.Millisecond }), false, "no answer came in time")
}

// TestElasticLogins: TLS with an authority of one's own, user and password, API
// key; and what is said where they do not fit.
func TestElasticLogins(t *testing.T) {
	for name, flavour := range flavours {
		t.Run(name, func(t *testing.T) {
			s, authority := search.NewTLS(t, flavour)
			want := documents(30)
			s.Add("sales", 2, want...)
			file := filepath.Join(t.TempDir(), "ca.pem")
			if err := os.WriteFile(file, authority, 0o600); err != nil {
				t.Fatal(err)
			}
			for login, header := range map[string]string{"": "", "user": "Basic dXNlcjpwYXNz", "key": "APIKey a2V5OmtleQ=="} {
				before := len(s.Requests())
				wantAll(t, s, elastic(t, s, func(o *ElasticOptions) {
					o.CAFile = file
					switch login {
					case "user":
						o.Username, o.Password = "user", "pass"
					case "key":
						o.APIKey = "a2V5OmtleQ=="
					}
				}), want)
				for _, r := range s.Requests()[before:] {
					if got := r.Header.Get("Authorization"); got != header {
						t.Errorf("%s %s comes with %q, want %q", r.Method, r.URL, got, header)
					}
				}
			}
			wantError(t, s, elastic(t, s, nil), true, "not trusted", "ca_file")
			plain := strings.Replace(s.URL, "https", "http", 1)
			wantError(t, s, elastic(t, s, func(o *ElasticOptions) { o.Addresses = []string{plain} }), true, "HTTPS")
		})
	}
	s := search.New(t, search.Elasticsearch)
	https := strings.Replace(s.URL, "http", "https", 1)
	wantError(t, s, elastic(t, s, func(o *ElasticOptions) { o.Addresses = []string{https} }), true, "does not speak TLS")
}

// TestNewElasticRefuses what cannot be meant.
func TestNewElasticRefuses(t *testing.T) {
	good := ElasticOptions{Addresses: []string{"http://127.0.0.1:9200"}, Index: []string{"sales"}}
	noPEM := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(noPEM, []byte("no PEM"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*ElasticOptions){
		"":                    func(*ElasticOptions) {},
		"addresses and index": func(o *ElasticOptions) { o.Index = nil },
		"no JSON object":      func(o *ElasticOptions) { o.Query = []byte(`[1]`) },
		"at least 1":          func(o *ElasticOptions) { o.Slices = -1 },
		"no such file":        func(o *ElasticOptions) { o.CAFile = "nowhere.pem" },
		"no certificate":      func(o *ElasticOptions) { o.CAFile = noPEM },
		"no URL":              func(o *ElasticOptions) { o.Addresses = []string{"http://[::1"} },
	} {
		o := good
		change(&o)
		_, err := NewElastic(o)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// TestB05LargerDocumentsThanThoseBefore: a page whose size is not configured is
// asked for in parts where it is too much at once: too long, or more than the
// server can give. Later pages go by the documents again.
func TestB05LargerDocumentsThanThoseBefore(t *testing.T) {
	var want []string
	for i := range 1500 {
		size := 20
		if i >= 600 && i < 900 {
			size = 20_000
		}
		want = append(want, fmt.Sprintf(`{"userId":%d,"x":"%s"}`, i, strings.Repeat("x", size)))
	}
	s := search.New(t, search.Elasticsearch)
	s.Add("sales", 1, want...).Settings = map[string]string{"index.max_result_window": "10000"}
	sizeOf := func(r search.Request) int {
		var body struct {
			Size int
		}
		if err := json.Unmarshal([]byte(r.Body), &body); err != nil {
			return 0
		}
		return body.Size
	}
	small := func(pageSize int) *Elastic {
		e := elastic(t, s, func(o *ElasticOptions) { o.PageSize = pageSize })
		e.pageBytes = 64 << 10
		return e
	}
	wantAll(t, s, small(0), want)
	if requests := s.Requests(); sizeOf(requests[len(requests)-1]) > maxPage || len(requests) > 300 {
		t.Errorf("it takes %d requests", len(requests))
	}
	wantAll(t, s, small(1500), want) // who says how many gets them

	s.Script(func(r search.Request) *search.Fault {
		if r.Kind == search.Page && sizeOf(r) > 100 {
			return &search.Fault{Status: 429, Body: search.Refusal(429, "circuit_breaking_exception", "[parent] Data too large")}
		}
		return nil
	})
	wantAll(t, s, elastic(t, s, func(o *ElasticOptions) { o.PageSize = 0 }), want)
}
