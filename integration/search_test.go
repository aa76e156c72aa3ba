//go:build integration

package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"

	"tidemark/internal/testkit/servers"
)

// The tests of a kind of search server share one node, and there is one node at
// a time.
func TestHistoryFromElasticsearch(t *testing.T) { fromNode(t, servers.NewElasticsearch(t)) }

func TestHistoryFromOpenSearch(t *testing.T) { fromNode(t, servers.NewOpenSearch(t)) }

func fromNode(t *testing.T, node *servers.Search) {
	for _, c := range []struct {
		name string
		test func(*testing.T, *servers.Search)
	}{
		{"B08 numbers keep their text", numbersKeepTheirText},
		{"B05 aliases and 10001 documents", aliasOfManyDocuments},
		{"B03 a red index is waited for", redIndex},
		{"B09 no source", noSource},
		{"cut modes", func(t *testing.T, node *servers.Search) { cutModes(t, inIndex(node)) }},
		{"B15 SIGTERM leaves nothing open", nothingLeftOpen},
		{"B12 kill nine in the middle", killNineInTheHistory},
		{"B12 kill nine in the middle of the bootstrap", killNineInBootstrap},
		{"the server is gone after the bootstrap", bootstrapThenTheServerIsGone},
		{"totals written back", totalsWrittenBack},
		{"check", checkShowsRows},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, node) })
	}
}

// fill makes an index and lays documents into it, with their numbers as _id.
func fill(t *testing.T, node *servers.Search, name, settings string, documents []string) {
	t.Helper()
	call(t, http.MethodPut, node.URL+"/"+name+"?wait_for_active_shards=0", "application/json", settings)
	for first := 0; first < len(documents); first += 5000 {
		var bulk strings.Builder
		for i, d := range documents[first:min(first+5000, len(documents))] {
			fmt.Fprintf(&bulk, "{\"index\":{\"_id\":\"%d\"}}\n%s\n", first+i, d)
		}
		answer := call(t, http.MethodPost, node.URL+"/"+name+"/_bulk", "application/x-ndjson", bulk.String())
		if !bytes.Contains(answer, []byte(`"errors":false`)) {
			t.Fatalf("index documents: %.500s", answer)
		}
	}
}

const twoShards = `{"settings":{"number_of_shards":2,"number_of_replicas":0}}`

// fromIndex is the sections of a history in an index.
func fromIndex(node *servers.Search, index, more, cut string) string {
	return fmt.Sprintf("history:\n  elasticsearch: {addresses: ['%s'], index: '%s'%s}\n  cut: %s\n", node.URL, index, more, cut)
}

// indexName is an index of the test's own.
func indexName(t *testing.T) string { return strings.ToLower(unique(t, "history")) }

const totalsQuery = `SELECT userId, sum(totalRevenue) AS totalRevenue, sum(totalPoints) AS totalPoints FROM "%s" GROUP BY userId`

// The text of a number in the document is its value, whatever the mapping made
// of it for the server's own use.
func numbersKeepTheirText(t *testing.T, node *servers.Search) {
	texts := map[string]string{
		"267.640": "267.64", "1.50e2": "150", "12345678901234567890.123": "12345678901234567890.123", "48151.62": "48151.62",
		"1234567.89": "1234567.89", "12345678901234567.89": "12345678901234567.89", "19.999": "19.999", "9007199254740993": "9007199254740993",
		"-0.01": "-0.01", `"41.70"`: "41.7", "0.1000000000000000000001": "0.1000000000000000000001",
	}
	index := indexName(t)
	var documents []string
	want := map[string]string{}
	for number, value := range texts {
		user := fmt.Sprintf("U-%d", len(documents))
		want[user] = value
		documents = append(documents, fmt.Sprintf(`{ "userId":"%s" ,"totalRevenue":%s,"totalPoints":%d,"note":"é\u00e9\"}" }`, user, number, len(documents)))
	}
	fill(t, node, index, `{"settings":{"number_of_shards":2,"number_of_replicas":0},"mappings":{"properties":{"totalRevenue":{"type":"float"}}}}`, documents)
	topic := newTopic(t, 2)
	s := serve(t, settings{query: fmt.Sprintf(totalsQuery, topic), rest: fromIndex(node, index, "", "{mode: latest}")})
	for user, value := range want {
		r, err := s.row(user)
		if err != nil {
			t.Fatal(err)
		}
		if got := text(r.Row["totalRevenue"]); got != value {
			t.Errorf("totalRevenue of %s is %s, want %s", user, got, value)
		}
	}
	s.stop()
}

