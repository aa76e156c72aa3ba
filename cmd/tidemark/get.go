package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"tidemark/client"
)

func (p *program) get() *cobra.Command {
	var server, token string
	cmd := &cobra.Command{
		Use:     "get KEY...",
		Short:   "Print one answer, as the HTTP interface gives it",
		Long:    "Prints the answer for a key: one argument for each key column. The exit status is 1 where the key is absent, and 2 where it has another number of columns.",
		Example: "  tidemark get 23\n  tidemark get eu 23 --server http://10.0.0.7:8080",
		Args: func(_ *cobra.Command, keys []string) error {
			if len(keys) == 0 {
				return errors.New("get wants a key: one argument for each key column")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, keys []string) error {
			c, err := client.New([]string{server}, client.Options{Token: token})
			if err != nil {
				return usageError{fmt.Errorf("--server %q is not of the form http://host:port", server)}
			}
			defer c.Close()
			row, err := c.Get(cmd.Context(), keys, client.Read{})
			var refused *client.Error
			switch {
			case errors.Is(err, client.ErrBadRequest):
				return usageError{err} // the key is all that was given
			case err != nil && !errors.As(err, &refused):
				return fmt.Errorf("%w; is a service running there?", err)
			case err != nil:
				return err
			}
			_, err = fmt.Fprintf(p.stdout, "%s\n", row.JSON())
			return err
		},
	}
	cmd.Flags().StringVar(&server, "server", "http://127.0.0.1:8080", "any member of the group")
	cmd.Flags().StringVar(&token, "token", "", "bearer token, where the service wants one")
	return cmd
}
