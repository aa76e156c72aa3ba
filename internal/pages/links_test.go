package pages

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tidemark/query"
)

// pages are the Markdown files of the project, from its root.
func pages(t *testing.T) (names []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
			return fs.SkipDir
		}
		if path.Ext(name) == ".md" {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	dropped = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors are the headings of a page as links name them.
func anchors(text string) map[string]bool {
	out := map[string]bool{}
	for _, h := range heading.FindAllStringSubmatch(text, -1) {
		out[strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-")] = true
	}
	return out
}

// Links between pages lead somewhere, to the heading that they name.
func TestLinksLeadSomewhere(t *testing.T) {
	for _, name := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(read(t, name), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			file, anchor, _ := strings.Cut(m[1], "#")
			target := name
			if file != "" {
				target = path.Join(path.Dir(name), file)
			}
			info, err := os.Stat(filepath.Join(root, target))
			if err != nil {
				t.Errorf("%s links to %s: %v", name, m[1], err)
				continue
			}
			if anchor != "" && (info.IsDir() || !anchors(read(t, target))[anchor]) {
				t.Errorf("%s links to %s: there is no such heading", name, m[1])
			}
		}
	}
}

// The queries that pages show are accepted, and each page for those who come
// from elsewhere has one.
func TestQueriesOfThePagesAreAccepted(t *testing.T) {
	block := regexp.MustCompile("(?s)```sql\n(.*?)```")
	for _, name := range pages(t) {
		found := block.FindAllStringSubmatch(read(t, name), -1)
		if len(found) == 0 && strings.HasPrefix(name, "docs/coming-from/") {
			t.Errorf("%s has no query", name)
		}
		for _, m := range found {
			if _, err := query.Parse(m[1]); err != nil {
				t.Errorf("%s: %v\n%s", name, err, m[1])
			}
		}
	}
}