// manyDocuments are n of them, from first on, with the sum of their revenue in
// hundredths.
func manyDocuments(first, n int) (documents []string, cents int64) {
	documents = make([]string, n)
	for i := range documents {
		user := first + i
		c := int64(user)*7919%5_000_000 + 1
		cents += c
		documents[i] = fmt.Sprintf(`{"userId":%d,"latestSaleTimestamp":"2015-07-28T10:00:00.000Z","totalRevenue":%d.%02d,"totalPoints":%d,"productList":[%d]}`, user, c/100, c%100, user%1000, user%7)
	}
	return documents, cents
}

// wantSum checks how many rows there are and what they come to, exactly.
func wantSum(t *testing.T, s *service, n int, cents int64) {
	t.Helper()
	rows, err := s.rows()
	if err != nil {
		t.Fatal(err)
	}
	sum := new(big.Rat)
	for key, r := range rows {
		v, ok := new(big.Rat).SetString(text(r["totalRevenue"]))
		if !ok {
			t.Fatalf("row of %s: %v", key, r)
		}
		sum.Add(sum, v)
	}
	if want := big.NewRat(cents, 100); len(rows) != n || sum.Cmp(want) != 0 {
		t.Errorf("%d rows with %s in all, want %d with %s", len(rows), sum.FloatString(2), n, want.FloatString(2))
	}
}

// More documents than a search gives at once, over two indices of an alias in
// which an _id is used twice.
func aliasOfManyDocuments(t *testing.T, node *servers.Search) {
	alias := indexName(t)
	first, centsA := manyDocuments(0, 10_001)
	second, centsB := manyDocuments(20_000, 500)
	fill(t, node, alias+"-1", twoShards, first)
	fill(t, node, alias+"-2", `{"settings":{"number_of_shards":1,"number_of_replicas":0}}`, second)
	call(t, http.MethodPost, node.URL+"/_aliases", "application/json", fmt.Sprintf(
		`{"actions":[{"add":{"index":"%s-1","alias":"%s"}},{"add":{"index":"%s-2","alias":"%s","filter":{"range":{"userId":{"lt":20400}}}}}]}`, alias, alias, alias, alias))
	_, over := manyDocuments(20_400, 100)
	topic := newTopic(t, 3)
	s := serve(t, settings{query: fmt.Sprintf(totalsQuery, topic), rest: fromIndex(node, alias, "", "{mode: latest}")})
	wantSum(t, s, 10_401, centsA+centsB-over)
	s.stop()

	// A page that the index does not give ends it, with what to set.
	bad := newService(t, settings{query: fmt.Sprintf(totalsQuery, topic), rest: fromIndex(node, alias, ", page_size: 20000", "{mode: latest}")})
	bad.start()
	if code := bad.exit(time.Minute); code != 1 || !strings.Contains(bad.tail(), "max_result_window") {
		t.Errorf("page_size 20000: exit %d\n%s", code, bad.tail())
	}
	// And so does an index that is not there.
	missing := newService(t, settings{query: fmt.Sprintf(totalsQuery, topic), rest: fromIndex(node, "no-such-index", "", "{mode: latest}")})
	missing.start()
	if code := missing.exit(time.Minute); code != 1 || !strings.Contains(missing.tail(), "no such index [no-such-index]") {
		t.Errorf("an index that is not there: exit %d\n%s", code, missing.tail())
	}
}

