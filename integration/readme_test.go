//go:build integration

package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The configuration that the README gives to copy is accepted, with its query
// and a history of the shape that it tells of.
func TestReadmeConfigurationIsAccepted(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string) string {
		_, rest, ok := strings.Cut(string(readme), "```"+kind+"\n")
		text, _, ended := strings.Cut(rest, "```")
		if !ok || !ended {
			t.Fatalf("the README has no block of %s", kind)
		}
		return text
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"tidemark.yaml": block("yaml"), "sales.sql": block("sql"), "history.ndjson": example(t, "history.ndjson"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if code, out, errs := command(t, "check", "-c", filepath.Join(dir, "tidemark.yaml")); code != 0 {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
}
