package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

func openedFolder(t testing.TB) *folder {
	t.Helper()
	f, err := openFolder(filepath.Join(t.TempDir(), "store"))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// An object appears whole or not at all.
func TestFolderCreateFails(t *testing.T) {
	f := openedFolder(t)
	if err := f.create(t.Context(), "g/x", 5, io.MultiReader(strings.NewReader("ab"), &breaking{nil, 0})); !errors.Is(err, errFault) {
		t.Errorf("content that breaks off: %v", err)
	}
	if err := f.create(t.Context(), "g/x", 5, strings.NewReader("abc")); err == nil {
		t.Error("content that is too short")
	}
	if all := keys(t, f, ""); all != nil {
		t.Errorf("objects %v", all)
	}
	if left, err := os.ReadDir(filepath.Join(f.root, tempFolder)); err != nil || len(left) > 0 {
		t.Errorf("temporary files %v, %v", left, err)
	}
}

// What fails alike says the same: a reason that is shown changes where something
// has changed.
func TestFolderFailsAlike(t *testing.T) {
	f := openedFolder(t)
	create := func() error { return f.create(t.Context(), "g/x", 1, strings.NewReader("a")) }
	if err := create(); err != nil {
		t.Fatal(err)
	}
	temp := filepath.Join(f.root, tempFolder)
	if err := errors.Join(os.Remove(temp), os.WriteFile(temp, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	first, second := create(), create()
	if first == nil || second == nil || first.Error() != second.Error() || !strings.Contains(first.Error(), temp) {
		t.Errorf("%v, then %v", first, second)
	}
}

// What others may leave in a folder is no object.
func TestFolderListsObjectsAlone(t *testing.T) {
	f := openedFolder(t)
	s := openStore(t, f, Options{})
	m := publish(t, claim(t, s, 3), 10)
	dir := filepath.Join(f.root, filepath.FromSlash(lineage(3).manifests()))
	for _, name := range []string{".hidden", "00000000000000000007.attrs", "00000000000000000008.3f2a.tmp", "8", "x"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("{}"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "00000000000000000009"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nowhere", filepath.Join(dir, "00000000000000000011")); err != nil {
		t.Fatal(err)
	}
	all, err := s.List(t.Context(), lineage(3))
	if err != nil || !slices.Equal(seqs(all.Manifests), []int64{m.Seq}) || all.Unreadable != nil {
		t.Errorf("listed %v, %v, %v", seqs(all.Manifests), all.Unreadable, err)
	}
}

// Folders that a clean-up removes while others create in them come back.
func TestFolderForgottenMeanwhile(t *testing.T) {
	f := openedFolder(t)
	other, err := openFolder(f.root)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 300 {
		var g sync.WaitGroup
		for range 3 {
			g.Go(func() { other.forget("a/b/") })
		}
		key := fmt.Sprint("a/b/c/", i)
		err := f.create(t.Context(), key, 1, bytes.NewReader([]byte("x")))
		g.Wait()
		if err != nil {
			t.Fatal(err)
		}
		if err := f.delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
}

// What the file system says is told apart: what is not there, what is not
// permitted, and what may be tried again.
func TestFolderErrors(t *testing.T) {
	for err, want := range map[error]error{fs.ErrNotExist: errNotFound, fs.ErrPermission: errRefused, syscall.ENOSPC: nil} {
		got := found(&fs.PathError{Op: "open", Path: "x", Err: err})
		if !errors.Is(got, err) || want != nil && !errors.Is(got, want) || (want == nil) == decided(got) {
			t.Errorf("%v becomes %v", err, got)
		}
	}
	f := openedFolder(t)
	if _, err := f.open(t.Context(), "g/x", 0); !errors.Is(err, errNotFound) {
		t.Errorf("open nothing: %v", err)
	}
	if _, err := f.stat(t.Context(), "g/x"); !errors.Is(err, errNotFound) {
		t.Errorf("stat nothing: %v", err)
	}
	if err := f.delete(t.Context(), "g/x"); err != nil {
		t.Errorf("delete nothing: %v", err)
	}
}

// A check leaves no folder that it made, and none that it did not make goes.
func TestCheckLeavesNoFolders(t *testing.T) {
	for _, there := range []string{"", "a", "a/snapshots", "a/snapshots/.tmp"} {
		at := t.TempDir()
		if err := os.MkdirAll(filepath.Join(at, filepath.FromSlash(there)), 0o755); err != nil {
			t.Fatal(err)
		}
		f, err := openFolder(filepath.Join(at, "a", "snapshots"))
		if err != nil {
			t.Fatal(err)
		}
		s := openStore(t, f, Options{})
		if err := s.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		var left string
		err = filepath.WalkDir(at, func(path string, _ os.DirEntry, err error) error {
			left = path
			return err
		})
		if want := filepath.Join(at, filepath.FromSlash(there)); err != nil || left != want {
			t.Errorf("%s is left, %v; want %s", left, err, want)
		}
		publish(t, claim(t, s, 0), 10) // it makes them again
	}
}
