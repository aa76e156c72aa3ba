package snapshot

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
	"gocloud.dev/blob/memblob"

	"tidemark/aggregator"
	"tidemark/event"
)

// child, in the environment, makes the test binary one of several processes.
const child = "TIDEMARK_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(child) != "" {
		os.Exit(childMain())
	}
	goleak.VerifyTestMain(m)
}

func definition(name string) aggregator.Definition {
	return aggregator.Definition{
		SQL:         "SELECT " + name + " FROM sales WHERE a < b",
		Fingerprint: "print of " + name,
		Clauses:     []aggregator.Clause{{Name: "SELECT x", Text: name}},
	}
}

func lineage(partition int32) Lineage {
	return Lineage{Group: "tidemark-sales", Topic: "sales", TopicID: "AAAAAAAAAAAAAAAAAAAAAQ", Partition: partition}
}

func identity(partition int32) aggregator.Identity {
	return aggregator.Identity{
		Topic: "sales", TopicID: "AAAAAAAAAAAAAAAAAAAAAQ", Partition: partition, Partitions: 8,
		Definition: definition("sum"),
		Cut: aggregator.Cut{
			Mode: "timestamp", Start: 7, Before: &event.Time{Sec: 1438000000, Nsec: 5},
			EventTime: event.Path{"sale", "at"}, Partitioner: "murmur2",
		},
		HasHistory: true, SeedPartitions: 6,
	}
}

func state(partition int32, position int64) State {
	p := aggregator.Progress{Position: position, Seeded: true, Documents: 3, Epoch: 1, Placement: 5}
	p.Counts.Results[aggregator.Folded] = position
	p.Counts.Results[aggregator.Bad] = 2
	p.Counts.Reasons[1] = 2
	return State{Identity: identity(partition), Progress: p, Format: 1}
}

// copies is a Checkpointer over files in memory.
type copies map[string]string

func (c copies) Checkpoint(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	for name, content := range c {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// at is a state at a position: tables of which most are those of the position
// before, and small files that always change.
func at(position int64) copies {
	c := copies{"marker.a": "", "marker.b": "", "OPTIONS-1": "same", "MANIFEST-1": fmt.Sprint("manifest at ", position)}
	for i := max(0, position-3); i <= position; i++ {
		c[fmt.Sprintf("%06d.sst", i)] = table(i)
	}
	return c
}

func table(i int64) string { return fmt.Sprintf("table %d %0*d", i, 3000+i, i) }

// bytes is the size of a copy.
func (c copies) bytes() (n int64) {
	for _, content := range c {
		n += int64(len(content))
	}
	return n
}

// bucketMaker makes a bucket and returns it as often as it is called: each
// time as another process would see it.
type bucketMaker func(t testing.TB) func() bucket

// buckets are the kinds of bucket that a test without servers can have.
var buckets = map[string]bucketMaker{
	"mem": func(t testing.TB) func() bucket {
		b := memblob.OpenBucket(nil)
		t.Cleanup(func() { b.Close() })
		return func() bucket { return unclosed{&cloud{b: b, prefix: "some/prefix/"}} }
	},
	"folder": func(t testing.TB) func() bucket {
		root := filepath.Join(t.TempDir(), "a", "snapshots")
		return func() bucket {
			f, err := openFolder(root)
			if err != nil {
				t.Fatal(err)
			}
			return f
		}
	},
}

// unclosed leaves a shared bucket open.
type unclosed struct{ bucket }

func (unclosed) close() error { return nil }

func eachBucket(t *testing.T, test func(t *testing.T, open func() bucket)) {
	for _, name := range slices.Sorted(maps.Keys(buckets)) {
		t.Run(name, func(t *testing.T) { test(t, buckets[name](t)) })
	}
}

// pass lets time pass: that of a bubble.
func pass(t testing.TB, d time.Duration) {
	t.Helper()
	if err := sleep(t.Context(), d); err != nil {
		t.Fatal(err)
	}
}

func openStore(t testing.TB, b bucket, opts Options) *Store {
	t.Helper()
	if opts.Settle == 0 {
		opts.Settle = 50 * time.Millisecond
	}
	s := newStore(b, "test", opts)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func claim(t testing.TB, s *Store, partition int32) *Owner {
	t.Helper()
	o, err := s.Claim(t.Context(), lineage(partition), 0)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func publish(t testing.TB, o *Owner, position int64) Published {
	t.Helper()
	p, err := try(t, o, position)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// try publishes the state at position.
func try(t testing.TB, o *Owner, position int64) (Published, error) {
	dir := filepath.Join(t.TempDir(), "checkpoint")
	p, err := o.Publish(context.WithoutCancel(t.Context()), state(o.lineage.Partition, position), at(position), dir)
	if _, serr := os.Stat(dir); !errors.Is(serr, fs.ErrNotExist) {
		t.Errorf("the checkpoint is left: %v", serr)
	}
	return p, err
}

// restored restores m and compares the files with those at its position.
func restored(t testing.TB, s *Store, m *Manifest) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), rand.Text())
	if err := s.Restore(t.Context(), m, dir, RestoreOptions{}); err != nil {
		t.Fatal(err)
	}
	compare(t, dir, at(m.Position()))
}

func compare(t testing.TB, dir string, want copies) {
	t.Helper()
	got := make(copies)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		got[e.Name()] = string(b)
	}
	if !maps.Equal(got, want) {
		t.Errorf("%s has files %v, want %v", dir, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
}

// keys lists all objects under prefix, at any depth.
func keys(t testing.TB, b bucket, prefix string) []string {
	t.Helper()
	var all []string
	for o, err := range b.list(t.Context(), prefix) {
		if err != nil {
			t.Fatal(err)
		}
		if o.dir() {
			all = append(all, keys(t, b, o.key)...)
		} else {
			all = append(all, o.key)
		}
	}
	slices.Sort(all)
	return all
}

func seqs(ms []*Manifest) (all []int64) {
	for _, m := range ms {
		all = append(all, m.Seq)
	}
	return all
}
