package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"gocloud.dev/blob"
	"gocloud.dev/blob/driver"
	"gocloud.dev/gcerrors"
	"google.golang.org/api/googleapi"
)

// broken is a driver whose lists, reads and deletes end with an error that it
// gives a code.
type broken struct {
	driver.Bucket
	err  error
	code gcerrors.ErrorCode
}

func (b *broken) ListPaged(context.Context, *driver.ListOptions) (*driver.ListPage, error) {
	return nil, b.err
}
func (b *broken) Attributes(context.Context, string) (*driver.Attributes, error) { return nil, b.err }
func (b *broken) Delete(context.Context, string, *driver.DeleteOptions) error    { return b.err }
func (b *broken) ErrorCode(error) gcerrors.ErrorCode                             { return b.code }
func (b *broken) Close() error                                                   { return nil }

// broke makes a store of such a driver.
func broke(t testing.TB, err error, code gcerrors.ErrorCode) *Store {
	return openStore(t, &cloud{b: blob.NewBucket(&broken{err: err, code: code})}, Options{})
}

// A list whose connection ends is not the end of the list: a store that was cut
// off would look empty, and be cleaned up like that.
func TestListThatBreaksOff(t *testing.T) {
	s := broke(t, fmt.Errorf("request send failed, Get http://x: %w", io.EOF), gcerrors.Unknown)
	if _, err := s.Newest(t.Context(), lineage(3)); err == nil || errors.Is(err, ErrNoSnapshot) {
		t.Errorf("newest: %v", err)
	}
	if _, err := s.Reap(t.Context(), lineage(3), 1); err == nil {
		t.Error("a clean-up went by half a list")
	}
}

type status int

func (s status) Error() string       { return "https response error" }
func (s status) HTTPStatusCode() int { return int(s) }

// What the drivers call not found is that only where the store says so.
func TestKindsOfErrors(t *testing.T) {
	for _, one := range []struct {
		name string
		err  error
		code gcerrors.ErrorCode
		want error
	}{
		{"Google refuses", &googleapi.Error{Code: http.StatusForbidden}, gcerrors.NotFound, errRefused},
		{"Google has none", &googleapi.Error{Code: http.StatusNotFound}, gcerrors.NotFound, errNotFound},
		{"Azure refuses", &azcore.ResponseError{StatusCode: http.StatusForbidden, ErrorCode: "AuthorizationPermissionMismatch"}, gcerrors.Unknown, errRefused},
		{"no such host", &net.DNSError{Err: "no such host", Name: "x.blob.core.windows.net", IsNotFound: true}, gcerrors.NotFound, nil},
		{"S3 does not know the login", status(http.StatusForbidden), gcerrors.Unknown, errRefused},
		{"S3 has two at once", status(http.StatusConflict), gcerrors.Unknown, nil},
		{"S3 has it", status(http.StatusPreconditionFailed), gcerrors.FailedPrecondition, errExists},
		{"memory has none", errors.New("blob not found"), gcerrors.NotFound, errNotFound},
		{"several lines", errors.New("PUT http://x\n-----\nRESPONSE 500: Error\n<xml/>\n-----\n"), gcerrors.Unknown, nil},
	} {
		t.Run(one.name, func(t *testing.T) {
			s := broke(t, one.err, one.code)
			_, err := s.bucket.stat(t.Context(), "key")
			for _, kind := range []error{errNotFound, errRefused, errExists} {
				if errors.Is(err, kind) != (kind == one.want) {
					t.Errorf("%v: is %q: %v", err, kind, errors.Is(err, kind))
				}
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("several lines: %q", err)
			}
			// A delete that is refused, or was never asked, is not done.
			if err := s.bucket.delete(t.Context(), "key"); (err == nil) != (one.want == errNotFound) {
				t.Errorf("delete: %v", err)
			}
		})
	}
}
