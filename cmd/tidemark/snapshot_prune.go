package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"tidemark/snapshot"
)

// pruned is what was removed, or would be, of one partition.
type pruned struct {
	Topic     string `json:"topic"`
	TopicID   string `json:"topic_id"`
	Partition int32  `json:"partition"`
	Dropped   bool   `json:"dropped"` // all of it: the topic was created again since
	Snapshots int    `json:"snapshots"`
	Files     int    `json:"files"`
	Bytes     int64  `json:"bytes"`
}

func (p *program) snapshotPrune() *cobra.Command {
	var keep int
	var dry bool
	var topicID string
	cmd := p.archiveCommand(&cobra.Command{
		Use:   "prune -c FILE",
		Short: "Remove old snapshots, and those of the topic before it was created again",
		Long: "Keeps the newest snapshots of each partition of the topic and removes older ones, files that no snapshot needs and that are\n" +
			"older than an hour, and all that belongs to a topic of the same name that was deleted. The service removes its own old\n" +
			"snapshots; this is for what a group leaves behind.",
	}, func(ctx context.Context, a *archive) error {
		if keep == 0 {
			keep = a.cfg.Snapshots.Keep
		}
		return a.prune(ctx, keep, topicID, dry)
	})
	cmd.Flags().IntVar(&keep, "keep", 0, "how many snapshots of a partition stay, in place of snapshots.keep")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "print what would be removed, and remove nothing")
	topicIDFlag(cmd, &topicID)
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if cmd.Flags().Changed("keep") && keep < 1 {
			return usageError{fmt.Errorf("--keep is %d: at least 1 snapshot stays", keep)}
		}
		return nil
	}
	return cmd
}

func (a *archive) prune(ctx context.Context, keep int, topicID string, dry bool) error {
	topicID, err := a.pruneFor(ctx, topicID)
	if err != nil {
		return err
	}
	list := []pruned{}
	told := func(l snapshot.Lineage, whole bool, r snapshot.Reaped) {
		list = append(list, pruned{l.Topic, l.TopicID, l.Partition, whole, r.Manifests, r.Files, r.Bytes})
	}
	act := a.store.Prune
	if dry {
		act = a.store.PlanPrune
	}
	sum, err := act(ctx, a.group(), a.topic(), topicID, keep, told)
	if err != nil {
		return fmt.Errorf("prune the snapshots in %s: %w", a.store, err)
	}
	if a.json {
		return a.printJSON(struct {
			DryRun    bool     `json:"dry_run"`
			Snapshots int      `json:"snapshots"`
			Files     int      `json:"files"`
			Bytes     int64    `json:"bytes"`
			Pruned    []pruned `json:"pruned"`
		}{dry, sum.Manifests, sum.Files, sum.Bytes, list})
	}
	rows := make([][]string, len(list))
	for i, p := range list {
		of := "current"
		if p.Dropped {
			of = "deleted"
		}
		rows[i] = []string{p.Topic, strconv.Itoa(int(p.Partition)), of, strconv.Itoa(p.Snapshots), strconv.Itoa(p.Files), number(p.Bytes)}
	}
	header := []string{"TOPIC", "PARTITION", "OF TOPIC", "SNAPSHOTS REMOVED", "FILES REMOVED", "BYTES REMOVED"}
	if err := a.printTable(header, rows); err != nil || !dry {
		return err
	}
	return a.printLines([]string{"nothing was removed: this was --dry-run"})
}

// pruneFor is the id of the topic whose snapshots stay. One that is given must
// have some: a slip of the pen would remove all.
func (a *archive) pruneFor(ctx context.Context, given string) (string, error) {
	if given == "" {
		return a.currentID(ctx)
	}
	lineages, err := a.store.Lineages(ctx, a.group())
	if err != nil {
		return "", err
	}
	for _, l := range lineages {
		if l.TopicID == given {
			return given, nil
		}
	}
	return "", fmt.Errorf("prune the snapshots in %s: there are none of a topic with the id %q, so all would go", a.store, given)
}