// An index one of whose shards is away gives answers that look whole: the
// service waits, says why, and goes on when the shard is there.
func redIndex(t *testing.T, node *servers.Search) {
	index := indexName(t)
	// One shard a node alone: the other one has no place.
	call(t, http.MethodPut, node.URL+"/"+index+"?wait_for_active_shards=0", "application/json",
		`{"settings":{"number_of_shards":2,"number_of_replicas":0,"index.routing.allocation.total_shards_per_node":1}}`)
	n, cents := 0, int64(0)
	for user := range 40 {
		documents, c := manyDocuments(user, 1)
		var answer struct{ Errors bool }
		if err := json.Unmarshal(call(t, http.MethodPost, node.URL+"/"+index+"/_bulk?timeout=1ms", "application/x-ndjson",
			fmt.Sprintf("{\"index\":{\"_id\":\"%d\"}}\n%s\n", user, documents[0])), &answer); err != nil {
			t.Fatal(err)
		}
		if !answer.Errors { // its shard is there
			n++
			cents += c
		}
	}
	if n == 0 || n == 40 {
		t.Fatalf("%d of 40 documents found their shard", n)
	}
	topic := newTopic(t, 1)
	s := newService(t, settings{query: fmt.Sprintf(totalsQuery, topic), rest: fromIndex(node, index, "", "{mode: latest}")})
	s.start()
	s.until(time.Minute, "not ready because of a shard", func() error {
		code, body, err := s.get("/readyz")
		if err == nil && (code != http.StatusServiceUnavailable || !strings.Contains(string(body), "shard")) {
			err = fmt.Errorf("%d %s", code, body)
		}
		return err
	})
	if code, body, _ := s.get("/v1/aggregates/1"); code != http.StatusServiceUnavailable {
		t.Errorf("a read meanwhile: %d %s, want 503", code, body)
	}
	call(t, http.MethodPut, node.URL+"/"+index+"/_settings", "application/json", `{"index.routing.allocation.total_shards_per_node":2}`)
	s.ready()
	wantSum(t, s, n, cents)
	if st, err := s.status(); err != nil || len(st.Partitions) != 1 || st.Partitions[0].Reason != "" {
		t.Errorf("status afterwards: %+v %v", st.Partitions, err)
	}
	s.stop()
}

// An index without _source ends the service before anything is folded.
func noSource(t *testing.T, node *servers.Search) {
	index := indexName(t)
	fill(t, node, index, `{"settings":{"number_of_shards":1,"number_of_replicas":0},"mappings":{"_source":{"enabled":false}}}`, []string{`{"userId":1,"totalRevenue":1,"totalPoints":1}`})
	topic := newTopic(t, 1)
	produce(t, topic, 0, `{"userId":1,"totalRevenue":1,"totalPoints":1}`)
	s := newService(t, settings{query: fmt.Sprintf(totalsQuery, topic), rest: fromIndex(node, index, "", "{mode: earliest}")})
	s.start()
	if code := s.exit(time.Minute); code != 1 || !strings.Contains(s.tail(), "index "+index) || !strings.Contains(s.tail(), "_source is disabled") {
		t.Errorf("exit %d\n%s", code, s.tail())
	}
}

// inIndex lays documents into an index, and returns the history with a cut.
func inIndex(node *servers.Search) func(t *testing.T, documents []string) func(cut string) string {
	return func(t *testing.T, documents []string) func(string) string {
		index := indexName(t)
		fill(t, node, index, twoShards, documents)
		return func(cut string) string { return fromIndex(node, index, "", cut) }
	}
}

// The same from a file.
func TestHistoryCutModesFromAFile(t *testing.T) {
	cutModes(t, func(t *testing.T, documents []string) func(string) string {
		path := historyFile(t, documents)
		return func(cut string) string { return fromFile(path, cut) }
	})
}

