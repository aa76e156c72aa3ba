//go:build integration

package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// example reads a file of the example of the README.
func example(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile(examplePath(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func examplePath(t testing.TB, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "testdata", "example", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// exampleQuery is a query of the example, on another topic.
func exampleQuery(t testing.TB, name, topic string) string {
	return strings.Replace(strings.TrimSpace(example(t, name)), "from sales", `from "`+topic+`"`, 1)
}

func lines(text string) []string {
	return strings.Split(strings.TrimSpace(text), "\n")
}

// The history and the sales of the example give its rows, whichever form the
// history has and whether the sales come before or after the service.
func TestExample(t *testing.T) {
	var want map[string]map[string]any
	if err := decode([]byte(example(t, "expected.json")), &want); err != nil {
		t.Fatal(err)
	}
	products := strings.Replace(example(t, "query-products.sql"), "FROM sales", "from sales", 1)
	for name, c := range map[string]struct {
		query   string
		history string
		early   bool
	}{
		"as pasted":            {query: example(t, "query.sql"), history: "history.ndjson"},
		"sales before service": {query: products, history: "history.ndjson", early: true},
		"elasticdump":          {query: products, history: "history-elasticdump.ndjson"},
	} {
		t.Run(name, func(t *testing.T) {
			topic := newTopic(t, 4)
			sales := func() {
				for i, line := range lines(example(t, "events.ndjson")) {
					produce(t, topic, int32(i%4), line)
				}
			}
			if c.early {
				sales()
			}
			s := serve(t, settings{
				query: strings.Replace(c.query, "from sales", `from "`+topic+`"`, 1),
				rest:  history(examplePath(t, c.history)),
			})
			if !c.early {
				s.want("23", `{"totalRevenue":12.05,"totalPoints":91,"latestSaleTimestamp":"2015-07-22T10:03:00.000Z"}`)
				sales()
			}
			s.caughtUp(topic)
			rows, err := s.rows()
			if err != nil {
				t.Fatal(err)
			}
			if len(rows) != len(want) {
				t.Errorf("%d rows, want %d", len(rows), len(want))
			}
			for key, columns := range want {
				for column, v := range columns {
					g, selected := rows[key][column]
					if !selected && (column == "productList" || column == "sales") && name == "as pasted" {
						continue
					}
					if text(g) != text(v) {
						t.Errorf("key %s: %s is %s, want %s", key, column, text(g), text(v))
					}
				}
			}
			st, err := s.status()
			if err != nil {
				t.Fatal(err)
			}
			if st.History == nil || st.History.Documents != 2 || !st.History.Complete {
				t.Errorf("status: history is %+v, want 2 documents, complete", st.History)
			}

			// The history is in once: a restart reads no document again.
			s.stop()
			s.start()
			s.ready()
			s.want("23", `{"totalRevenue":267.64,"totalPoints":299}`)
			s.want("24", `{"totalRevenue":233.14,"totalPoints":237}`)
		})
	}
}

// history is the section for a file, the stream taking over at the log start.
func history(file string) string {
	return "history:\n  file: " + file + "\n  cut: {mode: earliest}"
}

// The command line answers as HTTP does.
func TestGetPrintsTheAnswer(t *testing.T) {
	topic := newTopic(t, 1)
	produce(t, topic, 0, lines(example(t, "events.ndjson"))...)
	s := serve(t, settings{query: exampleQuery(t, "query.sql", topic)})
	s.caughtUp(topic)
	code, out, errs := command(t, "get", "24", "--server", s.url)
	if code != 0 || !strings.Contains(out, `"totalRevenue":226.09`) {
		t.Errorf("get 24: exit %d, printed %q %q, want the row with 226.09", code, out, errs)
	}
	if code, _, errs := command(t, "get", "25", "--server", s.url); code != 1 || errs == "" {
		t.Errorf("get of an absent key: exit %d, printed %q, want 1 and a sentence", code, errs)
	}
	s.stop()
	code, out, errs = command(t, "inspect", s.dir)
	if code != 0 || !strings.Contains(out, topic) {
		t.Errorf("inspect: exit %d, printed %q %q, want the topic's position", code, out, errs)
	}
}
