package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tidemark/aggregator"
	"tidemark/client"
)

// noted keeps the requests that a client sends.
type noted struct {
	mu     sync.Mutex
	routes map[string]map[string]bool // parameters by method and path
}

func (a *noted) RoundTrip(r *http.Request) (*http.Response, error) {
	a.mu.Lock()
	route := r.Method + " " + r.URL.Path
	if a.routes[route] == nil {
		a.routes[route] = map[string]bool{}
	}
	for name := range r.URL.Query() {
		a.routes[route][name] = true
	}
	a.mu.Unlock()
	return http.DefaultTransport.RoundTrip(r)
}

// clientOf is a client of some members.
func clientOf(t *testing.T, opts client.Options, members ...*member) *client.Client {
	t.Helper()
	var addresses []string
	for _, m := range members {
		addresses = append(addresses, m.http.URL)
		opts.Token = m.token
	}
	c, err := client.New(addresses, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// left are the routes and parameters that the Go client leaves to others.
var left = map[string]string{
	"GET /":             "for people",
	"GET /healthz":      "for probes",
	"GET /readyz":       "for probes",
	"GET /metrics":      "for Prometheus",
	"GET /openapi.json": "for generators of clients",
	"numbers":           "its numbers keep their digits as they come",
}

// The Go client asks for every route of the document with every parameter, or
// it is said here why not.
func TestClientKnowsEveryRoute(t *testing.T) {
	m := one(t, salesQuery, 1, Options{Snapshots: &fakeSnapshots{}})
	m.reader.fold(0, sale(`"k"`, "1"), sale(`"l"`, "2"))
	transport := &noted{routes: map[string]map[string]bool{}}
	c := clientOf(t, client.Options{HTTP: &http.Client{Transport: transport}}, m)
	t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)
	ctx := t.Context()
	some := client.Read{Partial: true, Local: true}
	waiting := some
	waiting.MinOffset, waiting.Timeout = client.Positions{0: 1}, time.Second
	_, errs := c.Get(ctx, client.Key{"k"}, waiting)
	_, err := c.Batch(ctx, []client.Key{{"k"}}, waiting)
	errs = errors.Join(errs, err)
	for _, err := range c.List(ctx, client.Listing{PageSize: 1, Read: some}) {
		errs = errors.Join(errs, err)
	}
	for _, err := range c.List(ctx, client.Listing{Prefix: "k"}) {
		errs = errors.Join(errs, err)
	}
	_, err = c.Top(ctx, "-totalRevenue", 1, some)
	errs = errors.Join(errs, err)
	for _, err := range c.Watch(ctx, client.Key{"k"}, some) {
		errs = errors.Join(errs, err)
		break
	}
	_, err = c.Status(ctx)
	errs = errors.Join(errs, err)
	_, err = c.BadRecords(ctx)
	errs = errors.Join(errs, err)
	_, err = c.Snapshots(ctx)
	errs = errors.Join(errs, err)
	_, err = c.Publish(ctx)
	if errs = errors.Join(errs, err); errs != nil {
		t.Fatal(errs)
	}
	for route, item := range m.spec.root["paths"].(map[string]any) {
		for method, op := range item.(map[string]any) {
			name := strings.ToUpper(method) + " " + route
			params, ok := transport.routes[strings.ReplaceAll(name, "{key}", "k")]
			if ok == (left[name] != "") {
				t.Errorf("%s: noted for is %v, left out is %q", name, ok, left[name])
			}
			parameters, _ := op.(map[string]any)["parameters"].([]any)
			for _, p := range parameters {
				name := m.spec.resolve(p)["name"].(string)
				if in := m.spec.resolve(p)["in"]; ok && in == "query" && params[name] == (left[name] != "") {
					t.Errorf("%s: the parameter %s is given %v, left out is %q", route, name, params[name], left[name])
				}
			}
		}
	}
}

// The kinds of errors are the types of problems.
func TestClientKnowsEveryProblem(t *testing.T) {
	kinds := []client.Kind{
		client.ErrNotFound, client.ErrUnknownRoute, client.ErrMethodNotAllowed, client.ErrNotLoaded, client.ErrMoving, client.ErrUnreachable,
		client.ErrTimeout, client.ErrBadRequest, client.ErrUnauthorized, client.ErrTooLarge, client.ErrBusy, client.ErrInternal,
	}
	var names []string
	for _, k := range kinds {
		names = append(names, string(k))
	}
	slices.Sort(names)
	if want := slices.Sorted(maps.Keys(titles)); !slices.Equal(names, want) {
		t.Errorf("the client knows %v, the interface has %v", names, want)
	}
}

// What the client gives is what the service answers, digit by digit.
func TestClientReads(t *testing.T) {
	members := service(t, salesQuery, 4, 2, Options{Tokens: []string{"secret"}})
	for i := range 50 {
		key := fmt.Sprint(i)
		p := placedAt(key, 4)
		of(members, p).reader.fold(p, sale(key, fmt.Sprintf("%d00000000000000000000.0%d", i+1, i%9+1)))
	}
	ctx := t.Context()
	c := clientOf(t, client.Options{}, members...)
	row, err := c.Get(ctx, client.Key{"7"}, client.Read{})
	if err != nil {
		t.Fatal(err)
	}
	var results struct {
		UserID              client.Number `json:"userId"`
		LatestSaleTimestamp time.Time     `json:"latestSaleTimestamp"`
		TotalRevenue        client.Number `json:"totalRevenue"`
		ProductList         []client.Number
	}
	if err := row.Decode(&results); err != nil || results.TotalRevenue != "800000000000000000000.08" || results.UserID != "7" ||
		results.LatestSaleTimestamp.Year() != 2015 || len(results.ProductList) != 1 {
		t.Errorf("%v: %+v", err, results)
	}
	if !row.Found() || !row.Complete || len(row.Positions) == 0 || row.Key[0] != "7" {
		t.Errorf("got %s", row.JSON())
	}
	if body := members[0].get("/v1/aggregates/7").body; string(row.JSON())+"\n" != body {
		t.Errorf("got %s, want %s", row.JSON(), body)
	}
	keys := make([]client.Key, 2300)
	for i := range keys {
		keys[i] = client.Key{fmt.Sprint(i)}
	}
	page, err := c.Batch(ctx, keys, client.Read{})
	if err != nil || len(page.Rows) != len(keys) || !page.Complete || page.Rows[49] == nil || page.Rows[50] != nil {
		t.Fatalf("a batch: %v", err)
	}
	var listed []string
	for row, err := range c.List(ctx, client.Listing{PageSize: 7}) {
		if err != nil {
			t.Fatal(err)
		}
		listed = append(listed, row.Key[0])
	}
	if len(listed) != 50 || !slices.IsSorted(listed) {
		t.Errorf("listed %v", listed)
	}
	if page, err := c.Top(ctx, "-totalRevenue", 3, client.Read{}); err != nil || len(page.Rows) != 3 || page.Rows[0].Key[0] != "49" {
		t.Errorf("the top: %v", err)
	}
	for what, err := range map[string]error{
		"absent":      failed(c.Get(ctx, client.Key{"absent"}, client.Read{})),
		"bad key":     failed(c.Get(ctx, client.Key{"1", "2"}, client.Read{})),
		"empty key":   failed(c.Get(ctx, client.Key{""}, client.Read{})),
		"bad order":   failed(c.Top(ctx, "none", 0, client.Read{})),
		"too far":     failed(c.Get(ctx, client.Key{"7"}, client.Read{MinOffset: client.Positions{placedAt("7", 4): 99}, Timeout: time.Millisecond})),
		"not for top": failed(c.Top(ctx, "totalRevenue", 0, client.Read{MinOffset: client.Positions{0: 1}})),
	} {
		want := map[string]client.Kind{"absent": client.ErrNotFound, "too far": client.ErrTimeout}[what]
		if want == "" {
			want = client.ErrBadRequest
		}
		var e *client.Error
		if !errors.Is(err, want) || errors.Is(err, client.ErrBusy) || errors.As(err, &e) && e.Detail == "" {
			t.Errorf("%s: %v", what, err)
		}
		if what == "too far" && e.Positions[placedAt("7", 4)] == 0 {
			t.Errorf("positions are %v", e.Positions)
		}
	}
	members[0].token = ""
	if _, err := clientOf(t, client.Options{}, members[0]).Status(ctx); !errors.Is(err, client.ErrUnauthorized) {
		t.Errorf("without a token: %v", err)
	}
}

func failed[T any](_ T, err error) error { return err }

// Keys of several columns and of any texts find their rows.
func TestClientKeys(t *testing.T) {
	m := one(t, "SELECT a, b, count(*) AS n FROM t GROUP BY a, b", 1, Options{})
	c := clientOf(t, client.Options{}, m)
	for _, key := range []client.Key{{"eu", "23"}, {"a/b", "c d"}, {"..", "."}, {"x", "watch"}, {"%2F", "ü?#&+"}, {"watch", "watch"}} {
		event, err := json.Marshal(map[string]string{"a": key[0], "b": key[1]})
		if err != nil {
			t.Fatal(err)
		}
		m.reader.fold(0, string(event))
		row, err := c.Get(t.Context(), key, client.Read{})
		if err != nil || !slices.Equal(row.Key, key) {
			t.Errorf("%q: %v", key, err)
			continue
		}
		if page, err := c.Batch(t.Context(), []client.Key{key}, client.Read{}); err != nil || page.Rows[0] == nil {
			t.Errorf("a batch of %q: %v", key, err)
		}
		for row, err := range c.Watch(t.Context(), key, client.Read{}) {
			if err != nil || !row.Found() {
				t.Errorf("a watch of %q: %v", key, err)
			}
			break
		}
	}
}

// Members that are away, drain, or cannot tell, are passed over; what they all
// say is what is told.
func TestClientAsksTheNext(t *testing.T) {
	members := service(t, salesQuery, 1, 3, Options{})
	members[0].reader.fold(0, sale("23", "1"))
	members[2].http.Close()
	members[1].server.Drain()
	c := clientOf(t, client.Options{}, members[2], members[1], members[0])
	for range 3 {
		if _, err := c.Get(t.Context(), client.Key{"23"}, client.Read{}); err != nil {
			t.Error(err)
		}
	}
	members[0].reader.change(0, func(s *aggregator.PartitionStatus) { s.State, s.Answers = aggregator.CatchingUp, false })
	_, err := c.Get(t.Context(), client.Key{"23"}, client.Read{})
	var e *client.Error
	if !errors.As(err, &e) || e.Status != 503 || e.RetryAfter == 0 {
		t.Errorf("got %v", err)
	}
	if row, err := c.Get(t.Context(), client.Key{"23"}, client.Read{Partial: true}); err != nil || row.Complete {
		t.Errorf("a part: %v", err)
	}
	if _, err := clientOf(t, client.Options{}, members[2]).Status(t.Context()); err == nil || errors.As(err, &e) {
		t.Errorf("nobody is there: %v", err)
	}
	patient := clientOf(t, client.Options{Patience: time.Minute}, members[2], members[0])
	done := make(chan error, 1)
	go func() { done <- failed(patient.Get(t.Context(), client.Key{"23"}, client.Read{})) }()
	members[0].reader.change(0, func(s *aggregator.PartitionStatus) { s.State, s.Answers = aggregator.Live, true })
	if err := <-done; err != nil {
		t.Errorf("a patient one: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := patient.Get(ctx, client.Key{"23"}, client.Read{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// A watch goes on with another member when its own ends, and gives no row
// twice.
func TestClientWatchGoesOn(t *testing.T) {
	members := service(t, salesQuery, 1, 3, Options{})
	owner := members[0]
	c := clientOf(t, client.Options{}, members[1], members[2], owner)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var sales []string
	var last error
	for row, err := range c.Watch(ctx, client.Key{"23"}, client.Read{}) {
		if err != nil {
			last = err
			break
		}
		var results struct{ Sales client.Number }
		if err := row.Decode(&results); err != nil {
			t.Fatal(err)
		}
		sales = append(sales, results.Sales.String())
		switch len(sales) {
		case 1:
			owner.reader.fold(0, sale("23", "1"))
		case 2:
			members[1].server.Drain() // the next begins with the row that was seen last
			eventually(t, "the next member watches", func() bool { return owner.reader.watched(0) })
			owner.reader.fold(0, sale("23", "1"))
		case 3:
			cancel()
		}
	}
	if want := []string{"", "1", "2"}; !slices.Equal(sales, want) || !errors.Is(last, context.Canceled) {
		t.Errorf("saw %q and %v, want %q", sales, last, want)
	}
	for _, err := range c.Watch(t.Context(), client.Key{"1", "2"}, client.Read{}) {
		if !errors.Is(err, client.ErrBadRequest) {
			t.Errorf("a bad key: %v", err)
		}
	}
}
