package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/url"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
)

// cloud is a bucket of an object store.
type cloud struct {
	b      *blob.Bucket
	prefix string // empty, or ends with a slash
}

// partSize, in bytes, is what is sent in one request; smallest is the least
// that S3 takes for one of several.
const (
	partSize     = 8 << 20
	smallestPart = 5 << 20
)

// openCloud opens the bucket that u names and makes sure that it is there.
func openCloud(ctx context.Context, u *url.URL, prefix string) (*cloud, error) {
	b, err := blob.OpenBucket(ctx, u.String())
	if err != nil {
		return nil, err
	}
	there, err := b.IsAccessible(ctx)
	if err == nil && !there {
		err = ErrNoBucket
	}
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return &cloud{b, prefix}, nil
}

func (c *cloud) create(ctx context.Context, key string, size int64, content io.Reader) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	part := partSize
	if size <= smallestPart {
		part = smallestPart
	}
	w, err := c.b.NewWriter(ctx, c.prefix+key, &blob.WriterOptions{
		ContentType: "application/octet-stream",
		IfNotExist:  true, BufferSize: part, MaxConcurrency: 2,
	})
	if err != nil {
		return translate(err)
	}
	n, err := io.Copy(w, content)
	if err == nil && n != size {
		err = fmt.Errorf("content has %d bytes instead of %d", n, size)
	}
	if err != nil {
		cancel() // an abandoned write must not become an object
		if cerr := w.Close(); cerr != nil && gcerrors.Code(cerr) == gcerrors.FailedPrecondition {
			err = cerr
		}
		return translate(err)
	}
	return translate(w.Close())
}

func (c *cloud) open(ctx context.Context, key string, offset int64) (io.ReadCloser, error) {
	r, err := c.b.NewRangeReader(ctx, c.prefix+key, offset, -1, nil)
	if err != nil {
		return nil, translate(err)
	}
	return r, nil
}

func (c *cloud) stat(ctx context.Context, key string) (object, error) {
	a, err := c.b.Attributes(ctx, c.prefix+key)
	if err != nil {
		return object{}, translate(err)
	}
	return object{key, a.Size, a.ModTime}, nil
}

func (c *cloud) list(ctx context.Context, prefix string) iter.Seq2[object, error] {
	return func(yield func(object, error) bool) {
		it := c.b.List(&blob.ListOptions{Prefix: c.prefix + prefix, Delimiter: "/"})
		for {
			o, err := it.Next(ctx)
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(object{}, translate(err))
				return
			}
			if !yield(object{o.Key[len(c.prefix):], o.Size, o.ModTime}, nil) {
				return
			}
		}
	}
}

func (c *cloud) delete(ctx context.Context, key string) error {
	err := translate(c.b.Delete(ctx, c.prefix+key))
	if errors.Is(err, errNotFound) {
		return nil
	}
	return err
}

func (c *cloud) close() error { return c.b.Close() }

// translate marks the errors that a caller decides on. S3's answer to two
// creates at the same moment, 409, has no code of its own: its outcome is
// unknown like that of a broken connection.
func translate(err error) error {
	if err == nil {
		return nil
	}
	switch gcerrors.Code(err) {
	case gcerrors.NotFound:
		return errors.Join(errNotFound, err)
	case gcerrors.FailedPrecondition, gcerrors.AlreadyExists:
		return errors.Join(errExists, err)
	case gcerrors.PermissionDenied, gcerrors.InvalidArgument, gcerrors.Unimplemented:
		return errors.Join(errRefused, err)
	}
	return err
}
