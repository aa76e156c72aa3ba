package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// getTimeout bounds a request for one answer; the server answers or refuses
// within ten seconds.
const getTimeout = 15 * time.Second

func (p *program) get() *cobra.Command {
	var server, token string
	cmd := &cobra.Command{
		Use:     "get KEY...",
		Short:   "Print one answer, as the HTTP interface gives it",
		Long:    "Prints the answer for a key: one argument for each key column. The exit status is 1 where the key is absent, and 2 where it has another number of columns.",
		Example: "  tidemark get 23\n  tidemark get eu 23 --server http://10.0.0.7:8080",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, keys []string) error {
			base, err := url.Parse(server)
			if err != nil || base.Host == "" || (base.Scheme != "http" && base.Scheme != "https") {
				return usageError{fmt.Errorf("--server %q is not of the form http://host:port", server)}
			}
			for i, k := range keys {
				keys[i] = url.PathEscape(k)
			}
			if last := len(keys) - 1; keys[last] == "watch" {
				keys[last] = "%77atch" // the text, and not the route
			}
			target := strings.TrimSuffix(base.String(), "/") + "/v1/aggregates/" + strings.Join(keys, "/")
			req, err := http.NewRequestWithContext(cmd.Context(), http.MethodGet, target, nil)
			if err != nil {
				return usageError{fmt.Errorf("ask %s: %w", server, err)}
			}
			if token != "" {
				req.Header.Set("Authorization", "Bearer "+token)
			}
			client := http.Client{Timeout: getTimeout}
			resp, err := client.Do(req)
			if err != nil {
				return fmt.Errorf("ask %s: %w; is a service running there?", server, err)
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				return fmt.Errorf("read the answer of %s: %w", server, err)
			}
			if resp.StatusCode == http.StatusOK {
				_, err := p.stdout.Write(body)
				return err
			}
			err = fmt.Errorf("%s answers %s: %s", server, resp.Status, problemDetail(body))
			if resp.StatusCode == http.StatusBadRequest {
				return usageError{err} // the key is all that was given
			}
			return err
		},
	}
	cmd.Flags().StringVar(&server, "server", "http://127.0.0.1:8080", "any member of the group")
	cmd.Flags().StringVar(&token, "token", "", "bearer token, where the service wants one")
	return cmd
}

// problemDetail is the sentence in an application/problem+json body, or the
// body itself.
func problemDetail(body []byte) string {
	var problem struct{ Type, Title, Detail string }
	if json.Unmarshal(body, &problem) != nil || problem.Type == "" {
		return strings.TrimSpace(string(body))
	}
	if problem.Detail == "" {
		return problem.Type
	}
	return problem.Type + ": " + problem.Detail
}
