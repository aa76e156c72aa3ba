package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"tidemark/aggregator"
	"tidemark/bootstrap"
	"tidemark/query"
	"tidemark/store"
)

// dryRun reads the history into a folder that is removed, and prints what it
// comes to.
func (l *loading) dryRun(ctx context.Context) (err error) {
	seeder, err := newSeeder(l.cfg, nil, l.log, nil)
	if err != nil {
		return usageError{err}
	}
	path, err := os.MkdirTemp("", "tidemark-dry-run-")
	if err != nil {
		return fmt.Errorf("make a folder for the dry run: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(path)) }()
	dir, err := store.Open(path, store.Options{
		Program: l.cfg.Program, Memory: seedMemory(l.cfg.State.Memory), MinFree: l.cfg.State.MinFree,
		Logger: l.log, Fatal: dies(l.log),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	id := aggregator.Identity{
		Topic: l.cfg.Definition.Topic, Partitions: 1, SeedPartitions: 1, HasHistory: true,
		Definition: l.cfg.Program.Definition(), Cut: seeder.Configured(0),
	}
	state, err := dir.Create(id, aggregator.Progress{})
	if err != nil {
		return fmt.Errorf("make room for the history: %w", err)
	}
	found, judged := seeder.Try(ctx, state, l.shown.reads)
	l.shown.done()
	if !found.Whole {
		return judged
	}
	sums, err := sumUp(ctx, l.cfg.Program, state)
	if err != nil {
		return err
	}
	return errors.Join(l.printFound(found, sums), judged)
}

// totals are a history's documents as one.
type totals struct {
	keys  int64
	total *aggregator.Total
}

// compactEvery is after how many keys the total is written anew, so that it
// holds no memory of what it no longer needs.
const compactEvery = 10_000

// sumUp merges the totals of all keys.
func sumUp(ctx context.Context, program *aggregator.Program, state aggregator.SeedStore) (all totals, err error) {
	view, err := state.View()
	if err != nil {
		return all, err
	}
	defer func() { err = errors.Join(err, view.Close()) }()
	all.total = program.NewTotal()
	var encoded []byte
	for _, total := range view.Scan(nil) {
		if err := all.total.Merge(total); err != nil {
			return all, fmt.Errorf("sum up the history: %w", err)
		}
		if all.keys++; all.keys%compactEvery == 0 {
			if err := ctx.Err(); err != nil {
				return all, err
			}
			encoded = all.total.Append(encoded[:0])
			all.total.Reset()
			if err := all.total.Merge(encoded); err != nil {
				return all, fmt.Errorf("sum up the history: %w", err)
			}
		}
	}
	return all, view.Err()
}

// skippedDocuments is why some documents are left out.
type skippedDocuments struct {
	Reason    string `json:"reason"`
	Field     string `json:"field"`
	Documents int64  `json:"documents"`
}

// printFound prints what a history comes to.
func (l *loading) printFound(found bootstrap.Report, sums totals) error {
	skipped := []skippedDocuments{}
	left := int64(0)
	for _, s := range found.Skipped {
		skipped = append(skipped, skippedDocuments(s))
		left += s.Documents
	}
	capped := sums.total.Capped()
	row := []byte{}
	var rows [][]string
	for i, c := range l.cfg.Definition.Columns {
		if c.Key >= 0 {
			continue
		}
		value := sums.total.AppendColumn(nil, i)
		name, err := json.Marshal(c.Name)
		if err != nil {
			return err
		}
		if len(row) > 0 {
			row = append(row, ',')
		}
		row = append(append(append(row, name...), ':'), value...)
		note := ""
		if slices.Contains(capped, c.Name) {
			note = "capped"
		}
		rows = append(rows, []string{c.Name, shortened(value), number(found.Missing[c.Name]), note})
	}
	if l.json {
		return l.printJSON(struct {
			History   string             `json:"history"`
			Documents int64              `json:"documents"`
			Keys      int64              `json:"keys"`
			Row       json.RawMessage    `json:"row"` // of all documents as one, without the keys
			Capped    []string           `json:"capped,omitempty"`
			Missing   map[string]int64   `json:"missing"`
			Skipped   []skippedDocuments `json:"skipped"`
		}{historyName(l.cfg), found.Documents, sums.keys, append(append([]byte{'{'}, row...), '}'), capped, found.Missing, skipped})
	}
	if _, err := fmt.Fprintf(l.stdout, "history    %s\ndocuments  %d\nkeys       %d\nskipped    %d\n\n", historyName(l.cfg), found.Documents, sums.keys, left); err != nil {
		return err
	}
	if err := l.printTable([]string{"COLUMN", "OF ALL DOCUMENTS", "MISSING IN", ""}, rows); err != nil {
		return err
	}
	var lines []string
	for _, field := range slices.Sorted(maps.Keys(found.Missing)) {
		if !slices.ContainsFunc(l.cfg.Definition.Columns, func(c query.Column) bool { return c.Name == field }) {
			lines = append(lines, fmt.Sprintf("%s is missing in %d documents", field, found.Missing[field]))
		}
	}
	for _, s := range skipped {
		what := s.Reason
		if s.Field != "" {
			what += " of " + s.Field
		}
		lines = append(lines, fmt.Sprintf("%d documents are skipped: %s", s.Documents, what))
	}
	return l.printLines(lines)
}

// shortened is a value for a table: of a long one its beginning.
func shortened(value []byte) string {
	const most = 100
	text := []rune(string(value))
	if len(text) <= most {
		return string(value)
	}
	return fmt.Sprintf("%s… (%d bytes)", string(text[:most]), len(value))
}
