package api

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tidemark/aggregator"
)

func TestTokens(t *testing.T) {
	m := one(t, salesQuery, 1, Options{Tokens: []string{"first", "second"}})
	m.reader.fold(0, sale("23", "1"))
	for _, path := range []string{"/healthz", "/readyz", "/", "/openapi.json"} {
		if got := m.get(path, "Authorization", ""); got.code != 200 {
			t.Errorf("%s: got %d without a token", path, got.code)
		}
	}
	for _, path := range []string{
		"/v1/status", "/v1/aggregates", "/v1/aggregates/23", "/v1/aggregates/23/watch", "/v1/snapshots", "/v1/bad-records", "/metrics", "/none",
		"/healthz/x", "/v1/aggregates/../../healthz", internalRead,
	} {
		for _, header := range []string{"", "Bearer", "Bearer ", "Bearer third", "Bearer firs", "Bearer firstt", "Basic first", "first"} {
			got := m.get(path, "Authorization", header)
			got.problem(t, 401, typeUnauthorized)
			if !strings.HasPrefix(got.header.Get("WWW-Authenticate"), "Bearer ") {
				t.Errorf("WWW-Authenticate is %q", got.header.Get("WWW-Authenticate"))
			}
		}
	}
	m.do("POST", "/v1/aggregates:batchGet", `{"keys":[]}`, "Authorization", "Bearer third").problem(t, 401, typeUnauthorized)
	m.do("POST", "/v1/snapshots", "", "Authorization", "").problem(t, 401, typeUnauthorized)
	for _, header := range []string{"Bearer first", "Bearer second", "bearer  second "} {
		if got := m.get("/v1/aggregates/23", "Authorization", header); got.code != 200 {
			t.Errorf("%q: got %d", header, got.code)
		}
	}
	m.do("POST", internalRead, `{}`, "Authorization", "Bearer second").problem(t, 401, typeUnauthorized) // the first alone
	if got := m.do("POST", internalRead, `{}`, definitionHeader, m.server.fingerprint); got.code != 200 {
		t.Errorf("got %d: %s", got.code, got.body)
	}
}

func TestQ09Origins(t *testing.T) {
	const dash = "https://dash.example"
	preflight := []string{"Access-Control-Request-Method", "GET", "Access-Control-Request-Headers", "authorization", "Authorization", "", "Origin"}
	listed := one(t, salesQuery, 1, Options{Tokens: []string{"t"}, CORSOrigins: []string{dash}})
	got := listed.do("OPTIONS", "/v1/aggregates/23", "", append(preflight, dash)...)
	if got.code != 204 || got.header.Get("Access-Control-Allow-Origin") != dash || got.header.Get("Access-Control-Allow-Methods") != "GET, HEAD" ||
		!strings.Contains(got.header.Get("Access-Control-Allow-Headers"), "Authorization") || got.header.Get("Vary") != "Origin" {
		t.Errorf("got %d %v", got.code, got.header)
	}
	if got := listed.do("OPTIONS", "/v1/aggregates:batchGet", "", append(preflight, dash)...); got.header.Get("Access-Control-Allow-Methods") != "POST" {
		t.Errorf("got %d %v", got.code, got.header)
	}
	if got := listed.get("/v1/aggregates/23", "Origin", dash); got.code != 404 || got.header.Get("Access-Control-Allow-Origin") != dash {
		t.Errorf("got %d %v", got.code, got.header)
	}
	if got := listed.get("/v1/aggregates/23", "Origin", dash, "Authorization", ""); got.code != 401 || got.header.Get("Access-Control-Allow-Origin") != dash {
		t.Errorf("a page cannot see that it lacks a token: %d %v", got.code, got.header)
	}
	for _, origin := range []string{"https://dash.example.evil", "http://dash.example", "https://dash.example:444", "null"} {
		got := listed.do("OPTIONS", "/v1/aggregates/23", "", append(preflight, origin)...)
		got.problem(t, 401, typeUnauthorized)
		if got.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s is let in", origin)
		}
		if got := listed.get("/v1/aggregates/23", "Origin", origin); got.code != 404 || got.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("got %d %v", got.code, got.header)
		}
	}
	all := one(t, salesQuery, 1, Options{CORSOrigins: []string{"*"}})
	if got := all.get("/healthz", "Origin", dash); got.header.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("got %v", got.header)
	}
	off := one(t, salesQuery, 1, Options{})
	got = off.do("OPTIONS", "/v1/aggregates/23", "", append(preflight, dash)...)
	got.problem(t, 405, typeMethodNotAllowed)
	if got.header.Get("Access-Control-Allow-Origin") != "" {
		t.Error("origins are let in by default")
	}
}

