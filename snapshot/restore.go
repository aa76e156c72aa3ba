package snapshot

import (
	"context"
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
	"time"

	"golang.org/x/sync/errgroup"

	"tidemark/aggregator"
)

// RestoreOptions tune a restore. The zero value works.
type RestoreOptions struct {
	// Reuse are folders with files that may be those of the snapshot: they are
	// compared by their sums, and linked or copied instead of downloaded. A
	// table is linked, so nobody may write into it; nobody does.
	Reuse []string
	// Room, where not nil, is asked before anything is downloaded for room for
	// so many bytes beside dir; once more where there is none and what earlier
	// restores had kept was removed for it. Its error ends the restore; free is
	// called when the restore has ended.
	Room func(bytes int64) (free func(), err error)
	// Progress is told how many bytes are there of those that are needed; one
	// call at a time.
	Progress func(have, need int64)
}

// The folders that a restore into dir makes beside it. Neither is a state.
const (
	partsSuffix  = ".parts"     // what was gathered, by sum; kept when the restore fails
	layoutSuffix = ".restoring" // the files under their names
)

// Restore makes the folder dir, which must not exist or be empty, with the
// files of the snapshot, each compared with its size and sum. On return it is
// whole, and durable but for its name, which the folder that it lies in holds;
// before that there is no dir, also after a crash. What was
// downloaded of a restore that did not end is kept beside dir and used by the
// next one into it, of this snapshot or another.
//
// Where the store is a folder on the file system of dir its tables are not
// copied: dir shares them, as a clone where the file system has those, else as
// a hard link. Both sides only ever remove their names.
//
// A *DamagedError, which is ErrDamaged, where the snapshot is not whole: the
// one before may be. A *MissingError, which is ErrNoSnapshot, where it was
// removed meanwhile. ErrNewer where the state is of a newer format than
// Options.Format; ErrOccupied where dir has files; aggregator.ErrNoSpace where
// the disk filled up: then nothing is kept.
func (s *Store) Restore(ctx context.Context, m *Manifest, dir string, opts RestoreOptions) error {
	began := time.Now()
	r := &restoration{s: s, m: m, dir: dir, opts: opts, parts: dir + partsSuffix, layout: dir + layoutSuffix}
	err := s.unlessGone(ctx, m, r.run(ctx))
	if isFull(err) {
		// Others may need the room to end what they are at.
		err = fmt.Errorf("%w: %w", aggregator.ErrNoSpace, errors.Join(err, os.RemoveAll(r.layout), os.RemoveAll(r.parts)))
	}
	if err != nil {
		return fmt.Errorf("restore snapshot %d of %s into %s: %w", m.Seq, m.Lineage, dir, err)
	}
	seconds := time.Since(began).Seconds()
	s.opts.Observer.Restored(r.loaded, seconds)
	s.log.Info("snapshot is restored", "topic", m.Lineage.Topic, "partition", m.Lineage.Partition, "seq", m.Seq,
		"position", m.Position(), "bytes", m.Bytes(), "downloaded", r.loaded, "seconds", seconds)
	return nil
}

