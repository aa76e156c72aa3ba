package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"tidemark/aggregator"
	"tidemark/api"
	"tidemark/config"
	"tidemark/snapshot"
	"tidemark/store"
)

// published joins the store of snapshots to the state directory for the tasks
// and for answers. The store is opened when it is first needed, so that one
// that is away is waited for like anything else.
type published struct {
	cfg     *config.Config
	log     *slog.Logger
	metrics *api.Metrics
	states  *store.Dir
	tasks   *aggregator.Processor // set before the first request

	turn  chan struct{}   // holds one token: the right to look at store
	store *snapshot.Store // nil before it is open
}

// newPublished opens nothing yet.
func newPublished(cfg *config.Config, log *slog.Logger, metrics *api.Metrics, states *store.Dir) *published {
	p := &published{cfg: cfg, log: log, metrics: metrics, states: states, turn: make(chan struct{}, 1)}
	p.turn <- struct{}{}
	return p
}

var (
	_ aggregator.Snapshots = (*published)(nil)
	_ api.Snapshots        = (*published)(nil)
	_ snapshot.Observer    = (*published)(nil)
)

// open returns the store of snapshots, which was tried when it was opened.
func (p *published) open(ctx context.Context) (*snapshot.Store, error) {
	// Opening takes long where the store says nothing; nobody waits for that
	// longer than its own request.
	select {
	case <-p.turn:
		defer func() { p.turn <- struct{}{} }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if p.store != nil {
		return p.store, nil
	}
	rawURL, err := snapshotURL(p.cfg)
	if err != nil {
		return nil, err
	}
	s, err := snapshot.Open(ctx, rawURL, snapshot.Options{
		Logger: p.log, Observer: p, Format: store.FormatVersion, Inspect: inspectCheckpoint,
	})
	if err != nil {
		return nil, err
	}
	if err := s.Pin(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	// A bucket that overwrites is no fence, and nothing else would show it.
	if err := s.Check(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	p.store = s
	return s, nil
}

// inspectCheckpoint says what a copy of a state holds.
func inspectCheckpoint(dir string) (snapshot.State, error) {
	s, err := store.Peek(dir)
	return snapshot.State{Identity: s.Identity, Progress: s.Progress, Format: s.Format}, err
}

// Close closes the store. Nothing may be under way.
func (p *published) Close() error {
	<-p.turn
	defer func() { p.turn <- struct{}{} }()
	if p.store == nil {
		return nil
	}
	return p.store.Close()
}

// Published notes a snapshot.
func (p *published) Published(bytes int64, seconds float64) { p.metrics.Published(bytes, seconds) }

// Restored notes a restore.
func (p *published) Restored(_ int64, seconds float64) { p.metrics.Restored(seconds) }

// lineage is the line of snapshots of a partition.
func (p *published) lineage(topic aggregator.Topic, partition int32) snapshot.Lineage {
	return snapshot.Lineage{Group: p.cfg.Kafka.GroupID, Topic: topic.Name, TopicID: topic.ID, Partition: partition}
}

// Newest describes the newest snapshot of a partition.
func (p *published) Newest(ctx context.Context, topic aggregator.Topic, partition int32) (aggregator.Snapshot, error) {
	s, err := p.open(ctx)
	if err != nil {
		return aggregator.Snapshot{}, err
	}
	m, err := s.Newest(ctx, p.lineage(topic, partition))
	if err != nil {
		return aggregator.Snapshot{}, err
	}
	return described(m), nil
}

// described is what a task and answers need of a manifest.
func described(m *snapshot.Manifest) aggregator.Snapshot {
	return aggregator.Snapshot{
		Seq: m.Seq, Epoch: m.Epoch, Identity: m.Identity, Progress: m.Progress, Bytes: m.Bytes(), Created: m.Created,
	}
}

// Claim takes a partition over.
func (p *published) Claim(ctx context.Context, topic aggregator.Topic, partition int32, after int64) (aggregator.Publisher, error) {
	s, err := p.open(ctx)
	if err != nil {
		return nil, err
	}
	owner, err := s.Claim(ctx, p.lineage(topic, partition), after)
	if err != nil {
		return nil, err
	}
	return &publisher{owner, p.states.Checkpoints(partition)}, nil
}

// Restore makes the newest whole snapshot beyond position the local state.
func (p *published) Restore(ctx context.Context, topic aggregator.Topic, partition int32, position int64, progress func(have, need int64)) (aggregator.Snapshot, error) {
	s, err := p.open(ctx)
	if err != nil {
		return aggregator.Snapshot{}, err
	}
	into := p.states.Restores(partition)
	if err := os.RemoveAll(into); err != nil { // whole, and never taken: what is newer may be there by now
		return aggregator.Snapshot{}, fmt.Errorf("remove a restore that was not taken: %w", err)
	}
	m, err := s.RestoreNewest(ctx, p.lineage(topic, partition), into,
		func(m *snapshot.Manifest) bool { return m.Position() > position },
		snapshot.RestoreOptions{Reuse: []string{p.states.Path(partition)}, Room: p.states.Room, Progress: progress})
	if err != nil {
		return aggregator.Snapshot{}, err
	}
	if err := p.states.Install(partition, into); err != nil {
		return aggregator.Snapshot{}, err
	}
	return described(m), nil
}

// publisher is the ownership of one partition.
type publisher struct {
	*snapshot.Owner
	checkpoint string // where copies are made
}

// Newest is the newest snapshot, as it is known here.
func (o *publisher) Newest() (aggregator.Snapshot, bool) {
	if m := o.Owner.Newest(); m != nil {
		return described(m), true
	}
	return aggregator.Snapshot{}, false
}

// Publish makes what a store holds the newest snapshot.
func (o *publisher) Publish(ctx context.Context, s aggregator.Store) (aggregator.Snapshot, error) {
	now := snapshot.State{Identity: s.Identity(), Progress: s.Progress(), Format: store.FormatVersion}
	done, err := o.Owner.Publish(ctx, now, s, o.checkpoint)
	if err != nil {
		return aggregator.Snapshot{}, err
	}
	return described(done.Manifest), nil
}

// Reap removes all but the newest keep snapshots.
func (o *publisher) Reap(ctx context.Context, keep int) error {
	_, err := o.Owner.Reap(ctx, keep)
	return err
}

// List returns the snapshots of the topic as it is now.
func (p *published) List(ctx context.Context) ([]api.Snapshot, error) {
	s, err := p.open(ctx)
	if err != nil {
		return nil, err
	}
	listing, err := s.ListGroup(ctx, p.cfg.Kafka.GroupID)
	if err != nil {
		return nil, err
	}
	topic := p.tasks.Topic()
	list := []api.Snapshot{}
	for _, m := range listing.Manifests {
		if m.Lineage.TopicID == topic.ID && m.Identity.Topic == topic.Name {
			list = append(list, api.SnapshotOf(described(m)))
		}
	}
	return list, nil
}

// Publish publishes what is new of this member's partitions.
func (p *published) Publish(ctx context.Context) ([]api.Snapshot, error) {
	newest, err := p.tasks.PublishSnapshots(ctx)
	if err != nil {
		return nil, err
	}
	list := []api.Snapshot{}
	for _, s := range newest {
		list = append(list, api.SnapshotOf(s))
	}
	return list, nil
}

// seedsName is the folder in the state directory in which seeds are made.
const seedsName = "seeds"

// workspace is a state directory for seeds, which is removed when it is closed.
type workspace struct {
	*store.Dir
	path string
}

// workspace makes an empty workspace.
func (p *published) workspace() (aggregator.Workspace, error) { return openWorkspace(p.cfg, p.log) }

// openWorkspace makes an empty workspace in the state directory, which is open.
func openWorkspace(cfg *config.Config, log *slog.Logger) (aggregator.Workspace, error) {
	if err := clearWorkspace(cfg); err != nil {
		return nil, err
	}
	path := filepath.Join(cfg.State.Dir, seedsName)
	dir, err := store.Open(path, store.Options{
		Program: cfg.Program, Memory: seedMemory(cfg.State.Memory), MinFree: cfg.State.MinFree,
		Logger: log, Fatal: dies(log),
	})
	if err != nil {
		return nil, err
	}
	return workspace{dir, path}, nil
}

// clearWorkspace removes what a process that was killed has left of seeds. The
// state directory is open: nobody else uses it.
func clearWorkspace(cfg *config.Config) error {
	if err := os.RemoveAll(filepath.Join(cfg.State.Dir, seedsName)); err != nil {
		return fmt.Errorf("remove unfinished seeds: %w", err)
	}
	return nil
}

// leastMemory, in bytes, is the smallest budget of a state directory.
const leastMemory = 16 << 20

// Close removes everything.
func (w workspace) Close() error {
	return errors.Join(w.Dir.Close(), os.RemoveAll(w.path))
}
