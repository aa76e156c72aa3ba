package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

// man is hidden: archives and packages are made with it.
func (p *program) man() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Short:  "Write the manual pages, one for each command, into a folder",
		Args:   cobra.ExactArgs(1),
		Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return fmt.Errorf("make the folder for the manual pages: %w", err)
			}
			return writePages(args[0], cmd.Root())
		},
	}
}

// writePages writes the page of cmd and those of the commands below it.
func writePages(dir string, cmd *cobra.Command) error {
	file := filepath.Join(dir, pageName(cmd)+".1")
	if err := os.WriteFile(file, []byte(manPage(cmd)), 0o644); err != nil {
		return fmt.Errorf("write the manual page of %s: %w", cmd.CommandPath(), err)
	}
	for _, sub := range cmd.Commands() {
		if !sub.IsAvailableCommand() {
			continue
		}
		if err := writePages(dir, sub); err != nil {
			return err
		}
	}
	return nil
}

// pageName is tidemark-serve for "tidemark serve".
func pageName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// manPage is the page of one command in the macros of man(7).
func manPage(cmd *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1 \"\" %s \"Tidemark\"\n", quoteRoff(strings.ToUpper(pageName(cmd))), quoteRoff("tidemark "+builtFrom().Version))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(pageName(cmd)), roff(cmd.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n", roff(cmd.UseLine()))
	about := cmd.Long
	if about == "" {
		about = cmd.Short + "."
	}
	b.WriteString(".SH DESCRIPTION\n" + paragraphs(about))

	cmd.InitDefaultHelpFlag()
	b.WriteString(".SH OPTIONS\n.nf\n")
	for line := range strings.Lines(cmd.LocalFlags().FlagUsages()) {
		b.WriteString(roff(strings.TrimRight(line, "\n")) + "\n")
	}
	b.WriteString(".fi\n")
	if cmd.HasExample() {
		b.WriteString(".SH EXAMPLES\n" + paragraphs(cmd.Example))
	}
	if !cmd.HasParent() {
		b.WriteString(".SH COMMANDS\n")
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				fmt.Fprintf(&b, ".TP\n.B %s\n%s.\n", roff(sub.Use), roff(sub.Short))
			}
		}
		b.WriteString(".SH EXIT STATUS\n" + paragraphs("0 done, 1 failed, 2 unusable arguments, configuration or query."))
	} else {
		fmt.Fprintf(&b, ".SH SEE ALSO\n.BR %s (1)\n", roff(pageName(cmd.Parent())))
	}
	return b.String()
}

// paragraphs keeps blank lines as breaks between paragraphs, and indented lines
// as they are.
func paragraphs(text string) string {
	var b strings.Builder
	literal := false
	for _, line := range strings.Split(strings.Trim(text, "\n"), "\n") {
		if indented := strings.HasPrefix(line, "\t") || strings.HasPrefix(line, "  "); indented != literal && strings.TrimSpace(line) != "" {
			literal = indented
			if literal {
				b.WriteString(".nf\n")
			} else {
				b.WriteString(".fi\n")
			}
		}
		if strings.TrimSpace(line) == "" {
			b.WriteString(".PP\n")
		} else {
			b.WriteString(roff(line) + "\n")
		}
	}
	if literal {
		b.WriteString(".fi\n")
	}
	return b.String()
}

// roff escapes a line of text.
func roff(line string) string {
	line = strings.NewReplacer(`\`, `\e`, `-`, `\-`).Replace(line)
	if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
		line = `\&` + line
	}
	return line
}

// quoteRoff is an argument of a macro.
func quoteRoff(text string) string { return `"` + strings.ReplaceAll(roff(text), `"`, `\(dq`) + `"` }