// Three sales stand at the border of history and stream: the last two that the
// history holds, and the first that it does not. Each is counted once, however
// the border is told, and whoever loads the history: serve, or bootstrap ahead
// of it.
func cutModes(t *testing.T, lay func(t *testing.T, documents []string) func(cut string) string) {
	const (
		before, last, first = "2015-07-28T23:59:59.000Z", "2015-07-28T23:59:59.999Z", "2015-07-29T00:00:00.000Z"
		query               = `SELECT userId, CAST(max(saleTimestamp) AS timestamp) AS latest, sum(amount) AS amount FROM "%s" GROUP BY userId`
	)
	sale := func(at, amount string) string {
		return fmt.Sprintf(`{"userId":"U-1","saleTimestamp":"%s","amount":%s}`, at, amount)
	}
	history := lay(t, []string{`{"userId":"U-1","latest":"` + last + `","amount":1110.10}`, `{"userId":"U-2","latest":"` + before + `","amount":0.30}`})
	for name, c := range map[string]struct {
		cut   string
		early []string // produced before the service starts
		late  []string
	}{
		"earliest":  {"{mode: earliest}", []string{sale(first, "0.01")}, nil},
		"latest":    {"{mode: latest}", []string{sale(before, "10"), sale(last, "0.10")}, []string{sale(first, "0.01")}},
		"offsets":   {`{mode: offsets, offsets: {"0": 2}}`, []string{sale(before, "10"), sale(last, "0.10"), sale(first, "0.01")}, nil},
		"timestamp": {"{mode: timestamp, timestamp: " + first + ", event_time: saleTimestamp}", []string{sale(before, "10"), sale(first, "0.01"), sale(last, "0.10")}, nil},
		"guard":     {"{mode: guard, event_time: saleTimestamp, guard_field: latest}", []string{sale(first, "0.01"), sale(before, "10"), sale(last, "0.10")}, nil},
	} {
		for _, ahead := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s ahead %t", name, ahead), func(t *testing.T) {
				t.Parallel()
				topic := newTopic(t, 1)
				produce(t, topic, 0, c.early...)
				s := newService(t, settings{query: fmt.Sprintf(query, topic), rest: history(c.cut)})
				if ahead {
					s.bootstrapped(2)
					produce(t, topic, 0, c.late...)
				}
				s.start()
				s.ready()
				if !ahead {
					produce(t, topic, 0, c.late...)
				}
				s.caughtUp(topic)
				s.want("U-1", `{"latest":"`+first+`","amount":1110.11}`)
				s.want("U-2", `{"latest":"`+before+`","amount":0.3}`)
				s.kill()
				s.start()
				s.ready()
				s.caughtUp(topic)
				s.want("U-1", `{"latest":"`+first+`","amount":1110.11}`)
				s.stop()
			})
		}
	}
}

// openContexts is how many snapshots are open on the node.
func openContexts(t *testing.T, node *servers.Search) int {
	t.Helper()
	var stats struct {
		Nodes map[string]struct {
			Indices struct {
				Search struct {
					Open int `json:"open_contexts"`
				}
			}
		}
	}
	if err := json.Unmarshal(call(t, http.MethodGet, node.URL+"/_nodes/stats/indices/search", "application/json", ""), &stats); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, node := range stats.Nodes {
		n += node.Indices.Search.Open
	}
	return n
}

// slowly reads an index in many small pages, so that its middle can be met.
const slowly = ", page_size: 1, slices: 2"

// midway waits until some of the history is read, and not all.
func midway(s *service) {
	s.t.Helper()
	s.until(time.Minute, "in the middle of the history", func() error {
		code, body, err := s.get("/metrics")
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(body)) {
			if rest, ok := strings.CutPrefix(line, "tidemark_bootstrap_documents_total "); ok && code == http.StatusOK && strings.TrimSpace(rest) != "0" {
				return nil
			}
		}
		return fmt.Errorf("no document is read yet")
	})
	if code, body, err := s.get("/readyz"); err != nil || code != http.StatusServiceUnavailable {
		s.t.Fatalf("GET /readyz in the middle of the history: %d %s %v, want 503", code, body, err)
	}
}

// A service that is told to end in the middle closes what it opened.
func nothingLeftOpen(t *testing.T, node *servers.Search) {
	index := indexName(t)
	documents, _ := manyDocuments(0, 5000)
	fill(t, node, index, twoShards, documents)
	before := openContexts(t, node)
	s := newService(t, settings{query: fmt.Sprintf(totalsQuery, newTopic(t, 2)), rest: fromIndex(node, index, slowly, "{mode: latest}")})
	s.start()
	midway(s)
	s.stop()
	if n := openContexts(t, node); n > before {
		t.Errorf("%d snapshots are open on the server, %d were before", n, before)
	}
}

