package api

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tidemark/aggregator"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// member is one member of a service under test.
type member struct {
	t       testing.TB
	id      string
	program *aggregator.Program
	reader  *fakeReader
	group   *fakeGroup
	server  *Server
	http    *httptest.Server
	spec    *spec
	token   string // shown with each request, where set
}

// alone is a server without a listener, for bubbles: its one member owns the one
// partition. The caller closes it.
func alone(t *testing.T) (*Server, *fakeReader) {
	t.Helper()
	program := compile(t, salesQuery)
	reader := newReader(t, program)
	reader.own(0, 1)
	group := &fakeGroup{view: View{Member: "a", Assigned: true, Partitions: 1, Members: []Member{{ID: "a", Partitions: []int32{0}}}}}
	s, err := New(program, reader, group, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s, reader
}

// service starts members that own partitions round robin. Partition p is with
// member p % members.
func service(t testing.TB, sql string, partitions int32, members int, opts Options) []*member {
	t.Helper()
	program := compile(t, sql)
	spec := loadSpec(t)
	var all []*member
	view := View{Group: "tidemark-sales", Generation: 3, Assigned: true, Partitions: partitions}
	for i := range members {
		m := &member{t: t, id: fmt.Sprintf("member-%d", i), program: program, spec: spec, group: &fakeGroup{}}
		m.reader = newReader(t, program)
		server, err := New(program, m.reader, m.group, opts)
		if err != nil {
			t.Fatal(err)
		}
		m.server = server
		m.http = httptest.NewUnstartedServer(server)
		m.http.Config = HTTPServer(server, server.log)
		m.http.Start()
		t.Cleanup(func() {
			m.server.Drain()
			m.http.Close()
			m.server.Close()
		})
		if len(opts.Tokens) > 0 {
			m.token = opts.Tokens[0]
		}
		all = append(all, m)
		view.Members = append(view.Members, Member{ID: m.id, Address: m.http.URL})
	}
	for p := range partitions {
		i := int(p) % members
		view.Members[i].Partitions = append(view.Members[i].Partitions, p)
		all[i].reader.own(p, partitions)
	}
	for _, m := range all {
		m.group.set(func(v *View) {
			*v = view
			v.Member = m.id
		})
	}
	return all
}

// one is a service of one member.
func one(t testing.TB, sql string, partitions int32, opts Options) *member {
	t.Helper()
	return service(t, sql, partitions, 1, opts)[0]
}

// of is the member that owns a partition.
func of(members []*member, partition int32) *member { return members[int(partition)%len(members)] }

// answerSeen is an answer as a client sees it.
type answerSeen struct {
	code   int
	header http.Header
	body   string
	closes bool // the server closes the connection
}

// problem is the answer as a problem of a type.
func (a *answerSeen) problem(t testing.TB, code int, typ string) problem {
	t.Helper()
	var p problem
	if err := json.Unmarshal([]byte(a.body), &p); err != nil {
		t.Fatalf("status %d is no problem: %v: %s", a.code, err, a.body)
	}
	if a.code != code || p.Type != typ || p.Status != code || p.Title == "" || a.header.Get("Content-Type") != "application/problem+json" {
		t.Fatalf("got status %d: %s, want %d %s", a.code, a.body, code, typ)
	}
	if retry := a.header.Get("Retry-After"); (code == 503) != (retry != "") {
		t.Errorf("%s: Retry-After is %q", typ, retry)
	}
	return p
}

// rowSeen is a row as a client sees it.
type rowSeen struct {
	Key       json.RawMessage  `json:"key"`
	Row       json.RawMessage  `json:"row"`
	Capped    []string         `json:"capped"`
	Positions map[string]int64 `json:"positions"`
	Complete  bool             `json:"complete"`
}

type pageSeen struct {
	Rows       []*rowSeen `json:"rows"`
	NextCursor *string    `json:"next_cursor"`
	Complete   bool       `json:"complete"`
}

func (a *answerSeen) page(t testing.TB) (p pageSeen) {
	t.Helper()
	if a.code != 200 {
		t.Fatalf("status %d: %s", a.code, a.body)
	}
	if err := json.Unmarshal([]byte(a.body), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *pageSeen) keys() (keys []string) {
	for _, r := range p.Rows {
		key := string(r.Key)
		if text, err := strconv.Unquote(key); err == nil {
			key = text
		}
		keys = append(keys, key)
	}
	return keys
}

func (m *member) request(method, path string, body string, header ...string) *http.Request {
	m.t.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(m.t.Context(), method, m.http.URL+path, r)
	if err != nil {
		m.t.Fatal(err)
	}
	if m.token != "" {
		req.Header.Set("Authorization", "Bearer "+m.token)
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i+1] == "" {
			req.Header.Del(header[i])
			continue
		}
		req.Header.Set(header[i], header[i+1])
	}
	return req
}

// do sends a request and reads the whole answer.
func (m *member) do(method, path, body string, header ...string) *answerSeen {
	m.t.Helper()
	resp, err := m.http.Client().Do(m.request(method, path, body, header...))
	if err != nil {
		m.t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		m.t.Fatal(err)
	}
	a := &answerSeen{resp.StatusCode, resp.Header, string(got), resp.Close}
	m.checked(method, path, a)
	return a
}

// checked holds every answer against the document.
func (m *member) checked(method, path string, a *answerSeen) {
	m.t.Helper()
	path, _, _ = strings.Cut(path, "?")
	if rest, ok := strings.CutPrefix(path, "/v1/aggregates/"); ok {
		path = "/v1/aggregates/{key}"
		if strings.HasSuffix(rest, "/watch") {
			path += "/watch"
		}
	}
	paths := m.spec.root["paths"].(map[string]any)
	item, ok := paths[path].(map[string]any)
	if !ok || item[strings.ToLower(method)] == nil {
		return // an unknown route or method is no part of the document
	}
	if err := m.spec.check(method, path, a); err != nil {
		m.t.Error(err)
	}
}

func (m *member) get(path string, header ...string) *answerSeen {
	m.t.Helper()
	return m.do(http.MethodGet, path, "", header...)
}

// eventually waits until a condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			t.Fatalf("never: %s", what)
		case <-tick.C:
		}
	}
}

