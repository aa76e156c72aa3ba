package snapshot

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// folder is a bucket in a folder of a file system, which processes may share.
// An object is written under another name, synced, and then linked to its own:
// link(2) makes it appear whole, and fails where there is one, for all
// processes.
type folder struct {
	root string

	mu     sync.Mutex
	synced map[string]bool // folders whose way from root is durable
	id     string          // what the mark said when it was pinned, "" before
}

// tempFolder, in root, holds what is being written. Names that begin with a
// dot are never listed.
const tempFolder = ".tmp"

// markName, in root, is a file with a random name for the folder: that of a disk
// that is not mounted has none, or another.
const markName = ".store"

// openFolder opens the folder at root. Where there is none it is made by the
// first create; all that is looked at here is whether it could be.
func openFolder(root string) (*folder, error) {
	for at := root; ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if errors.Is(err, fs.ErrNotExist) && at != filepath.Dir(at) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			return nil, fmt.Errorf("%s is not a folder", at)
		}
		return &folder{root: root, synced: make(map[string]bool)}, nil
	}
}

func (f *folder) path(key string) string { return filepath.Join(f.root, filepath.FromSlash(key)) }

// pin makes the folder where it is missing, marks it where it has no mark, and
// remembers the mark: from here on a folder without it is none.
func (f *folder) pin(ctx context.Context) error {
	text := rand.Text()
	err := f.create(ctx, markName, int64(len(text)), strings.NewReader(text))
	if err != nil && !errors.Is(err, errExists) {
		return err
	}
	id, err := f.mark()
	if err != nil {
		return err
	}
	f.mu.Lock()
	f.id = id
	f.mu.Unlock()
	return nil
}

// mark is what the mark says.
func (f *folder) mark() (string, error) {
	id, err := os.ReadFile(filepath.Join(f.root, markName))
	return string(id), err
}

// pinned returns an error where the folder is not the one that was pinned.
func (f *folder) pinned() error {
	f.mu.Lock()
	want := f.id
	f.mu.Unlock()
	if want == "" {
		return nil
	}
	is, err := f.mark()
	switch {
	case err == nil && is == want:
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return fmt.Errorf("%w: %s", errGone, f.root)
}

// errGone is of no kind: the disk may be mounted again.
var errGone = errors.New("the snapshot folder is gone, or is another one than at the start (is its disk mounted?)")

func (f *folder) create(ctx context.Context, key string, size int64, content io.Reader) error {
	if err := f.pinned(); err != nil {
		return err
	}
	temp, err := f.write(ctx, size, content)
	if err != nil {
		return found(err)
	}
	name := f.path(key)
	for range maxRounds {
		if err = f.ensure(filepath.Dir(name)); err == nil {
			err = link(temp, name)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
		f.lost(filepath.Dir(name)) // a clean-up has just removed it
	}
	if errors.Is(err, fs.ErrExist) {
		// It may be this process's own, whose sync failed: it is made durable
		// before anybody believes in it.
		err = errExists
	}
	if err == nil || errors.Is(err, errExists) {
		err = errors.Join(err, syncDir(filepath.Dir(name)))
	}
	if rerr := remove(temp); err == nil {
		err = rerr
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("its folder is removed each time it is made: %v", err) //nolint:errorlint // not of a kind: it may be tried again
	}
	return found(err)
}

// write makes a temporary file, synced, and returns its path.
func (f *folder) write(ctx context.Context, size int64, content io.Reader) (temp string, err error) {
	if err := f.ensure(f.path(tempFolder)); err != nil {
		return "", err
	}
	temp = filepath.Join(f.root, tempFolder, rand.Text())
	file, err := os.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrNotExist) {
		f.lost(f.path(tempFolder))
	}
	if err != nil {
		return "", nameless(err, temp)
	}
	n, err := io.Copy(file, content)
	err = nameless(err, temp)
	if err == nil && n != size {
		err = fmt.Errorf("content has %d bytes instead of %d", n, size)
	}
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return "", errors.Join(err, os.Remove(temp))
	}
	return temp, nil
}

