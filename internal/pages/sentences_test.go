package pages

import (
	"go/ast"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// inBytes are the files whose errors say what is wrong with bytes on a disk, in
// a store or on a wire. What stands before them names the object, and is on the
// page.
var inBytes = []string{
	"aggregator/encoding.go", "aggregator/persist.go", "aggregator/total.go", "snapshot/manifest.go", "snapshot/record.go",
	"source/kafka/batch.go", "source/kafka/inflate.go", "source/kafka/wire.go", "bootstrap/elastic_lexer.go",
}

// inside are functions whose errors are of this program's own making: a user
// sees them only where it has a fault.
var inside = []string{
	"store.complete", "bootstrap.NewElastic", "bootstrap.New", "aggregator.Compile",
}

// sentence is an error, or a line of the log at Warn or Error, as it begins:
// what only wraps another error is none.
func sentence(call *ast.CallExpr) (s, kind string, ok bool) {
	if len(call.Args) == 0 {
		return "", "", false
	}
	first := call.Args[0]
	switch fn := call.Fun.(type) {
	case *ast.SelectorExpr:
		of, _ := fn.X.(*ast.Ident)
		switch kind = fn.Sel.Name; {
		case kind == "New" && of != nil && of.Name == "errors", kind == "Errorf":
		case kind == "Warn" || kind == "Error":
			s, ok = text(first)
			return shown(s), "a line of the log", ok
		case kind == "problem" && len(call.Args) > 1:
			first = call.Args[1]
		default:
			return "", "", false
		}
	case *ast.Ident:
		switch kind = fn.Name; {
		case (kind == "fail" || kind == "problemf") && len(call.Args) > 1:
			first = call.Args[1]
		default:
			return "", "", false
		}
	}
	s, ok = text(first)
	if s = shown(s); strings.HasSuffix(s, ": …") || strings.HasSuffix(s, "\n") {
		return "", "", false
	}
	return s, "an error", ok
}

// TestSentencesAreOnThePage: every error that begins somewhere, every exported
// error and every warning of the log is on the page.
func TestSentencesAreOnThePage(t *testing.T) {
	messages := quotes(t)
	words := regexp.MustCompile(`\pL+`)
	found := 0
	for _, f := range goFiles(t) {
		dir, _, _ := strings.Cut(f.path, "/")
		if f.test() || slices.Contains([]string{"internal", "bench", "deploy", "web", "decimal", "event"}, dir) || slices.Contains(inBytes, f.path) {
			continue
		}
		look := func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			s, kind, ok := sentence(call)
			fixed := strings.ReplaceAll(s, "…", "")
			if !ok || len(words.FindAllString(fixed, -1)) < 3 || utf8.RuneCountInString(fixed) < 12 {
				return true
			}
			found++
			onPage(t, messages, kind+" of "+f.path, s)
			return true
		}
		for _, decl := range f.tree.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				if !slices.Contains(inside, f.tree.Name.Name+"."+decl.Name.Name) {
					ast.Inspect(decl, look)
				}
			case *ast.GenDecl:
				for _, spec := range decl.Specs {
					v, ok := spec.(*ast.ValueSpec)
					if !ok || !strings.HasPrefix(v.Names[0].Name, "Err") || len(v.Values) != 1 {
						continue
					}
					texts(v.Values[0], func(s string) {
						found++
						onPage(t, messages, v.Names[0].Name, s)
					})
				}
			}
		}
	}
	if found < 300 {
		t.Errorf("%d sentences are found", found)
	}
}
