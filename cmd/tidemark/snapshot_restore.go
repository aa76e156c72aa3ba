package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"tidemark/aggregator"
	"tidemark/snapshot"
	"tidemark/store"
)

const (
	// restoreMemory, in bytes, is what opening a state directory for a restore
	// needs: nothing is aggregated.
	restoreMemory = 16 << 20
	// restoreWait is how long a restore waits for a state directory in use.
	restoreWait = time.Second
)

func (p *program) snapshotRestore() *cobra.Command {
	s := new(selection)
	var into, topicID string
	cmd := p.archiveCommand(&cobra.Command{
		Use:   "restore -c FILE",
		Short: "Lay snapshots into an empty state directory",
		Long: "Lays the newest whole snapshot of every partition of the topic, or of one, into a state directory that has no states.\n" +
			"Nothing becomes a state before all are there; what was downloaded is used when the command is given again.",
		Example: "  tidemark snapshot restore -c tidemark.yaml\n  tidemark snapshot restore -c tidemark.yaml --partition 3 --seq 17 --into /tmp/look",
	}, func(ctx context.Context, a *archive) error {
		if into == "" {
			into = a.cfg.State.Dir
		}
		return a.restore(ctx, *s, into, topicID)
	})
	s.flags(cmd)
	cmd.Flags().StringVar(&into, "into", "", "the state directory, in place of state.dir")
	topicIDFlag(cmd, &topicID)
	check := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if s.seq >= 0 && s.partition < 0 {
			return usageError{errors.New("--seq is the number of a snapshot of one partition: give --partition too")}
		}
		return check(cmd, args)
	}
	return cmd
}

func topicIDFlag(cmd *cobra.Command, id *string) {
	cmd.Flags().StringVar(id, "topic-id", "", "the topic's id, in place of asking Kafka for it")
}

// restore lays snapshots into the state directory dir.
func (a *archive) restore(ctx context.Context, which selection, dir, topicID string) (err error) {
	all, err := a.incarnation(ctx, which, topicID)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return fmt.Errorf("restore %s of topic %s, group %s, from %s: %w", which, a.topic(), a.group(), a.store, snapshot.ErrNoSnapshot)
	}
	if err := a.fit(all, which); err != nil {
		return err
	}
	states, err := store.Open(dir, store.Options{
		Program: a.cfg.Program, Memory: restoreMemory, MinFree: a.cfg.State.MinFree, LockWait: restoreWait, Logger: a.log,
		Fatal: func(reason string) { a.log.Error("the state directory cannot be trusted", "err", reason) },
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, states.Close()) }()
	if there, err := states.Partitions(); err != nil || len(there) > 0 {
		if err == nil {
			err = fmt.Errorf("restore into %s: it has states, of %s; a restore wants an empty directory: see --into", dir, partitionList(there))
		}
		return err
	}
	laid := make([]*snapshot.Manifest, len(all))
	shown := &together{progress: a.progress(a.log), have: make([]int64, len(all)), need: make([]int64, len(all))}
	defer shown.done()
	err = atOnce(all, func(i int, p shelf) (err error) {
		opts := snapshot.RestoreOptions{
			Room:     states.Room,
			Progress: func(have, need int64) { shown.told("restoring", i, have, need) },
		}
		laid[i], err = a.lay(ctx, p, which.seq, states.Restores(p.lineage.Partition), opts)
		return err
	})
	if err != nil {
		return err
	}
	err = atOnce(all, func(_ int, p shelf) error {
		return states.Install(p.lineage.Partition, states.Restores(p.lineage.Partition))
	})
	if err != nil {
		return err
	}
	shown.done()
	return a.printRestored(dir, laid)
}

// restores is how many partitions are restored at the same time.
const restores = 8

// atOnce calls do for all partitions, some at the same time, and returns all
// errors: where one fails the others still get as far as they can, for the next
// time.
func atOnce(all []shelf, do func(i int, p shelf) error) error {
	var g errgroup.Group
	g.SetLimit(restores)
	errs := make([]error, len(all))
	for i, p := range all {
		g.Go(func() error {
			errs[i] = do(i, p)
			return nil
		})
	}
	_ = g.Wait() // they are in errs
	return errors.Join(errs...)
}

// printRestored prints what was laid.
func (a *archive) printRestored(dir string, laid []*snapshot.Manifest) error {
	list := make([]kept, len(laid))
	rows := make([][]string, len(laid))
	for i, m := range laid {
		list[i] = keptOf(m)
		rows[i] = list[i].row()
	}
	if a.json {
		return a.printJSON(struct {
			Path      string `json:"path"`
			Snapshots []kept `json:"snapshots"`
		}{dir, list})
	}
	return a.printTable(keptHeader, rows)
}

// shelf is what the store has of one partition.
type shelf struct {
	lineage snapshot.Lineage
	listing snapshot.Listing
}

