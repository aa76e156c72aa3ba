package layout

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "tidemark"

// rule is what the files of a package, tests aside, may import besides the
// standard library.
type rule struct {
	own []string // packages of this module
	lib []string // modules, by the beginning of their path
}

var core = []string{"decimal", "event", "query", "aggregator"}

var rules = map[string]rule{
	"decimal":    {},
	"event":      {own: []string{"decimal"}},
	"query":      {own: []string{"decimal", "event"}, lib: []string{"github.com/alecthomas/participle/v2", "github.com/agnivade/levenshtein"}},
	"aggregator": {own: []string{"decimal", "event", "query"}},
	"store":      {own: core, lib: []string{"github.com/cockroachdb/pebble/v2", "golang.org/x/sys"}},
	"snapshot": {own: core, lib: []string{"gocloud.dev", "golang.org/x/sync", "golang.org/x/sys", "github.com/cenkalti/backoff/v5",
		"google.golang.org/api/googleapi", "github.com/Azure/azure-sdk-for-go/sdk/azcore"}},
	"source/kafka": {own: core, lib: []string{"github.com/IBM/sarama", "github.com/xdg-go/scram", "github.com/rcrowley/go-metrics", "golang.org/x/sync", "github.com/cenkalti/backoff/v5",
		"github.com/klauspost/compress", "github.com/pierrec/lz4/v4"}},
	"bootstrap": {own: core, lib: []string{"github.com/elastic/go-elasticsearch/v8", "github.com/elastic/elastic-transport-go/v8",
		"github.com/klauspost/compress", "golang.org/x/sync", "github.com/cenkalti/backoff/v5", "github.com/agnivade/levenshtein"}},
	"deadletter": {own: core},
	"api":        {own: append([]string{"web"}, core...), lib: []string{"github.com/prometheus", "golang.org/x/sync"}},
	"client":     {},
	"web":        {},
	"deploy":     {},
	"config":     {own: core, lib: []string{"github.com/knadh/koanf", "go.yaml.in/yaml/v3", "github.com/agnivade/levenshtein"}},
}

// rooms are the libraries that one package alone imports, tests included.
var rooms = map[string]string{
	"github.com/cockroachdb/pebble":       "store", // and of bench, whose yardstick is what people write with it
	"github.com/IBM/sarama":               "source/kafka",
	"gocloud.dev":                         "snapshot",
	"github.com/elastic/go-elasticsearch": "bootstrap",
	"github.com/alecthomas/participle":    "query",
	"github.com/knadh/koanf":              "config",
	"github.com/spf13/cobra":              "cmd/tidemark",
}

// testOnly are libraries that only tests, and what tests are made with, import.
var testOnly = []string{
	"github.com/twmb/franz-go", "pgregory.net/rapid", "go.uber.org/goleak", "github.com/google/go-cmp",
	"github.com/getkin/kin-openapi", "github.com/cockroachdb/datadriven", "github.com/go-json-experiment/json",
	"github.com/chromedp",
}

// demoBroker may import the in-process broker of franz-go outside of tests: the
// demo is the whole service in one process.
var demoBroker = []string{"cmd/tidemark"}

// file is one Go file of the module.
type file struct {
	name    string // slash-separated, from the module's root
	pkg     string // folder, from the module's root
	imports []string
	test    bool
}

func TestImportRules(t *testing.T) {
	files := goFiles(t)
	for _, f := range files {
		for _, imp := range f.imports {
			if own, ok := strings.CutPrefix(imp, module+"/"); ok {
				checkOwn(t, f, own)
				continue
			}
			if first, _, _ := strings.Cut(imp, "/"); !strings.Contains(first, ".") {
				continue // the standard library
			}
			checkLibrary(t, f, imp)
		}
	}
}

