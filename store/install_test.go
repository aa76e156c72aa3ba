package store_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tidemark/aggregator"
	"tidemark/store"
)

// laid makes, in the open directory d, a whole state of the partition with the
// records up to position, where a restore would lay it.
func laid(t testing.TB, d *store.Dir, disk vfs.FS, partition int32, position int64) (from string) {
	t.Helper()
	o := options(t)
	if disk != nil {
		o = o.WithFS(disk)
	}
	other := filepath.Join(filepath.Dir(filepath.Dir(d.Restores(partition))), "made-elsewhere")
	made := openDir(t, other, o)
	p := created(t, made, partition)
	if err := p.Apply(t.Context(), sortedSums(fold(make(map[string]sum), 0, position)), progressAt(position)); err != nil {
		t.Fatal(err)
	}
	from = d.Restores(partition)
	if disk == nil {
		disk = vfs.Default
	}
	if err := errors.Join(p.Checkpoint(from), made.Close(), disk.RemoveAll(other)); err != nil {
		t.Fatal(err)
	}
	return from
}

func TestPeek(t *testing.T) {
	path := t.TempDir()
	d := openDir(t, path, options(t))
	p := created(t, d, 3)
	if err := p.Apply(t.Context(), sortedSums(fold(make(map[string]sum), 0, 500)), progressAt(500)); err != nil {
		t.Fatal(err)
	}
	at := d.Checkpoints(3)
	if err := p.Checkpoint(at); err != nil {
		t.Fatal(err)
	}
	before := files(t, at)
	got, err := store.Peek(at)
	want := store.State{Identity: identity(3), Progress: progressAt(500), Format: store.FormatVersion}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	if !maps.Equal(before, files(t, at)) {
		t.Error("it changed files")
	}
	empty := t.TempDir()
	stranger := t.TempDir()
	if err := os.WriteFile(filepath.Join(stranger, "file"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]error{
		empty: aggregator.ErrNoState, filepath.Join(empty, "none"): aggregator.ErrNoState, stranger: store.ErrNoMarker,
	} {
		if _, err := store.Peek(dir); !errors.Is(err, want) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%v, want %v", err, want)
		}
	}
}

// A restored folder becomes the state, in the place of what was there.
func TestInstall(t *testing.T) {
	for _, old := range []bool{false, true} {
		t.Run(fmt.Sprintf("over a state %v", old), func(t *testing.T) {
			d := openDir(t, t.TempDir(), options(t))
			if old {
				p := created(t, d, 2)
				apply(t, p, map[string]int64{"old": 1}, 9)
				if err := p.Close(); err != nil {
					t.Fatal(err)
				}
			}
			from := laid(t, d, nil, 2, 700)
			if err := d.Install(2, from); err != nil {
				t.Fatal(err)
			}
			p := openPartition(t, d, 2)
			if got, at := contents(t, p); at != 700 || !maps.Equal(got, fold(make(map[string]sum), 0, 700)) {
				t.Errorf("at %d with %d keys", at, len(got))
			}
			if _, err := os.Stat(from); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the folder that was installed is still there: %v", err)
			}
			entries, err := os.ReadDir(filepath.Dir(d.Path(2)))
			if err != nil || len(entries) != 1 {
				t.Errorf("partitions/ holds %v, %v", entries, err)
			}
		})
	}
}

