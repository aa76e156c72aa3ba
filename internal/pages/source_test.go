package pages

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// root is the module's folder, as tests here see it.
const root = "../.."

// goFile is one parsed Go file of the module.
type goFile struct {
	path string // slash-separated, from the module's root
	tree *ast.File
}

func (f goFile) test() bool { return strings.HasSuffix(f.path, "_test.go") }

// parsed are all Go files of the module, whatever their build tags.
var parsed = sync.OnceValues(func() (files []goFile, err error) {
	set := token.NewFileSet()
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "dist" || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go"):
			return nil
		}
		tree, err := parser.ParseFile(set, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		files = append(files, goFile{filepath.ToSlash(rel), tree})
		return err
	})
	return files, err
})

func goFiles(t *testing.T) []goFile {
	t.Helper()
	files, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// text is the value of a string literal, or of several that are added up;
// anything else among them stands as a verb does.
func text(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			s, err := strconv.Unquote(e.Value)
			return s, err == nil
		}
	case *ast.ParenExpr:
		return text(e.X)
	case *ast.BinaryExpr:
		if e.Op != token.ADD {
			return "", false
		}
		x, first := text(e.X)
		y, second := text(e.Y)
		if !first {
			x = "%s"
		}
		if !second {
			y = "%s"
		}
		return x + y, first || second
	}
	return "", false
}

// texts calls f for the string literals below n, each sum of them once.
func texts(n ast.Node, f func(string)) {
	ast.Inspect(n, func(n ast.Node) bool {
		if _, ok := n.(*ast.ImportSpec); ok {
			return false
		}
		if e, ok := n.(ast.Expr); ok {
			if s, ok := text(e); ok {
				f(s)
				return false
			}
		}
		return true
	})
}

// literals are all string literals of what is built, tests aside.
var literals = sync.OnceValues(func() (all []string, err error) {
	files, err := parsed()
	for _, f := range files {
		if !f.test() && !strings.HasPrefix(f.path, "internal/") {
			texts(f.tree, func(s string) { all = append(all, s) })
		}
	}
	return all, err
})
