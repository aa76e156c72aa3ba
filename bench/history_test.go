package bench

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"tidemark/internal/testkit/search"
	"tidemark/internal/testkit/servers"
)

// loaded is what loading a history took.
type loaded struct{ took, cpu, peak, other float64 }

// load starts the program with a history on an empty topic and waits until all
// of it is served. Where g is given every row is compared.
func (b *bench) load(t *testing.T, history string, g *sales) loaded {
	t.Helper()
	topic := b.name("history")
	b.broker.createTopic(t, topic, partitions)
	svc := b.newService(t, settings{topic: topic, group: topic, rest: "history:\n  " + history + "\n  cut: {mode: latest}\n"})
	m := b.meter()
	svc.start(t)
	took := svc.ready(t, 20*time.Minute)
	used := svc.cpu()
	l := loaded{took: took.Seconds(), cpu: used, peak: svc.peak(), other: m.others(used)}
	if g != nil {
		g.compare(t, svc)
	}
	svc.stop(t)
	b.broker.deleteTopic(t, topic)
	return l
}

// measureHistory loads a file of a document for each user.
func measureHistory(t *testing.T, b *bench, s *section) {
	n := b.size.Documents
	path := filepath.Join(b.dir, "history.ndjson")
	g := &sales{totals: make([]total, n)}
	if err := writeHistory(path, g); err != nil {
		t.Fatal(err)
	}
	var took, used, peak []float64
	other := 0.0
	for range b.size.Runs {
		l := b.load(t, "file: '"+path+"'", g)
		g = nil // the rows of one run are compared
		took, used, peak = append(took, l.took), append(used, l.cpu/float64(n)*1e6), append(peak, l.peak)
		other = max(other, l.other)
		b.say("history from a file: %d documents in %.2f s, %.2f CPU-s, %.0f MiB", n, l.took, l.cpu, l.peak)
	}
	what := grouped(strconv.Itoa(n)) + " documents from a file: "
	s.add(figure{What: what + "start to live", Unit: "s", Values: took, Other: other, Note: "published and served; every row is exact"})
	s.add(figure{What: what + "CPU", Unit: "CPU-s/M", Values: used, Other: other})
	s.add(figure{What: what + "peak memory", Unit: "MiB", Target: atMost(512), Values: peak, Other: other})
}

func writeHistory(path string, g *sales) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriterSize(f, 1<<20)
	for user := range g.totals {
		var document []byte
		document, g.totals[user] = documentOf(user)
		if _, err := w.Write(append(document, '\n')); err != nil {
			return err
		}
	}
	return w.Flush()
}

const index = "salesaggregation"

// measureSearch loads the same documents from a search server, and has a plain
// loop read them: a page at a time, encoding/json, each put under its key.
func measureSearch(t *testing.T, b *bench, s *section) {
	n := b.size.Documents
	g := &sales{totals: make([]total, n)}
	url, kind := b.searchServer(t, g)
	var took, peak, loop, loopPeak, ratio []float64
	other := 0.0
	for range b.size.Runs {
		l := b.load(t, fmt.Sprintf("elasticsearch: {addresses: ['%s'], index: '%s'}", url, index), g)
		g = nil
		began := time.Now()
		_, most := b.yardstick(t, "documents", url, strconv.Itoa(n), filepath.Join(b.dir, b.name("loop")))
		plain := time.Since(began).Seconds()
		took, peak, loop, loopPeak = append(took, l.took), append(peak, l.peak), append(loop, plain), append(loopPeak, most)
		ratio = append(ratio, l.took/plain)
		other = max(other, l.other)
		b.say("history from %s: %d documents in %.2f s, %.0f MiB; a plain loop %.2f s, %.0f MiB", kind, n, l.took, l.peak, plain, most)
	}
	what := grouped(strconv.Itoa(n)) + " documents from " + kind + ": "
	s.add(figure{What: what + "start to live", Unit: "s", Values: took, Other: other, Note: "published and served; every row is exact"})
	s.add(figure{What: what + "a plain loop", Unit: "s", Values: loop, Other: -1, Note: fmt.Sprintf("scroll, encoding/json, one put each; %s MiB", number(median(loopPeak)))})
	s.add(figure{What: what + "against the loop", Unit: "ratio", Target: atMost(0.5), Values: ratio, Other: -1, Note: "of times"})
	s.add(figure{What: what + "peak memory", Unit: "MiB", Target: atMost(512), Values: peak, Other: other})
}

