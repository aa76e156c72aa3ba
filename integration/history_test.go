//go:build integration

package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tidemark/internal/testkit/servers"
)

// call sends a request to a search node and returns the body of a 2xx answer.
func call(t *testing.T, method, url, kind, body string) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", kind)
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode/100 != 2 {
		t.Fatalf("%s %s: %s %v %s", method, url, resp.Status, err, answer)
	}
	return answer
}

// index lays documents into a new index of the node, and export reads them all
// back in elasticdump's form, sorted, without any filter on _source: the bytes
// are those that were sent.
func index(t *testing.T, node *servers.Search, name string, documents []string) {
	t.Helper()
	call(t, http.MethodPut, node.URL+"/"+name, "application/json",
		`{"settings":{"number_of_shards":2,"number_of_replicas":0},"mappings":{"properties":{"userId":{"type":"long"}}}}`)
	var bulk strings.Builder
	for i, d := range documents {
		fmt.Fprintf(&bulk, "{\"index\":{\"_id\":\"%d\"}}\n%s\n", i, d)
	}
	answer := call(t, http.MethodPost, node.URL+"/"+name+"/_bulk?refresh=true", "application/x-ndjson", bulk.String())
	if !bytes.Contains(answer, []byte(`"errors":false`)) {
		t.Fatalf("index documents: %s", answer)
	}
}

func export(t *testing.T, node *servers.Search, name string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "history.ndjson")
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	after := ""
	for {
		answer := call(t, http.MethodPost, node.URL+"/"+name+"/_search", "application/json",
			`{"size":500,"sort":[{"userId":"asc"}],"query":{"match_all":{}}`+after+`}`)
		var page struct {
			Hits struct {
				Hits []struct {
					Index  string          `json:"_index"`
					ID     string          `json:"_id"`
					Source json.RawMessage `json:"_source"`
					Sort   json.RawMessage `json:"sort"`
				}
			}
		}
		if err := json.Unmarshal(answer, &page); err != nil {
			t.Fatal(err)
		}
		if len(page.Hits.Hits) == 0 {
			return file
		}
		for _, h := range page.Hits.Hits {
			fmt.Fprintf(out, "{\"_index\":%q,\"_type\":\"_doc\",\"_id\":%q,\"_score\":null,\"_source\":%s}\n", h.Index, h.ID, h.Source)
			after = `,"search_after":` + string(h.Sort)
		}
	}
}

// The history leaves a real search node as people dump it, and comes in with
// every digit; the stream adds to it.
func TestHistoryDumpedFromASearchNode(t *testing.T) {
	node := servers.NewElasticsearch(t)
	documents := lines(example(t, "history.ndjson"))
	// 2,000 more, with sums that no double holds.
	sum := new(big.Int)
	for i := range 2000 {
		units := new(big.Int).Add(big.NewInt(int64(i)), new(big.Int).Exp(big.NewInt(10), big.NewInt(20), nil))
		sum.Add(sum, units)
		documents = append(documents, fmt.Sprintf(`{"userId":%d,"latestSaleTimestamp":"2015-07-20T00:00:00Z","productList":[%d],"totalPoints":9007199254740993,"totalRevenue":%s}`,
			1000+i, i, decimal(units, true)))
	}
	index(t, node, "salesaggregation", documents)
	file := export(t, node, "salesaggregation")

	topic := newTopic(t, 4)
	s := serve(t, settings{
		query: strings.Replace(example(t, "query-products.sql"), "FROM sales", `FROM "`+topic+`"`, 1),
		rest:  history(file),
	})
	for i, line := range lines(example(t, "events.ndjson")) {
		produce(t, topic, int32(i%4), line)
	}
	s.caughtUp(topic)
	rows, err := s.rows()
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != len(documents) {
		t.Errorf("%d rows, want %d", len(rows), len(documents))
	}
	var want map[string]map[string]any
	if err := decode([]byte(example(t, "expected.json")), &want); err != nil {
		t.Fatal(err)
	}
	for key, columns := range want {
		if text(rows[key]) != text(columns) {
			t.Errorf("key %s is %s, want %s", key, text(rows[key]), text(columns))
		}
	}
	got := new(big.Rat)
	for i := range 2000 {
		r := rows[fmt.Sprint(1000+i)]
		revenue, ok := new(big.Rat).SetString(text(r["totalRevenue"]))
		if !ok || text(r["totalPoints"]) != "9007199254740993" {
			t.Fatalf("row of %d is %s", 1000+i, text(r))
		}
		got.Add(got, revenue)
	}
	if exact := new(big.Rat).SetFrac(sum, big.NewInt(10_000)); got.Cmp(exact) != 0 {
		t.Errorf("the sum over all history is %s, want %s", got.FloatString(4), exact.FloatString(4))
	}
}
