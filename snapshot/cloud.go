package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
	"google.golang.org/api/googleapi"
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

// openCloud opens the bucket that u names and makes sure, for as long as
// patience, that it is there.
func openCloud(ctx context.Context, u *url.URL, prefix string, patience time.Duration) (*cloud, error) {
	// Google's tokens are fetched anew with this context, hours later.
	b, err := blob.OpenBucket(context.WithoutCancel(ctx), u.String())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	// Under the prefix: the login may be for that alone.
	_, _, err = b.ListPage(ctx, blob.FirstPageToken, 1, &blob.ListOptions{Prefix: prefix})
	if err = translate(err); errors.Is(err, errNotFound) {
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
			if err == io.EOF {
				return // alone: a connection that ended is an error with EOF in it
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

// translate marks the errors that a caller decides on, and makes one line of
// each. S3's answer to two creates at the same moment, 409, has no code of its
// own: its outcome is unknown like that of a broken connection.
func translate(err error) error {
	if err == nil {
		return nil
	}
	return &cloudError{kind(err), err}
}

// kind is what a caller decides by, nil where the outcome is unknown. The
// drivers' codes are not enough: Google's calls a refusal NotFound, Azure's a
// host name that is not found, and the other two know few refusals.
func kind(err error) error {
	var lookup *net.DNSError
	status := httpStatus(err)
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return errRefused
	case errors.As(err, &lookup):
		return nil
	}
	switch gcerrors.Code(err) {
	case gcerrors.NotFound:
		return errNotFound
	case gcerrors.FailedPrecondition, gcerrors.AlreadyExists:
		return errExists
	case gcerrors.PermissionDenied, gcerrors.InvalidArgument, gcerrors.Unimplemented:
		return errRefused
	}
	return nil
}

// httpStatus is that of the answer that became err, 0 where there is none.
func httpStatus(err error) int {
	var google *googleapi.Error
	var azure *azcore.ResponseError
	var aws interface{ HTTPStatusCode() int }
	switch {
	case errors.As(err, &google):
		return google.Code
	case errors.As(err, &azure):
		return azure.StatusCode
	case errors.As(err, &aws):
		return aws.HTTPStatusCode()
	}
	return 0
}

// cloudError is what a driver says, in one line, and its kind where it has one.
type cloudError struct{ kind, err error }

func (e *cloudError) Error() string {
	var parts []string
	if e.kind != nil {
		parts = append(parts, e.kind.Error())
	}
	for line := range strings.Lines(e.err.Error()) {
		// Azure's have rulers and the body in them.
		if line = strings.TrimSpace(line); strings.Trim(line, "-") != "" && line[0] != '<' {
			parts = append(parts, strings.TrimSuffix(line, ":"))
		}
	}
	return strings.Join(parts, ": ")
}

func (e *cloudError) Unwrap() []error {
	if e.kind == nil {
		return []error{e.err}
	}
	return []error{e.kind, e.err}
}
