package snapshot

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tidemark/aggregator"
)

// From a folder on the same disk no table is downloaded; the state is whole
// whatever becomes of the store, and the store whatever becomes of the state.
func TestRestoreSharesTables(t *testing.T) {
	open := buckets["folder"](t)
	b := open()
	m := publish(t, claim(t, openStore(t, b, Options{}), 3), 10).Manifest
	steps := make(map[string]int)
	s := openStore(t, open(), Options{Transfers: 1, step: func(name string) error { steps[name]++; return nil }})
	one, two := filepath.Join(t.TempDir(), "one"), filepath.Join(t.TempDir(), "two")
	for _, dir := range []string{one, two} {
		if err := s.Restore(t.Context(), m, dir, RestoreOptions{}); err != nil {
			t.Fatal(err)
		}
		compare(t, dir, at(10))
		leftovers(t, dir)
	}
	if steps["shared"] != 2*4 || steps["downloaded"] != 2*2 {
		t.Errorf("%v: want each of four tables shared, and the two other files downloaded", steps)
	}
	if err := os.RemoveAll(one); err != nil {
		t.Fatal(err)
	}
	if err := s.Verify(t.Context(), m, nil); err != nil {
		t.Errorf("after a state was removed: %v", err)
	}
	for _, key := range keys(t, b, "") {
		if err := b.delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	compare(t, two, at(10))
}

// Room is asked for what has to be written, before anything is; without it
// nothing is left, and what is on this disk already wants none.
func TestS04RestoreAsksForRoom(t *testing.T) {
	s := openStore(t, unshared{buckets["folder"](t)()}, Options{})
	m := publish(t, claim(t, s, 3), 10).Manifest
	small := int64(len(at(10)["MANIFEST-1"]) + len(at(10)["OPTIONS-1"]))
	home := t.TempDir()
	dir := filepath.Join(home, "state")
	var asked, freed []int64
	room := func(refuse error) RestoreOptions {
		return RestoreOptions{Room: func(bytes int64) (func(), error) {
			asked = append(asked, bytes)
			return func() { freed = append(freed, bytes) }, refuse
		}}
	}
	full := fmt.Errorf("%w: 7 bytes are free", aggregator.ErrNoSpace)
	if err := s.Restore(t.Context(), m, dir, room(full)); !errors.Is(err, aggregator.ErrNoSpace) {
		t.Errorf("without room: %v", err)
	}
	if left, err := os.ReadDir(home); err != nil || len(left) > 0 {
		t.Errorf("without room %v is left, %v", left, err)
	}
	if err := s.Restore(t.Context(), m, dir, room(nil)); err != nil {
		t.Fatal(err)
	}
	opts := room(errors.New("nothing is to be written but the small files"))
	opts.Reuse = []string{dir}
	if err := s.Restore(t.Context(), m, filepath.Join(home, "again"), opts); err != nil {
		t.Error(err)
	}
	want := m.Bytes() + small // what is no table is written twice
	if len(asked) != 2 || asked[0] != want || asked[1] != want || len(freed) != 1 {
		t.Errorf("asked for %v, freed %v, want %d twice and one freed", asked, freed, want)
	}
}

// What a restore that was cut off has kept of another snapshot goes where it
// takes the room that this one needs, and stays where there is enough.
func TestS04RestoreMakesRoomOfWhatIsLeft(t *testing.T) {
	s := openStore(t, unshared{buckets["folder"](t)()}, Options{})
	m := publish(t, claim(t, s, 3), 10).Manifest
	for _, enough := range []bool{true, false} {
		home := t.TempDir()
		dir := filepath.Join(home, "state")
		useful := filepath.Join(dir+partsSuffix, m.Files[0].SHA256+partialSuffix)
		useless := []string{
			filepath.Join(dir+partsSuffix, strings.Repeat("ab", 32)), filepath.Join(dir+partsSuffix, strings.Repeat("cd", 32)+partialSuffix),
			filepath.Join(dir+layoutSuffix, "000001.sst"),
		}
		for _, name := range append(useless, useful) {
			if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte("x"), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		there := func(names ...string) (n int) {
			for _, name := range names {
				if _, err := os.Stat(name); err == nil {
					n++
				}
			}
			return n
		}
		asked, kept := 0, 0
		err := s.Restore(t.Context(), m, dir, RestoreOptions{Room: func(int64) (func(), error) {
			asked++
			if kept = there(useless...); !enough && kept > 0 {
				return nil, fmt.Errorf("%w: 7 bytes are free", aggregator.ErrNoSpace)
			}
			if there(useful) == 0 {
				t.Error("what it needs is removed")
			}
			return func() {}, nil
		}})
		if err != nil {
			t.Errorf("enough room %t: %v", enough, err)
		}
		if enough != (asked == 1 && kept == 3) {
			t.Errorf("enough room %t: it was asked for %d times, and %d files were left then", enough, asked, kept)
		}
		compare(t, dir, at(10))
		leftovers(t, dir)
	}
}

// A disk that fills up meanwhile is ErrNoSpace, and keeps nothing of it.
func TestS04DiskFillsDuringARestore(t *testing.T) {
	s := openStore(t, unshared{buckets["folder"](t)()}, Options{Transfers: 1})
	m := publish(t, claim(t, s, 3), 10).Manifest
	for _, step := range []string{"downloaded", "lay out", "install"} {
		n := 0
		s.opts.step = func(name string) error {
			if name == step {
				if n++; n == 2 || step != "downloaded" {
					return &os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}
				}
			}
			return nil
		}
		home := t.TempDir()
		err := s.Restore(t.Context(), m, filepath.Join(home, "state"), RestoreOptions{})
		if !errors.Is(err, aggregator.ErrNoSpace) || !strings.Contains(err.Error(), "no space left") {
			t.Errorf("full at %s: %v", step, err)
		}
		if left, err := os.ReadDir(home); err != nil || len(left) > 0 {
			t.Errorf("full at %s: %v is left, %v", step, left, err)
		}
	}
}