// searchServer starts a node and lays the documents into it; where the broker is
// in memory, or a node cannot be started, it is a server in the harness.
func (b *bench) searchServer(t *testing.T, g *sales) (url, kind string) {
	t.Helper()
	var node *servers.Search
	err := errors.New("the broker is in memory too")
	if b.broker.pid != 0 {
		dir := filepath.Join(b.dir, "elasticsearch")
		if node, err = servers.StartElasticsearch(dir); err == nil {
			t.Cleanup(node.Stop)
			b.searching, err = child("ElasticsearchNode\x00" + dir)
		}
	}
	if err != nil {
		b.say("no search node, going on with one in memory: %v", err)
		fake := search.New(t, search.Elasticsearch)
		documents := make([]string, len(g.totals))
		for user := range g.totals {
			var document []byte
			document, g.totals[user] = documentOf(user)
			documents[user] = string(document)
		}
		fake.Add(index, 2, documents...)
		return fake.URL, "a search server in the harness"
	}
	b.say("laying %d documents into Elasticsearch", len(g.totals))
	send(t, http.MethodPut, node.URL+"/"+index, `{"settings":{"number_of_shards":2,"number_of_replicas":0,"refresh_interval":"-1"}}`)
	var bulk bytes.Buffer
	for user := range g.totals {
		var document []byte
		document, g.totals[user] = documentOf(user)
		fmt.Fprintf(&bulk, "{\"index\":{\"_id\":\"%d\"}}\n%s\n", user, document)
		if (user+1)%10_000 == 0 || user+1 == len(g.totals) {
			if answer := send(t, http.MethodPost, node.URL+"/"+index+"/_bulk", bulk.String()); !bytes.Contains(answer, []byte(`"errors":false`)) {
				t.Fatalf("index documents: %.500s", answer)
			}
			bulk.Reset()
		}
	}
	send(t, http.MethodPost, node.URL+"/"+index+"/_refresh", "")
	return node.URL, "Elasticsearch 7.17"
}

// send asks a search server and returns the body of its answer.
func send(t *testing.T, method, url, body string) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	if method == http.MethodPut {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := patient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode/100 != 2 {
		t.Fatalf("%s %s: %s %v %.500s", method, url, resp.Status, err, answer)
	}
	return answer
}

// runDocuments is the plain loop, as people write it: it scrolls through the
// index, decodes with encoding/json and puts each document under its key into
// Pebble as it comes. That it never waits for the disk is in its favour.
func runDocuments(args []string) (err error) {
	if len(args) != 3 {
		return fmt.Errorf("documents wants a server, a number of documents and a folder, not %q", args)
	}
	want, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	store, err := pebble.Open(args[2], &pebble.Options{Logger: quiet{}})
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, store.Close(), os.RemoveAll(args[2]))
		fmt.Println(peak(os.Getpid()))
	}()
	put := 0
	page := struct {
		ID   string `json:"_scroll_id"`
		Hits struct {
			Hits []struct {
				Source map[string]any `json:"_source"`
			}
		}
	}{}
	url, body := args[0]+"/"+index+"/_search?scroll=1m", `{"size":1000,"sort":["_doc"]}`
	for {
		resp, err := patient.Post(url, "application/json", strings.NewReader(body))
		if err != nil {
			return err
		}
		page.Hits.Hits = nil
		err = json.NewDecoder(resp.Body).Decode(&page)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			return fmt.Errorf("read a page: %s %w", resp.Status, err)
		}
		if len(page.Hits.Hits) == 0 {
			break
		}
		for _, h := range page.Hits.Hits {
			value, err := json.Marshal(h.Source)
			if err != nil {
				return err
			}
			if err := store.Set([]byte(fmt.Sprint(h.Source["userId"])), value, pebble.NoSync); err != nil {
				return err
			}
			put++
		}
		url, body = args[0]+"/_search/scroll", fmt.Sprintf(`{"scroll":"1m","scroll_id":%q}`, page.ID)
	}
	if put != want {
		return fmt.Errorf("%d documents were read, want %d", put, want)
	}
	return nil
}

// quiet is Pebble's logger where it has nothing to say.
type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	os.Exit(1)
}
