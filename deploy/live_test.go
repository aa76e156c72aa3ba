//go:build live

package deploy

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestLive lets a real Prometheus scrape a running demo and evaluate every
// expression of the rules and of the dashboard: none may fail, and most of the
// dashboard's must have data. PROMETHEUS names the program.
func TestLive(t *testing.T) {
	prometheus := os.Getenv("PROMETHEUS")
	if prometheus == "" {
		t.Fatal("PROMETHEUS must name the program; deploy/check sees to it")
	}
	dir := t.TempDir()
	binary := filepath.Join(dir, "tidemark")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "../cmd/tidemark").CombinedOutput(); err != nil {
		t.Fatalf("build tidemark: %v\n%s", err, out)
	}
	demo := start(t, binary, "demo", "--listen", "127.0.0.1:0", "--users", "500", "--rate", "500")
	service, err := url.Parse(demo(`curl -s (\S+)/metrics`))
	if err != nil {
		t.Fatal(err)
	}

	rules, err := filepath.Abs(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	panels, err := filepath.Abs("testdata/dashboard-rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "prometheus.yaml")
	settings := fmt.Sprintf("global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [%q, %q]\n"+
		"scrape_configs: [{job_name: tidemark, static_configs: [{targets: [%q]}]}]\n", rules, panels, service.Host)
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	start(t, prometheus, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)

	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	expressions := dashboardExpressions(t)
	var state string
	for {
		select {
		case <-ctx.Done():
			t.Fatal(state)
		case <-tick.C:
		}
		for _, path := range []string{"/v1/aggregates/1", "/v1/aggregates/none", "/v1/aggregates?limit=3", "/v1/aggregates?order=-totalRevenue&limit=3", "/v1/status", "/readyz", "/v1/none"} {
			ask(ctx, service.String()+path, nil)
		}
		var evaluated struct {
			Data struct {
				Groups []struct {
					Rules []struct{ Name, Query, Health, LastError, LastEvaluation string }
				}
			}
		}
		if err := ask(ctx, "http://"+address+"/api/v1/rules", &evaluated); err != nil {
			state = err.Error()
			continue
		}
		count, ok := 0, 0
		for _, g := range evaluated.Data.Groups {
			for _, r := range g.Rules {
				count++
				switch r.Health {
				case "ok":
					ok++
				case "err":
					t.Fatalf("%s: %s\n%s", r.Name, r.LastError, r.Query)
				}
			}
		}
		var found struct {
			Data struct {
				Result []struct{ Metric map[string]string }
			}
		}
		if err := ask(ctx, "http://"+address+"/api/v1/query?query="+url.QueryEscape(`count by (panel) ({__name__=~"dashboard:expression:.*"})`), &found); err != nil {
			state = err.Error()
			continue
		}
		with := map[string]bool{}
		for _, r := range found.Data.Result {
			with[r.Metric["panel"]] = true
		}
		var without []string
		for _, e := range expressions {
			if n := strings.TrimPrefix(e.at, dashboardFile+": "); !with[n] {
				without = append(without, n)
			}
		}
		state = fmt.Sprintf("%d of %d rules are evaluated without an error; %d of the dashboard's %d expressions have data, not: %s",
			ok, count, len(expressions)-len(without), len(expressions), strings.Join(without, "; "))
		if ok == count && count > len(expressions) && 4*len(without) < len(expressions) {
			t.Log(state)
			return
		}
	}
}

// start runs a program until the test ends. It returns a function that waits
// until a line of the program's output matches, and gives the first group.
func start(t *testing.T, program string, args ...string) func(pattern string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", program, err)
	}
	lines := make(chan string, 1000)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for s := bufio.NewScanner(out); s.Scan(); {
			select {
			case lines <- s.Text():
			default: // nobody reads any more
			}
		}
	}()
	t.Cleanup(func() {
		<-done
		_ = cmd.Wait() // it was told to end
	})
	return func(pattern string) string {
		re := regexp.MustCompile(pattern)
		deadline := time.After(time.Minute)
		var seen []string
		for {
			select {
			case line := <-lines:
				if m := re.FindStringSubmatch(line); m != nil {
					return m[1]
				}
				seen = append(seen, line)
			case <-deadline:
				t.Fatalf("%s prints nothing like %s:\n%s", program, pattern, strings.Join(seen, "\n"))
			}
		}
	}
}

// ask decodes a JSON answer, where one is wanted.
func ask(ctx context.Context, address string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if into == nil {
		return nil
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", address, resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(into)
}
