package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tidemark/internal/testkit/search"
)

// checkHistory runs check --connect with a section history and returns the
// steps about it; Kafka is not there.
func checkHistory(t *testing.T, history string) []checked {
	t.Helper()
	cut := "  cut: {mode: earliest}\n"
	if strings.Contains(history, "cut:") {
		cut = ""
	}
	path := writeConfig(t, "query: SELECT userId, sum(totalRevenue) AS totalRevenue, sum(totalPoints) AS totalPoints FROM sales GROUP BY userId\n"+
		"kafka:\n  bootstrap.servers: [127.0.0.1:1]\n  group.id: g\nhistory:\n"+cut+history)
	status, stdout, stderr := tidemark(t, nil, "check", "--connect", "--json", "-c", path)
	if status != exitFailed {
		t.Fatalf("status %d: %s", status, stderr)
	}
	var all, steps []checked
	if err := json.Unmarshal([]byte(stdout), &all); err != nil {
		t.Fatalf("%v: %s", err, stdout)
	}
	for _, s := range all {
		if s.Object != "127.0.0.1:1" && s.Object != "kafka" && s.Step != "configuration" && s.Step != "address" && s.Step != "snapshots" &&
			s.Step != "state" && s.Step != "listen" {
			steps = append(steps, s)
		}
	}
	return steps
}

// wantSteps checks steps, each as STEP RESULT DETAIL, of which details are
// parts.
func wantSteps(t *testing.T, steps []checked, want ...string) {
	t.Helper()
	for i, s := range steps {
		is := fmt.Sprintf("%s %t %s", s.Step, s.OK, s.Detail)
		if i >= len(want) {
			t.Errorf("step %d is %s, want none", i, is)
			continue
		}
		parts := strings.SplitN(want[i], " ", 3)
		if s.Step != parts[0] || fmt.Sprint(s.OK) != parts[1] || len(parts) > 2 && !strings.Contains(s.Detail, parts[2]) {
			t.Errorf("step %d is %s, want %s", i, is, want[i])
		}
	}
	if len(steps) < len(want) {
		t.Errorf("%d steps, want %d", len(steps), len(want))
	}
}

// TestO08CheckShowsTheHistory: it walks to the server and shows the first
// documents as rows, with what is missing; a file likewise.
func TestO08CheckShowsTheHistory(t *testing.T) {
	documents := []string{
		`{"userId":1,"totalRevenue":267.640,"totalPoints":3}`,
		`{"userId":"2","totalRevenue":12345678901234567890.123}`,
		`{"userId":3,"totalRevenue":"NaN","totalPoints":1}`,
		`{"userId":4,"totalRevenue":1,"totalPoints":1}`,
	}
	rows := []string{
		"documents true of the first 4: skipped, bad_number of totalRevenue in 1; totalPoints is missing or null in 1",
		`document true {"userId":1,"totalRevenue":267.64,"totalPoints":3}`,
		`document true {"userId":"2","totalRevenue":12345678901234567890.123,"totalPoints":null}, without totalPoints`,
		"document true is skipped: bad_number of totalRevenue",
	}
	for name, flavour := range map[string]search.Flavour{"Elasticsearch 7.17.29": search.Elasticsearch, "OpenSearch 2.19.6": search.OpenSearch} {
		s := search.New(t, flavour)
		s.Add("sales", 1, documents...)
		steps := checkHistory(t, fmt.Sprintf("  elasticsearch: {addresses: ['%s'], index: sales}\n", s.URL))
		wantSteps(t, steps, append([]string{"connect true", "login true " + name + " answers, without a login", "index true sales with 1 primary shards",
			"index true", "permission true a snapshot of 4 documents"}, rows...)...)
		if s.OpenContexts() != 0 {
			t.Errorf("%s: a snapshot is left open", name)
		}
	}
	file := filepath.Join(t.TempDir(), "history.ndjson")
	if err := os.WriteFile(file, []byte(strings.Join(documents, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	wantSteps(t, checkHistory(t, "  file: "+file+"\n"), append([]string{"history true"}, rows...)...)
}

// TestO08CheckMissesTheGuard: serve refuses a history whose documents lack the
// guard, and so does the check.
func TestO08CheckMissesTheGuard(t *testing.T) {
	file := filepath.Join(t.TempDir(), "history.ndjson")
	if err := os.WriteFile(file, []byte(`{"userId":1,"totalRevenue":5,"totalPoints":1,"latest":"2015-07-29T09:17:12Z"}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for field, want := range map[string][]string{
		"latest": {"history true", "documents true have all that is wanted", "document true"},
		"newest": {"history true", "documents false newest is missing or null in 1", "document true without newest"},
	} {
		wantSteps(t, checkHistory(t, "  cut: {mode: guard, event_time: saleTimestamp, guard_field: "+field+"}\n  file: "+file+"\n"), want...)
	}
}

// TestO08CheckSaysWhatIsWrongWithTheHistory: the step that fails says what to
// do; no secret is printed.
func TestO08CheckSaysWhatIsWrongWithTheHistory(t *testing.T) {
	plain := search.New(t, search.Elasticsearch)
	plain.Add("sales", 1, `{"userId":1,"revenue":5,"totalPoints":1}`, `{"userId":2,"revenue":6,"totalPoints":1}`)
	plain.Add("empty", 1)
	secure, _ := search.NewTLS(t, search.OpenSearch)
	refusing := search.New(t, search.Elasticsearch)
	refusing.Add("sales", 1, `{}`)
	refusing.Script(func(r search.Request) *search.Fault {
		return &search.Fault{Status: 401, Body: search.Refusal(401, "security_exception", "unable to authenticate")}
	})
	for history, want := range map[string][]string{
		"{addresses: ['http://127.0.0.1:2'], index: sales}":                                      {"connect false nothing listens"},
		"{addresses: ['http://no-such-host.invalid:9200'], index: sales}":                        {"name false history.elasticsearch.addresses"},
		"{addresses: ['" + secure.URL + "'], index: sales}":                                      {"connect true", "TLS false ca_file"},
		"{addresses: ['" + strings.Replace(secure.URL, "https", "http", 1) + "'], index: sales}": {"connect true", "login false https is wanted"},
		"{addresses: ['" + strings.Replace(plain.URL, "http", "https", 1) + "'], index: sales}":  {"connect true", "TLS false does not speak TLS"},
		"{addresses: ['" + refusing.URL + "'], index: sales, username: u, password: hunter2}":    {"connect true", "login false username and password"},
		"{addresses: ['" + plain.URL + "'], index: missing}":                                     {"connect true", "login true", "index false no such index"},
		"{addresses: ['" + plain.URL + "'], index: 'missing*'}":                                  {"connect true", "login true", "index false no index matches"},
		"{addresses: ['" + plain.URL + "'], index: sales, page_size: 20000}":                     {"connect true", "login true", "index false max_result_window"},
		"{addresses: ['" + plain.URL + "'], index: empty}":                                       {"connect true", "login true", "index true", "index true", "permission true", "documents true there are none"},
		"{addresses: ['" + plain.URL + "'], index: sales}": {"connect true", "login true", "index true", "index true", "permission true",
			"documents false of the first 2: totalRevenue is missing or null in 2", "document true", "document true"},
	} {
		steps := checkHistory(t, "  elasticsearch: "+history+"\n")
		t.Run(history, func(t *testing.T) { wantSteps(t, steps, want...) })
		if strings.Contains(fmt.Sprint(steps), "hunter2") {
			t.Errorf("a secret is printed: %+v", steps)
		}
	}
}
