package store_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"tidemark/aggregator"
	"tidemark/event"
	"tidemark/store"
)

// closed makes a state of one key in path's partition 0, lets change at it, and
// closes it.
func closed(t *testing.T, path string, change func(p *store.Partition) error) {
	t.Helper()
	d := openDir(t, path, options(t))
	p := created(t, d, 0)
	apply(t, p, map[string]int64{"a": 1}, 1)
	if err := errors.Join(change(p), d.Close()); err != nil {
		t.Fatal(err)
	}
}

// refused opens partition 0 and expects an error that is want, says all parts,
// and leaves the totals as they are.
func refused(t *testing.T, path string, want error, parts ...string) {
	t.Helper()
	before := tables(files(t, path))
	d := openDir(t, path, options(t))
	_, err := d.Open(0)
	if !errors.Is(err, want) {
		t.Fatalf("open: %v, want %v", err, want)
	}
	for _, part := range append(parts, path, "partition 0") {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
	if _, err := d.Create(identity(0), aggregator.Progress{}); !errors.Is(err, store.ErrExists) {
		t.Errorf("make a state over it: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if after := tables(files(t, path)); !maps.Equal(before, after) {
		t.Errorf("its tables were changed: %v, then %v", slices.Collect(maps.Keys(before)), slices.Collect(maps.Keys(after)))
	}
	in, err := store.Inspect(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Partitions[0].Err; !errors.Is(err, want) {
		t.Errorf("inspect: %v, want %v", err, want)
	}
}

// tables are those of files that hold totals.
func tables(files map[string]string) map[string]string {
	maps.DeleteFunc(files, func(path, _ string) bool { return filepath.Ext(path) != ".sst" })
	return files
}

// A newer state is refused with both numbers.
func TestS14NewerFormatIsRefused(t *testing.T) {
	path := t.TempDir()
	closed(t, path, func(p *store.Partition) error { return p.SetRaw(store.FormatKey, []byte("2")) })
	refused(t, path, store.ErrNewerFormat, "it is 2, this program reads up to 1")
}

// Files of a newer Pebble are refused with both numbers.
func TestS14NewerFilesAreRefused(t *testing.T) {
	path := t.TempDir()
	closed(t, path, func(*store.Partition) error { return nil })
	markers, err := filepath.Glob(filepath.Join(path, "partitions", "0", "marker.format-version.*"))
	if err != nil || len(markers) != 1 {
		t.Fatalf("markers %v, %v", markers, err)
	}
	newer := strings.TrimSuffix(markers[0], "024") + "099"
	if err := os.Rename(markers[0], newer); err != nil {
		t.Fatal(err)
	}
	refused(t, path, store.ErrNewerFormat, "format 99, this program reads up to 24")
}

// A total of a newer encoding is refused at open with both versions, not by a
// compaction later.
func TestS14NewerTotalIsRefused(t *testing.T) {
	path := t.TempDir()
	closed(t, path, func(p *store.Partition) error {
		return p.SetRaw([]byte("k/a"), []byte{3, 2, 2})
	})
	d := openDir(t, path, options(t))
	if _, err := d.Open(0); !errors.Is(err, errSum) || !strings.Contains(err.Error(), "version 3, this program reads up to 1") {
		t.Errorf("open: %v", err)
	}
}

// A directory with files and no marker is refused and left alone.
func TestMissingMarkerIsRefused(t *testing.T) {
	t.Run("a database without the marker", func(t *testing.T) {
		path := t.TempDir()
		closed(t, path, func(p *store.Partition) error { return p.DeleteRaw(store.FormatKey) })
		refused(t, path, store.ErrNoMarker)
	})
	t.Run("files that are no database", func(t *testing.T) {
		path := t.TempDir()
		inside := filepath.Join(path, "partitions", "0")
		if err := errors.Join(os.MkdirAll(inside, 0o700), os.WriteFile(filepath.Join(inside, "notes.txt"), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		refused(t, path, store.ErrNoMarker)
	})
	t.Run("an empty directory is no state", func(t *testing.T) {
		path := t.TempDir()
		if err := os.MkdirAll(filepath.Join(path, "partitions", "0"), 0o700); err != nil {
			t.Fatal(err)
		}
		d := openDir(t, path, options(t))
		if _, err := d.Open(0); !errors.Is(err, aggregator.ErrNoState) {
			t.Errorf("open: %v", err)
		}
		created(t, d, 0)
	})
}

// What is written under the keys of a state and cannot be read is ErrCorrupt.
func TestBytesThatAreNoStateAreRefused(t *testing.T) {
	for key, values := range map[string][]string{
		"m/format":   {"", "0", "-1", "one", "1 "},
		"m/identity": {"", "{}{}", `{"topic":1}`, `{"unknown":1}`, `{"partition":1}`},
		"m/progress": {"", "\xff", "\x01", "\x01{", "\x01{}x", "\x01{\"more\":1}", "\x01{\"results\":{\"lost\":1}}", "\x01{\"reasons\":{\"lost\":1}}"},
		"m/keys":     {"", "short", strings.Repeat("\x36", 4096)},
	} {
		for _, value := range values {
			t.Run(fmt.Sprintf("%s=%.20q", key, value), func(t *testing.T) {
				path := t.TempDir()
				closed(t, path, func(p *store.Partition) error { return p.SetRaw([]byte(key), []byte(value)) })
				d := openDir(t, path, options(t))
				if _, err := d.Open(0); !errors.Is(err, store.ErrCorrupt) {
					t.Errorf("open: %v", err)
				}
			})
		}
	}
}

// Names, and not places in an enumeration, are what is stored of counts.
func TestCountsAreStoredByName(t *testing.T) {
	d := openDir(t, t.TempDir(), options(t))
	p := created(t, d, 0)
	next := aggregator.Progress{Seeded: true, Position: 300}
	next.Counts.Results[aggregator.BeforeCut] = 3
	next.Counts.Reasons[event.BadTimestamp] = 4
	if err := p.Apply(t.Context(), sorted(nil), next); err != nil {
		t.Fatal(err)
	}
	value, closer, err := p.DB().Get([]byte("m/progress"))
	if err != nil {
		t.Fatal(err)
	}
	defer closer.Close()
	want := "\xac\x02" + `{"seeded":true,"epoch":0,"placement":0,"results":{"before_cut":3},"reasons":{"bad_timestamp":4}}`
	if string(value) != want {
		t.Errorf("progress is stored as\n%q, want\n%q", value, want)
	}
}

// A state of another definition is opened, so that its identity can be told,
// and is not changed.
func TestOtherDefinitionIsNotRewritten(t *testing.T) {
	path := t.TempDir()
	d := openDir(t, path, options(t).WithTune(func(o *pebble.Options) { o.DisableAutomaticCompactions = true }))
	p := created(t, d, 0)
	for i := range int64(10) { // leaves much to compact
		apply(t, p, map[string]int64{"a": i}, i)
		if err := p.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	before := tables(files(t, path))
	o := options(t).WithCodec(definition("max"), func() store.Total { return unmergeable{} })
	d = openDir(t, path, o)
	s, err := d.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Identity().Definition; !got.Equal(definition("sum")) {
		t.Errorf("definition %+v", got)
	}
	if err := s.Apply(t.Context(), sorted(nil), aggregator.Progress{Position: 9, Seeded: true}); !errors.Is(err, aggregator.ErrOtherDefinition) {
		t.Errorf("apply: %v", err)
	}
	if _, err := d.Create(identity(1), aggregator.Progress{}); !errors.Is(err, aggregator.ErrOtherDefinition) {
		t.Errorf("create: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if after := tables(files(t, path)); len(before) == 0 || !maps.Equal(before, after) {
		t.Errorf("its tables were rewritten: %d, then %d", len(before), len(after))
	}

	// With its own definition they are, once it has flushed.
	d = openDir(t, path, options(t))
	p = openPartition(t, d, 0)
	if err := p.Flush(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); p.DB().Metrics().Compact.Count == 0 && time.Now().Before(deadline); {
		<-time.After(time.Millisecond)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if after := tables(files(t, path)); maps.Equal(before, after) {
		t.Error("nothing was compacted")
	}
}

// unmergeable is the total of a program that must merge nothing.
type unmergeable struct{}

func (unmergeable) Reset()                   {}
func (unmergeable) Merge([]byte) error       { return errors.New("merged a total of another definition") }
func (unmergeable) Append(dst []byte) []byte { return dst }

// A file that is damaged, cut or gone is found at the open, whatever file of the
// database it is, and told in one line.
func TestDamagedFiles(t *testing.T) {
	changed := func(name string) error {
		bytes, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		bytes[10] ^= 0xff // the first block of a table holds its keys
		return os.WriteFile(name, bytes, 0o600)
	}
	cut := func(name string) error { return os.Truncate(name, 12) }
	for name, tt := range map[string]struct {
		files  string
		damage func(name string) error
	}{
		"table changed":  {"*.sst", changed},
		"table cut":      {"*.sst", cut},
		"table gone":     {"*.sst", os.Remove},
		"manifest cut":   {"MANIFEST-*", cut},
		"manifests gone": {"MANIFEST-*", os.Remove},
	} {
		t.Run(name, func(t *testing.T) {
			path := t.TempDir()
			closed(t, path, func(*store.Partition) error { return nil })
			partition := filepath.Join(path, "partitions", "0")
			names, err := filepath.Glob(filepath.Join(partition, tt.files))
			if err != nil || len(names) == 0 {
				t.Fatalf("files %v, %v", names, err)
			}
			for _, name := range names {
				if err := tt.damage(name); err != nil {
					t.Fatal(err)
				}
			}
			said := func(by string, err error) {
				t.Helper()
				if !errors.Is(err, store.ErrCorrupt) {
					t.Errorf("%s: %v", by, err)
				} else if text := err.Error(); strings.ContainsAny(text, "\n<") {
					t.Errorf("%s: it is not one plain line: %q", by, text)
				}
			}
			in, err := store.Inspect(path)
			if err != nil {
				t.Fatal(err)
			}
			said("inspect", in.Partitions[0].Err)
			_, err = store.Peek(partition)
			said("peek", err)
			_, err = openDir(t, path, options(t)).Open(0)
			said("open", err)
		})
	}
}