func checkOwn(t *testing.T, f file, own string) {
	switch {
	case own == "cmd" || strings.HasPrefix(own, "cmd/"):
		t.Errorf("%s imports %s: nobody imports a command", f.name, own)
	case strings.HasPrefix(own, "internal/testkit"):
		if !f.test && !strings.HasPrefix(f.pkg, "internal/testkit") {
			t.Errorf("%s imports %s: only tests do", f.name, own)
		}
	case own == "internal/crashpoint":
		// Every package may name the moments at which it can be killed.
	case own == "config" && f.pkg != "config" && !strings.HasPrefix(f.pkg, "cmd/"):
		t.Errorf("%s imports config: it is read in cmd and passed on as values", f.name)
	default:
		r, ok := rules[f.pkg]
		if ok && !f.test && !slices.Contains(r.own, own) {
			t.Errorf("%s imports %s: package %s may import %s alone", f.name, own, f.pkg, list(r.own))
		}
	}
}

func checkLibrary(t *testing.T, f file, imp string) {
	for prefix, room := range rooms {
		if strings.HasPrefix(imp, prefix) && f.pkg != room && f.pkg != "bench" {
			t.Errorf("%s imports %s: only package %s does", f.name, imp, room)
		}
	}
	if f.test || strings.HasPrefix(f.pkg, "internal/testkit") {
		return
	}
	if slices.ContainsFunc(testOnly, func(p string) bool { return strings.HasPrefix(imp, p) }) && !slices.Contains(demoBroker, f.pkg) {
		t.Errorf("%s imports %s: only tests do", f.name, imp)
		return
	}
	r, ok := rules[f.pkg]
	if ok && !slices.ContainsFunc(r.lib, func(p string) bool { return strings.HasPrefix(imp, p) }) {
		t.Errorf("%s imports %s: package %s may import %s besides the standard library", f.name, imp, f.pkg, list(r.lib))
	}
}

// Each package has a rule, or is one of those that need none.
func TestEveryPackageHasARule(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range goFiles(t) {
		seen[f.pkg] = true
	}
	for pkg := range seen {
		_, ruled := rules[pkg]
		free := strings.HasPrefix(pkg, "cmd/") || strings.HasPrefix(pkg, "internal/") || pkg == "integration" || pkg == "bench"
		if !ruled && !free {
			t.Errorf("package %s has no import rule: add one here and a line to docs/design.md", pkg)
		}
	}
}

// Each library has its line of why, and no line outlives its library.
func TestEveryDependencyHasItsReason(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "dependencies.md"))
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{} // by the names on the page
	for _, quoted := range regexp.MustCompile("`[a-z0-9.]+\\.[a-z]+/[^`]+`|`gocloud.dev`").FindAllString(string(page), -1) {
		used[strings.Trim(quoted, "`")] = false
	}
	for _, f := range goFiles(t) {
		for _, imp := range f.imports {
			if first, _, _ := strings.Cut(imp, "/"); !strings.Contains(first, ".") {
				continue
			}
			found := false
			for name := range used {
				if imp == name || strings.HasPrefix(imp, name+"/") {
					used[name], found = true, true
				}
			}
			if !found {
				t.Errorf("%s imports %s, of which docs/dependencies.md says nothing", f.name, imp)
			}
		}
	}
	for name, is := range used {
		if !is {
			t.Errorf("docs/dependencies.md gives a reason for %s, which nothing imports", name)
		}
	}
}

// goFiles reads the imports of every Go file of the module.
func goFiles(t *testing.T) []file {
	t.Helper()
	root := filepath.Join("..", "..")
	var files []file
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(name) != ".go" {
			return nil
		}
		f, err := read(root, name)
		files = append(files, f)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatal("no Go file found: is this test where it was?")
	}
	return files
}

func read(root, name string) (file, error) {
	source, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		return file{}, err
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), name, source, parser.ImportsOnly)
	if err != nil {
		return file{}, err
	}
	f := file{name: name, pkg: path.Dir(name), test: strings.HasSuffix(name, "_test.go")}
	for _, imp := range parsed.Imports {
		p, err := strconv.Unquote(imp.Path.Value)
		if err != nil {
			return file{}, err
		}
		f.imports = append(f.imports, p)
	}
	return f, nil
}

func list(names []string) string {
	if len(names) == 0 {
		return "nothing"
	}
	return strings.Join(names, ", ")
}
