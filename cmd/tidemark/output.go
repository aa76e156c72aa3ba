package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// printJSON prints v for programs.
func (p *program) printJSON(v any) error {
	enc := json.NewEncoder(p.stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// printTable prints rows under a header, in columns.
func (p *program) printTable(header []string, rows [][]string) error {
	return table(p.stdout, append([][]string{header}, rows...))
}

// table writes rows in columns.
func table(out io.Writer, rows [][]string) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		if _, err := fmt.Fprintln(w, strings.Join(row, "\t")); err != nil {
			return err
		}
	}
	return w.Flush()
}

// printLines prints lines behind an empty one, where there are any.
func (p *program) printLines(lines []string) error {
	for i, line := range lines {
		if i == 0 {
			line = "\n" + line
		}
		if _, err := fmt.Fprintln(p.stdout, line); err != nil {
			return err
		}
	}
	return nil
}
