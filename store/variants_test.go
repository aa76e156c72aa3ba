package store_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tidemark/aggregator"
	"tidemark/store"
)

// TestS10S16OddFolders: what hands, copies and disks make of a state's folder.
// It is opened with what was in it, or refused with its files as they were;
// never half, and never begun anew by itself.
func TestS10S16OddFolders(t *testing.T) {
	each := func(dir, pattern string, do func(path string) error) error {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err == nil && len(found) == 0 {
			err = fs.ErrNotExist
		}
		for _, path := range found {
			err = errors.Join(err, do(path))
		}
		return err
	}
	cut := func(n int64) func(string) error {
		return func(path string) error {
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			return os.Truncate(path, max(0, info.Size()-n))
		}
	}
	flip := func(at int) func(string) error {
		return func(path string) error {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if at < 0 {
				at += len(b)
			}
			b[at%len(b)] ^= 0x10
			return os.WriteFile(path, b, 0o600)
		}
	}
	for _, c := range []struct {
		name   string
		change func(dir string) error // the folder of partition 0
		opens  bool
	}{
		{"as it was", func(string) error { return nil }, true},
		{"another file in it", func(dir string) error { return os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("x"), 0o600) }, true},
		{"a table that is none", func(dir string) error { return os.WriteFile(filepath.Join(dir, "999999.sst"), nil, 0o600) }, true},
		{"its options gone", func(dir string) error { return each(dir, "OPTIONS-*", os.Remove) }, true},
		{"a table gone", func(dir string) error { return each(dir, "*.sst", os.Remove) }, false},
		{"a table cut by a byte", func(dir string) error { return each(dir, "*.sst", cut(1)) }, false},
		{"a table emptied", func(dir string) error { return each(dir, "*.sst", cut(1<<40)) }, false},
		{"a bit of a table's end", func(dir string) error { return each(dir, "*.sst", flip(-20)) }, false},
		{"a bit of a table's beginning", func(dir string) error { return each(dir, "*.sst", flip(3)) }, false},
		{"the manifest gone", func(dir string) error { return each(dir, "MANIFEST-*", os.Remove) }, false},
		{"the manifest emptied", func(dir string) error { return each(dir, "MANIFEST-*", cut(1<<40)) }, false},
		{"a bit of the manifest", func(dir string) error { return each(dir, "MANIFEST-*", flip(20)) }, false},
		{"the marker of the manifest gone", func(dir string) error { return each(dir, "marker.manifest.*", os.Remove) }, false},
		{"all but the tables gone", func(dir string) error {
			return errors.Join(each(dir, "MANIFEST-*", os.Remove), each(dir, "marker.*", os.Remove), each(dir, "OPTIONS-*", os.Remove))
		}, false},
		{"the name of another partition", func(dir string) error { return os.Rename(dir, filepath.Join(filepath.Dir(dir), "3")) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := t.TempDir()
			d, err := store.Open(path, options(t))
			if err != nil {
				t.Fatal(err)
			}
			apply(t, created(t, d, 0), map[string]int64{"a": 1, "b": 2}, 10)
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(path, "partitions", "0")
			if err := c.change(dir); err != nil {
				t.Fatal(err)
			}
			partition := int32(0)
			if strings.Contains(c.name, "another partition") {
				partition = 3
			}
			before := tables(files(t, filepath.Join(path, "partitions")))
			o := options(t)
			o.Fatal = func(string) {}
			d = openDir(t, path, o)
			s, err := d.Open(partition)
			if !c.opens {
				if err == nil {
					all, at := contents(t, s)
					t.Fatalf("it opens with %v at %d", all, at)
				}
				if errors.Is(err, aggregator.ErrNoState) {
					t.Errorf("it passes for no state, and would be begun anew: %v", err)
				}
				after := tables(files(t, filepath.Join(path, "partitions")))
				for name, b := range before {
					if after[name] != b {
						t.Errorf("%s was changed", name)
					}
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if all, at := contents(t, s); len(all) != 2 || at != 10 {
				t.Errorf("it opens with %v at %d", all, at)
			}
		})
	}
}
