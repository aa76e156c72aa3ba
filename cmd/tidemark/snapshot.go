package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tidemark/aggregator"
	"tidemark/config"
	"tidemark/snapshot"
	"tidemark/source/kafka"
	"tidemark/store"
)

// snapshotsName is the folder in the state directory that is the store of
// snapshots where the configuration names none.
const snapshotsName = "snapshots"

// topicWait bounds how long a command waits for Kafka to describe the topic.
const topicWait = 15 * time.Second

// storeWait bounds how long a check of the store of snapshots takes.
const storeWait = 30 * time.Second

// snapshotURL is where snapshots are kept.
func snapshotURL(cfg *config.Config) (string, error) {
	if cfg.Snapshots.URL != "" {
		return cfg.Snapshots.URL, nil
	}
	dir, err := filepath.Abs(cfg.State.Dir)
	if err != nil {
		return "", fmt.Errorf("find state.dir %s: %w", cfg.State.Dir, err)
	}
	return folderURL(filepath.Join(dir, snapshotsName)), nil
}

// folderURL is the URL of an absolute path.
func folderURL(dir string) string {
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(dir)}
	return u.String()
}

// openSnapshots opens the store of snapshots.
func openSnapshots(ctx context.Context, cfg *config.Config, log *slog.Logger) (*snapshot.Store, error) {
	rawURL, err := snapshotURL(cfg)
	if err != nil {
		return nil, err
	}
	return snapshot.Open(ctx, rawURL, snapshot.Options{Logger: log, Format: store.FormatVersion})
}

// archive is the store of snapshots as the commands see it.
type archive struct {
	*program
	cfg   *config.Config
	store *snapshot.Store
	log   *slog.Logger
	json  bool
}

func (p *program) snapshot() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "snapshot",
		Short: "List, verify, restore and prune snapshots",
		Long: "Works on the snapshots of the configured group.id in the store that snapshots.url names, or in the folder\n" +
			"snapshots of state.dir where it is empty.",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("unknown command %q for %q: list, verify, restore and prune are known", args[0], cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(p.snapshotList(), p.snapshotVerify(), p.snapshotRestore(), p.snapshotPrune())
	return cmd
}

// archiveCommand completes cmd: it gets the flags that all have, and do is
// called with the store open.
func (p *program) archiveCommand(cmd *cobra.Command, do func(ctx context.Context, a *archive) error) *cobra.Command {
	var file string
	var asJSON bool
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		cfg, err := p.load(file, config.Options{})
		if err != nil {
			return err
		}
		if isTerminal(p.stderr) { // progress is shown in place of log lines
			cfg.Log.Level = max(cfg.Log.Level, slog.LevelWarn)
		}
		log := newLogger(p.stderr, cfg.Log)
		s, err := openSnapshots(cmd.Context(), cfg, log)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		return do(cmd.Context(), &archive{program: p, cfg: cfg, store: s, log: log, json: asJSON})
	}
	configFlag(cmd, &file)
	cmd.Flags().BoolVar(&asJSON, "json", false, "for programs")
	return cmd
}

func (a *archive) group() string { return a.cfg.Kafka.GroupID }
func (a *archive) topic() string { return a.cfg.Definition.Topic }

// kept is a snapshot as it is listed.
type kept struct {
	Topic     string    `json:"topic"`
	TopicID   string    `json:"topic_id"`
	Partition int32     `json:"partition"`
	Seq       int64     `json:"seq"`
	Epoch     int64     `json:"epoch"`
	Position  int64     `json:"position"`
	Bytes     int64     `json:"bytes"`
	Created   time.Time `json:"created"`
	Writer    string    `json:"writer"`
}

func keptOf(m *snapshot.Manifest) kept {
	return kept{m.Lineage.Topic, m.Lineage.TopicID, m.Lineage.Partition, m.Seq, m.Epoch, m.Position(), m.Bytes(), m.Created, m.Writer}
}

var keptHeader = []string{"TOPIC", "PARTITION", "SEQ", "EPOCH", "POSITION", "BYTES", "CREATED", "WRITER"}

