package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"tidemark/store"
)

// release is the version; the linker sets it for a release.
var release = ""

// build says what this binary was built from.
type build struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Go      string `json:"go"`
	Format  int    `json:"format"` // of the state on disk
}

// builtFrom reads what the linker and the Go tool left in the binary.
func builtFrom() build {
	b := build{Version: release, Commit: "unknown", Go: runtime.Version(), Format: store.FormatVersion}
	if info, ok := debug.ReadBuildInfo(); ok {
		if b.Version == "" {
			b.Version = info.Main.Version
		}
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				b.Commit = s.Value
			}
		}
	}
	if b.Version == "" || b.Version == "(devel)" {
		b.Version = "development"
	}
	return b
}

func (p *program) version() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print version, commit, Go version and on-disk format",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b := builtFrom()
			if asJSON {
				return p.printJSON(b)
			}
			_, err := fmt.Fprintf(p.stdout, "tidemark %s\ncommit   %s\ngo       %s\nformat   %d\n", b.Version, b.Commit, b.Go, b.Format)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "for programs")
	return cmd
}
