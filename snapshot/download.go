package snapshot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
)

// partialSuffix is behind the sum in the name of a part that is not whole.
const partialSuffix = ".partial"

// download makes the part of f from the store. What an earlier attempt got is
// gone on with.
func (r *restoration) download(ctx context.Context, f File, part string) error {
	s, key := r.s, r.m.Lineage.file(f.Object)
	give, err := s.take(ctx)
	if err != nil {
		return err
	}
	defer give()
	partial := part + partialSuffix
	var counted int64 // bytes of this file that were told
	tell := func(at, loaded int64) {
		r.told(at-counted, loaded)
		counted = at
	}
	resumed := true
	err = s.settle(ctx, func() error {
		return s.retry(ctx, func() error {
			err := r.fetch(ctx, f, key, partial, tell)
			if errors.Is(err, errWrongSum) && resumed {
				// The beginning may have been of another life of the disk: once
				// more, from the start.
				resumed = false
				if rerr := remove(partial); rerr != nil {
					return rerr
				}
				return fmt.Errorf("%v; again from the start", err) //nolint:errorlint // not of a kind: it is tried again
			}
			return err
		})
	})
	switch {
	case errors.Is(err, errNotFound):
		return r.damage(f, "is missing")
	case errors.Is(err, errWrongSum):
		s.damaged.Store(key, true)
		if rerr := remove(partial); rerr != nil {
			return rerr
		}
		return r.damage(f, err.Error())
	case err != nil:
		return fmt.Errorf("download %s (object %s): %w", f.Name, key, err)
	}
	if err := s.opts.step("downloaded"); err != nil {
		return err
	}
	return os.Rename(partial, part)
}

func (r *restoration) damage(f File, reason string) error {
	return &DamagedError{Lineage: r.m.Lineage, Seq: r.m.Seq, Object: r.m.Lineage.file(f.Object), Name: f.Name, Reason: reason}
}

var errWrongSum = errors.New("does not have the bytes that were published")

// fetch reads the object from where the partial file ends to its end, and
// compares the whole.
func (r *restoration) fetch(ctx context.Context, f File, key, partial string, tell func(at, loaded int64)) (err error) {
	if err := r.s.opts.step("download"); err != nil {
		return err
	}
	out, err := os.OpenFile(partial, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	sum := sha256.New()
	at, err := io.Copy(sum, io.LimitReader(out, f.Size))
	if err != nil {
		return err
	}
	tell(at, 0)
	if at < f.Size {
		if err := r.read(ctx, f, key, out, sum, at, tell); err != nil {
			return err
		}
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != f.SHA256 {
		return fmt.Errorf("%w: its sum is %s instead of %s", errWrongSum, got, f.SHA256)
	}
	return out.Truncate(f.Size)
}

// read appends the object from offset at to out and sum.
func (r *restoration) read(ctx context.Context, f File, key string, out *os.File, sum hash.Hash, at int64, tell func(at, loaded int64)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := r.s.startWatch(cancel)
	defer watch.stop()
	body, err := r.s.bucket.open(ctx, key, at)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return fmt.Errorf("%w: %w", cause, err)
		}
		// One that is cut off before at has another error in each store.
		if o, serr := r.s.bucket.stat(ctx, key); serr == nil && o.size != f.Size {
			err = fmt.Errorf("%w: it has %d bytes instead of %d", errWrongSum, o.size, f.Size)
		}
		return err
	}
	in := watch.over(body)
	want := f.Size - at
	progress := writerFunc(func(p []byte) (int, error) {
		at += int64(len(p))
		tell(at, int64(len(p)))
		return len(p), nil
	})
	buffer := make([]byte, 256<<10)
	n, err := io.CopyBuffer(io.MultiWriter(out, sum, progress), io.LimitReader(in, want), buffer)
	if err == nil && n == want {
		var more int
		if more, err = io.ReadFull(in, buffer[:1]); more > 0 {
			err = fmt.Errorf("%w: it is longer than %d bytes", errWrongSum, f.Size)
		} else if errors.Is(err, io.EOF) {
			err = nil
		}
	}
	if err == nil && n < want {
		err = r.short(ctx, f, key, at)
	}
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	return errors.Join(err, body.Close())
}

// short decides whether an object whose bytes ended early is cut off, or only
// the answer was.
func (r *restoration) short(ctx context.Context, f File, key string, at int64) error {
	o, err := r.s.bucket.stat(ctx, key)
	if err != nil {
		return err
	}
	if o.size != f.Size {
		return fmt.Errorf("%w: it has %d bytes instead of %d", errWrongSum, o.size, f.Size)
	}
	return fmt.Errorf("the answer ended after %d of %d bytes", at, f.Size)
}

type writerFunc func([]byte) (int, error)

func (w writerFunc) Write(p []byte) (int, error) { return w(p) }