// kill -9 in the middle of the history: half of it is never served, and the
// next run has all of it, exactly. SOAK_HISTORY sets how many documents.
func killNineInTheHistory(t *testing.T, node *servers.Search) {
	n := fromEnv(t, "SOAK_HISTORY", 5000)
	how := slowly
	if n > 100_000 {
		how = ", page_size: 100"
	}
	index := indexName(t)
	documents, cents := manyDocuments(0, n)
	fill(t, node, index, twoShards, documents)
	topic := newTopic(t, 4)
	s := newService(t, settings{query: fmt.Sprintf(totalsQuery, topic), rest: fromIndex(node, index, how, "{mode: latest}")})
	s.start()
	midway(s)
	if code, body, _ := s.get("/v1/aggregates/1"); code != http.StatusServiceUnavailable {
		t.Errorf("a read in the middle of the history: %d %s, want 503", code, body)
	}
	s.kill()
	produce(t, topic, 0, `{"userId":1,"totalRevenue":0.01,"totalPoints":1}`) // behind the cut, which stands
	s.start()
	s.until(5*time.Minute, "ready", func() error {
		code, body, err := s.get("/readyz")
		if err == nil && code != http.StatusOK {
			err = fmt.Errorf("%d %s", code, body)
		}
		return err
	})
	s.caughtUp(topic)
	wantSum(t, s, n, cents+1)
	st, err := s.status()
	if err != nil {
		t.Fatal(err)
	}
	if st.History == nil || st.History.Documents != int64(n) || !st.History.Complete {
		t.Errorf("history in /v1/status: %+v, want %d documents, complete", st.History, n)
	}
	s.kill()
	s.start()
	s.ready()
	s.caughtUp(topic)
	wantSum(t, s, n, cents+1)
	s.stop()
}

// check --connect shows the first documents as rows.
func checkShowsRows(t *testing.T, node *servers.Search) {
	index := indexName(t)
	fill(t, node, index, twoShards, []string{`{"userId":"U-1","totalRevenue":267.640,"totalPoints":1}`, `{"userId":"U-2","totalRevenue":1.50e2}`})
	call(t, http.MethodPost, node.URL+"/"+index+"/_refresh", "application/json", "")
	before := openContexts(t, node)
	s := newService(t, settings{query: fmt.Sprintf(totalsQuery, newTopic(t, 1)), rest: fromIndex(node, index, "", "{mode: latest}")})
	code, out, errs := command(t, "check", "--connect", "-c", s.file)
	if code != 0 {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	for _, want := range []string{"a snapshot of 2 documents", `"totalRevenue":267.64,`, `"totalRevenue":150,`, "without totalPoints"} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not show %q:\n%s", want, out)
		}
	}
	if n := openContexts(t, node); n > before {
		t.Errorf("%d snapshots are open on the server, %d were before", n, before)
	}
}

// The rows of one service are the history of another, which goes on where the
// first one stood: by its positions, or by the instant in each row.
func totalsWrittenBack(t *testing.T, node *servers.Search) {
	topic := newTopic(t, 3)
	query := strings.Replace(example(t, "query-products.sql"), "FROM sales", `FROM "`+topic+`"`, 1)
	o := newOracle(5, 300)
	cl := kafka(t)
	o.feed(t, cl, topic, 5000)
	first := serve(t, settings{query: query})
	first.caughtUp(topic)
	before, err := first.rows()
	if err != nil {
		t.Fatal(err)
	}
	st, err := first.status()
	if err != nil {
		t.Fatal(err)
	}
	offsets := map[string]int64{}
	for _, p := range st.Partitions {
		offsets[fmt.Sprint(p.Partition)] = p.Position
	}
	documents := make([]string, 0, len(before))
	for _, r := range before {
		documents = append(documents, text(r))
	}
	index := indexName(t)
	fill(t, node, index, twoShards, documents)

	second := serve(t, settings{query: query, rest: fromIndex(node, index, "", "{mode: offsets, offsets: "+text(offsets)+"}")})
	same := func(s *service) {
		t.Helper()
		s.caughtUp(topic)
		want, err := first.rows()
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.rows()
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != len(want) {
			t.Errorf("%d rows, want %d", len(got), len(want))
		}
		for key, r := range want {
			if text(got[key]) != text(r) {
				t.Errorf("key %s is %s, want %s", key, text(got[key]), text(r))
			}
		}
	}
	same(second)
	o.feed(t, cl, topic, 2000)
	first.caughtUp(topic)
	same(second)
	first.stop()
	second.stop()
}
