package pages

import (
	"go/ast"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"tidemark/event"
)

const errorsFile = root + "/docs/errors.md"

// quoted is a message of the page, as a pattern of literals.
type quoted struct {
	line    int
	message string
	pattern *regexp.Regexp
	vague   bool // too few words to be sure of what is meant
}

var (
	span = regexp.MustCompile("`([^`]+)`")
	verb = regexp.MustCompile(`%[-+#0]*[0-9.]*(?:\[[0-9]+\])?[a-zA-Z]`)
)

// shown is a literal as it is printed, "…" standing for what differs.
func shown(literal string) string {
	s := strings.ReplaceAll(literal, "%q", `"…"`)
	s = verb.ReplaceAllString(s, "…")
	return strings.ReplaceAll(s, "%%", "%")
}

// quotes are the messages in the first cells of the page's tables.
func quotes(t *testing.T) (all []quoted) {
	page, err := os.ReadFile(errorsFile)
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(string(page), "\n") {
		cell, ok := strings.CutPrefix(line, "| `")
		if !ok {
			continue
		}
		cell, _, _ = strings.Cut("`"+cell, " | ")
		for _, m := range span.FindAllStringSubmatch(cell, -1) {
			var parts []string
			fixed := 0
			for part := range strings.SplitSeq(m[1], "…") {
				parts = append(parts, regexp.QuoteMeta(part))
				fixed += utf8.RuneCountInString(strings.TrimSpace(part))
			}
			pattern := strings.Join(parts, `(?s:.*)`)
			vague := fixed < 12
			if vague {
				pattern = "^" + pattern + "$" // a word would be found anywhere
			}
			all = append(all, quoted{i + 1, m[1], regexp.MustCompile(pattern), vague})
		}
	}
	return all
}

// TestMessagesOfThePageExist: what the page quotes is in the code, word for
// word.
func TestMessagesOfThePageExist(t *testing.T) {
	all, err := literals()
	if err != nil {
		t.Fatal(err)
	}
	printed := make([]string, len(all))
	for i, s := range all {
		printed[i] = shown(s)
	}
	messages := quotes(t)
	if len(messages) < 200 {
		t.Errorf("%d messages are found on the page", len(messages))
	}
	for _, q := range messages {
		if !slices.ContainsFunc(printed, q.pattern.MatchString) {
			t.Errorf("docs/errors.md:%d: no message of the code is like %q", q.line, q.message)
		}
	}
}

// onPage fails where no message of the page is like a literal, or the literal
// itself where it is vague.
func onPage(t *testing.T, messages []quoted, what, literal string) {
	t.Helper()
	s := shown(literal)
	if !slices.ContainsFunc(messages, func(q quoted) bool { return q.message == s || !q.vague && q.pattern.MatchString(s) }) {
		t.Errorf("docs/errors.md lacks %s: %q", what, s)
	}
}

// TestReasonsAreOnThePage: each reason for which a partition pauses or waits is
// on the page.
func TestReasonsAreOnThePage(t *testing.T) {
	messages := quotes(t)
	funcs := make(map[string]*ast.FuncDecl)
	var holds []string
	for _, f := range goFiles(t) {
		if f.test() || !strings.HasPrefix(f.path, "aggregator/") {
			continue
		}
		for _, decl := range f.tree.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				if decl.Body != nil {
					funcs[decl.Name.Name] = decl
				}
			case *ast.GenDecl:
				for _, spec := range decl.Specs {
					if v, ok := spec.(*ast.ValueSpec); ok && decl.Tok == token.CONST && strings.HasPrefix(v.Names[0].Name, "hold") {
						holds = append(holds, v.Names[0].Name)
					}
				}
			}
		}
	}
	if len(holds) < 5 {
		t.Fatalf("the kinds of reasons to pause are %v", holds)
	}
	// Without a literal of its own: what insist repeats says store or dead letter.
	reasons := map[string]int{"holdSpace": 1}
	onPage(t, messages, "holdSpace", "%w: %s is free at %s and state.min_free is %s")
	waits := 0
	for _, fn := range funcs {
		// What the expression of a reason may say: literals in it, in what was
		// assigned to its variables here, and in the functions it calls.
		said := func(e ast.Expr) (all []string) {
			texts(e, func(s string) { all = append(all, s) })
			ast.Inspect(e, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.Ident:
					ast.Inspect(fn.Body, func(m ast.Node) bool {
						if a, ok := m.(*ast.AssignStmt); ok && len(a.Lhs) == 1 && n.Name != "err" {
							if to, ok := a.Lhs[0].(*ast.Ident); ok && to.Name == n.Name {
								texts(a.Rhs[0], func(s string) { all = append(all, s) })
							}
						}
						return true
					})
				case *ast.CallExpr:
					if callee, ok := n.Fun.(*ast.Ident); ok && funcs[callee.Name] != nil {
						texts(funcs[callee.Name].Body, func(s string) { all = append(all, s) })
					}
				}
				return true
			})
			return all
		}
		ast.Inspect(fn.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				if to, ok := n.Lhs[0].(*ast.SelectorExpr); ok && to.Sel.Name == "gap" {
					for _, s := range said(n.Rhs[0]) {
						if s == "" {
							continue // it ends
						}
						onPage(t, messages, "the reason of state gap", s)
						reasons["gap"]++
					}
				}
			case *ast.CallExpr:
				callee, ok := n.Fun.(*ast.SelectorExpr)
				if !ok {
					break
				}
				switch name := callee.Sel.Name; {
				case name == "pause" && len(n.Args) == 2:
					kind, ok := n.Args[0].(*ast.Ident)
					if !ok || !strings.HasPrefix(kind.Name, "hold") {
						break
					}
					for _, s := range said(n.Args[1]) {
						if s != "" && !strings.HasPrefix(s, " (") {
							onPage(t, messages, "a reason of "+kind.Name, s)
							reasons[kind.Name]++
						}
					}
				case name == "retry" && len(n.Args) == 3, name == "wait" && len(n.Args) == 1:
					for _, s := range said(n.Args[len(n.Args)/2]) {
						if s != "" && s != "%s: %v" {
							onPage(t, messages, "what is waited for", s)
							waits++
						}
					}
				}
			}
			return true
		})
	}
	for _, kind := range append(holds, "gap") {
		if reasons[kind] == 0 && kind != "numHolds" {
			t.Errorf("no reason is found for %s", kind)
		}
	}
	if waits < 10 {
		t.Errorf("%d things that are waited for are found", waits)
	}
}

// TestWordsAreOnThePage: the types of problems and the reasons of bad records
// are on the page.
func TestWordsAreOnThePage(t *testing.T) {
	messages := quotes(t)
	for r := event.Empty; int(r) < event.NumReasons; r++ {
		onPage(t, messages, "a reason of bad records", r.String())
	}
	types := 0
	for _, f := range goFiles(t) {
		if f.path != "api/problem.go" {
			continue
		}
		ast.Inspect(f.tree, func(n ast.Node) bool {
			if v, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(v.Names[0].Name, "type") && len(v.Values) == 1 {
				if s, ok := text(v.Values[0]); ok {
					onPage(t, messages, "a type of problems", s)
					types++
				}
			}
			return true
		})
	}
	if types < 10 {
		t.Errorf("%d types of problems are found", types)
	}
}