// What must not be installed leaves the state and the folder as they are.
func TestInstallRefuses(t *testing.T) {
	path := t.TempDir()
	d := openDir(t, path, options(t))
	created(t, d, 2)
	from := laid(t, d, nil, 2, 700)
	if err := d.Install(2, from); err == nil || !strings.Contains(err.Error(), "open already") {
		t.Errorf("over an open state: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = openDir(t, path, options(t))
	before := files(t, d.Path(2))
	wrong := laid(t, d, nil, 5, 300)
	if err := d.Install(2, wrong); err == nil || !strings.Contains(err.Error(), "the state of partition 5") {
		t.Errorf("another partition: %v", err)
	}
	if err := d.Install(2, t.TempDir()); !errors.Is(err, aggregator.ErrNoState) {
		t.Errorf("no state: %v", err)
	}
	if after := files(t, d.Path(2)); !maps.Equal(before, after) {
		t.Error("the state has changed")
	}
	if _, err := store.Peek(from); err != nil {
		t.Error(err)
	}
	openPartition(t, d, 2)
}

// A folder that cannot be moved leaves the state that was there.
func TestInstallTakesBack(t *testing.T) {
	path := t.TempDir()
	disk := &immovable{FS: vfs.Default}
	d := openDir(t, path, options(t).WithFS(disk))
	if err := created(t, d, 2).Close(); err != nil {
		t.Fatal(err)
	}
	from := laid(t, d, disk, 2, 700)
	disk.path = from
	if err := d.Install(2, from); !errors.Is(err, errImmovable) {
		t.Errorf("%v", err)
	}
	if _, at := contents(t, openPartition(t, d, 2)); at != 0 {
		t.Errorf("at %d", at)
	}
	if s, err := store.Peek(from); err != nil || s.Progress.Position != 700 {
		t.Errorf("%+v, %v", s, err)
	}
}

var errImmovable = errors.New("invalid cross-device link")

// immovable is a disk from which one path cannot be moved.
type immovable struct {
	vfs.FS
	path string
}

func (i *immovable) Rename(from, to string) error {
	if from == i.path {
		return errImmovable
	}
	return i.FS.Rename(from, to)
}

// A crash at any step of Install leaves the old state, the new one or none; the
// new one is where it was, whole, until it is the state, and can be installed.
func TestS16InstallIsAtomic(t *testing.T) {
	for _, old := range []bool{false, true} {
		t.Run(fmt.Sprintf("over a state %v", old), func(t *testing.T) {
			var kept, none, whole int
			everyStep(t, func(disk vfs.FS) {
				d := openDir(t, "state", options(t).WithFS(disk))
				if old {
					if err := created(t, d, 0).Close(); err != nil {
						t.Fatal(err)
					}
				}
				laid(t, d, disk, 0, 700)
				settled(t, disk, "state")
				if err := d.Close(); err != nil {
					t.Fatal(err)
				}
			}, func(disk vfs.FS) {
				d := openDir(t, "state", options(t).WithFS(disk))
				if err := errors.Join(d.Install(0, d.Restores(0)), d.Close()); err != nil {
					t.Fatal(err)
				}
			}, func(step int, disk *vfs.MemFS) {
				d := openDir(t, "state", options(t).WithFS(disk))
				defer d.Close()
				s, err := d.Open(0)
				switch {
				case errors.Is(err, aggregator.ErrNoState):
					none++
				case err != nil:
					t.Fatalf("step %d: %v", step, err)
				case s.Progress().Position == 700:
					whole++
					isLaid(t, s)
					return
				default:
					if got, at := contents(t, s); at != 0 || len(got) != 0 {
						t.Errorf("step %d: at %d with %d keys", step, at, len(got))
					}
					kept++
					if err := s.Close(); err != nil {
						t.Fatal(err)
					}
				}
				if err := d.Install(0, d.Restores(0)); err != nil {
					t.Fatalf("step %d: %v", step, err)
				}
				isLaid(t, openPartition(t, d, 0))
			})
			if whole == 0 || none == 0 || (kept > 0) != old {
				t.Errorf("%d crashes left the old state, %d none, %d the new one", kept, none, whole)
			}
		})
	}
}

func isLaid(t *testing.T, s viewer) {
	t.Helper()
	if got, at := contents(t, s); at != 700 || !maps.Equal(got, fold(make(map[string]sum), 0, 700)) {
		t.Errorf("at %d with %d keys", at, len(got))
	}
}

// settled makes the names in dir and its folders durable, as a restore does.
func settled(t *testing.T, disk vfs.FS, dir string) {
	t.Helper()
	names, err := disk.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		path := disk.PathJoin(dir, name)
		if info, err := disk.Stat(path); err == nil && info.IsDir() {
			settled(t, disk, path)
		}
	}
	f, err := disk.OpenDir(dir)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// What restores and checkpoints leave is no state; the next Open removes
// checkpoints alone.
func TestLeftovers(t *testing.T) {
	path := t.TempDir()
	d := openDir(t, path, options(t))
	p := created(t, d, 1)
	laid(t, d, nil, 4, 100)
	stays := []string{d.Restores(4), d.Restores(4) + ".parts", filepath.Join(path, "checkpoints", "of-mine")}
	for _, dir := range stays[1:] {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(p.Checkpoint(d.Checkpoints(1)), d.Close()); err != nil {
		t.Fatal(err)
	}
	in, err := store.Inspect(path)
	if err != nil || len(in.Partitions) != 1 || in.Partitions[0].Err != nil {
		t.Errorf("inspect: %+v, %v", in, err)
	}
	d = openDir(t, path, options(t))
	if numbers, err := d.Partitions(); err != nil || !reflect.DeepEqual(numbers, []int32{1}) {
		t.Errorf("partitions %v, %v", numbers, err)
	}
	if _, err := os.Stat(d.Checkpoints(1)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a checkpoint stays: %v", err)
	}
	for _, dir := range stays {
		if _, err := os.Stat(dir); err != nil {
			t.Error(err)
		}
	}
}
