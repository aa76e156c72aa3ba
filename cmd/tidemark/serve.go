package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"tidemark/config"
	"tidemark/snapshot"
)

func (p *program) serve() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "serve -c FILE",
		Short: "Run the service",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := p.load(file, config.Options{})
			if err != nil {
				return err
			}
			svc, err := p.newService(cfg)
			if err != nil {
				return err
			}
			return svc.run(cmd.Context())
		},
	}
	configFlag(cmd, &file)
	return cmd
}

// configFlag adds the flag that names the configuration file.
func configFlag(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVarP(file, "config", "c", "tidemark.yaml", "the configuration file")
}

// load reads the configuration: the verdict is the same for every command.
func (p *program) load(file string, opts config.Options) (*config.Config, error) {
	cfg, err := config.Load(file, p.getenv, opts)
	if err != nil {
		return nil, usageError{err}
	}
	if opts.AllowUnset {
		return cfg, nil
	}
	if err := kafkaConfig(cfg, nil, "").Validate(); err != nil {
		return nil, usageError{fmt.Errorf("%s: the settings of kafka: %w", file, err)}
	}
	if err := snapshot.Validate(cfg.Snapshots.URL); err != nil {
		return nil, usageError{fmt.Errorf("%s: snapshots.url: %w", file, err)}
	}
	return cfg, nil
}

// isTerminal says whether what is written to, or read from, is one.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// newLogger logs to w as the configuration says.
func newLogger(w io.Writer, cfg config.Log) *slog.Logger {
	opts := &slog.HandlerOptions{Level: cfg.Level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Value.Kind() == slog.KindDuration {
			a.Value = slog.StringValue(a.Value.Duration().String()) // with its unit, in JSON too
		}
		return a
	}}
	format := cfg.Format
	if format == "auto" {
		format = "json"
		if isTerminal(w) {
			format = "text"
		}
	}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}
