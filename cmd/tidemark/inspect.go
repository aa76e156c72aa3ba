package main

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"tidemark/aggregator"
	"tidemark/event"
	"tidemark/store"
)

// inspected is what inspect tells of one partition.
type inspected struct {
	Path        string           `json:"path"`
	Error       string           `json:"error,omitempty"`
	Format      int              `json:"format"`
	Topic       string           `json:"topic"`
	TopicID     string           `json:"topic_id"`
	Partition   int32            `json:"partition"`
	Partitions  int32            `json:"partitions"`
	Position    int64            `json:"position"`
	Epoch       int64            `json:"epoch"`
	Keys        int64            `json:"keys"`
	Guards      int64            `json:"guards"`
	Bytes       int64            `json:"bytes"`
	Counts      map[string]int64 `json:"counts"`
	Bad         map[string]int64 `json:"bad"`
	Gap         int64            `json:"gap_records"`
	Cut         inspectedCut     `json:"cut"`
	Seeded      bool             `json:"seeded"`
	Documents   int64            `json:"documents"`
	Fingerprint string           `json:"fingerprint"`
	SQL         string           `json:"sql"`
}

type inspectedCut struct {
	Mode   string `json:"mode"` // "" without a history
	Start  int64  `json:"start"`
	Before string `json:"before,omitempty"`
}

func (p *program) inspect() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "inspect DIR",
		Short: "Print what a state directory or a folder of snapshots holds, without changing it",
		Long: "Prints positions, cut, definition and the number of keys of a state directory, or of one partition's directory in it, or of\n" +
			"the snapshots in the folder of a file:// store. Every key is read; nothing is written there.",
		Args: func(_ *cobra.Command, dirs []string) error {
			if len(dirs) != 1 {
				return fmt.Errorf("inspect wants one directory, here are %d", len(dirs))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			in, err := store.Inspect(args[0])
			if errors.Is(err, aggregator.ErrNoState) {
				found, serr := p.inspectSnapshots(cmd.Context(), args[0], asJSON)
				if found || serr != nil {
					return serr
				}
				return fmt.Errorf("%w, and no snapshots", err)
			}
			if err != nil {
				return err
			}
			list := make([]inspected, len(in.Partitions))
			broken := 0
			for i, info := range in.Partitions {
				list[i] = describePartition(info)
				if info.Err != nil {
					broken++
				}
			}
			if asJSON {
				err = p.printJSON(struct {
					Path       string      `json:"path"`
					Partitions []inspected `json:"partitions"`
				}{in.Path, list})
			} else {
				err = p.printInspection(list)
			}
			if err == nil && broken > 0 {
				err = fmt.Errorf("inspect %s: %d of %d partitions cannot be read", args[0], broken, len(list))
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "for programs")
	return cmd
}

// describePartition turns what the store says into what is told.
func describePartition(info store.PartitionInfo) inspected {
	id, progress := info.Identity, info.Progress
	d := inspected{
		Path: info.Path, Format: info.Format, Topic: id.Topic, TopicID: id.TopicID,
		Partition: id.Partition, Partitions: id.Partitions, Position: progress.Position, Epoch: progress.Epoch,
		Keys: info.Keys, Guards: info.Guards, Bytes: info.Bytes, Gap: progress.Gap,
		Cut: inspectedCut{Mode: id.Cut.Mode, Start: id.Cut.Start}, Seeded: progress.Seeded, Documents: progress.Documents,
		Fingerprint: id.Definition.Fingerprint, SQL: id.Definition.SQL,
		Counts: map[string]int64{}, Bad: map[string]int64{},
	}
	if info.Err != nil {
		d.Error = info.Err.Error()
	}
	if id.Cut.Before != nil {
		d.Cut.Before = string(id.Cut.Before.AppendText(nil))
	}
	for r := range aggregator.NumResults {
		d.Counts[r.String()] = progress.Counts.Results[r]
	}
	for r := range event.NumReasons {
		if n := progress.Counts.Reasons[r]; n > 0 {
			d.Bad[event.Reason(r).String()] = n
		}
	}
	return d
}

// printInspection prints a table, then each definition once.
func (p *program) printInspection(list []inspected) error {
	var rows [][]string
	for _, d := range list {
		if d.Error != "" {
			continue
		}
		cut := d.Cut.Mode
		if cut == "" {
			cut = "-"
		}
		rows = append(rows, []string{
			d.Topic, strconv.Itoa(int(d.Partition)), number(d.Position), cut, number(d.Cut.Start), strconv.FormatBool(d.Seeded),
			number(d.Documents), number(d.Keys), number(d.Bytes), number(d.Counts["folded"]), number(d.Counts["bad"]), strconv.Itoa(d.Format),
		})
	}
	err := p.printTable([]string{"TOPIC", "PARTITION", "POSITION", "CUT", "START", "SEEDED", "DOCUMENTS", "KEYS", "BYTES", "FOLDED", "BAD", "FORMAT"}, rows)
	if err != nil {
		return err
	}
	return p.printDefinitions(list)
}

// printDefinitions prints each definition once, and what cannot be read.
func (p *program) printDefinitions(list []inspected) error {
	shown := map[string]bool{}
	for _, d := range list {
		if d.Error != "" {
			if _, err := fmt.Fprintf(p.stdout, "\n%s: %s\n", d.Path, d.Error); err != nil {
				return err
			}
			continue
		}
		if shown[d.Fingerprint] {
			continue
		}
		shown[d.Fingerprint] = true
		if _, err := fmt.Fprintf(p.stdout, "\ndefinition %s\n%s\n", d.Fingerprint, d.SQL); err != nil {
			return err
		}
	}
	return nil
}

func number(n int64) string { return strconv.FormatInt(n, 10) }
