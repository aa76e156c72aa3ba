package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestManualPages: every command that help lists has a page that names its
// flags, and no line of text is taken for a macro.
func TestManualPages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man")
	if status, _, stderr := tidemark(t, nil, "man", dir); status != exitDone {
		t.Fatalf("status %d: %s", status, stderr)
	}
	_, help, _ := tidemark(t, nil, "--help")
	_, commands, _ := strings.Cut(help, "Available Commands:\n")
	commands, _, _ = strings.Cut(commands, "\n\n")
	pages := 0
	for line := range strings.Lines(commands) {
		command := strings.Fields(line)[0]
		text, err := os.ReadFile(filepath.Join(dir, "tidemark-"+command+".1"))
		if err != nil {
			if command != "help" {
				t.Error(err)
			}
			continue
		}
		pages++
		_, its, _ := tidemark(t, nil, command, "--help")
		_, flags, _ := strings.Cut(its, "\nFlags:\n")
		for flag := range strings.Lines(flags) {
			if i := strings.Index(flag, "--"); i >= 0 && i < 8 {
				if name := strings.Fields(flag[i:])[0]; !strings.Contains(string(text), strings.ReplaceAll(name, "-", `\-`)) {
					t.Errorf("the page of %s lacks %s", command, name)
				}
			}
		}
	}
	if pages < 6 {
		t.Errorf("%d pages for:\n%s", pages, commands)
	}
	if got := roff(".x 'y' \\z"); got != `\&.x 'y' \ez` {
		t.Errorf("escaped to %s", got)
	}
	if status, _, _ := tidemark(t, nil, "man"); status != exitUsage {
		t.Errorf("without a folder the status is %d", status)
	}
}
