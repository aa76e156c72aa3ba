package aggregator

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"tidemark/query"
)

const salesQuery = `SELECT userId, count(*) AS sales, sum(revenue) AS revenue FROM sales GROUP BY userId`

func compile(t testing.TB, sql string) *Program {
	t.Helper()
	def, err := query.Parse(sql)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Compile(def, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// rig is a processor over fakes. Its disk and group survive its process.
type rig struct {
	t         *testing.T
	log       *fakeLog
	states    *memStates
	snapshots *memSnapshots
	commits   *memCommits
	seeder    *fakeSeeder
	letters   *fakeLetters
	program   *Program
	tuning    Tuning
	observer  Observer

	p      *Processor
	cancel context.CancelFunc
	ended  chan error
}

// beside is another member of the group: with a disk of its own.
func (r *rig) beside() *rig {
	other := *r
	other.states = newMemStates(r.program)
	other.snapshots = &memSnapshots{memLines: r.snapshots.memLines, states: other.states}
	other.commits = &memCommits{memGroup: r.commits.memGroup}
	return &other
}

func newRig(t *testing.T, partitions int32) *rig {
	program := compile(t, salesQuery)
	log := newFakeLog("sales", partitions)
	states := newMemStates(program)
	return &rig{
		t: t, log: log, program: program, states: states, snapshots: newMemSnapshots(states), commits: newMemCommits(),
		seeder: &fakeSeeder{log: log, program: program}, letters: &fakeLetters{},
		tuning: Tuning{
			Topic: "sales", ApplyRecords: 50, ApplyInterval: time.Millisecond, FlushInterval: time.Hour,
			SnapshotInterval: time.Hour, Keep: 3,
		},
	}
}

// start runs a processor with the partitions.
func (r *rig) start(partitions ...int32) *rig {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r.p = NewProcessor(Parts{
		Program: r.program, Log: r.log, States: r.states, Seeder: r.seeder, Commits: r.commits, Snapshots: r.snapshots,
		Seeds:   NewSeeds(r.seeder, r.snapshots, func() (Workspace, error) { return memWorkspace{newMemStates(r.program)}, nil }),
		Letters: r.letters, Observer: r.observer, Logger: slog.New(slog.DiscardHandler),
	}, r.tuning)
	ended := make(chan error, 1)
	p := r.p
	go func() { ended <- p.Run(ctx) }()
	r.cancel, r.ended = cancel, ended
	r.t.Cleanup(func() { cancel(); <-ended })
	// All are assigned before any task gets its first answer from the log.
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	for _, partition := range partitions {
		r.p.Assign(partition)
	}
	return r
}

// stop ends the processor, without an error.
func (r *rig) stop() {
	r.t.Helper()
	r.cancel()
	if err := r.end(); err != nil {
		r.t.Fatal(err)
	}
}

// end waits until the processor ends by itself and returns what Run returned.
func (r *rig) end() error {
	r.t.Helper()
	select {
	case err := <-r.ended:
		close(r.ended)
		return err
	case <-time.After(20 * time.Second):
		r.t.Fatalf("the processor does not end: %+v", r.p.Status())
		return nil
	}
}

// until waits for a condition on a partition.
func (r *rig) until(partition int32, what string, cond func(PartitionStatus) bool) PartitionStatus {
	r.t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		var changed <-chan struct{}
		if c := r.p.Changed(partition); c != nil {
			changed = c
		}
		for _, s := range r.p.Status() {
			if s.Partition == partition && cond(s) {
				return s
			}
		}
		select {
		case <-changed:
		case <-time.After(5 * time.Millisecond): // some conditions are not announced
		case <-deadline:
			r.t.Fatalf("partition %d: not %s: %+v", partition, what, r.p.Status())
		}
	}
}

// caughtUp waits until a partition is live and holds all there is.
func (r *rig) caughtUp(partition int32) {
	r.t.Helper()
	r.until(partition, "caught up", func(s PartitionStatus) bool {
		_, end, err := r.log.Bounds(context.Background(), partition)
		return err == nil && s.State == Live && s.Position == end
	})
}

// stored is the position in a partition's store.
func (r *rig) stored(partition int32) int64 {
	r.states.mu.Lock()
	defer r.states.mu.Unlock()
	return r.states.states[partition].progress().Position
}

// row is the answer of one partition about one key, "" where it has none.
func (r *rig) row(partition int32, key string) string {
	r.t.Helper()
	got, err := r.p.Get(context.Background(), partition, []byte(key))
	if err != nil {
		r.t.Fatal(err)
	}
	return render(r.t, r.program, []byte(key), got.Parts)
}

func render(t testing.TB, p *Program, key, parts []byte) string {
	t.Helper()
	if len(parts) == 0 {
		return ""
	}
	sum := p.NewTotal()
	if err := sum.MergeParts(parts); err != nil {
		t.Fatal(err)
	}
	return string(sum.AppendRow(nil, key, false))
}

// expect compares one row.
func (r *rig) expect(partition int32, key, want string) {
	r.t.Helper()
	if got := r.row(partition, key); got != want {
		r.t.Errorf("partition %d, key %s: got %s, want %s", partition, key, got, want)
	}
}

func sale(user int, revenue string) string {
	return fmt.Sprintf(`{"userId":%d,"revenue":%s}`, user, revenue)
}

// notBeyondSnapshots: what the group was told is published.
func (r *rig) notBeyondSnapshots(partition int32) {
	r.t.Helper()
	commits, _ := r.commits.Committed(context.Background())
	c := commits[partition]
	if note, _ := readNote(c); note.Snapshot != nil && c.Offset > r.snapshots.position(partition) {
		r.t.Fatalf("the group has offset %d, the newest snapshot is at %d", c.Offset, r.snapshots.position(partition))
	}
}

// mixed are n sales of few users, tombstones and broken records.
func mixed(rnd *rand.Rand, n int) (values []string) {
	for range n {
		switch rnd.IntN(12) {
		case 0:
			values = append(values, "")
		case 1:
			values = append(values, `{"userId":`)
		default:
			values = append(values, sale(rnd.IntN(7), fmt.Sprintf("%d.%02d", rnd.IntN(100), rnd.IntN(100))))
		}
	}
	return values
}

// straight compares a state, and the counts of its partition, with the fold of
// the whole log in one delta, byte for byte.
func (r *rig) straight(partition int32, state *memState, counts Counts) {
	r.t.Helper()
	straight := r.program.NewDelta(partition, r.log.topic.Partitions)
	decoder, err := r.program.NewDecoder(DecodeCut{}, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	for i := range r.log.parts[partition].records {
		if _, err := decoder.Fold(straight, partition, &r.log.parts[partition].records[i]); err != nil {
			r.t.Fatal(err)
		}
	}
	rows := state.rows(r.program)
	n := 0
	for key, want := range straight.Sorted(nil) {
		n++
		if got := rows[string(key)]; !slices.Equal(got, want) {
			r.t.Errorf("key %s: got %s, want %s", key, render(r.t, r.program, key, got), render(r.t, r.program, key, want))
		}
	}
	if n != len(rows) {
		r.t.Errorf("%d keys, want %d", len(rows), n)
	}
	if counts != straight.Counts {
		r.t.Errorf("counts %+v, want %+v", counts, straight.Counts)
	}
}
