//go:build bench

package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestBench measures, prints the table, and writes docs/performance.md anew
// when there is a result of every measurement, be it of this run or of one
// before. BENCH_ONLY names some; BENCH_BROKER is kafka or memory; BENCH_DIR is
// where states and the broker's data lie; BENCH_RESULTS where results are kept.
func TestBench(t *testing.T) {
	size, err := full.fromEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	run, err := chosen(os.Getenv("BENCH_ONLY"))
	if err != nil {
		t.Fatal(err)
	}
	results := os.Getenv("BENCH_RESULTS")
	if results == "" {
		results = "results"
	}
	b := newBench(t, size, os.Getenv("BENCH_DIR"), os.Getenv("BENCH_BROKER"))
	b.say("%s; broker: %s; %s", machine(), b.broker.kind, size)
	var made []section
	for _, m := range run {
		s := b.measure(t, m)
		if err := s.keep(results); err != nil {
			t.Fatal(err)
		}
		made = append(made, s)
		fmt.Printf("\n%s\n", table(made[len(made)-1:]))
	}
	fmt.Printf("\n%s\n", table(made))

	sections, missing, err := kept(results)
	if err != nil {
		t.Fatal(err)
	}
	if missing {
		b.say("docs/performance.md is left as it is: not all measurements have a result in %s", results)
		return
	}
	page := filepath.Join("..", "docs", "performance.md")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	written, err := between(string(text), table(sections))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(page, []byte(written), 0o644); err != nil {
		t.Fatal(err)
	}
	b.say("written to docs/performance.md")
}
