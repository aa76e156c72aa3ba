package snapshot

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

var errFault = errors.New("the network is down")

// hooked is a bucket whose calls pass through functions, where set.
type hooked struct {
	bucket
	onCreate func(key string, create func() error) error
	onOpen   func(key string, body io.ReadCloser, err error) (io.ReadCloser, error)
	onStat   func(key string, o object, err error) (object, error)
	onList   func(prefix string, all []object) ([]object, error)
	onDelete func(ctx context.Context, key string, remove func() error) error
}

func (h *hooked) create(ctx context.Context, key string, size int64, content io.Reader) error {
	if h.onCreate == nil {
		return h.bucket.create(ctx, key, size, content)
	}
	return h.onCreate(key, func() error { return h.bucket.create(ctx, key, size, content) })
}

func (h *hooked) open(ctx context.Context, key string, offset int64) (io.ReadCloser, error) {
	body, err := h.bucket.open(ctx, key, offset)
	if h.onOpen == nil {
		return body, err
	}
	return h.onOpen(key, body, err)
}

func (h *hooked) stat(ctx context.Context, key string) (object, error) {
	o, err := h.bucket.stat(ctx, key)
	if h.onStat == nil {
		return o, err
	}
	return h.onStat(key, o, err)
}

func (h *hooked) list(ctx context.Context, prefix string) iter.Seq2[object, error] {
	if h.onList == nil {
		return h.bucket.list(ctx, prefix)
	}
	return func(yield func(object, error) bool) {
		var all []object
		for o, err := range h.bucket.list(ctx, prefix) {
			if err != nil {
				yield(o, err)
				return
			}
			all = append(all, o)
		}
		all, err := h.onList(prefix, all)
		for _, o := range all {
			if !yield(o, nil) {
				return
			}
		}
		if err != nil {
			yield(object{}, err)
		}
	}
}

func (h *hooked) delete(ctx context.Context, key string) error {
	if h.onDelete == nil {
		return h.bucket.delete(ctx, key)
	}
	return h.onDelete(ctx, key, func() error { return h.bucket.delete(ctx, key) })
}

// chaos makes calls slow and fail at random, before they do anything, after
// they have done it, and midway. Lists come in random order.
type chaos struct {
	mu    sync.Mutex
	rng   *rand.Rand
	rate  float64 // of faults
	delay time.Duration
	slow  float64 // of creates that take half an hour and more
}

func (c *chaos) hit(rate float64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rng.Float64() < rate
}

func (c *chaos) n(n int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rng.Int64N(n)
}

func (c *chaos) shuffle(all []object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
}

func (c *chaos) wait(ctx context.Context) error {
	if c.delay == 0 {
		return ctx.Err()
	}
	return sleep(ctx, time.Duration(c.n(int64(c.delay))))
}

// through is b with chaos.
func (c *chaos) through(b bucket) bucket { return &chaotic{b, c} }

type chaotic struct {
	bucket
	c *chaos
}

func (b *chaotic) around(ctx context.Context, call func() error) error {
	if err := b.c.wait(ctx); err != nil {
		return err
	}
	if b.c.hit(b.c.rate) {
		return errFault
	}
	err := call()
	if werr := b.c.wait(ctx); werr != nil {
		return werr
	}
	if b.c.hit(b.c.rate) {
		return errFault // it is done, and nobody knows
	}
	return err
}

func (b *chaotic) create(ctx context.Context, key string, size int64, content io.Reader) error {
	body, err := io.ReadAll(content)
	if err != nil {
		return err
	}
	if b.c.hit(b.c.slow) {
		if err := sleep(context.WithoutCancel(ctx), time.Duration(b.c.n(int64(45*time.Minute)))); err != nil {
			return err
		}
		return b.bucket.create(context.WithoutCancel(ctx), key, size, bytes.NewReader(body))
	}
	return b.around(ctx, func() error { return b.bucket.create(ctx, key, size, bytes.NewReader(body)) })
}

func (b *chaotic) open(ctx context.Context, key string, offset int64) (body io.ReadCloser, err error) {
	err = b.around(ctx, func() error {
		body, err = b.bucket.open(ctx, key, offset)
		return err
	})
	if err != nil {
		if body != nil {
			body.Close()
		}
		return nil, err
	}
	if b.c.hit(b.c.rate) {
		return &breaking{body, b.c.n(2000)}, nil
	}
	return body, nil
}

func (b *chaotic) stat(ctx context.Context, key string) (o object, err error) {
	err = b.around(ctx, func() error {
		o, err = b.bucket.stat(ctx, key)
		return err
	})
	return o, err
}

func (b *chaotic) list(ctx context.Context, prefix string) iter.Seq2[object, error] {
	return func(yield func(object, error) bool) {
		var all []object
		err := b.around(ctx, func() error {
			for o, err := range b.bucket.list(ctx, prefix) {
				if err != nil {
					return err
				}
				all = append(all, o)
			}
			return nil
		})
		b.c.shuffle(all)
		for _, o := range all {
			if !yield(o, nil) {
				return
			}
		}
		if err != nil {
			yield(object{}, err)
		}
	}
}

func (b *chaotic) delete(ctx context.Context, key string) error {
	return b.around(ctx, func() error { return b.bucket.delete(ctx, key) })
}

// breaking breaks off after left bytes.
type breaking struct {
	io.ReadCloser
	left int64
}

func (r *breaking) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, errFault
	}
	n, err := r.ReadCloser.Read(p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	return n, err
}

// rewrite changes an object's bytes, as a broken disk would.
func rewrite(ctx context.Context, b bucket, key string, change func([]byte) []byte) error {
	r, err := b.open(ctx, key, 0)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close(), b.delete(ctx, key)); err != nil {
		return err
	}
	if body = change(slices.Clone(body)); body == nil {
		return nil
	}
	return b.create(ctx, key, int64(len(body)), bytes.NewReader(body))
}
