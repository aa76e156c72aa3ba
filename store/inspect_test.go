package store_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"tidemark/aggregator"
	"tidemark/event"
	"tidemark/store"
)

// Inspect tells all there is, of every partition, and changes no byte.
func TestInspect(t *testing.T) {
	path := t.TempDir()
	d := openDir(t, path, options(t))
	for _, n := range []int32{0, 5} {
		p, err := d.Create(identity(n), aggregator.Progress{})
		guards := func(yield func([]byte, event.Time) bool) { yield([]byte("a"), event.Time{Sec: 1}) }
		if err := errors.Join(err, p.Guards(guards), p.Apply(t.Context(), sortedSums(seeds()), progressAt(1000+int64(n)))); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	before := files(t, path)
	in, err := store.Inspect(path)
	if err != nil {
		t.Fatal(err)
	}
	if after := files(t, path); !maps.Equal(before, after) {
		t.Errorf("it changed files")
	}
	if in.Path != path || len(in.Partitions) != 2 {
		t.Fatalf("%+v", in)
	}
	for i, n := range []int32{0, 5} {
		got := in.Partitions[i]
		if got.Err != nil || got.Bytes == 0 {
			t.Errorf("partition %d: %v, %d bytes", n, got.Err, got.Bytes)
		}
		want := store.PartitionInfo{
			Path: got.Path, Bytes: got.Bytes,
			Format: store.FormatVersion, Identity: identity(n), Progress: progressAt(1000 + int64(n)), Keys: 400, Guards: 1,
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("partition %d\n got %+v\nwant %+v", n, got, want)
		}
		alone, err := store.Inspect(got.Path)
		if err != nil || len(alone.Partitions) != 1 || !reflect.DeepEqual(alone.Partitions[0], want) {
			t.Errorf("partition %d alone: %+v, %v", n, alone, err)
		}
	}
}

// One partition that cannot be read does not hide the others.
func TestInspectShowsTheOthers(t *testing.T) {
	path := t.TempDir()
	d := openDir(t, path, options(t))
	created(t, d, 0)
	created(t, d, 1)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	manifests, err := filepath.Glob(filepath.Join(path, "partitions", "0", "MANIFEST-*"))
	if err != nil || len(manifests) == 0 {
		t.Fatal(manifests, err)
	}
	for _, name := range manifests {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	in, err := store.Inspect(path)
	if err != nil {
		t.Fatal(err)
	}
	if in.Partitions[0].Err == nil || in.Partitions[1].Err != nil || in.Partitions[1].Identity.Partition != 1 {
		t.Errorf("%+v", in.Partitions)
	}
}

// A directory in use, here or in a parent, is refused; one that is none of ours
// or not there is an error.
func TestInspectRefuses(t *testing.T) {
	path := t.TempDir()
	d := openDir(t, path, options(t))
	created(t, d, 0)
	for _, dir := range []string{path, filepath.Join(path, "partitions", "0")} {
		if _, err := store.Inspect(dir); !errors.Is(err, store.ErrLocked) {
			t.Errorf("inspect %s in use: %v", dir, err)
		}
	}
	if _, err := store.Inspect(t.TempDir()); !errors.Is(err, aggregator.ErrNoState) {
		t.Errorf("inspect nothing: %v", err)
	}
	if _, err := store.Inspect(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("inspect what is not there: %v", err)
	}
}

// A checkpoint is a state of its own, at the position that was flushed.
func TestS02CheckpointIsWhole(t *testing.T) {
	path := t.TempDir()
	d := openDir(t, path, options(t))
	p := created(t, d, 0)
	totals := seeds()
	for position := int64(0); position < 2000; position += 100 {
		if err := p.Apply(t.Context(), sortedSums(fold(make(map[string]sum), position, position+100)), progressAt(position+100)); err != nil {
			t.Fatal(err)
		}
	}
	copied := filepath.Join(path, "copy", "partitions", "0")
	if err := errors.Join(os.MkdirAll(filepath.Dir(copied), 0o700), p.Checkpoint(copied)); err != nil {
		t.Fatal(err)
	}
	if err := p.Apply(t.Context(), sorted(map[string]int64{"after": 1}), progressAt(3000)); err != nil {
		t.Fatal(err)
	}
	of := openPartition(t, openDir(t, filepath.Join(path, "copy"), options(t)), 0)
	got, at := contents(t, of)
	clear(totals)
	if want := fold(totals, 0, 2000); at != 2000 || !maps.Equal(got, want) {
		t.Errorf("at %d with %d keys, want %d", at, len(got), len(want))
	}
	if err := p.Checkpoint(copied); err == nil {
		t.Error("made a checkpoint over another")
	}
}
