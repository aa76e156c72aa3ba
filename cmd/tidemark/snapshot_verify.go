package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"tidemark/snapshot"
)

// verified is what a verification found of one snapshot.
type verified struct {
	Topic     string   `json:"topic"`
	TopicID   string   `json:"topic_id"`
	Partition int32    `json:"partition"`
	Seq       int64    `json:"seq"`
	Bytes     int64    `json:"bytes"`
	OK        bool     `json:"ok"`
	Damage    []string `json:"damage"`
}

// selection narrows a command to some snapshots; -1 is all.
type selection struct {
	partition int32
	seq       int64
}

// flags adds those of s to cmd. The check of them is to run before the command.
func (s *selection) flags(cmd *cobra.Command) {
	cmd.Flags().Int32Var(&s.partition, "partition", -1, "only this partition")
	cmd.Flags().Int64Var(&s.seq, "seq", -1, "only the snapshot of this number")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		for name, bad := range map[string]bool{"partition": s.partition < 0, "seq": s.seq < 0} {
			if f := cmd.Flags().Lookup(name); f.Changed && bad {
				return usageError{fmt.Errorf("--%s is %s: it begins with 0", name, f.Value)}
			}
		}
		return nil
	}
}

// String says what is selected, for errors.
func (s selection) String() string {
	text := "snapshots"
	if s.seq >= 0 {
		text = fmt.Sprintf("snapshot %d", s.seq)
	}
	if s.partition >= 0 {
		text += fmt.Sprintf(" of partition %d", s.partition)
	}
	return text
}

func (p *program) snapshotVerify() *cobra.Command {
	s := new(selection)
	cmd := p.archiveCommand(&cobra.Command{
		Use:   "verify -c FILE",
		Short: "Read every byte of the snapshots and compare it with what was written",
		Long: "Reads every byte of every snapshot of the group; bytes that several share are read once. The exit status is 1 where one is\n" +
			"damaged, and where there is none.",
	}, func(ctx context.Context, a *archive) error { return a.verify(ctx, *s) })
	s.flags(cmd)
	return cmd
}

func (a *archive) verify(ctx context.Context, which selection) error {
	lineages, err := a.store.Lineages(ctx, a.group())
	if err != nil {
		return err
	}
	shown := a.progress(a.log)
	defer shown.done()
	var list []verified
	var damaged []string // those that are, as they are named
	for _, l := range lineages {
		if which.partition >= 0 && l.Partition != which.partition {
			continue
		}
		all, err := a.store.List(ctx, l)
		if err != nil {
			return err
		}
		for _, err := range all.Unreadable {
			v := verified{TopicID: l.TopicID, Topic: l.Topic, Partition: l.Partition, Seq: -1, Damage: []string{err.Error()}}
			var d *snapshot.DamagedError
			if errors.As(err, &d) {
				v.Seq = d.Seq
			}
			if len(all.Manifests) > 0 {
				v.Topic = all.Manifests[0].Lineage.Topic
			}
			if which.seq < 0 || v.Seq < 0 || v.Seq == which.seq {
				list = append(list, v)
			}
		}
		r := reading{archive: a, shown: shown, read: map[string]*snapshot.DamagedError{}}
		for _, m := range all.Manifests {
			if which.seq >= 0 && m.Seq != which.seq {
				continue
			}
			v, err := r.verify(ctx, m)
			if errors.Is(err, snapshot.ErrNoSnapshot) {
				continue // a running service has cleaned up meanwhile
			}
			if err != nil {
				return err
			}
			list = append(list, v)
		}
	}
	shown.done()
	for _, v := range list {
		if !v.OK {
			damaged = append(damaged, v.name())
		}
	}
	if len(list) == 0 {
		return fmt.Errorf("verify %s of group %s in %s: %w", which, a.group(), a.store, snapshot.ErrNoSnapshot)
	}
	if err := a.printVerified(list); err != nil {
		return err
	}
	if len(damaged) > 0 {
		return fmt.Errorf("verify the snapshots of group %s in %s: %d of %d are damaged: %s",
			a.group(), a.store, len(damaged), len(list), strings.Join(damaged, ", "))
	}
	return nil
}

// name is how an error names a snapshot.
func (v verified) name() string {
	seq := "one"
	if v.Seq >= 0 {
		seq = number(v.Seq)
	}
	return fmt.Sprintf("%s of partition %d", seq, v.Partition)
}

func (a *archive) printVerified(list []verified) error {
	if a.json {
		return a.printJSON(struct {
			Snapshots []verified `json:"snapshots"`
		}{list})
	}
	rows := make([][]string, len(list))
	var damage []string
	for i, v := range list {
		result := "ok"
		if !v.OK {
			result = "DAMAGED"
			damage = append(damage, v.Damage...)
		}
		seq := number(v.Seq)
		if v.Seq < 0 {
			seq = "?"
		}
		rows[i] = []string{v.Topic, strconv.Itoa(int(v.Partition)), seq, number(v.Bytes), result}
	}
	if err := a.printTable([]string{"TOPIC", "PARTITION", "SEQ", "BYTES", "RESULT"}, rows); err != nil {
		return err
	}
	return a.printLines(damage)
}

// reading verifies the snapshots of one lineage, and reads each object once.
type reading struct {
	*archive
	shown *progress
	read  map[string]*snapshot.DamagedError // objects that were read; nil for those that are whole
}

// verify reads what of m was not read yet. The error says why it could not be
// read; damage is in what it returns.
func (r *reading) verify(ctx context.Context, m *snapshot.Manifest) (verified, error) {
	v := verified{m.Lineage.Topic, m.Lineage.TopicID, m.Lineage.Partition, m.Seq, m.Bytes(), true, []string{}}
	rest := *m
	rest.Files = nil
	for _, f := range m.Files {
		if _, was := r.read[f.Object]; !was {
			rest.Files = append(rest.Files, f)
		}
	}
	work := fmt.Sprintf("verifying snapshot %d of partition %d", m.Seq, m.Lineage.Partition)
	err := r.store.Verify(ctx, &rest, func(have, need int64) { r.shown.told(work, have, need, "bytes") })
	damaged, whole := damages(err)
	if !whole {
		return v, err
	}
	for _, f := range rest.Files {
		r.read[f.Object] = nil
	}
	for _, d := range damaged {
		r.read[objectName(d.Object)] = d
	}
	for _, f := range m.Files {
		if d := r.read[f.Object]; d != nil {
			of := *d
			of.Seq, of.Name = m.Seq, f.Name
			v.Damage = append(v.Damage, of.Error())
			v.OK = false
		}
	}
	return v, nil
}

// objectName is the last part of an object's key.
func objectName(key string) string { return key[strings.LastIndexByte(key, '/')+1:] }

// damages are all DamagedErrors in an error, and whether there is nothing else
// in it.
func damages(err error) (all []*snapshot.DamagedError, whole bool) {
	switch e := err.(type) {
	case nil:
		return nil, true
	case *snapshot.DamagedError:
		return []*snapshot.DamagedError{e}, true
	case interface{ Unwrap() []error }:
		whole = true
		for _, one := range e.Unwrap() {
			more, ok := damages(one)
			all, whole = append(all, more...), whole && ok
		}
		return all, whole
	}
	if inner := errors.Unwrap(err); inner != nil {
		return damages(inner)
	}
	return nil, false
}
