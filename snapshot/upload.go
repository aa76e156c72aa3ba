package snapshot

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// A clean-up removes no file younger than reapAge, and looks at the manifests
// again reapWindow before each removal at the latest. So a file that is
// younger than safeAge when a manifest names it cannot be removed, as long as
// clocks differ by less than the rest; an older one that no manifest had named
// is looked for again after a clean-up that had not seen the manifest must
// have ended.
const (
	reapAge    = time.Hour
	safeAge    = 30 * time.Minute
	reapWindow = 10 * time.Second
)

// upload brings the files of a checkpoint into the store.
type upload struct {
	owner *Owner
	dir   string
	files []File
	bytes atomic.Int64 // uploaded

	there map[string][]object // what the store had, by sum
	named map[string]string   // objects that the newest manifest names, by sum

	mu     sync.Mutex
	placed map[string]string // objects, by sum
	oldest time.Time         // of the files relied on that no manifest names yet
}

// run uploads what the store lacks, in parallel, and sets where each file is.
func (u *upload) run(ctx context.Context) error {
	s := u.owner.store
	if err := s.opts.step("upload"); err != nil {
		return err
	}
	if err := u.survey(ctx); err != nil {
		return err
	}
	u.named, u.placed = make(map[string]string), make(map[string]string)
	if newest := u.owner.Newest(); newest != nil && !u.owner.unsettled {
		for _, f := range newest.Files {
			u.named[f.SHA256] = f.Object
		}
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(s.opts.Transfers)
	seen := make(map[string]bool)
	for _, f := range u.files {
		if f.Size == 0 || seen[f.SHA256] {
			continue
		}
		seen[f.SHA256] = true
		g.Go(func() error {
			object, err := u.place(gctx, f)
			if err != nil {
				return fmt.Errorf("upload %s: %w", f.Name, err)
			}
			u.mu.Lock()
			u.placed[f.SHA256] = object
			u.mu.Unlock()
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for i := range u.files {
		if f := &u.files[i]; f.Size > 0 {
			f.Object = u.placed[f.SHA256]
		}
	}
	return s.opts.step("uploaded")
}

// survey lists what the store has.
func (u *upload) survey(ctx context.Context) error {
	all, err := u.owner.store.objects(ctx, u.owner.lineage.files())
	if err != nil {
		return err
	}
	u.there = make(map[string][]object)
	for _, o := range all {
		if sum, ok := parseObject(o.name()); ok && !o.dir() {
			u.there[sum] = append(u.there[sum], o)
		}
	}
	return nil
}

// place returns the name of an object that has f's bytes, uploading them where
// there is none that can be relied on.
func (u *upload) place(ctx context.Context, f File) (string, error) {
	name := f.SHA256
	for _, o := range u.there[f.SHA256] {
		if u.good(o, f) && o.name() == u.named[f.SHA256] {
			return o.name(), nil // its manifest keeps it
		}
	}
	for _, o := range u.there[f.SHA256] {
		if u.good(o, f) {
			u.rely(o.modified)
			return o.name(), nil
		}
		if o.name() == name {
			name = otherName(f)
		}
	}
	for range maxRounds {
		exists, err := u.send(ctx, f, name)
		if err != nil {
			return "", err
		}
		if !exists {
			u.rely(u.owner.store.opts.Clock())
			u.bytes.Add(f.Size)
			return name, nil
		}
		// It was not in the list: the list is late, or it is this upload's own
		// first attempt.
		var o object
		err = u.owner.store.settle(ctx, func() (err error) {
			o, err = u.stat(ctx, name)
			return err
		})
		if err != nil {
			return "", err
		}
		if u.good(o, f) {
			if name != u.named[f.SHA256] {
				u.rely(o.modified)
			}
			return name, nil
		}
		name = otherName(f)
	}
	return "", errors.New("all its names are taken by damaged objects")
}

func (u *upload) stat(ctx context.Context, name string) (o object, err error) {
	s := u.owner.store
	err = s.retry(ctx, func() error {
		ctx, cancel := context.WithTimeout(ctx, s.opts.patience)
		defer cancel()
		o, err = s.bucket.stat(ctx, u.owner.lineage.file(name))
		return err
	})
	return o, err
}

// good says whether f can rely on the object: whether it is whole, as far as
// is known.
func (u *upload) good(o object, f File) bool {
	if _, damaged := u.owner.store.damaged.Load(o.key); damaged {
		return false
	}
	if o.size != f.Size {
		u.owner.store.log.Error("an object is damaged; its file is uploaded under another name",
			"object", o.key, "size", o.size, "want", f.Size)
		return false
	}
	return true
}

// otherName is a name for f's bytes where its own is taken by a damaged
// object.
func otherName(f File) string {
	suffix := make([]byte, 8)
	rand.Read(suffix) // never fails
	return f.SHA256 + "." + hex.EncodeToString(suffix)
}

// rely notes how old a file is that no manifest names yet.
func (u *upload) rely(since time.Time) {
	u.mu.Lock()
	if u.oldest.IsZero() || since.Before(u.oldest) {
		u.oldest = since
	}
	u.mu.Unlock()
}

// send creates the object; true where it exists.
func (u *upload) send(ctx context.Context, f File, name string) (exists bool, err error) {
	s := u.owner.store
	give, err := s.take(ctx)
	if err != nil {
		return false, err
	}
	defer give()
	err = s.retry(ctx, func() error {
		if err := s.opts.step("upload file"); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, s.transferTime(f.Size))
		defer cancel()
		file, err := os.Open(filepath.Join(u.dir, f.Name))
		if err != nil {
			return fmt.Errorf("%w: %w", errRefused, err)
		}
		err = s.bucket.create(ctx, u.owner.lineage.file(name), f.Size, file)
		if cerr := file.Close(); err == nil {
			err = cerr
		}
		return err
	})
	if errors.Is(err, errExists) {
		return true, nil
	}
	return false, err
}

// settle is called when the manifest is there. Where it names files that a
// clean-up may have been about to remove, it waits until that would have
// happened, and brings back what is gone.
func (u *upload) settle(ctx context.Context) error {
	s := u.owner.store
	if u.oldest.IsZero() || s.since(u.oldest) < safeAge {
		return nil
	}
	for range maxRounds {
		if err := sleep(ctx, 2*reapWindow); err != nil {
			return err
		}
		if err := u.survey(ctx); err != nil {
			return err
		}
		missing := 0
		for _, f := range u.files {
			if f.Size == 0 || u.has(f) {
				continue
			}
			exists, err := u.send(ctx, f, f.Object)
			if err != nil {
				return fmt.Errorf("upload %s again: %w", f.Name, err)
			}
			if !exists {
				missing++
				u.bytes.Add(f.Size)
				s.log.Warn("a file was removed while it was published; it is back", "object", u.owner.lineage.file(f.Object))
			}
		}
		if missing == 0 {
			return nil
		}
	}
	return errors.New("files of the snapshot are removed as soon as they are there")
}

func (u *upload) has(f File) bool {
	for _, o := range u.there[f.SHA256] {
		if o.name() == f.Object {
			return true
		}
	}
	return false
}
