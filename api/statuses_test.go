package api

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"tidemark/aggregator"
)

// brokenGroup has a mistake in it.
type brokenGroup struct{}

func (brokenGroup) View() View { panic("a mistake") }

// brokenReader too.
type brokenReader struct{ Reader }

func (brokenReader) BadSamples() []aggregator.BadSample { panic("a mistake") }

// brokenSnapshots too.
type brokenSnapshots struct{}

func (brokenSnapshots) List(context.Context) ([]Snapshot, error)    { panic("a mistake") }
func (brokenSnapshots) Publish(context.Context) ([]Snapshot, error) { panic("a mistake") }

// fails is a function of the type of another that fails.
func fails[T any](func() (T, error)) func() (T, error) {
	return func() (none T, err error) { return none, errors.New("two series are one") }
}

// Each status that the document has of a route is reached, and has the form
// that the document gives it; an answer that it does not have fails every test.
func TestEveryStatusOfTheDocumentIsReached(t *testing.T) {
	const batch = `{"keys":["23"]}`
	fine := one(t, salesQuery, 1, Options{Snapshots: &fakeSnapshots{}})
	fine.reader.fold(0, sale("23", "1"))
	locked := one(t, salesQuery, 1, Options{Tokens: []string{"secret"}})
	locked.token = ""
	drained := one(t, salesQuery, 1, Options{})
	drained.server.Drain()
	broken := one(t, salesQuery, 1, Options{Snapshots: brokenSnapshots{}, Gatherer: prometheus.GathererFunc(fails(prometheus.NewRegistry().Gather))})
	damaged := func(context.Context, int32) error { return errors.New("the disk has holes") }
	broken.reader.setHook(&broken.reader.getting, damaged)
	broken.reader.setHook(&broken.reader.scanning, damaged)
	mistaken := one(t, salesQuery, 1, Options{})
	mistaken.server.group = brokenGroup{}
	mistaken.server.reader = brokenReader{mistaken.server.reader}

	reached := map[string]bool{}
	try := func(m *member, code int, method, route, query, body string) {
		t.Helper()
		a := m.do(method, strings.ReplaceAll(route, "{key}", "23")+query, body)
		if a.code != code {
			t.Errorf("%s %s%s answers %d, want %d: %s", method, route, query, a.code, code, a.body)
		}
		reached[fmt.Sprintf("%s %s %d", method, route, code)] = true
	}
	const list, row, watch, many = "/v1/aggregates", "/v1/aggregates/{key}", "/v1/aggregates/{key}/watch", "/v1/aggregates:batchGet"
	for _, c := range []struct{ method, route, body string }{
		{"GET", list, ""}, {"GET", row, ""}, {"POST", many, batch}, {"GET", "/v1/status", ""}, {"GET", "/v1/bad-records", ""},
		{"GET", "/v1/snapshots", ""}, {"POST", "/v1/snapshots", ""},
	} {
		try(fine, 200, c.method, c.route, "", c.body)
		try(fine, 400, c.method, c.route, "?none=1", c.body)
		try(locked, 401, c.method, c.route, "", c.body)
		try(drained, 503, c.method, c.route, "", c.body)
		if c.route == "/v1/status" || c.route == "/v1/bad-records" {
			try(mistaken, 500, c.method, c.route, "", c.body)
			continue
		}
		try(broken, 500, c.method, c.route, "", c.body)
	}
	try(fine, 400, "GET", watch, "?none=1", "")
	try(locked, 401, "GET", watch, "", "")
	try(drained, 503, "GET", watch, "", "")
	try(broken, 500, "GET", watch, "", "")
	fine.events("/v1/aggregates/23/watch") // fails where it is not 200
	reached["GET "+watch+" 200"] = true

	a := fine.get("/v1/aggregates/none")
	a.problem(t, 404, typeNotFound)
	reached["GET "+row+" 404"] = true
	for _, c := range []struct{ method, route, body string }{{"GET", row, ""}, {"POST", many, batch}} {
		try(fine, 504, c.method, c.route, "?min_offset=0:99&timeout=1ms", c.body)
	}
	try(fine, 413, "POST", many, "", `{"keys":["`+strings.Repeat("x", maxBody)+`"]}`)

	try(fine, 200, "GET", "/metrics", "", "")
	try(locked, 401, "GET", "/metrics", "", "")
	try(broken, 500, "GET", "/metrics", "", "")
	for _, open := range []string{"/", "/openapi.json"} {
		try(locked, 200, "GET", open, "", "")
		try(drained, 503, "GET", open, "", "")
	}
	again := fine.get("/", "If-None-Match", fine.get("/").header.Get("ETag"))
	reached[fmt.Sprintf("GET / %d", again.code)] = true
	try(drained, 200, "GET", "/healthz", "", "")
	try(fine, 200, "GET", "/readyz", "", "")
	try(drained, 503, "GET", "/readyz", "", "")

	for route, item := range fine.spec.root["paths"].(map[string]any) {
		for method, op := range item.(map[string]any) {
			for code := range op.(map[string]any)["responses"].(map[string]any) {
				if name := strings.ToUpper(method) + " " + route + " " + code; !reached[name] {
					t.Errorf("nothing reaches %s", name)
				}
			}
		}
	}
}
