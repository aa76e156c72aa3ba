package servers

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// Search is one search node with nothing but the server in it: no security,
// no scripts, no ingest.
type Search struct {
	URL string // http://127.0.0.1:PORT

	process *process
}

// StartElasticsearch starts an Elasticsearch 7.17 node with its data below dir.
// Settings are name=value.
func StartElasticsearch(dir string, settings ...string) (*Search, error) {
	return startSearch("elasticsearch", "ElasticsearchNode", dir, settings)
}

// StartOpenSearch starts an OpenSearch 2.19 node with its data below dir.
// Settings are name=value.
func StartOpenSearch(dir string, settings ...string) (*Search, error) {
	return startSearch("opensearch", "OpenSearchNode", dir, settings)
}

// NewElasticsearch starts a node for the test and stops it at its end.
func NewElasticsearch(t testing.TB, settings ...string) *Search {
	t.Helper()
	return forTest(t, StartElasticsearch, settings)
}

// NewOpenSearch starts a node for the test and stops it at its end.
func NewOpenSearch(t testing.TB, settings ...string) *Search {
	t.Helper()
	return forTest(t, StartOpenSearch, settings)
}

func forTest(t testing.TB, start func(string, ...string) (*Search, error), settings []string) *Search {
	t.Helper()
	s, err := start(t.TempDir(), settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

func startSearch(name, main, dir string, settings []string) (*Search, error) {
	path, err := classPath(name, main)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(dir, "config"), 0o755); err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		ports, err := FreePorts(1)
		if err != nil {
			return nil, err
		}
		s := &Search{URL: "http://127.0.0.1:" + strconv.Itoa(ports[0])}
		args := append([]string{"-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", path, main, dir, strconv.Itoa(ports[0])}, settings...)
		if s.process, err = startJava(filepath.Join(dir, "out.log"), args...); err != nil {
			return nil, fmt.Errorf("start %s: %w", name, err)
		}
		err = s.process.await(s.ready)
		if err == nil {
			return s, nil
		}
		s.process.kill()
		if !portTaken(err) || try == 3 {
			return nil, fmt.Errorf("start %s: %w", name, err)
		}
	}
}

// ready asks for the health of the cluster: until no shard is initializing, a
// search of kept data answers as if some were missing.
func (s *Search) ready(ctx context.Context) error {
	url := s.URL + "/_cluster/health?wait_for_events=languid&wait_for_no_initializing_shards=true&timeout=5s"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the cluster's health is %s", resp.Status)
	}
	return nil
}

// Stop ends the node and waits for its end.
func (s *Search) Stop() { s.process.stop() }