// RestoreNewest restores the newest snapshot of l that is whole and that
// accept, where not nil, takes, and returns it. Damaged ones are logged and
// passed over. ErrNoSnapshot where none is left, with the damage where it is
// that.
func (s *Store) RestoreNewest(ctx context.Context, l Lineage, dir string, accept func(*Manifest) bool, opts RestoreOptions) (*Manifest, error) {
	var damaged []*Manifest
	var errs []error
	for round := 1; round <= maxRounds; round++ {
		k, err := s.look(ctx, l)
		if err != nil {
			return nil, fmt.Errorf("look for the newest snapshot of %s: %w", l, err)
		}
		m := next(k, damaged, accept)
		for seq, err := range k.unreadable {
			if m != nil && seq < m.Seq {
				continue
			}
			if !s.passOver(l, seq, err) {
				return nil, fmt.Errorf("look for the newest snapshot of %s: %w", l, err)
			}
			if m == nil {
				errs = append(errs, err)
			}
		}
		if m == nil {
			break
		}
		err = s.Restore(ctx, m, dir, opts)
		if err == nil {
			return m, nil
		}
		if errors.Is(err, ErrNoSnapshot) { // removed meanwhile: there are newer ones
			if round == maxRounds { // ErrNoSnapshot would be another thing
				return nil, fmt.Errorf("restore the newest snapshot of %s: they are removed while they are read", l)
			}
			continue
		}
		if !errors.Is(err, ErrDamaged) {
			return nil, err
		}
		s.log.Error("a snapshot cannot be restored; trying another", "topic", l.Topic, "partition", l.Partition, "seq", m.Seq, "err", err)
		damaged = append(damaged, m)
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("restore the newest snapshot of %s: %w", l, noneLeft(errs))
}

// next is the newest readable snapshot that does not stand on the files of one
// that is damaged.
func next(k *look, damaged []*Manifest, accept func(*Manifest) bool) *Manifest {
	for _, m := range k.readable {
		if !slices.ContainsFunc(damaged, m.sameFiles) && (accept == nil || accept(m)) {
			return m
		}
	}
	return nil
}

// isFull says whether err comes from a disk without space left.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// restoration is one restore.
type restoration struct {
	s             *Store
	m             *Manifest
	dir           string
	parts, layout string
	opts          RestoreOptions

	mu      sync.Mutex
	have    int64           // bytes of the snapshot that are in parts
	loaded  int64           // bytes downloaded
	durable map[string]bool // parts whose bytes are, by sum
}

func (r *restoration) run(ctx context.Context) error {
	if most := r.s.opts.Format; most > 0 && r.m.Format > most {
		return fmt.Errorf("%w: the state is of format %d, this program reads up to %d", ErrNewer, r.m.Format, most)
	}
	if err := vacant(r.dir); err != nil {
		return err
	}
	if err := os.MkdirAll(r.parts, 0o755); err != nil {
		return err
	}
	r.told(0, 0)
	r.durable = make(map[string]bool)
	if err := r.gather(ctx); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := r.lay(); err != nil {
		return err
	}
	return r.install()
}

// vacant says whether a folder can be made at dir.
func vacant(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && len(entries) > 0 {
		err = ErrOccupied
	}
	return err
}

// gather brings every content of the snapshot into parts, under its sum: first
// what is on this disk already, then, where there is room, the rest.
func (r *restoration) gather(ctx context.Context) error {
	need := make(map[string]File) // by sum
	for _, f := range r.m.Files {
		if f.Size > 0 {
			need[f.SHA256] = f
		}
	}
	local := r.index(need)
	absent, err := r.each(ctx, need, func(ctx context.Context, f File) (bool, error) { return r.obtain(ctx, f, local) })
	if err != nil || len(absent) == 0 {
		return err
	}
	if r.opts.Room != nil {
		free, err := r.opts.Room(r.size(absent))
		if errors.Is(err, aggregator.ErrNoSpace) && r.discard(need) {
			free, err = r.opts.Room(r.size(absent))
		}
		if err != nil {
			_ = os.Remove(r.parts) // where it is empty, as if nothing had begun
			return err
		}
		defer free()
	}
	// A file is made durable while the next one is downloaded.
	var syncs errgroup.Group
	_, err = r.each(ctx, absent, func(ctx context.Context, f File) (bool, error) {
		part := r.part(f)
		if err := r.download(ctx, f, part); err != nil {
			return false, err
		}
		if isTable(f.Name) {
			syncs.Go(func() error { return r.settle(f.SHA256, part) })
		}
		return true, nil
	})
	return errors.Join(err, syncs.Wait())
}

// discard removes what earlier restores have kept and this one does not need;
// false where that is nothing.
func (r *restoration) discard(need map[string]File) (removed bool) {
	entries, err := os.ReadDir(r.parts)
	if err != nil {
		return false
	}
	for _, e := range entries {
		if _, needed := need[strings.TrimSuffix(e.Name(), partialSuffix)]; !needed && os.Remove(filepath.Join(r.parts, e.Name())) == nil {
			removed = true
		}
	}
	return removed && os.RemoveAll(r.layout) == nil // it may have links to them
}

// each calls do for each content, some at a time, and returns those for which
// it was false.
func (r *restoration) each(ctx context.Context, all map[string]File, do func(context.Context, File) (bool, error)) (rest map[string]File, err error) {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(r.s.opts.Transfers)
	rest = make(map[string]File)
	var mu sync.Mutex
	for _, f := range r.m.Files {
		if all[f.SHA256].Name != f.Name {
			continue
		}
		g.Go(func() error {
			done, err := do(gctx, f)
			if !done {
				mu.Lock()
				rest[f.SHA256] = f
				mu.Unlock()
			}
			return err
		})
	}
	return rest, g.Wait()
}

// part is where the content of f is gathered.
func (r *restoration) part(f File) string { return filepath.Join(r.parts, f.SHA256) }

// settle makes the part of the sum durable.
func (r *restoration) settle(sum, part string) error {
	if err := syncFile(part); err != nil {
		return err
	}
	r.mark(sum)
	return nil
}

// mark notes that the part of the sum is durable.
func (r *restoration) mark(sum string) {
	r.mu.Lock()
	r.durable[sum] = true
	r.mu.Unlock()
}

// size is how many bytes the contents take that are yet to be written: one
// that is no table is written twice.
func (r *restoration) size(absent map[string]File) (n int64) {
	for _, f := range absent {
		n += f.Size
		if !isTable(f.Name) {
			n += f.Size
		}
		if info, err := os.Stat(r.part(f) + partialSuffix); err == nil {
			n -= min(info.Size(), f.Size)
		}
	}
	return n
}

// index finds files in the folders to reuse that have the size of one that is
// needed.
func (r *restoration) index(need map[string]File) map[int64][]string {
	sizes := make(map[int64]bool)
	for _, f := range need {
		sizes[f.Size] = true
	}
	found := make(map[int64][]string)
	for _, dir := range r.opts.Reuse {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // it was an offer: what is missing is downloaded
		}
		for _, e := range entries {
			if info, err := e.Info(); err == nil && info.Mode().IsRegular() && sizes[info.Size()] {
				found[info.Size()] = append(found[info.Size()], filepath.Join(dir, e.Name()))
			}
		}
	}
	return found
}

