package config

import (
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestO04O05Problems compares every sentence that Load has for a wrong
// configuration. -rewrite writes the answers anew.
func TestO04O05Problems(t *testing.T) {
	vars := map[string]string{"A": "1", "EMPTY": "", "HUNTER": "hunter2"}
	datadriven.RunTest(t, "testdata/problems", func(t *testing.T, d *datadriven.TestData) string {
		dir := t.TempDir()
		_, err := Load(write(t, dir, "tidemark.yaml", d.Input+"\n"), environment(vars), Options{})
		if err == nil {
			return "no problem\n"
		}
		text := strings.ReplaceAll(err.Error(), dir+"/", "")
		quotesKey := strings.Contains(d.Input, "file:hunter2") // a file's name may be told
		if strings.Contains(text, "hunter2") && !quotesKey {
			t.Errorf("a secret is printed:\n%s", text)
		}
		for line := range strings.SplitSeq(text, "\n") {
			if !strings.HasPrefix(line, "tidemark.yaml:") {
				t.Errorf("%q does not begin with FILE:LINE", line)
			}
		}
		return text + "\n"
	})
}
