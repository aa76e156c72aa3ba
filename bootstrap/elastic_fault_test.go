package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tidemark/internal/testkit/search"
)

// TestB01LostSnapshotIsReadAgain: a snapshot that the server dropped ends the
// read, which may be repeated from its beginning, and the next one is kept for
// longer.
func TestB01LostSnapshotIsReadAgain(t *testing.T) {
	eachFlavour(t, func(t *testing.T, s *search.Server) {
		want := documents(100)
		s.Add("sales", 1, want...)
		s.Script(func(r search.Request) *search.Fault {
			if r.Kind == search.Page && r.N == 3 {
				return &search.Fault{Status: 404, Body: search.Refusal(404, "search_context_missing_exception", "No search context found for id [36]")}
			}
			return nil
		})
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
	"a timeout": func(b string) string { return strings.Replace(b, `"timed_out":false`, `"timed_out":true`, 1) },
	"an early end": func(b string) string {
		return strings.Replace(b, `"timed_out":false`, `"timed_out":false,"terminated_early":true`, 1)
	},
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
					if s.Flavour == search.Elasticsearch && kind == search.Open {
						return // it says nothing of shards
					}
					if s.Flavour == search.OpenSearch && kind == search.Page && name == "an early end" {
						return // old versions end all pages of a scroll so
					}
					want := documents(100)
					s.Add("sales", 2, want...)
					for _, always := range []bool{false, true} {
						from := 1
						if kind == search.Page {
							from = 4
						}
						s.Script(func(r search.Request) *search.Fault {
							switch {
							case r.Kind != kind || r.N < from || r.N > from && !always:
								return nil
							case part == nil:
								return &search.Fault{Status: 200, Body: "<html>log in</html>"}
							}
							return &search.Fault{Change: part}
						})
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
						s.Script(nil)
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
				s.Script(func(r search.Request) *search.Fault {
					if n++; n%3 == 0 {
						return fault
					}
					return nil
				})
				observed := &seen{}
				wantAll(t, s, elastic(t, s, func(o *ElasticOptions) { o.Observer = observed }), want)
				if observed.retried.Load() == 0 {
					t.Error("no retry is observed")
				}
				row := 0
				s.Script(func(r search.Request) *search.Fault {
					if r.Kind == search.Page && r.N%7 == 0 {
						if row++; row <= 20 {
							return fault
						}
					}
					return nil
				})
				wantAll(t, s, elastic(t, s, nil), want)
				s.Script(func(r search.Request) *search.Fault {
					if r.Kind == search.Page {
						return fault
					}
					return nil
				})
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
	s.Script(func(r search.Request) *search.Fault {
		switch {
		case r.Kind != search.Page:
		case r.N == 1:
			refusedAt = time.Now()
			return &search.Fault{Status: 429, Header: http.Header{"Retry-After": {"1"}}}
		case r.N == 2:
			nextAt = time.Now()
		}
		return nil
	})
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
		var cancel context.CancelFunc
		var way, taken atomic.Int32
		s.Script(func(r search.Request) *search.Fault {
			switch {
			case way.Load() == 2 && r.Kind == search.Page && taken.Load() > 50:
				return &search.Fault{Status: 503}
			case way.Load() == 3 && r.Kind == search.Open:
				cancel() // the snapshot is opened all the same
			}
			return nil
		})
		for i := range int32(30) {
			var ctx context.Context
			ctx, cancel = context.WithCancel(t.Context())
			way.Store(i % 4)
			taken.Store(0)
			err := e.Read(ctx, func(*Document) error {
				if taken.Add(1) != 100+i {
					return nil
				}
				switch way.Load() {
				case 0:
					return stop
				case 1:
					cancel()
				}
				return nil
			})
			cancel()
			if err == nil {
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
		s.Script(func(r search.Request) *search.Fault {
			return &search.Fault{Lose: r.Kind == search.Page && r.N == 3}
		})
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
	s.Script(func(r search.Request) *search.Fault {
		if r.Kind == search.Page && r.N == 3 {
			passed = true
			return &search.Fault{Change: func(string) string { return "{}" }}
		}
		return nil
	})
	wantError(t, s, elastic(t, s, nil), false, "again from its beginning")
	if !passed {
		t.Fatal("no page was passed")
	}
	s.Script(func(r search.Request) *search.Fault {
		switch {
		case r.Kind != search.Page || r.N < 20:
			return nil
		case r.N == 20:
			return &search.Fault{Status: 504}
		}
		return nil
	})
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
				s.Script(func(r search.Request) *search.Fault {
					if r.Kind == search.Page && r.N == 2 {
						return &search.Fault{Change: change}
					}
					return nil
				})
				wantError(t, s, elastic(t, s, func(o *ElasticOptions) { o.Index = []string{"sales-*"} }), true, "documents", "the snapshot has")
			})
		})
	}
	t.Run("for ever", func(t *testing.T) {
		s := search.New(t, search.Elasticsearch)
		s.Add("sales", 1, documents(40)...)
		var first string
		s.Script(func(r search.Request) *search.Fault {
			if r.Kind != search.Page {
				return nil
			}
			return &search.Fault{Change: func(b string) string {
				if first == "" {
					first = b
				}
				return first
			}}
		})
		wantError(t, s, elastic(t, s, nil), true, "more documents come")
	})
}