func (k kept) row() []string {
	return []string{k.Topic, strconv.Itoa(int(k.Partition)), number(k.Seq), number(k.Epoch), number(k.Position), number(k.Bytes),
		k.Created.UTC().Format(time.RFC3339), k.Writer}
}

func (p *program) snapshotList() *cobra.Command {
	return p.archiveCommand(&cobra.Command{
		Use:   "list -c FILE",
		Short: "Print which snapshots there are",
		Long: "Prints all snapshots of the group, newest first in each partition, also those of other topics. The exit status is 1 where\n" +
			"one cannot be read. Only manifests are read: verify reads every byte.",
	}, func(ctx context.Context, a *archive) error { return a.list(ctx) })
}

func (a *archive) list(ctx context.Context) error {
	all, err := a.store.ListGroup(ctx, a.group())
	if err != nil {
		return err
	}
	list := make([]kept, len(all.Manifests))
	rows := make([][]string, len(list))
	for i, m := range all.Manifests {
		list[i] = keptOf(m)
		rows[i] = list[i].row()
	}
	unreadable := texts(all.Unreadable)
	if a.json {
		err = a.printJSON(struct {
			Snapshots  []kept   `json:"snapshots"`
			Unreadable []string `json:"unreadable"`
		}{list, unreadable})
	} else if err = a.printTable(keptHeader, rows); err == nil {
		err = a.printLines(unreadable)
	}
	if err == nil && len(unreadable) > 0 {
		err = fmt.Errorf("list the snapshots of group %s in %s: %d of %d cannot be read", a.group(), a.store, len(unreadable), len(unreadable)+len(list))
	}
	return err
}

// texts are what errors say; never nil.
func texts(errs []error) []string {
	all := make([]string, len(errs))
	for i, err := range errs {
		all[i] = err.Error()
	}
	return all
}

// currentID is the id of the topic as Kafka knows it now.
func (a *archive) currentID(ctx context.Context) (string, error) {
	client, err := kafka.Open(kafkaConfig(a.cfg, a.log, ""))
	if err != nil {
		return "", usageError{fmt.Errorf("the settings of kafka: %w", err)}
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, topicWait)
	defer cancel()
	topic, err := client.Topic(ctx)
	if err != nil {
		return "", fmt.Errorf("ask Kafka which topic %s is: %w; --topic-id does without", a.topic(), err)
	}
	return topic.ID, nil
}

// trySnapshots tries all that the service does with the store of snapshots, and
// leaves nothing there. What the store has of the topic, where that is known, is
// compared with the query, and with the states that are damaged.
func trySnapshots(ctx context.Context, cfg *config.Config, topic *aggregator.Topic) []checked {
	const step = "snapshots"
	ctx, cancel := context.WithTimeout(ctx, storeWait)
	defer cancel()
	rawURL, err := snapshotURL(cfg)
	if err != nil {
		return append([]checked{outcome(step, cfg.State.Dir, "", err)}, tryDamaged(ctx, cfg, nil, nil)...)
	}
	s, err := openSnapshots(ctx, cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return append([]checked{outcome(step, storeName(rawURL), "", err)}, tryDamaged(ctx, cfg, nil, nil)...)
	}
	err = s.Check(ctx)
	detail := "objects can be created, once each, read, listed and deleted"
	if cfg.Snapshots.URL == "" {
		detail += "; inside state.dir: for one member only"
	}
	var holds []checked
	if err == nil && topic != nil {
		holds = append(definitionOf(ctx, cfg, s, *topic), tryDamaged(ctx, cfg, s, topic)...)
	} else {
		holds = tryDamaged(ctx, cfg, nil, nil)
	}
	return append([]checked{outcome(step, s.String(), detail, errors.Join(err, s.Close()))}, holds...)
}

// storeName is a store's URL without its parameters.
func storeName(rawURL string) string {
	name, _, _ := strings.Cut(rawURL, "?")
	return name
}
