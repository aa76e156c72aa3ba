package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tidemark/aggregator"
	"tidemark/store"
)

// TestS01S10S16OddDirectories: what hands and tools make of a state directory
// around the partitions' folders. What was in it is opened as it was, or the
// directory is refused with a word that says why.
func TestS01S10S16OddDirectories(t *testing.T) {
	write := func(path, text string) error {
		return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600))
	}
	for _, c := range []struct {
		name    string
		change  func(dir string) error
		refused string // what the error says; "" where it opens
	}{
		{"a file beside", func(dir string) error { return write(filepath.Join(dir, "notes.txt"), "x") }, ""},
		{"the lock's file gone", func(dir string) error { return os.Remove(filepath.Join(dir, "LOCK")) }, ""},
		{"a holder that crashed", func(dir string) error { return write(filepath.Join(dir, "holder"), "process 1 on nowhere") }, ""},
		{"a holder of garbage", func(dir string) error { return write(filepath.Join(dir, "holder"), strings.Repeat("\x00", 1<<20)) }, ""},
		{"folders that are no numbers", func(dir string) error {
			return errors.Join(os.Mkdir(filepath.Join(dir, "partitions", "old"), 0o755), os.Mkdir(filepath.Join(dir, "partitions", "-1"), 0o755),
				os.Mkdir(filepath.Join(dir, "partitions", "007"), 0o755), os.Mkdir(filepath.Join(dir, "partitions", "99999999999"), 0o755))
		}, ""},
		{"an unfinished partition", func(dir string) error {
			return write(filepath.Join(dir, "partitions", "5.new", "MANIFEST-000001"), "x")
		}, ""},
		{"a partition on its way out", func(dir string) error {
			return os.CopyFS(filepath.Join(dir, "partitions", "0.drop"), os.DirFS(filepath.Join(dir, "partitions", "0")))
		}, ""},
		{"a restore that was left", func(dir string) error { return write(filepath.Join(dir, "restores", "0", "000001.sst"), "x") }, ""},
		{"a checkpoint that was left", func(dir string) error {
			return os.CopyFS(filepath.Join(dir, "checkpoints", "0"), os.DirFS(filepath.Join(dir, "partitions", "0")))
		}, ""},
		{"a ballast of another size", func(dir string) error { return write(filepath.Join(dir, "ballast"), "x") }, ""},
		{"moved, with a link in its place", func(dir string) error {
			return errors.Join(os.Rename(dir, dir+"-moved"), os.Symlink(dir+"-moved", dir))
		}, ""},
		{"copied as a backup is", func(dir string) error {
			return errors.Join(os.CopyFS(dir+"-copy", os.DirFS(dir)), os.RemoveAll(dir), os.Rename(dir+"-copy", dir))
		}, ""},
		{"a file in its place", func(dir string) error { return errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600)) }, "state"},
		{"a file for the partitions", func(dir string) error {
			return errors.Join(os.RemoveAll(filepath.Join(dir, "partitions")), os.WriteFile(filepath.Join(dir, "partitions"), nil, 0o600))
		}, "partitions"},
		{"a file for the partition", func(dir string) error {
			return errors.Join(os.RemoveAll(filepath.Join(dir, "partitions", "0")), os.WriteFile(filepath.Join(dir, "partitions", "0"), nil, 0o600))
		}, "0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state")
			o := options(t)
			o.MinFree = 4 << 20
			d, err := store.Open(path, o)
			if err != nil {
				t.Fatal(err)
			}
			apply(t, created(t, d, 0), map[string]int64{"a": 1, "b": 2}, 10)
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			if err := c.change(path); err != nil {
				t.Fatal(err)
			}
			d, err = store.Open(path, o)
			var s aggregator.Store
			if err == nil {
				t.Cleanup(func() { d.Close() })
				s, err = d.Open(0)
			}
			if c.refused != "" {
				if err == nil || !strings.Contains(err.Error(), c.refused) || errors.Is(err, aggregator.ErrNoState) {
					t.Errorf("it opens, or is refused with %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if all, at := contents(t, s); len(all) != 2 || at != 10 {
				t.Errorf("it opens with %v at %d", all, at)
			}
			numbers, err := d.Partitions()
			if err != nil || len(numbers) != 1 {
				t.Errorf("it has the partitions %v (%v)", numbers, err)
			}
		})
	}
}
