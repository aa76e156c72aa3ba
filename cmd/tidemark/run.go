package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// Exit statuses.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2 // unusable arguments, configuration or query
)

// usageError marks an error that asks the user to write something else.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// program is what every command works with.
type program struct {
	getenv         func(string) (string, bool)
	stdout, stderr io.Writer
}

// run is the program: it carries out the command that args name and returns
// the exit status. It is what the tests call.
func run(ctx context.Context, args []string, getenv func(string) (string, bool), stdout, stderr io.Writer) int {
	p := &program{getenv, stdout, stderr}
	root := &cobra.Command{
		Use:   "tidemark",
		Short: "Exact running totals per key over a Kafka topic, answered over HTTP",
		Long: "Tidemark keeps exact running totals per key over a Kafka topic and answers them over HTTP.\n" +
			"It loads each key's history, joins a consumer group, and folds every record once, through any crash.",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("unknown command %q for %q: see %s --help", args[0], cmd.CommandPath(), cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w: see %s --help", err, cmd.CommandPath())}
	})
	root.AddCommand(p.demo(), p.init(), p.serve(), p.check(), p.bootstrap(), p.get(), p.inspect(), p.snapshot(), p.version(), p.man())
	wrapArgs(root)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	if !errors.Is(err, errSilent) {
		fmt.Fprintf(stderr, "tidemark: %v\n", err)
	}
	if u := (usageError{}); errors.As(err, &u) {
		return exitUsage
	}
	return exitFailed
}

// errSilent fails a command that has said all there is to say.
var errSilent = errors.New("failed")

// wrapArgs makes errors of the arguments' number or kind usage errors.
func wrapArgs(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return usageError{err}
			}
			return nil
		}
	}
	for _, sub := range cmd.Commands() {
		wrapArgs(sub)
	}
}
