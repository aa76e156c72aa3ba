package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kfake"
	"golang.org/x/sync/errgroup"

	"tidemark/config"
)

const (
	demoTopic      = "sales"
	demoPartitions = 4
	demoListen     = "127.0.0.1:8080"
)

// demoQuery is the definition of the demo.
const demoQuery = `SELECT userId,
       CAST(max(saleTimestamp) AS timestamp) AS latestSaleTimestamp,
       sum(totalRevenue)                     AS totalRevenue,
       sum(totalPoints)                      AS totalPoints,
       collect_set(productList)              AS productList,
       count(*)                              AS sales
FROM sales
WHERE channel IS NULL OR channel <> 'test'
GROUP BY userId`

func (p *program) demo() *cobra.Command {
	var listen string
	var users, rate int
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run the whole service on a built-in broker, with a made-up sales stream",
		Long: "Runs the whole service in one process: a broker in memory, a history file, a stream of made-up sales, and the totals\n" +
			"over HTTP. Nothing is kept when it ends.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if users < 1 || users > 1_000_000 {
				return usageError{fmt.Errorf("--users %d is not between 1 and 1000000", users)}
			}
			if rate < 1 || rate > 100_000 {
				return usageError{fmt.Errorf("--rate %d is not between 1 and 100000 sales a second", rate)}
			}
			_, port, err := net.SplitHostPort(listen)
			if _, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil {
				return usageError{fmt.Errorf("--listen %q is not host:port, such as 127.0.0.1:8080, or port 0 for a free one", listen)}
			}
			if !cmd.Flags().Changed("listen") && !free(listen) {
				listen = "127.0.0.1:0"
			}
			return p.runDemo(cmd.Context(), listen, users, rate)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", demoListen, "address to answer at; without this flag a free port is taken where this one is in use")
	cmd.Flags().IntVar(&users, "users", 1000, "how many users buy")
	cmd.Flags().IntVar(&rate, "rate", 200, "sales a second")
	return cmd
}

// free says whether an address can be listened at now.
func free(address string) bool {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return false
	}
	return l.Close() == nil
}

// runDemo runs broker, stream and service until ctx ends.
func (p *program) runDemo(ctx context.Context, listen string, users, rate int) (err error) {
	dir, err := os.MkdirTemp("", "tidemark-demo-")
	if err != nil {
		return fmt.Errorf("make a folder for the demo: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(demoPartitions, demoTopic))
	if err != nil {
		return fmt.Errorf("start the built-in broker: %w", err)
	}
	defer broker.Close()
	sales := newSalesStream(users)
	history := filepath.Join(dir, "history.ndjson")
	if err := sales.writeHistory(history); err != nil {
		return err
	}
	file := filepath.Join(dir, "tidemark.yaml")
	if err := os.WriteFile(file, []byte(demoConfig(broker.ListenAddrs(), listen, dir, history)), 0o600); err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	cfg, err := config.Load(file, p.getenv, config.Options{})
	if err != nil {
		return fmt.Errorf("the demo's own configuration: %w", err)
	}
	svc, err := p.newService(cfg)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return svc.run(ctx) })
	g.Go(func() error { return sales.produce(ctx, broker.ListenAddrs(), rate) })
	g.Go(func() error { return p.narrate(ctx, svc.url(), broker.ListenAddrs()[0], users, rate) })
	return g.Wait()
}

// demoConfig is a whole configuration file for the demo.
func demoConfig(brokers []string, listen, dir, history string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "query: |\n  %s\n", strings.ReplaceAll(demoQuery, "\n", "\n  "))
	fmt.Fprintf(&b, "kafka:\n  bootstrap.servers: [%q]\n  group.id: tidemark-demo\n", strings.Join(brokers, `", "`))
	fmt.Fprintf(&b, "history:\n  file: %q\n  cut: {mode: earliest}\n", history)
	fmt.Fprintf(&b, "state:\n  dir: %q\n  memory: 128MiB\n", filepath.Join(dir, "state"))
	fmt.Fprintf(&b, "http:\n  listen: %q\n", listen)
	fmt.Fprintf(&b, "log: {level: warn}\n")
	return b.String()
}

// narrate prints where to look once the service is ready, and then, on a line
// of its own each few seconds, that the totals move.
func (p *program) narrate(ctx context.Context, base, broker string, users, rate int) error {
	if err := awaitReady(ctx, base); err != nil {
		return nil // the demo is ending; the service says why
	}
	fmt.Fprintf(p.stdout, `Tidemark is running on a built-in broker: %d users, %d sales a second, topic %q.

  page       %[4]s/
  broker     %[5]s
  one user   curl -s %[4]s/v1/aggregates/1
  the top    curl -s '%[4]s/v1/aggregates?order=-totalRevenue&limit=5'
  a listing  curl -s '%[4]s/v1/aggregates?limit=3'
  live       curl -sN %[4]s/v1/aggregates/1/watch
  status     curl -s %[4]s/v1/status
  metrics    curl -s %[4]s/metrics

Ctrl-C ends it.

`, users, rate, demoTopic, base, broker)
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for {
		if line, err := movement(ctx, base); err == nil {
			fmt.Fprintln(p.stdout, line)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// movement is one line that changes while the totals move.
func movement(ctx context.Context, base string) (string, error) {
	var user struct {
		Row struct {
			TotalRevenue, TotalPoints, Sales json.Number
		}
	}
	if err := getJSON(ctx, base+"/v1/aggregates/1", &user); err != nil {
		return "", err
	}
	var status struct {
		Partitions []struct {
			Lag    int64
			Counts struct{ Folded int64 }
		}
	}
	if err := getJSON(ctx, base+"/v1/status", &status); err != nil {
		return "", err
	}
	var folded, lag int64
	for _, p := range status.Partitions {
		folded += p.Counts.Folded
		lag += p.Lag
	}
	return fmt.Sprintf("%s  user 1: revenue %s, points %s, sales %s   all: %d sales folded, lag %d", time.Now().Format("15:04:05"),
		user.Row.TotalRevenue, user.Row.TotalPoints, user.Row.Sales, folded, lag), nil
}

// awaitReady waits until the service says that it is ready.
func awaitReady(ctx context.Context, base string) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		var answer struct{ Status string }
		if err := getJSON(ctx, base+"/readyz", &answer); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// getJSON asks for a JSON answer; any status but 200 is an error.
func getJSON(ctx context.Context, url string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(into)
}
