package pages

import (
	"flag"
	"fmt"
	"go/ast"
	"go/doc"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the generated files anew")

const troublesFile = root + "/docs/troubles.md"

// troubleID is the number of a trouble in a test's name: TestK15S17Markers.
var troubleID = regexp.MustCompile(`[BDKNOQST][0-9]{2}`)

// carrier is a test that carries IDs.
type carrier struct {
	name, path, says string
}

// carriers finds the tests that carry IDs, by ID.
func carriers(t *testing.T) map[string][]carrier {
	found := make(map[string][]carrier)
	for _, f := range goFiles(t) {
		for _, decl := range f.tree.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || !f.test() || fn.Recv != nil || !strings.HasPrefix(fn.Name.Name, "Test") {
				continue
			}
			c := carrier{fn.Name.Name, f.path, strings.TrimPrefix(new(doc.Package).Synopsis(fn.Doc.Text()), fn.Name.Name)}
			c.says = strings.TrimLeft(c.says, ":, ")
			for _, id := range troubleID.FindAllString(c.name, -1) {
				found[id] = append(found[id], c)
			}
		}
	}
	for _, tests := range found {
		slices.SortFunc(tests, func(a, b carrier) int { return strings.Compare(a.path+a.name, b.path+b.name) })
	}
	return found
}

// TestTroublesHaveTests: each trouble has a test, and each number in a test's
// name is that of a trouble.
func TestTroublesHaveTests(t *testing.T) {
	tests := carriers(t)
	known := make(map[string]bool)
	for _, g := range groups {
		for _, trouble := range g.troubles {
			if known[trouble.id] {
				t.Errorf("%s is there twice", trouble.id)
			}
			known[trouble.id] = true
			if len(tests[trouble.id]) == 0 {
				t.Errorf("no test carries %s: %s", trouble.id, trouble.what)
			}
		}
	}
	for id, carry := range tests {
		if !known[id] {
			t.Errorf("%s of %s carries %s, which the table of troubles does not have", carry[0].name, carry[0].path, id)
		}
	}
}

// TestTroublesPage keeps docs/troubles.md as table and tests have it.
func TestTroublesPage(t *testing.T) {
	want := troublesPage(carriers(t))
	if *update {
		if err := os.WriteFile(troublesFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(troublesFile)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != want {
		t.Errorf("%s is not what the table and the tests give: run make generate", troublesFile)
	}
}

const troublesHead = `# Troubles that others have

<!-- Generated from the table in internal/pages and the names of the tests by make generate. -->

What people report about systems that keep running totals over Kafka, and what Tidemark does there. Each has a number that the tests carry
in their names: ` + "`go test ./... -run K01`" + ` runs those of one, and a test says more in its first sentence (as the link's title).
Tests under ` + "`integration/`" + ` run the real binary on real servers: ` + "`make integration`" + `. What a message means is in [errors.md](errors.md).
`

func troublesPage(tests map[string][]carrier) string {
	var b strings.Builder
	b.WriteString(troublesHead)
	for _, g := range groups {
		fmt.Fprintf(&b, "\n## %s\n\n| | trouble | what Tidemark does | tests |\n|---|---|---|---|\n", g.title)
		for _, trouble := range g.troubles {
			var links []string
			for _, c := range tests[trouble.id] {
				title := ""
				if c.says != "" {
					title = ` "` + strings.NewReplacer(`"`, "'", "|", "/", "\n", " ").Replace(c.says) + `"`
				}
				links = append(links, fmt.Sprintf("[%s](../%s%s)", c.name, c.path, title))
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", trouble.id, trouble.what, trouble.does, strings.Join(links, ", "))
		}
	}
	return b.String()
}
