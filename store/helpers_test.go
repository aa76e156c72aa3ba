package store_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tidemark/aggregator"
	"tidemark/event"
	"tidemark/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sum is a total of tests: a version, a sum and a count. It commutes.
type sum struct{ sum, count int64 }

const sumVersion = 1

var errSum = errors.New("no total")

func (s *sum) Reset() { *s = sum{} }

func (s *sum) Merge(b []byte) error {
	if len(b) == 0 {
		return fmt.Errorf("%w: no bytes", errSum)
	}
	if b[0] != sumVersion {
		return fmt.Errorf("%w: version %d, this program reads up to %d", errSum, b[0], sumVersion)
	}
	v, n := binary.Varint(b[1:])
	c, m := binary.Varint(b[1+max(n, 0):])
	if n <= 0 || m <= 0 || 1+n+m != len(b) {
		return fmt.Errorf("%w: %x", errSum, b)
	}
	s.sum += v
	s.count += c
	return nil
}

func (s *sum) Append(dst []byte) []byte {
	return binary.AppendVarint(binary.AppendVarint(append(dst, sumVersion), s.sum), s.count)
}

func encoded(v int64) []byte { return (&sum{v, 1}).Append(nil) }

func definition(name string) aggregator.Definition {
	return aggregator.Definition{
		SQL:         "SELECT " + name,
		Fingerprint: "print of " + name,
		Clauses:     []aggregator.Clause{{Name: "SELECT x", Text: name}},
	}
}

func identity(partition int32) aggregator.Identity {
	return aggregator.Identity{
		Topic: "sales", TopicID: "AAAAAAAAAAAAAAAAAAAAAQ", Partition: partition, Partitions: 8,
		Definition: definition("sum"),
		Cut: aggregator.Cut{
			Mode: "timestamp", Start: 7, Before: &event.Time{Sec: 1438000000, Nsec: 5},
			EventTime: event.Path{"sale", "at"}, Partitioner: "fnv1a",
		},
		HasHistory: true, SeedPartitions: 6,
	}
}

// options are those of tests: in which nothing may be fatal.
func options(t testing.TB) store.Options {
	o := store.Options{
		Fatal:    func(reason string) { t.Errorf("fatal: %s", reason) },
		Memory:   16 << 20,
		MinFree:  -1,
		LockWait: 50 * time.Millisecond,
	}
	return o.WithCodec(definition("sum"), func() store.Total { return new(sum) })
}

func openDir(t testing.TB, path string, o store.Options) *store.Dir {
	t.Helper()
	d, err := store.Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return d
}

func openPartition(t testing.TB, d *store.Dir, partition int32) *store.Partition {
	t.Helper()
	s, err := d.Open(partition)
	if err != nil {
		t.Fatal(err)
	}
	return s.(*store.Partition)
}

// created makes a state that is seeded and at position 0.
func created(t testing.TB, d *store.Dir, partition int32) *store.Partition {
	t.Helper()
	s, err := d.Create(identity(partition), aggregator.Progress{Seeded: true})
	if err != nil {
		t.Fatal(err)
	}
	return s.(*store.Partition)
}

// sorted yields deltas in key order, encoded.
func sorted(deltas map[string]int64) iter.Seq2[[]byte, []byte] {
	sums := make(map[string]sum)
	for key, v := range deltas {
		sums[key] = sum{v, 1}
	}
	return sortedSums(sums)
}

// sortedSums yields totals in key order, encoded.
func sortedSums(totals map[string]sum) iter.Seq2[[]byte, []byte] {
	return func(yield func(k, v []byte) bool) {
		for _, key := range slices.Sorted(maps.Keys(totals)) {
			s := totals[key]
			if !yield([]byte(key), s.Append(nil)) {
				return
			}
		}
	}
}

func apply(t testing.TB, p *store.Partition, deltas map[string]int64, position int64) {
	t.Helper()
	if err := p.Apply(t.Context(), sorted(deltas), aggregator.Progress{Seeded: true, Position: position}); err != nil {
		t.Fatal(err)
	}
}

type viewer interface {
	View() (aggregator.View, error)
}

// contents reads all totals and the position from one view.
func contents(t testing.TB, s viewer) (map[string]sum, int64) {
	t.Helper()
	v, err := s.View()
	if err != nil {
		t.Fatal(err)
	}
	position, err := v.Position()
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]sum)
	last := ""
	for key, total := range v.Scan(nil) {
		if len(all) > 0 && string(key) <= last {
			t.Errorf("key %q comes after %q", key, last)
		}
		last = string(key)
		all[last] = decoded(t, total)
	}
	if err := errors.Join(v.Err(), v.Close()); err != nil {
		t.Fatal(err)
	}
	return all, position
}

func decoded(t testing.TB, total []byte) (s sum) {
	t.Helper()
	if err := s.Merge(total); err != nil {
		t.Fatal(err)
	}
	return s
}

// files lists a directory's files with their contents.
func files(t testing.TB, root string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		all[path] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// read appends the total of a key to dst, by a view of its own.
func read(s viewer, dst, key []byte) ([]byte, bool, error) {
	v, err := s.View()
	if err != nil {
		return dst, false, err
	}
	defer v.Close() // its error was Get's
	return v.Get(dst, key)
}
