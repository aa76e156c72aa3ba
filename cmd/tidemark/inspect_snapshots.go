package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"tidemark/snapshot"
	"tidemark/store"
)

// inspectedSnapshot is what inspect tells of one snapshot in a folder.
type inspectedSnapshot struct {
	Group   string    `json:"group"`
	Seq     int64     `json:"seq"`
	Created time.Time `json:"created"`
	Writer  string    `json:"writer"`
	Files   int       `json:"files"`
	inspected
}

// inspectSnapshots prints the snapshots in the folder of a store; false where
// there are none. Nothing is written into the folder: the files of each are
// put together, by links, in a folder for temporary files.
func (p *program) inspectSnapshots(ctx context.Context, dir string, asJSON bool) (found bool, err error) {
	root, err := filepath.Abs(dir)
	if err != nil {
		return false, fmt.Errorf("find %s: %w", dir, err)
	}
	s, err := snapshot.Open(ctx, folderURL(root), snapshot.Options{Settle: time.Millisecond})
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	groups, err := s.Groups(ctx)
	if err != nil {
		return false, err
	}
	list, unreadable := []inspectedSnapshot{}, []string{}
	shown := p.progress(slog.New(slog.DiscardHandler))
	defer shown.done()
	for _, group := range groups {
		all, err := s.ListGroup(ctx, group)
		if err != nil {
			return false, err
		}
		unreadable = append(unreadable, texts(all.Unreadable)...)
		var last *snapshot.Manifest // whose files were read
		var counted store.PartitionInfo
		var broken error
		for i, m := range all.Manifests {
			if err := ctx.Err(); err != nil {
				return false, err
			}
			shown.told("reading snapshots of group "+group, int64(i), int64(len(all.Manifests)), "snapshots")
			if last == nil || m.Lineage != last.Lineage || !slices.Equal(m.Files, last.Files) { // else a claim
				counted, broken = countSnapshot(root, m)
				last = m
			}
			list = append(list, describeSnapshot(root, m, counted, broken))
		}
	}
	shown.done()
	if len(list)+len(unreadable) == 0 {
		return false, nil
	}
	for _, d := range list {
		if d.Error != "" {
			unreadable = append(unreadable, d.Error)
		}
	}
	if asJSON {
		err = p.printJSON(struct {
			Path       string              `json:"path"`
			Snapshots  []inspectedSnapshot `json:"snapshots"`
			Unreadable []string            `json:"unreadable"`
		}{dir, list, unreadable})
	} else {
		err = p.printInspectedSnapshots(list, unreadable)
	}
	if err == nil && len(unreadable) > 0 {
		err = fmt.Errorf("inspect %s: %d snapshots cannot be read", dir, len(unreadable))
	}
	return true, err
}

// describeSnapshot tells what a snapshot holds: its manifest, and the keys that
// were counted in its files, or why they could not be.
func describeSnapshot(root string, m *snapshot.Manifest, counted store.PartitionInfo, err error) inspectedSnapshot {
	info := store.PartitionInfo{
		Path: filepath.Join(root, filepath.FromSlash(m.Key())), Keys: counted.Keys, Guards: counted.Guards,
		Format: m.Format, Identity: m.Identity, Progress: m.Progress, Bytes: m.Bytes(),
	}
	if err != nil {
		info.Err = fmt.Errorf("read the files of snapshot %d of %s: %w", m.Seq, m.Lineage, err)
	}
	d := inspectedSnapshot{m.Lineage.Group, m.Seq, m.Created, m.Writer, len(m.Files), describePartition(info)}
	d.Epoch = m.Epoch // of the snapshot: a claim's is above that of its state
	return d
}

// countSnapshot reads the files of a snapshot as those of a state.
func countSnapshot(root string, m *snapshot.Manifest) (info store.PartitionInfo, err error) {
	dir, err := os.MkdirTemp("", "tidemark-inspect-")
	if err != nil {
		return info, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	for _, f := range m.Files {
		name := filepath.Join(dir, f.Name)
		key := m.FileKey(f)
		if key == "" {
			err = os.WriteFile(name, nil, 0o600)
		} else {
			err = link(filepath.Join(root, filepath.FromSlash(key)), name)
		}
		if err != nil {
			return info, err
		}
	}
	in, err := store.Inspect(dir)
	if err != nil {
		return info, err
	}
	return in.Partitions[0], in.Partitions[0].Err
}

// link makes name stand for a file that is there.
func link(file, name string) error {
	if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() {
		return errors.Join(err, fs.ErrNotExist)
	}
	return os.Symlink(file, name)
}

func (p *program) printInspectedSnapshots(list []inspectedSnapshot, unreadable []string) error {
	var rows [][]string
	var definitions []inspected
	for _, d := range list {
		cut := d.Cut.Mode
		if cut == "" {
			cut = "-"
		}
		keys := number(d.Keys)
		if d.Error != "" {
			keys = "?"
		} else {
			definitions = append(definitions, d.inspected)
		}
		rows = append(rows, []string{
			d.Group, d.Topic, strconv.Itoa(int(d.Partition)), number(d.Seq), number(d.Epoch), number(d.Position), cut, number(d.Cut.Start),
			number(d.Documents), keys, number(d.Bytes), d.Created.UTC().Format(time.RFC3339), strconv.Itoa(d.Format),
		})
	}
	header := []string{"GROUP", "TOPIC", "PARTITION", "SEQ", "EPOCH", "POSITION", "CUT", "START", "DOCUMENTS", "KEYS", "BYTES", "CREATED", "FORMAT"}
	if err := p.printTable(header, rows); err != nil {
		return err
	}
	if err := p.printDefinitions(definitions); err != nil {
		return err
	}
	return p.printLines(unreadable)
}