// events reads server-sent events: the data of each, and comments with a colon
// before them. It is closed at the end of the stream.
func (m *member) events(path string) (<-chan string, *http.Response) {
	m.t.Helper()
	resp, err := m.http.Client().Do(m.request(http.MethodGet, path, ""))
	if err != nil {
		m.t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		m.t.Fatalf("a watch answers %s %v", resp.Status, resp.Header)
	}
	out := make(chan string, 1000)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(out)
		lines := bufio.NewScanner(resp.Body)
		lines.Buffer(nil, 1<<20)
		named := false
		for lines.Scan() {
			switch line := lines.Text(); {
			case line == "event: row":
				named = true
			case strings.HasPrefix(line, ":"):
				out <- line
			case strings.HasPrefix(line, "data: ") && named:
				out <- strings.TrimPrefix(line, "data: ")
				named = false
			case line != "":
				out <- "unexpected: " + line
			}
		}
	}()
	m.t.Cleanup(func() {
		resp.Body.Close()
		<-done
	})
	return out, resp
}

// next is the next event.
func next(t testing.TB, events <-chan string) string {
	t.Helper()
	timer := time.NewTimer(20 * time.Second)
	defer timer.Stop()
	select {
	case e, ok := <-events:
		if !ok {
			t.Fatal("the stream has ended")
		}
		return e
	case <-timer.C:
		t.Fatal("no event came")
		return ""
	}
}

// sale is one event.
func sale(user string, revenue string) string {
	return fmt.Sprintf(`{"userId":%s,"saleTimestamp":"2015-07-29T09:17:12Z","totalRevenue":%s,"totalPoints":1,"productList":[47]}`, user, revenue)
}
