package crashpoint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Every name in the table is come by somewhere, and no other is: what is tried
// is the table. That each is come by in a life of the service the suite on
// real servers proves.
func TestTableIsWhatTheCodeComesBy(t *testing.T) {
	var table []string
	for _, p := range Points {
		if p.Name == "" || strings.Contains(p.Name, ":") || slices.Contains(table, p.Name) {
			t.Errorf("name %q is empty, has a colon or is there twice", p.Name)
		}
		table = append(table, p.Name)
	}
	hit := map[string][]token.Position{}
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		return hits(t, path, hit)
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, at := range hit {
		if !slices.Contains(table, name) {
			t.Errorf("%s comes by %q, which is not in the table", at[0], name)
		}
		if len(at) > 1 {
			t.Errorf("%q is come by at several places: %v", name, at)
		}
	}
	for _, name := range table {
		if hit[name] == nil {
			t.Errorf("%q is in the table, and nothing comes by it", name)
		}
	}
}

// hits collects the names that a file comes by: in calls of crashpoint.Hit,
// and of the steps of package snapshot.
func hits(t *testing.T, path string, hit map[string][]token.Position) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		f, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || len(call.Args) != 1 {
			return true
		}
		if of, ok := f.X.(*ast.Ident); (!ok || of.Name != "crashpoint" || f.Sel.Name != "Hit") &&
			(f.Sel.Name != "step" || filepath.Base(filepath.Dir(path)) != "snapshot") {
			return true
		}
		if name, ok := call.Args[0].(*ast.Ident); ok && name.Name == "name" {
			return true // the step that leads here
		}
		at := set.Position(call.Pos())
		literal, ok := call.Args[0].(*ast.BasicLit)
		if !ok {
			t.Errorf("%s: the name is not written out", at)
			return true
		}
		name, err := strconv.Unquote(literal.Value)
		if err != nil {
			t.Errorf("%s: %v", at, err)
		}
		hit[name] = append(hit[name], at)
		return true
	})
	return nil
}