func TestRoutesAndMethods(t *testing.T) {
	m := one(t, salesQuery, 1, Options{})
	m.reader.fold(0, sale("23", "1"))
	for _, path := range []string{"/none", "/v1", "/v1/", "/v1/aggregate", "/v1/aggregates:batchget", "/internal/v1/none", "/healthz/"} {
		m.get(path).problem(t, 404, typeUnknownRoute)
		m.do("POST", path, "x").problem(t, 404, typeUnknownRoute)
	}
	for path, allow := range map[string]string{
		"/": "GET, HEAD", "/healthz": "GET, HEAD", "/readyz": "GET, HEAD", "/metrics": "GET, HEAD", "/openapi.json": "GET, HEAD",
		"/v1/status": "GET, HEAD", "/v1/aggregates": "GET, HEAD", "/v1/aggregates/23": "GET, HEAD", "/v1/aggregates/23/watch": "GET, HEAD",
		"/v1/bad-records": "GET, HEAD", "/v1/snapshots": "GET, HEAD, POST", "/v1/aggregates:batchGet": "POST",
	} {
		got := m.do("DELETE", path, "")
		got.problem(t, 405, typeMethodNotAllowed)
		if got.header.Get("Allow") != allow {
			t.Errorf("%s allows %q, want %q", path, got.header.Get("Allow"), allow)
		}
		if strings.HasPrefix(allow, "GET") && !strings.HasSuffix(path, "/watch") {
			head, get := m.do("HEAD", path, ""), m.get(path)
			if head.code != get.code || head.body != "" || head.header.Get("Content-Type") != get.header.Get("Content-Type") {
				t.Errorf("HEAD %s gives %d %q", path, head.code, head.body)
			}
		}
	}
	if got := m.do("HEAD", "/v1/aggregates/none", ""); got.code != 404 {
		t.Errorf("got %d", got.code)
	}
	if got := m.get("/"); !strings.Contains(got.body, "<title>Tidemark</title>") || got.header.Get("Content-Security-Policy") == "" {
		t.Errorf("the page is %v", got.header)
	}
}

func TestQ11Draining(t *testing.T) {
	members := service(t, salesQuery, 1, 2, Options{})
	m := members[0]
	m.reader.fold(0, sale("23", "1"))
	// One request is in hand when the drain begins, one waits, two watch.
	inHand := make(chan *answerSeen)
	release := make(chan struct{})
	entered := make(chan struct{})
	var once atomic.Bool
	m.reader.setHook(&m.reader.getting, func(context.Context, int32) error {
		if once.CompareAndSwap(false, true) {
			close(entered)
			<-release
		}
		return nil
	})
	go func() { inHand <- m.get("/v1/aggregates/23") }()
	<-entered
	waiting := make(chan *answerSeen)
	go func() { waiting <- m.get("/v1/aggregates/23?min_offset=0:9&timeout=10s") }()
	eventually(t, "a request waits", func() bool { return m.reader.watched(0) })
	events, _ := m.events("/v1/aggregates/23/watch")
	next(t, events)
	remote, _ := members[1].events("/v1/aggregates/23/watch")
	next(t, remote)
	m.server.Drain()
	m.server.Drain()
	for range events { // ends
	}
	(<-waiting).problem(t, 503, typeMoving)
	for _, path := range []string{"/v1/aggregates/23", "/v1/aggregates", "/v1/aggregates/23/watch", "/v1/status", "/"} {
		got := m.get(path)
		got.problem(t, 503, typeMoving)
		if !got.closes {
			t.Errorf("%s: the connection stays: %v", path, got.header)
		}
	}
	if got := m.get("/healthz"); got.code != 200 {
		t.Errorf("got %d", got.code)
	}
	if got := m.get("/readyz"); got.code != 503 || !strings.Contains(got.body, "shutting down") {
		t.Errorf("got %d: %s", got.code, got.body)
	}
	members[1].get("/v1/aggregates/23").problem(t, 503, typeMoving)
	close(release)
	if got := <-inHand; got.code != 200 {
		t.Errorf("the request in hand got %d: %s", got.code, got.body)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := m.http.Config.Shutdown(ctx); err != nil {
		t.Errorf("requests go on: %v", err)
	}
}

func TestPanicsAndErrorsStayInside(t *testing.T) {
	var log bytes.Buffer
	m := one(t, salesQuery, 1, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	m.reader.setHook(&m.reader.getting, func(context.Context, int32) error { panic("a secret") })
	p := m.get("/v1/aggregates/23").problem(t, 500, typeInternal)
	m.reader.setHook(&m.reader.getting, func(context.Context, int32) error { return io.ErrUnexpectedEOF })
	q := m.get("/v1/aggregates/23").problem(t, 500, typeInternal)
	if strings.Contains(p.Detail+q.Detail, "secret") || strings.Contains(p.Detail+q.Detail, "EOF") {
		t.Errorf("details say %q, %q", p.Detail, q.Detail)
	}
	m.reader.setHook(&m.reader.getting, func(context.Context, int32) error { return aggregator.ErrNotOwned })
	m.get("/v1/aggregates/23").problem(t, 503, typeMoving)
	m.http.Close()
	if !strings.Contains(log.String(), "a secret") || !strings.Contains(log.String(), "unexpected EOF") {
		t.Errorf("the log says %s", log.String())
	}
}

// A client that does not send its request, or not to the end, loses its
// connection; the server answers others meanwhile.
func TestSlowClientsPinNothing(t *testing.T) {
	m := one(t, salesQuery, 1, Options{})
	h := HTTPServer(m.server, slog.New(slog.DiscardHandler))
	if h.ReadHeaderTimeout == 0 || h.WriteTimeout == 0 || h.IdleTimeout == 0 || h.MaxHeaderBytes == 0 {
		t.Errorf("a timeout is missing: %+v", h)
	}
	h.ReadHeaderTimeout = 50 * time.Millisecond
	server := httptest.NewUnstartedServer(m.server)
	server.Config = h
	server.Start()
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nX-Slow: "); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(conn); err != nil {
		t.Errorf("the connection stays open: %v", err)
	}
}

func TestOptionsSayAllThatIsWrong(t *testing.T) {
	_, err := New(compile(t, salesQuery), nil, nil, Options{
		Tokens: []string{""}, CORSOrigins: []string{"dash.example", "https://dash.example/", "https://ok.example"}, MaxBadShare: 2, MaxWatches: -1,
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"token", `"dash.example"`, `"https://dash.example/"`, "bad share", "watches"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
}

var _ http.Handler = (*Server)(nil)