// obtain makes the part of f of what is on this disk; false where that is not
// enough.
func (r *restoration) obtain(ctx context.Context, f File, local map[int64][]string) (bool, error) {
	if err := ctx.Err(); err != nil { // reading what is there takes long, too
		return false, err
	}
	part := r.part(f)
	if matches(part, f) {
		r.told(f.Size, 0)
		return true, nil
	}
	if err := remove(part); err != nil {
		return false, err
	}
	for _, path := range local[f.Size] {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		if !matches(path, f) {
			continue
		}
		if isTable(path) && isTable(f.Name) && os.Link(path, part) == nil {
			r.mark(f.SHA256)
			r.told(f.Size, 0)
			return true, nil
		}
		if err := copyFile(path, part); err == nil && matches(part, f) {
			r.told(f.Size, 0)
			return true, nil
		}
		if err := remove(part); err != nil {
			return false, err
		}
	}
	return r.share(ctx, f, part)
}

// share makes the part of f, which is a table, share its bytes with the object,
// where the store can do that; they are read once, for their sum. What is wrong
// with them a download finds out, and says.
func (r *restoration) share(ctx context.Context, f File, part string) (bool, error) {
	sharing, ok := r.s.bucket.(sharer)
	if !ok || !isTable(f.Name) {
		return false, nil
	}
	give, err := r.s.take(ctx)
	if err != nil {
		return false, err
	}
	defer give()
	durable, err := sharing.share(r.m.Lineage.file(f.Object), part)
	if err != nil {
		return false, nil // another file system, or one without either
	}
	if !matches(part, f) {
		return false, remove(part)
	}
	if durable {
		r.mark(f.SHA256)
	}
	r.told(f.Size, 0)
	return true, r.s.opts.step("shared")
}

// matches says whether the file at path has the content of f.
func matches(path string, f File) bool {
	info, err := os.Stat(path)
	if err != nil || info.Size() != f.Size {
		return false
	}
	_, sum, err := hashFile(path)
	return err == nil && sum == f.SHA256
}

// maxSyncs bounds how many files are made durable at the same time: file
// systems do many at the price of one.
const maxSyncs = 32

// lay puts the parts under the names of the files. Tables share their bytes
// with the part; what Pebble may write to is a copy. All is durable on return,
// in one go: in which order does not matter before the folder has its name.
func (r *restoration) lay() error {
	if err := r.s.opts.step("lay out"); err != nil {
		return err
	}
	if err := os.RemoveAll(r.layout); err != nil {
		return err
	}
	if err := os.MkdirAll(r.layout, 0o755); err != nil {
		return err
	}
	var syncs errgroup.Group
	syncs.SetLimit(maxSyncs)
	for _, f := range r.m.Files {
		durable, err := r.place(f)
		if err != nil {
			return errors.Join(fmt.Errorf("lay out %s: %w", f.Name, err), syncs.Wait())
		}
		if !durable {
			syncs.Go(func() error { return syncFile(filepath.Join(r.layout, f.Name)) })
		}
	}
	syncs.Go(func() error { return syncDir(r.layout) })
	return syncs.Wait()
}

// place makes the file f in the layout, and says whether its bytes are durable.
func (r *restoration) place(f File) (durable bool, err error) {
	name := filepath.Join(r.layout, f.Name)
	if f.Size == 0 {
		return true, os.WriteFile(name, nil, 0o644) // its name is all there is of it
	}
	if isTable(f.Name) && os.Link(r.part(f), name) == nil {
		return r.durable[f.SHA256], nil
	}
	return false, copyFile(r.part(f), name)
}

// install gives the folder its name, and removes the parts.
func (r *restoration) install() error {
	if err := r.s.opts.step("install"); err != nil {
		return err
	}
	if err := remove(r.dir); err != nil { // at most an empty folder
		return errors.Join(ErrOccupied, err)
	}
	if err := os.Rename(r.layout, r.dir); err != nil {
		return err
	}
	if err := r.s.opts.step("installed"); err != nil {
		return err
	}
	return os.RemoveAll(r.parts)
}

// told counts bytes that are there now; loaded of them, or more, were
// downloaded.
func (r *restoration) told(have, loaded int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.have += have
	r.loaded += loaded
	if r.opts.Progress != nil {
		r.opts.Progress(r.have, r.needed())
	}
}

// needed is the size of what is gathered: contents that several files share
// count once.
func (r *restoration) needed() (n int64) {
	seen := make(map[string]bool)
	for _, f := range r.m.Files {
		if !seen[f.SHA256] {
			n += f.Size
		}
		seen[f.SHA256] = true
	}
	return n
}

// copyFile makes a file with the bytes of another.
func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
