//go:build integration

package integration

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Every request of docs/api.md is answered as it says, and every route, status
// and parameter of the interface's document is on the page.
func TestAPIPage(t *testing.T) {
	topic := newTopic(t, 4)
	cl := kafka(t, kgo.DefaultProduceTopic(topic))
	for _, line := range lines(example(t, "events.ndjson")) {
		var sale struct{ UserID json.Number }
		if err := json.Unmarshal([]byte(line), &sale); err != nil {
			t.Fatal(err)
		}
		if err := cl.ProduceSync(within(t), &kgo.Record{Key: []byte(sale.UserID), Value: []byte(line)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	s := serve(t, settings{query: strings.Replace(exampleQuery(t, "query-products.sql", topic), "FROM sales", `FROM "`+topic+`"`, 1), rest: history(examplePath(t, "history.ndjson"))})
	s.caughtUp(topic)
	w := &walk{
		t: t, file: filepath.Join("..", "docs", "api.md"), dir: t.TempDir(), env: os.Environ(), base: s.url,
		replace: []string{"localhost:8080", strings.TrimPrefix(s.url, "http://")},
		shown:   []string{topic, "sales", s.group, "tidemark-sales"},
	}
	w.run()

	page, err := os.ReadFile(w.file)
	if err != nil {
		t.Fatal(err)
	}
	_, body, err := s.get("/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Paths map[string]map[string]struct {
			Parameters []struct {
				Ref string `json:"$ref"`
			}
			Responses map[string]any
		}
	}
	if err := json.Unmarshal(body, &document); err != nil {
		t.Fatal(err)
	}
	for route, methods := range document.Paths {
		for method, op := range methods {
			name := strings.ToUpper(method) + " " + route
			row := regexp.MustCompile(`(?m)^\| \[` + regexp.QuoteMeta("`"+name+"`") + `\].*\| ([0-9 ]+) \|$`).FindSubmatch(page)
			if row == nil {
				t.Errorf("the page has no row for %s", name)
				continue
			}
			var codes []string
			for code := range op.Responses {
				codes = append(codes, code)
			}
			slices.Sort(codes)
			if got := strings.Join(codes, " "); got != string(row[1]) {
				t.Errorf("%s answers %s, the page says %s", name, got, row[1])
			}
			for _, p := range op.Parameters {
				parameter := p.Ref[strings.LastIndex(p.Ref, "/")+1:]
				if parameter != "key" && !regexp.MustCompile("`"+parameter+"[=`]").Match(page) {
					t.Errorf("the page says nothing of the parameter %s", parameter)
				}
			}
			requested := regexp.MustCompile(`(?m)^\$ .*localhost:8080` + strings.ReplaceAll(regexp.QuoteMeta(route), `\{key\}`, "[0-9]+") + `['?\s]`)
			if !requested.Match(append(page, '\n')) {
				t.Errorf("the page has no request to %s", name)
			}
		}
	}
}
