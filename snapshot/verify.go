package snapshot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"sync"

	"golang.org/x/sync/errgroup"
)

// Verify reads every byte of a snapshot and compares it with the manifest.
// The error names each file that is damaged (ErrDamaged; the parts are
// *DamagedError), or is the one that kept it from reading on. A *MissingError,
// which is ErrNoSnapshot, where it was removed meanwhile. progress, where
// not nil, is told the bytes read, one call at a time.
func (s *Store) Verify(ctx context.Context, m *Manifest, progress func(have, need int64)) error {
	v := &verification{restoration: restoration{s: s, m: m, opts: RestoreOptions{Progress: progress}}}
	if err := s.unlessGone(ctx, m, v.run(ctx)); err != nil {
		return fmt.Errorf("verify snapshot %d of %s: %w", m.Seq, m.Lineage, err)
	}
	return nil
}

// verification reads like a restoration, and keeps nothing.
type verification struct {
	restoration

	mu      sync.Mutex
	damages []error
}

func (v *verification) run(ctx context.Context) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(v.s.opts.Transfers)
	seen := make(map[string]bool)
	for _, f := range v.m.Files {
		if f.Size == 0 || seen[f.Object] {
			continue
		}
		seen[f.Object] = true
		g.Go(func() error {
			err := v.file(gctx, f)
			if errors.Is(err, ErrDamaged) {
				v.mu.Lock()
				v.damages = append(v.damages, err)
				v.mu.Unlock()
				err = nil
			}
			return err
		})
	}
	return errors.Join(g.Wait(), errors.Join(v.damages...))
}

// file reads one file's object.
func (v *verification) file(ctx context.Context, f File) error {
	s, key := v.s, v.m.Lineage.file(f.Object)
	give, err := s.take(ctx)
	if err != nil {
		return err
	}
	defer give()
	var counted int64
	err = s.settle(ctx, func() error {
		return s.retry(ctx, func() error {
			v.told(-counted, 0)
			counted = 0
			return v.compare(ctx, f, key, &counted)
		})
	})
	switch {
	case errors.Is(err, errNotFound):
		return v.damage(f, "is missing")
	case errors.Is(err, errWrongSum):
		s.damaged.Store(key, true)
		return v.damage(f, err.Error())
	case err != nil:
		return fmt.Errorf("read %s (object %s): %w", f.Name, key, err)
	}
	return nil
}

// compare reads the object once.
func (v *verification) compare(ctx context.Context, f File, key string, counted *int64) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := v.s.startWatch(cancel)
	defer watch.stop()
	body, err := v.s.bucket.open(ctx, key, 0)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		return err
	}
	in := watch.over(body)
	sum := sha256.New()
	progress := writerFunc(func(p []byte) (int, error) {
		*counted += int64(len(p))
		v.told(int64(len(p)), int64(len(p)))
		return len(p), nil
	})
	n, err := io.CopyBuffer(io.MultiWriter(sum, progress), io.LimitReader(in, f.Size+1), make([]byte, 256<<10))
	switch {
	case err != nil:
	case n < f.Size:
		err = v.short(ctx, f, key, n)
	case n > f.Size:
		err = fmt.Errorf("%w: it is longer than %d bytes", errWrongSum, f.Size)
	default:
		if got := hex.EncodeToString(sum.Sum(nil)); got != f.SHA256 {
			err = fmt.Errorf("%w: its sum is %s instead of %s", errWrongSum, got, f.SHA256)
		}
	}
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	return errors.Join(err, body.Close())
}
