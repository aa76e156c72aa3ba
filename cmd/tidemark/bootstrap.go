package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"tidemark/aggregator"
	"tidemark/api"
	"tidemark/config"
	"tidemark/source/kafka"
)

func (p *program) bootstrap() *cobra.Command {
	var file string
	var dry, asJSON bool
	cmd := &cobra.Command{
		Use:   "bootstrap -c FILE",
		Short: "Load the history and publish the first snapshots, without serving",
		Long: "Resolves the cut of every partition, commits it to the group, reads the history and publishes each partition's share as its\n" +
			"first snapshot, from which serve goes on. serve does the same by itself; this does it ahead, while the group has no members.\n" +
			"Killed at any moment it can be run again: the cuts stand. The exit status is 1 where there are snapshots already.\n" +
			"--dry-run reads the history and prints what it comes to; it needs no Kafka, and nothing that it writes stays.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := p.load(file, config.Options{})
			if err != nil {
				return err
			}
			if !cfg.HasHistory() {
				return usageError{fmt.Errorf("%s: no history is configured: set history.file, or history.elasticsearch with addresses and index, and history.cut", file)}
			}
			if isTerminal(p.stderr) { // progress is shown in place of log lines
				cfg.Log.Level = max(cfg.Log.Level, slog.LevelWarn)
			}
			l := &loading{program: p, cfg: cfg, log: newLogger(p.stderr, cfg.Log), json: asJSON}
			l.shown = p.progress(l.log)
			if dry {
				err = l.dryRun(cmd.Context())
			} else {
				err = l.run(cmd.Context())
			}
			l.shown.done()
			if err != nil && cmd.Context().Err() != nil {
				err = errors.New("bootstrap was interrupted before its end; run it again: the cuts stand, and the history is read from its beginning")
			}
			return err
		},
	}
	configFlag(cmd, &file)
	cmd.Flags().BoolVar(&dry, "dry-run", false, "read the history and print what it comes to, without Kafka")
	cmd.Flags().BoolVar(&asJSON, "json", false, "for programs")
	return cmd
}

// loading is a load of the history by a command.
type loading struct {
	*program
	cfg   *config.Config
	log   *slog.Logger
	shown *progress
	json  bool
}

// run loads the history and publishes it.
func (l *loading) run(ctx context.Context) (err error) {
	began := time.Now()
	states, err := openStates(l.cfg, l.log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, states.Close()) }()
	local, err := states.Partitions()
	if err != nil {
		return err
	}
	client, err := kafka.Open(kafkaConfig(l.cfg, l.log, ""))
	if err != nil {
		return usageError{fmt.Errorf("the settings of kafka: %w", err)}
	}
	defer client.Close()
	b := builtFrom()
	metrics := api.NewMetrics(prometheus.NewRegistry(), b.Version, b.Commit) // nobody asks for them
	seeder, err := newSeeder(l.cfg, client, l.log, metrics)
	if err != nil {
		return usageError{err}
	}
	snapshots := newPublished(l.cfg, l.log, metrics, states)
	defer func() { err = errors.Join(err, snapshots.Close()) }()
	topic, err := l.topic(ctx, client)
	if err != nil {
		return err
	}
	ahead := &aggregator.Ahead{
		Definition: l.cfg.Program.Definition(), Topic: topic, Seeder: seeder, Snapshots: snapshots,
		Seeds: aggregator.NewSeeds(seeder, snapshots, snapshots.workspace), Group: &outside{client, l.cfg.Kafka.GroupID}, Local: local,
	}
	read := int64(0)
	done, err := ahead.Load(ctx, aggregator.Telling{
		Waits: func(reason string) { l.shown.says(reason) },
		Reads: func(p aggregator.SeedProgress) {
			read = p.Documents
			l.shown.reads(p)
		},
	})
	if err != nil {
		return err
	}
	l.shown.done()
	return l.print(done, read, time.Since(began))
}

// topic describes the topic, which must be there: the cut is made in it.
func (l *loading) topic(ctx context.Context, client *kafka.Client) (aggregator.Topic, error) {
	ctx, cancel := context.WithTimeout(ctx, topicWait)
	defer cancel()
	topic, err := client.Topic(ctx)
	if errors.Is(err, aggregator.ErrNoTopic) {
		return topic, fmt.Errorf("topic %q does not exist: create it first, since the cut is made in it: %w", l.cfg.Definition.Topic, err)
	}
	if err != nil {
		err = fmt.Errorf("describe topic %q: %w", l.cfg.Definition.Topic, err)
	}
	return topic, err
}

// outside is the group as a client sees it that is no member.
type outside struct {
	*kafka.Client
	group string
}

// CommitAll commits as nobody's member.
func (o *outside) CommitAll(ctx context.Context, commits map[int32]aggregator.Commit) error {
	refused, err := o.Commit(ctx, kafka.NoGeneration, "", commits)
	for _, why := range refused {
		err = why
	}
	if errors.Is(err, aggregator.ErrFenced) {
		return fmt.Errorf("group %s has members, and 'tidemark serve' loads the history by itself; to load it with this command, stop them: "+
			"one that was killed stays a member for session.timeout.ms: %w", o.group, err)
	}
	return err
}

// loadedPart is one partition of what was loaded.
type loadedPart struct {
	Partition int32 `json:"partition"`
	Documents int64 `json:"documents"`
	Position  int64 `json:"position"` // the cut: the first offset to fold
	Seq       int64 `json:"seq"`
	Bytes     int64 `json:"bytes"`
	Kept      bool  `json:"kept"` // an interrupted load had published it
}

// print says what was loaded.
func (l *loading) print(done *aggregator.Loaded, read int64, took time.Duration) error {
	kept := map[int32]bool{}
	for _, p := range done.Kept {
		kept[p] = true
	}
	parts := []loadedPart{}
	var rows [][]string
	seeded := int64(0)
	for p := range int32(1 << 30) {
		s, ok := done.First[p]
		if !ok {
			break
		}
		part := loadedPart{p, s.Progress.Documents, s.Progress.Position, s.Seq, s.Bytes, kept[p]}
		parts = append(parts, part)
		seeded += part.Documents
		note := ""
		if part.Kept {
			note = "published before"
		}
		rows = append(rows, []string{strconv.Itoa(int(p)), number(part.Documents), number(part.Position), number(part.Seq), number(part.Bytes), note})
	}
	rate := float64(read) / took.Seconds()
	if l.json {
		return l.printJSON(struct {
			Topic     string       `json:"topic"`
			Group     string       `json:"group"`
			History   string       `json:"history"`
			Documents int64        `json:"documents"` // read
			Seeded    int64        `json:"seeded"`    // of them, into the partitions
			Seconds   float64      `json:"seconds"`
			Rate      float64      `json:"documents_per_second"`
			Parts     []loadedPart `json:"partitions"`
		}{l.cfg.Definition.Topic, l.cfg.Kafka.GroupID, historyName(l.cfg), read, seeded, took.Seconds(), rate, parts})
	}
	if err := l.printTable([]string{"PARTITION", "DOCUMENTS", "POSITION", "SEQ", "BYTES", ""}, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintf(l.stdout, "\n%d documents of %s are in the first snapshots, and 'tidemark serve' goes on from them (%d were read, in %s, %.0f a second).\n",
		seeded, historyName(l.cfg), read, took.Round(10*time.Millisecond), rate)
	return err
}
