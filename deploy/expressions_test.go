package deploy

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const (
	dashboardFile = "grafana/tidemark.json"
	rulesFile     = "prometheus/rules.yaml"
)

// expression is a PromQL expression and where it stands.
type expression struct{ at, text string }

// ruleFile is a file of Prometheus' rules.
type ruleFile struct {
	Groups []struct {
		Name  string
		Rules []rule
	}
}

type rule struct {
	Record, Alert, Expr, For string
	Labels, Annotations      map[string]string
}

func readRules(t *testing.T) (rules []rule) {
	t.Helper()
	var f ruleFile
	decode(t, rulesFile, &f)
	for _, g := range f.Groups {
		rules = append(rules, g.Rules...)
	}
	if len(rules) == 0 {
		t.Fatalf("%s holds no rules", rulesFile)
	}
	return rules
}

func decode(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasSuffix(file, ".json") {
		err = json.Unmarshal(text, into)
	} else {
		err = yaml.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatalf("read %s: %v", file, err)
	}
}

// dashboardExpressions are those of panels and annotations, with Grafana's
// variables as they are until one is chosen.
func dashboardExpressions(t *testing.T) (list []expression) {
	var d dashboard
	decode(t, dashboardFile, &d)
	variables := strings.NewReplacer("$namespace", ".*", "$job", ".*", "$instance", ".*", "$topic", ".*",
		"$__rate_interval", "1m", "$__range", "1h", "$__interval", "15s")
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			list = append(list, expression{fmt.Sprintf("%s: %s %s", dashboardFile, p.Title, target.RefID), variables.Replace(target.Expr)})
		}
	}
	for _, a := range d.Annotations.List {
		if a.Expr != "" {
			list = append(list, expression{dashboardFile + ": annotation " + a.Name, variables.Replace(a.Expr)})
		}
	}
	for _, e := range list {
		if strings.Contains(e.text, "$") {
			t.Errorf("%s: a variable is left in %s", e.at, e.text)
		}
	}
	return list
}

var (
	quoted   = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	grouping = regexp.MustCompile(`\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)`)
	selector = regexp.MustCompile(`([a-zA-Z_:][a-zA-Z0-9_:]*)\s*\{([^}]*)\}`)
	name     = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*`)
	ours     = regexp.MustCompile(`^(?:tidemark_|process_|go_|up$|ALERTS$|[a-z_]+:)`)
	result   = regexp.MustCompile(`result="([^"]*)"`)
	matcher  = regexp.MustCompile(`([a-zA-Z_][a-zA-Z0-9_]*)\s*(?:=~|!~|!=|=)`)
)

// TestExpressionsNameWhatIsThere: every metric in the dashboard and the rules
// is one that a running service shows or that a rule records, every label of a
// selector is one of that metric, and every label grouped by is one of a
// metric in the expression.
func TestExpressionsNameWhatIsThere(t *testing.T) {
	known := map[string][]string{"up": {"job", "instance", "namespace"}, "ALERTS": {"alertname", "alertstate", "severity"}}
	var results []string
	for _, m := range exposed(t) {
		for s, labels := range series(m) {
			known[s] = labels
		}
		results = append(results, m.values["result"]...)
	}
	rules := readRules(t)
	list := dashboardExpressions(t)
	for _, r := range rules {
		list = append(list, expression{rulesFile + ": " + r.Record + r.Alert, r.Expr})
		if r.Record != "" {
			known[r.Record] = nil
			for _, m := range grouping.FindAllStringSubmatch(r.Expr, -1) {
				known[r.Record] = append(known[r.Record], name.FindAllString(m[1], -1)...)
			}
			for n, labels := range known { // what is recorded of a recorded one keeps its labels
				if strings.Contains(r.Expr, n) && strings.Contains(n, ":") && n != r.Record {
					known[r.Record] = append(known[r.Record], labels...)
				}
			}
		}
	}
	for _, e := range list {
		bare := quoted.ReplaceAllString(e.text, `""`)
		var here []string // all labels of the metrics in the expression
		found := 0
		for _, n := range name.FindAllString(grouping.ReplaceAllString(selector.ReplaceAllString(bare, "$1"), ""), -1) {
			if !ours.MatchString(n) {
				continue
			}
			labels, ok := known[n]
			if !ok {
				t.Errorf("%s: nothing shows %s", e.at, n)
			}
			here = append(here, labels...)
			found++
		}
		if found == 0 {
			t.Errorf("%s: no metric in %s", e.at, e.text)
		}
		for _, s := range selector.FindAllStringSubmatch(bare, -1) {
			for _, l := range matcher.FindAllStringSubmatch(s[2], -1) {
				if !slices.Contains(known[s[1]], l[1]) {
					t.Errorf("%s: %s has no label %s", e.at, s[1], l[1])
				}
			}
		}
		for _, r := range result.FindAllStringSubmatch(e.text, -1) {
			if !slices.Contains(results, r[1]) {
				t.Errorf("%s: there is no result %s", e.at, r[1])
			}
		}
		for _, g := range grouping.FindAllStringSubmatch(bare, -1) {
			for _, l := range name.FindAllString(g[1], -1) {
				if !slices.Contains(here, l) {
					t.Errorf("%s: no metric in it has the label %s", e.at, l)
				}
			}
		}
	}
}

// TestEveryMetricIsShown: the dashboard leaves no metric of the service out.
func TestEveryMetricIsShown(t *testing.T) {
	var all strings.Builder
	for _, e := range dashboardExpressions(t) {
		all.WriteString(e.text + "\n")
	}
	for n := range exposed(t) {
		if strings.HasPrefix(n, "tidemark_") && !regexp.MustCompile(`\b`+n+`(?:_bucket|_sum|_count)?\b`).MatchString(all.String()) {
			t.Errorf("%s shows nothing of %s", dashboardFile, n)
		}
	}
}

// TestAlertsAreExplained: each alert has a severity, its texts, a section of
// the operations manual, and a test.
func TestAlertsAreExplained(t *testing.T) {
	manual, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	tests, err := os.ReadFile("prometheus/rules_test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	alerts := map[string]bool{}
	for _, r := range readRules(t) {
		if r.Alert == "" {
			continue
		}
		alerts[r.Alert] = true
		if s := r.Labels["severity"]; s != "critical" && s != "warning" {
			t.Errorf("%s: the severity %q is neither critical nor warning", r.Alert, s)
		}
		for _, a := range []string{"summary", "description"} {
			if r.Annotations[a] == "" {
				t.Errorf("%s has no %s", r.Alert, a)
			}
		}
		if want := "docs/operations.md#" + strings.ToLower(r.Alert); r.Annotations["runbook_url"] != want {
			t.Errorf("%s: runbook_url is %q, not %q", r.Alert, r.Annotations["runbook_url"], want)
		}
		if !strings.Contains(string(manual), "\n### "+r.Alert+"\n") {
			t.Errorf("docs/operations.md has no section %q", "### "+r.Alert)
		}
		if !strings.Contains(string(tests), r.Alert) {
			t.Errorf("rules_test.yaml has no test of %s", r.Alert)
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^### (Tidemark\w+)$`).FindAllStringSubmatch(string(manual), -1) {
		if !alerts[m[1]] {
			t.Errorf("docs/operations.md explains %s, which is no alert", m[1])
		}
	}
}
