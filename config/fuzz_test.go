package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzLoad: no file makes Load panic or report a problem without a place, and
// what passes has what the service cannot do without.
func FuzzLoad(f *testing.F) {
	golden, err := os.ReadFile("testdata/problems")
	if err != nil {
		f.Fatal(err)
	}
	for part := range strings.SplitSeq(string(golden), "load\n") {
		text, _, _ := strings.Cut(part, "\n----")
		f.Add(text)
	}
	f.Add(least)
	f.Add(pageExample)
	f.Add("history: &h {elasticsearch: {query: {a: &a [*a, *a]}}, key: *h}")
	file := filepath.Join(f.TempDir(), "tidemark.yaml")
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "_file") || strings.Contains(text, "location") || strings.Contains(text, "file:") {
			return // it would read files of this machine
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, opts := range []Options{{}, {AllowUnset: true}} {
			cfg, err := Load(file, environment(map[string]string{"A": "1"}), opts)
			var problems Problems
			switch {
			case err == nil:
				if cfg.Kafka.GroupID == "" || len(cfg.Kafka.BootstrapServers) == 0 || cfg.Program == nil && !opts.AllowUnset {
					t.Errorf("what passes is read as %+v", cfg)
				}
			case !errors.As(err, &problems):
				t.Errorf("not a problem of the file: %v", err)
			}
			lines, last := strings.Count(text, "\n")+1, 1
			for _, p := range problems {
				if p.Line < last || p.Line > lines+1 || p.Text == "" || strings.Contains(p.Text, "\n") {
					t.Errorf("after line %d of %d: %d %q", last, lines, p.Line, p.Text)
				}
				last = p.Line
			}
		}
	})
}
