package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"tidemark/config"
)

// output is what a command prints, readable while it runs.
type output struct {
	mu      sync.Mutex
	text    bytes.Buffer
	written chan struct{} // gets a token for each write
}

func newOutput() *output { return &output{written: make(chan struct{}, 1)} }

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case o.written <- struct{}{}:
	default:
	}
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// await waits until the output matches and returns the match.
func (o *output) await(t *testing.T, pattern string) []string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	deadline := time.After(20 * time.Second)
	for {
		if m := re.FindStringSubmatch(o.String()); m != nil {
			return m
		}
		select {
		case <-o.written:
		case <-deadline:
			t.Fatalf("nothing matches %q in the output:\n%s", pattern, o)
		}
	}
}

// tidemark runs a command to its end.
func tidemark(t *testing.T, env map[string]string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	getenv := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	status = run(t.Context(), args, getenv, &out, &errs)
	return status, out.String(), errs.String()
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// TestDemo: within five seconds there is a running stream whose totals move,
// the curl lines work, and the end is clean.
func TestDemo(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, errs := newOutput(), newOutput()
	ended := make(chan int, 1)
	began := time.Now()
	go func() {
		ended <- run(ctx, []string{"demo", "--listen", "127.0.0.1:0", "--users", "50", "--rate", "500"}, os.LookupEnv, out, errs)
	}()
	out.await(t, `(?s)user 1: .*user 1: `)
	if took := time.Since(began); took > 15*time.Second { // five on a machine that does nothing else
		t.Errorf("it took %v until the totals moved", took)
	}
	moves := regexp.MustCompile(`user 1: revenue (\S+), .* all: (\d+) sales folded`).FindAllStringSubmatch(out.String(), 2)
	if len(moves) < 2 || moves[0][2] == moves[1][2] {
		t.Errorf("the totals do not move: %v", moves)
	}
	lines := regexp.MustCompile(`curl -s (?:'([^']+)'|(\S+))`).FindAllStringSubmatch(out.String(), -1)
	if len(lines) < 5 {
		t.Errorf("%d lines with curl in:\n%s", len(lines), out)
	}
	for _, line := range lines {
		url := line[1] + line[2]
		if code, body := get(t, url); code != http.StatusOK || body == "" {
			t.Errorf("%s answers %d: %s", url, code, body)
		}
	}
	base := out.await(t, `page\s+(http://[^/\s]+)/`)[1]
	broker := out.await(t, `broker\s+(\S+)`)[1]
	if status, made, stderr := tidemark(t, nil, "init", "--print", "--bootstrap-servers", broker, "--topic", "sales"); status != exitDone || !strings.Contains(made, "GROUP BY userId") {
		t.Errorf("init on the demo's broker: status %d, %s%s", status, made, stderr)
	}

	status, stdout, _ := tidemark(t, nil, "get", "1", "--server", base)
	var row struct{ Row struct{ UserID int } }
	if err := json.Unmarshal([]byte(stdout), &row); status != exitDone || err != nil || row.Row.UserID != 1 {
		t.Errorf("get 1: status %d, %s", status, stdout)
	}
	if status, _, stderr := tidemark(t, nil, "get", "nobody", "--server", base); status != exitFailed || !strings.Contains(stderr, "not_found") {
		t.Errorf("get nobody: status %d, %s", status, stderr)
	}
	// The numbers move from one answer to the next.
	still := func(answer string) string {
		return regexp.MustCompile(`[0-9][0-9.,TZ:-]*`).ReplaceAllString(answer, "N")
	}
	if _, body := get(t, base+"/v1/aggregates/1"); still(stdout) != still(body) {
		t.Errorf("get 1 prints %q, and HTTP answers %q", stdout, body)
	}
	// A key of another number of columns, or of none, is an unusable argument.
	for _, keys := range [][]string{{"1", "2"}, {"1", "watch"}, {""}} {
		status, _, stderr := tidemark(t, nil, append([]string{"get", "--server", base}, keys...)...)
		if status != exitUsage || !strings.Contains(stderr, "bad_request") {
			t.Errorf("get %q: status %d, %s", keys, status, stderr)
		}
	}
	cancel()
	select {
	case status := <-ended:
		if status != exitDone {
			t.Errorf("the demo ends with %d: %s", status, errs)
		}
	case <-time.After(25 * time.Second):
		t.Error("the demo does not end")
	}
}

func TestVersion(t *testing.T) {
	status, stdout, _ := tidemark(t, nil, "version", "--json")
	var b build
	if err := json.Unmarshal([]byte(stdout), &b); status != exitDone || err != nil || b.Format < 1 || !strings.HasPrefix(b.Go, "go") {
		t.Errorf("status %d: %s", status, stdout)
	}
}

// TestUsage: what cannot be carried out as it stands is status 2, with one
// sentence on standard error.
func TestUsage(t *testing.T) {
	for _, c := range []struct {
		args string
		want string
	}{
		{"bogus", `unknown command "bogus"`},
		{"get", "get wants a key"},
		{"get 1 --server nowhere", `--server "nowhere"`},
		{"serve extra", "unknown command"},
		{"serve --bogus", "unknown flag: --bogus"},
		{"serve -c nowhere.yaml", "nowhere.yaml"},
		{"check -c nowhere.yaml", "nowhere.yaml"},
		{"inspect", "inspect wants one directory, here are 0"},
		{"demo --listen nowhere", `--listen "nowhere" is not host:port`},
		{"demo --listen :-1", `--listen ":-1" is not host:port`},
		{"demo --listen :99999", `--listen ":99999" is not host:port`},
		{"demo --users 0", "--users 0"},
		{"demo --rate 0", "--rate 0"},
	} {
		status, stdout, stderr := tidemark(t, nil, strings.Fields(c.args)...)
		if status != exitUsage || !strings.Contains(stderr, c.want) || stdout != "" {
			t.Errorf("tidemark %s: status %d, %s%s", c.args, status, stdout, stderr)
		}
	}
	if status, _, stderr := tidemark(t, nil, "inspect", t.TempDir()); status != exitFailed || !strings.Contains(stderr, "no state") {
		t.Errorf("inspect of an empty folder: status %d, %s", status, stderr)
	}
}

// TestDurationsInTheLogHaveUnits, in JSON too.
func TestDurationsInTheLogHaveUnits(t *testing.T) {
	for format, want := range map[string]string{"json": `"took":"1.5s"`, "auto": `"took":"1.5s"`, "text": "took=1.5s"} {
		var b bytes.Buffer
		newLogger(&b, config.Log{Format: format}).Info("done", "took", 1500*time.Millisecond)
		if !strings.Contains(b.String(), want) {
			t.Errorf("%s: %s, want %s", format, b.String(), want)
		}
	}
}

// writeConfig writes a configuration file.
func writeConfig(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tidemark.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestO04CheckAndServeAgree: one verdict, with file, line and nearest name.
func TestO04CheckAndServeAgree(t *testing.T) {
	const head = "query: SELECT userId, sum(revenue) AS revenue FROM sales GROUP BY userId\nkafka:\n  bootstrap.servers: [127.0.0.1:9]\n  group.id: g\n"
	for _, c := range []struct{ text, want string }{
		{head + "snapshots: {intervall: 3s}\n", ":5: unknown key"},
		{head + "state:\n  dir: a\n  dir: b\n", ":7: "},
		{strings.Replace(head, "sum(", "summ(", 1), "query:1:16:"},
		{head + "history:\n  elasticsearch: {addresses: [http://127.0.0.1:9]}\n  cut: {mode: latest}\n", "history.elasticsearch.index"},
		{head + "  session.timeout.ms: 3000\n", "session.timeout.ms is 3000"},
		{head + "state: {memory: 1MiB}\n", "16 MiB or more"}, // what the store needs at least
		{head + "snapshots: {url: 'file:///tmp/x?perfix=y'}\n", `parameter "perfix" is unknown`},
		{head + "snapshots: {url: 'file:///tmp/x'}\nstate: {dir: !env DIR}\n", "the tag !env"},
		{head + "http: {listen: ${LISTEN}, tokens: [${TOKEN}]}\n", "LISTEN"},
	} {
		path := writeConfig(t, c.text)
		checks, _, said := tidemark(t, nil, "check", "-c", path)
		serves, _, refused := tidemark(t, nil, "serve", "-c", path)
		if checks != exitUsage || serves != exitUsage || said != refused || !strings.Contains(said, c.want) {
			t.Errorf("check: %d, %sserve: %d, %swant %s", checks, said, serves, refused, c.want)
		}
	}
	if status, stdout, stderr := tidemark(t, nil, "check", "-c", writeConfig(t, head)); status != exitDone || !strings.Contains(stdout, "ok") {
		t.Errorf("a good file: status %d, %s", status, stderr)
	}
	unset := writeConfig(t, head+"http: {tokens: [${TOKEN}]}\n")
	if status, _, stderr := tidemark(t, nil, "check", "--allow-unset", "-c", unset); status != exitDone {
		t.Errorf("--allow-unset: status %d, %s", status, stderr)
	}
}

// TestK14CheckWarnsOfARandomID, and of no other; leaving at the end is a word
// of the configuration that YAML takes for a boolean.
func TestK14CheckWarnsOfARandomID(t *testing.T) {
	const head = "query: SELECT userId, sum(revenue) AS revenue FROM sales GROUP BY userId\nkafka:\n  bootstrap.servers: [127.0.0.1:9]\n  group.id: g\n"
	for _, leave := range []string{"", "true", "false", "auto", `"true"`} {
		for id, warned := range map[string]bool{"agg-7c9f8d5b6-x2x4z": true, "agg-0": false, "": false} {
			text := head
			if leave != "" {
				text += "  leave_on_shutdown: " + leave + "\n"
			}
			if id != "" {
				text += "  group.instance.id: " + id + "\n"
			}
			status, stdout, stderr := tidemark(t, nil, "check", "-c", writeConfig(t, text))
			if status != exitDone || strings.Contains(stdout, "looks random") != warned {
				t.Errorf("leave %q, id %q: status %d, %s%s", leave, id, status, stdout, stderr)
			}
		}
	}
	if status, _, stderr := tidemark(t, nil, "check", "-c", writeConfig(t, head+"  leave_on_shutdown: yes\n")); status != exitUsage ||
		!strings.Contains(stderr, "leave_on_shutdown") || !strings.Contains(stderr, "one of auto, true, false") {
		t.Errorf("status %d, %s", status, stderr)
	}
}

// TestO08CheckConnectSaysWhere: a broker that is not there fails its step.
func TestO08CheckConnectSaysWhere(t *testing.T) {
	path := writeConfig(t, "query: SELECT userId, sum(revenue) AS revenue FROM sales GROUP BY userId\n"+
		"kafka:\n  bootstrap.servers: [127.0.0.1:1]\n  group.id: g\nhistory:\n  file: nowhere.ndjson\n  cut: {mode: earliest}\n")
	status, stdout, stderr := tidemark(t, nil, "check", "--connect", "--json", "-c", path)
	var steps []checked
	if err := json.Unmarshal([]byte(stdout), &steps); err != nil {
		t.Fatalf("%v: %s", err, stdout)
	}
	failed := map[string]bool{}
	for _, s := range steps {
		if !s.OK {
			failed[s.Step] = true
		}
	}
	if status != exitFailed || !failed["connect"] || !failed["history"] || failed["configuration"] || !strings.Contains(stderr, "steps failed") {
		t.Errorf("status %d, %s, steps %+v", status, stderr, steps)
	}
}
