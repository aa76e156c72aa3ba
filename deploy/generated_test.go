package deploy

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"tidemark/event"
)

var update = flag.Bool("update", false, "write the generated files anew")

// generated compares a file with what it must hold, or writes it.
func generated(t *testing.T, file, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != want {
		t.Errorf("%s is not what it is made from gives: run make generate", file)
	}
}

// TestGeneratedChartFiles: a chart can only read what lies in it.
func TestGeneratedChartFiles(t *testing.T) {
	for from, to := range map[string]string{
		rulesFile:     "helm/tidemark/files/rules.yaml",
		dashboardFile: "helm/tidemark/files/dashboard.json",
	} {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		generated(t, to, string(text))
	}
}

// TestGeneratedDashboardRules writes the dashboard's expressions as recording
// rules: promtool parses them, and a Prometheus evaluates them.
func TestGeneratedDashboardRules(t *testing.T) {
	type recorded struct {
		Record string            `yaml:"record"`
		Expr   string            `yaml:"expr"`
		Labels map[string]string `yaml:"labels"`
	}
	var rules []recorded
	for i, e := range dashboardExpressions(t) {
		rules = append(rules, recorded{fmt.Sprintf("dashboard:expression:%d", i), e.text, map[string]string{"panel": strings.TrimPrefix(e.at, dashboardFile+": ")}})
	}
	text, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	generated(t, "testdata/dashboard-rules.yaml", "# Generated from "+dashboardFile+" by make generate.\n"+string(text))
}

const metricsHead = `# Metrics

<!-- Generated from what the service shows, by make generate. -->

` + "`GET /metrics`" + ` shows them in Prometheus' text format; where ` + "`http.tokens`" + ` are set, it wants one of them. They are this member's: add up
over the members of a group. Counters count from the start of the process, but for ` + "`tidemark_gap_records_total`" + `, which travels with
the state. No key of an aggregate is ever in a label. The series of a partition end when it leaves the member.

A dashboard is [deploy/grafana/tidemark.json](../deploy/grafana/tidemark.json), rules and alerts are
[deploy/prometheus/rules.yaml](../deploy/prometheus/rules.yaml); [operations.md](operations.md) says what to do about an alert.
`

const metricsTail = `
Those of the Go runtime (` + "`go_*`" + `) and of the process (` + "`process_*`" + `) are there as well.

## Labels

| label | is |
|---|---|
| ` + "`topic`, `partition`" + ` | the partition; a service has one topic, so that some carry the number alone |
| ` + "`result`" + ` of events | ` + "`folded`, `filtered`, `bad`, `tombstone`, `before_cut`" + `: they add up to the records consumed |
| ` + "`result`" + ` of commits | ` + "`ok`, `error`" + ` |
| ` + "`reason`" + ` | of a bad record; below |
| ` + "`field`" + ` | the name of a result whose field documents of the history lack |
| ` + "`route`" + ` | the route as ` + "`/openapi.json`" + ` has it, such as ` + "`/v1/aggregates/{key}`" + `; ` + "`/internal/…`" + ` is what members ask each other, ` + "`unknown`" + ` what is no route |
| ` + "`code`" + ` | the HTTP status; 499 where the asker went before the answer |

## Reasons of bad records

The first that fits, in this order; the last six column by column, keys first.

| reason | the record |
|---|---|
`

// why explains each reason.
var why = map[event.Reason]string{
	event.Empty:          "has no bytes, or blanks only",
	event.TooLarge:       "is larger than `events.max_bytes`, or its key is over 1 KiB",
	event.NotUTF8:        "is not UTF-8; UTF-16 is meant too",
	event.NotJSON:        "is not one whole, valid JSON value",
	event.NotObject:      "is valid JSON and not an object",
	event.DuplicateField: "has a name twice that the query reads",
	event.MissingField:   "lacks a field that must be there, or its key is empty text",
	event.NullField:      "has null in a field that must not be null",
	event.WrongType:      "has an array, object or boolean where another type is wanted",
	event.BadNumber:      "has text that is no number where a number is wanted",
	event.Overflow:       "has a number with more than 38 digits before or after the point, or one that does not fit its cast",
	event.BadTimestamp:   "has no instant of the forms that are read where a timestamp is wanted",
}

// TestGeneratedPage keeps docs/metrics.md as the service is.
func TestGeneratedPage(t *testing.T) {
	all := exposed(t)
	var names []string
	for n := range all {
		if strings.HasPrefix(n, "tidemark_") {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	var b strings.Builder
	b.WriteString(metricsHead)
	b.WriteString("\n| metric | type | labels | meaning |\n|---|---|---|---|\n")
	for _, n := range names {
		m := all[n]
		meaning := m.help
		if len(m.bounds) > 0 {
			meaning += fmt.Sprintf(" Buckets from %.4g to %.4g.", m.bounds[0], m.bounds[len(m.bounds)-1])
		}
		labels := ""
		if len(m.labels) > 0 {
			labels = "`" + strings.Join(m.labels, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", n, m.kind, labels, meaning)
	}
	b.WriteString(metricsTail)
	for i := 1; i < event.NumReasons; i++ {
		r := event.Reason(i)
		if why[r] == "" {
			t.Errorf("the reason %s is not explained", r)
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", r, why[r])
	}
	generated(t, "../docs/metrics.md", b.String())
}
