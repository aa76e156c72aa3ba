package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// answers is a transport that answers by a function.
type answers func(*http.Request) (*http.Response, error)

func (f answers) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// with is a client of two members that f answers for.
func with(t *testing.T, opts Options, f answers) *Client {
	t.Helper()
	opts.HTTP = &http.Client{Transport: f}
	c, err := New([]string{"http://a:1", "http://b:2/"}, opts)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func answer(status int, body string, header ...string) *http.Response {
	r := &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

func TestNewRefusesAddresses(t *testing.T) {
	for _, a := range [][]string{nil, {""}, {"localhost:8080"}, {"ftp://x"}, {"http://"}, {"http://x?y=1"}, {"http://ok", "::"}} {
		if _, err := New(a, Options{}); err == nil {
			t.Errorf("%q are taken", a)
		}
	}
}

// A request is repeated while there is patience, no sooner than the members ask
// for, and no longer.
func TestPatience(t *testing.T) {
	for _, c := range []struct {
		patience, retry time.Duration
		good            int // the request that is answered, 0 for none
		requests        int
		took            time.Duration
	}{
		{0, 0, 0, 2, 0},
		{time.Second, 0, 0, 6, time.Second},
		{10 * time.Second, 3 * time.Second, 0, 8, 9 * time.Second},
		{10 * time.Second, 3 * time.Second, 3, 3, 3 * time.Second},
		{time.Second, 0, 2, 2, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			requests := 0
			client := with(t, Options{Patience: c.patience}, func(r *http.Request) (*http.Response, error) {
				requests++
				switch {
				case requests == c.good:
					return answer(200, `{"key":"23","row":{},"complete":true}`), nil
				case r.URL.Host == "a:1":
					return nil, errors.New("connection refused")
				}
				return answer(503, `{"type":"moving","detail":"it moves"}`, "Retry-After", fmt.Sprint(int(c.retry.Seconds()))), nil
			})
			began := time.Now()
			_, err := client.Get(t.Context(), Key{"23"}, Read{})
			if took := time.Since(began); requests != c.requests || took != c.took || (err == nil) != (c.good > 0) {
				t.Errorf("%+v: %d requests in %v, %v", c, requests, took, err)
			}
			if err != nil && !errors.Is(err, ErrMoving) {
				t.Errorf("the refusal of one member hides what the other says: %v", err)
			}
		})
	}
}

// What is no answer of a service is an error that shows it.
func TestAnswersOfOthers(t *testing.T) {
	for body, status := range map[string]int{"<html>Not here</html>": 404, "{}": 404, "no gateway": 502, "": 500, `{"rows":7}`: 200, "text": 200} {
		var requests atomic.Int32
		c := with(t, Options{}, func(*http.Request) (*http.Response, error) {
			requests.Add(1)
			return answer(status, body), nil
		})
		_, err := c.Batch(t.Context(), []Key{{"23"}}, Read{})
		if err == nil || errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "http://") {
			t.Errorf("%d %s: %v", status, body, err)
		}
		if n := requests.Load(); (n == 2) != (status == 502) {
			t.Errorf("%d %s: %d requests", status, body, n)
		}
	}
	c := with(t, Options{}, func(*http.Request) (*http.Response, error) {
		return answer(200, `{"rows":[null],"complete":true}`), nil
	})
	if _, err := c.Batch(t.Context(), []Key{{"1"}, {"2"}}, Read{}); err == nil {
		t.Error("one row for two keys is taken")
	}
}

// A connection that says nothing for long is given up, and taken up anew.
func TestWatchGivesUpSilence(t *testing.T) {
	var connections atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := connections.Add(1)
		if n == 2 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, "event: row\ndata: {\"key\":\"23\",\"row\":{\"n\":%d},\"complete\":true}\n\n: a comment\n\n", (n+1)/2)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	defer server.Close()
	c, err := New([]string{server.URL, server.URL}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.silence = 50 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var seen []string
	for row, err := range c.Watch(ctx, Key{"23"}, Read{}) {
		if err != nil {
			t.Fatal(err)
		}
		if seen = append(seen, string(row.Results)); len(seen) == 2 {
			break
		}
	}
	if fmt.Sprint(seen) != `[{"n":1} {"n":2}]` {
		t.Errorf("saw %v", seen)
	}
}

func TestWatchRefusesGarbage(t *testing.T) {
	c := with(t, Options{}, func(*http.Request) (*http.Response, error) { return answer(200, "data: {\n\n"), nil })
	for _, err := range c.Watch(t.Context(), Key{"23"}, Read{}) {
		if err == nil || !strings.Contains(err.Error(), "read an event of http://a:1") {
			t.Errorf("got %v", err)
		}
	}
}

// Numbers keep their digits, whichever form they have.
func TestN05NumbersKeepTheirDigits(t *testing.T) {
	var v struct{ A, B, C, D Number }
	if err := json.Unmarshal([]byte(`{"a":9007199254740993,"b":"12345678901234567890.12","c":null}`), &v); err != nil {
		t.Fatal(err)
	}
	if v.A != "9007199254740993" || v.B != "12345678901234567890.12" || v.C != "" {
		t.Errorf("got %+v", v)
	}
	if n, err := v.A.Int64(); err != nil || n != 9007199254740993 {
		t.Errorf("%v: %d", err, n)
	}
	if r, ok := v.B.Rat(); !ok || r.FloatString(2) != v.B.String() {
		t.Errorf("%v", r)
	}
	if _, ok := v.C.Rat(); ok {
		t.Error("null is a number")
	}
	if out, err := json.Marshal(v); err != nil || string(out) != `{"A":9007199254740993,"B":12345678901234567890.12,"C":null,"D":null}` {
		t.Errorf("%v: %s", err, out)
	}
	if err := json.Unmarshal([]byte(`{"a":"x"}`), &v); err == nil {
		t.Error("a text is a number")
	}
}