// incarnation lists the snapshots of the topic's partitions, for those that are
// selected and have any. Where the topic was created more than once, those of
// the one that topicID, or Kafka, names.
func (a *archive) incarnation(ctx context.Context, which selection, topicID string) ([]shelf, error) {
	lineages, err := a.store.Lineages(ctx, a.group())
	if err != nil {
		return nil, err
	}
	ids := map[string][]shelf{} // by id of the topic
	ours := map[string]bool{}   // ids under which snapshots name the topic
	for _, l := range lineages {
		listing, err := a.store.List(ctx, l)
		if err != nil {
			return nil, err
		}
		if l.Topic == a.topic() || len(listing.Manifests) > 0 && listing.Manifests[0].Lineage.Topic == a.topic() {
			ours[l.TopicID] = true
		}
		if l.Topic == "" {
			l.Topic = a.topic()
		}
		if l.Topic != a.topic() || len(listing.Manifests)+len(listing.Unreadable) == 0 {
			continue
		}
		ids[l.TopicID] = append(ids[l.TopicID], shelf{l, listing})
	}
	known := make([]string, 0, len(ours))
	for id := range ours {
		known = append(known, id)
	}
	slices.Sort(known)
	switch {
	case topicID != "":
	case len(known) == 0:
		return nil, nil
	case len(known) == 1:
		topicID = known[0]
	default:
		if topicID, err = a.currentID(ctx); err != nil {
			return nil, fmt.Errorf("there are snapshots of topic %s with the ids %s: %w", a.topic(), strings.Join(known, " and "), err)
		}
	}
	if !ours[topicID] {
		return nil, fmt.Errorf("there are no snapshots of topic %s with the id %q in %s: those there are have the id %s",
			a.topic(), topicID, a.store, strings.Join(known, ", "))
	}
	return slices.DeleteFunc(ids[topicID], func(s shelf) bool {
		return which.partition >= 0 && s.lineage.Partition != which.partition
	}), nil
}

// fit refuses snapshots that the service would not take, and says what is
// missing.
func (a *archive) fit(all []shelf, which selection) error {
	is := a.cfg.Program.Definition()
	there, partitions := map[int32]bool{}, int32(0)
	for _, s := range all {
		there[s.lineage.Partition] = true
		for _, m := range s.listing.Manifests {
			partitions = max(partitions, m.Identity.Partitions)
		}
		if len(s.listing.Manifests) == 0 {
			continue
		}
		if m := s.listing.Manifests[0]; !m.Identity.Definition.Equal(is) {
			return fmt.Errorf("snapshot %d of %s is of %w than the configured query: %s",
				m.Seq, m.Lineage, aggregator.ErrOtherDefinition, aggregator.Differs(m.Identity.Definition, is))
		}
	}
	if which.partition >= 0 {
		return nil
	}
	var missing []int32
	for n := range partitions {
		if !there[n] {
			missing = append(missing, n)
		}
	}
	if len(missing) > 0 {
		a.log.Warn("partitions have no snapshot", "topic", a.topic(), "missing", partitionList(missing))
	}
	return nil
}

// lay restores the snapshot of number seq, or the newest that is whole where it
// is -1, into dir. What is whole there already, of an earlier try, stays.
func (a *archive) lay(ctx context.Context, s shelf, seq int64, dir string, opts snapshot.RestoreOptions) (*snapshot.Manifest, error) {
	var wanted *snapshot.Manifest
	if seq >= 0 {
		var err error
		if wanted, err = a.store.Numbered(ctx, s.lineage, seq); err != nil {
			return nil, fmt.Errorf("restore from %s: %w", a.store, err)
		}
		if !wanted.Identity.Definition.Equal(a.cfg.Program.Definition()) {
			return nil, fmt.Errorf("restore snapshot %d of %s: it is of %w", seq, s.lineage, aggregator.ErrOtherDefinition)
		}
	} else if len(s.listing.Manifests) > 0 {
		wanted = s.listing.Manifests[0]
	}
	there, err := store.Peek(dir)
	switch {
	case err == nil && wanted != nil && reflect.DeepEqual(snapshot.State(there), wanted.State()):
		return wanted, nil
	case errors.Is(err, aggregator.ErrNoState):
	default: // another snapshot, or none that can be read
		if err := os.RemoveAll(dir); err != nil {
			return nil, fmt.Errorf("remove what an earlier restore has left: %w", err)
		}
	}
	if seq >= 0 {
		return wanted, a.store.Restore(ctx, wanted, dir, opts)
	}
	fits := func(m *snapshot.Manifest) bool { return m.Identity.Definition.Equal(a.cfg.Program.Definition()) }
	return a.store.RestoreNewest(ctx, s.lineage, dir, fits, opts)
}

// partitionList names partitions, for people.
func partitionList(numbers []int32) string {
	texts := make([]string, len(numbers))
	for i, n := range numbers {
		texts[i] = strconv.Itoa(int(n))
	}
	if len(texts) == 1 {
		return "partition " + texts[0]
	}
	return "partitions " + strings.Join(texts, ", ")
}
