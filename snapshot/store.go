package snapshot

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"
)

// Store keeps snapshots in a bucket or folder.
type Store struct {
	bucket bucket
	name   string // for people
	opts   Options
	log    *slog.Logger
	slots  chan struct{} // one is taken while an object moves

	// One is taken while a checkpoint is made and summed: of the latter by those
	// who have a deadline.
	copies, lastCopies chan struct{}

	damaged sync.Map // keys of objects that were found damaged: nothing new relies on them
}

// Close closes the connection. No call may be under way.
func (s *Store) Close() error {
	if err := s.bucket.close(); err != nil {
		return fmt.Errorf("close the snapshot store %s: %w", s.name, err)
	}
	return nil
}

// String is the store's URL without its parameters.
func (s *Store) String() string { return s.name }

// Pin makes the folder of a file URL where it is missing, and gives it a mark.
// From then on a folder that is not there, or has another mark, is an error of
// all calls and is not made anew: its disk is not mounted. Object stores have
// nothing to pin.
func (s *Store) Pin(ctx context.Context) error {
	f, ok := s.bucket.(*folder)
	if !ok {
		return nil
	}
	if err := s.retry(ctx, func() error { return f.pin(ctx) }); err != nil {
		return fmt.Errorf("make the snapshot store %s: %w", s.name, err)
	}
	return nil
}

// Check tries all that a service does with the store, on a small object that
// it removes again: create, a second create, which must be refused, read, list
// and delete. ErrNotCreateOnly where the second create is not refused. Folders
// that it makes it removes: the service may run as somebody else.
func (s *Store) Check(ctx context.Context) error {
	const folder = "=check/" // no group's: escape never yields it
	ctx, cancel := context.WithTimeout(ctx, checkPatience*s.opts.patience)
	defer cancel()
	key, body := folder+rand.Text(), []byte("tidemark tries whether it can write here\n")
	if err := s.check(ctx, folder, key, body); err != nil {
		return fmt.Errorf("check the snapshot store %s: %w", s.name, err)
	}
	return nil
}

// checkPatience is how many times as long as a request a check may take.
const checkPatience = 2

func (s *Store) check(ctx context.Context, where, key string, body []byte) error {
	if f, ok := s.bucket.(*folder); ok {
		defer f.removeEmpty(f.missing()...)
	}
	if err := s.create(ctx, key, body); err != nil {
		return fmt.Errorf("create an object: %w", err)
	}
	if t, ok := s.bucket.(tidier); ok {
		defer t.forget(where)
	}
	err := s.probe(ctx, where, key, body)
	if derr := s.remove(ctx, key); derr != nil && err == nil {
		err = fmt.Errorf("delete an object: %w", derr)
	}
	return err
}

func (s *Store) probe(ctx context.Context, folder, key string, body []byte) error {
	other := []byte("a second create went through\n")
	err := s.bucket.create(ctx, key, int64(len(other)), bytes.NewReader(other))
	if err == nil {
		return ErrNotCreateOnly
	}
	if !errors.Is(err, errExists) {
		return fmt.Errorf("create an object that exists: %w", err)
	}
	got, err := s.readSmall(ctx, key)
	if err == nil && !bytes.Equal(got, body) {
		err = errors.New("it has other bytes than were written")
	}
	if err != nil {
		return fmt.Errorf("read an object: %w", err)
	}
	for o, err := range s.bucket.list(ctx, folder) {
		if err != nil {
			return fmt.Errorf("list objects: %w", err)
		}
		if o.key == key {
			return nil
		}
	}
	return errors.New("list objects: one that was just written is not among them")
}

// create makes a small object. A refusal, and an answer that did not come, are
// resolved by reading it back: it succeeds where the object has the very bytes.
// errTaken, with those, where it has others.
func (s *Store) create(ctx context.Context, key string, body []byte) error {
	return s.retry(ctx, func() error {
		tctx, cancel := context.WithTimeout(ctx, s.opts.patience)
		err := s.bucket.create(tctx, key, int64(len(body)), bytes.NewReader(body))
		cancel()
		if err == nil || ctx.Err() != nil || errors.Is(err, errRefused) {
			return err
		}
		read := s.readOnce
		if errors.Is(err, errExists) {
			read = s.readSettled // it must be there
		}
		there, rerr := read(ctx, key)
		switch {
		case rerr == nil && bytes.Equal(there, body):
			s.log.Info("a create succeeded though its answer said otherwise", "object", key, "err", err)
			return nil
		case rerr == nil:
			return &takenError{there}
		}
		return fmt.Errorf("%v; to read it back: %v", err, rerr) //nolint:errorlint // not of a kind: it may be tried again
	})
}

// takenError: the object was there, with other bytes.
type takenError struct{ body []byte }

func (e *takenError) Error() string { return "object exists with other bytes" }

// maxSmall bounds what is read into memory: a manifest of a million files.
const maxSmall = 256 << 20

// readOnce reads an object whole: errNotFound at once.
func (s *Store) readOnce(ctx context.Context, key string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.patience)
	defer cancel()
	r, err := s.bucket.open(ctx, key, 0)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(r, maxSmall))
	return body, errors.Join(err, r.Close())
}

// readSmall reads an object whole, again where it fails.
func (s *Store) readSmall(ctx context.Context, key string) (body []byte, err error) {
	err = s.retry(ctx, func() error {
		body, err = s.readOnce(ctx, key)
		return err
	})
	return body, err
}

// readSettled reads an object that must be there: it is asked for as long as
// Options.Settle says.
func (s *Store) readSettled(ctx context.Context, key string) (body []byte, err error) {
	err = s.settle(ctx, func() error {
		body, err = s.readSmall(ctx, key)
		return err
	})
	return body, err
}

// remove removes an object; that there is none is no error.
func (s *Store) remove(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(ctx, s.opts.patience)
	defer cancel()
	return s.bucket.delete(ctx, key)
}

// objects lists what lies directly under prefix.
func (s *Store) objects(ctx context.Context, prefix string) (all []object, err error) {
	err = s.retry(ctx, func() error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		watch := s.startWatch(cancel)
		defer watch.stop()
		all = all[:0]
		for o, err := range s.bucket.list(ctx, prefix) {
			if cause := context.Cause(ctx); err != nil && cause != nil {
				err = fmt.Errorf("%w: %w", cause, err)
			}
			if err != nil {
				return err
			}
			watch.came()
			all = append(all, o)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", prefix, err)
	}
	return all, nil
}

// take takes a slot for moving an object; the function returned gives it back.
func (s *Store) take(ctx context.Context) (func(), error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case s.slots <- struct{}{}:
		return func() { <-s.slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// since is the time since t by the clock.
func (s *Store) since(t time.Time) time.Duration { return s.opts.Clock().Sub(t) }