// nameless is err with the folder of temp in place of its random name: what is
// tried again and fails alike then says the same.
func nameless(err error, temp string) error {
	if p, ok := err.(*fs.PathError); ok && p.Path == temp {
		return &fs.PathError{Op: p.Op, Path: filepath.Dir(temp), Err: p.Err}
	}
	return err
}

// ensure makes dir, durable on return.
func (f *folder) ensure(dir string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.synced[dir] {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	// All the way up, also where nothing was made: a folder that was there may
	// have been made by a process that was killed before it synced.
	above := false
	for at := dir; at != filepath.Dir(at) && !f.synced[at]; at = filepath.Dir(at) {
		above = above || at == f.root
		if err := syncDir(filepath.Dir(at)); err != nil && !above { // above the root it may not be permitted
			return err
		}
	}
	f.synced[dir], f.synced[f.root] = true, true
	return nil
}

func (f *folder) lost(dir string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.synced, dir)
}

func (f *folder) open(_ context.Context, key string, offset int64) (io.ReadCloser, error) {
	file, err := os.Open(f.path(key))
	if err != nil {
		return nil, f.found(err)
	}
	if _, err := file.Seek(offset, io.SeekStart); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

func (f *folder) share(key, to string) (durable bool, err error) {
	from := f.path(key)
	if clone(from, to) == nil {
		return false, nil
	}
	return true, os.Link(from, to) // its bytes are since it was created
}

func (f *folder) stat(_ context.Context, key string) (object, error) {
	info, err := os.Stat(f.path(key))
	if err != nil {
		return object{}, f.found(err)
	}
	return object{key, info.Size(), info.ModTime()}, nil
}

func (f *folder) list(ctx context.Context, prefix string) iter.Seq2[object, error] {
	return func(yield func(object, error) bool) {
		entries, err := os.ReadDir(f.path(prefix))
		if errors.Is(err, fs.ErrNotExist) {
			err = f.pinned()
			if err == nil {
				return
			}
		}
		if err != nil {
			yield(object{}, err)
			return
		}
		for _, e := range entries {
			if err := ctx.Err(); err != nil {
				yield(object{}, err)
				return
			}
			if strings.HasPrefix(e.Name(), ".") {
				continue
			}
			info, err := e.Info()
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				yield(object{}, err)
				return
			}
			o := object{path.Join(prefix, e.Name()), info.Size(), info.ModTime()}
			switch {
			case info.IsDir():
				o = object{key: o.key + "/"}
			case !info.Mode().IsRegular():
				continue
			}
			if !yield(o, nil) {
				return
			}
		}
	}
}

func (f *folder) delete(_ context.Context, key string) error {
	return remove(f.path(key))
}

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return found(err)
	}
	return nil
}

func (f *folder) close() error { return nil }

// tidy removes temporary files of processes that were killed.
func (f *folder) tidy(before time.Time) (removed int, err error) {
	entries, err := os.ReadDir(f.path(tempFolder))
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return 0, err
	}
	var errs []error
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || !info.ModTime().Before(before) {
			continue
		}
		if err := remove(filepath.Join(f.root, tempFolder, e.Name())); err != nil {
			errs = append(errs, err)
			continue
		}
		removed++
	}
	return removed, errors.Join(errs...)
}

// forget removes prefix's folder with those in it where they are empty, and
// the one that it is in.
func (f *folder) forget(prefix string) {
	dir := f.path(prefix)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.IsDir() {
			f.removeEmpty(filepath.Join(dir, e.Name()))
		}
	}
	f.removeEmpty(dir)
	f.removeEmpty(filepath.Dir(dir))
}

// removeEmpty removes folders that are empty: os.Remove fails for others.
func (f *folder) removeEmpty(dirs ...string) {
	for _, dir := range dirs {
		if os.Remove(dir) == nil {
			f.lost(dir)
		}
	}
}

// missing are the folders that the first create has to make, the innermost
// first.
func (f *folder) missing() (dirs []string) {
	for dir := f.path(tempFolder); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		dirs = append(dirs, dir)
	}
	return dirs
}

// found is found, and knows of a folder that is gone with all that is in it.
func (f *folder) found(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		if gone := f.pinned(); gone != nil {
			return gone
		}
	}
	return found(err)
}

// found marks the errors that a caller decides on.
func found(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %w", errNotFound, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	return err
}
