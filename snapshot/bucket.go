package snapshot

import (
	"context"
	"io"
	"iter"
	"strings"
	"time"
)

// bucket is where objects lie. A key has parts with slashes between them; none
// begins with a dot. Methods come from any goroutine. Errors are errExists,
// errNotFound or errRefused where a caller decides on them; after any other
// the outcome is unknown.
type bucket interface {
	// create makes an object of size bytes, whole and durable on return, or
	// none: errExists where there is one of this key.
	create(ctx context.Context, key string, size int64, content io.Reader) error
	// open reads an object from offset on; errNotFound.
	open(ctx context.Context, key string, offset int64) (io.ReadCloser, error)
	// stat describes an object; errNotFound.
	stat(ctx context.Context, key string) (object, error)
	// list yields what lies directly under prefix, which ends with a slash, in
	// any order. It ends with an error.
	list(ctx context.Context, prefix string) iter.Seq2[object, error]
	// delete removes an object; that there is none is no error.
	delete(ctx context.Context, key string) error
	close() error
}

// object is what a list shows.
type object struct {
	key      string // ends with a slash for what has more under it
	size     int64
	modified time.Time
}

func (o object) dir() bool { return strings.HasSuffix(o.key, "/") }

// name is the last part of the key.
func (o object) name() string {
	key := strings.TrimSuffix(o.key, "/")
	return key[strings.LastIndexByte(key, '/')+1:]
}

// tidier is a bucket that may have something left over by a crash.
type tidier interface {
	// tidy removes what was left before the time, and returns how much.
	tidy(before time.Time) (int, error)
	// forget removes the empty folders under prefix and its own.
	forget(prefix string)
}

// sharer is a bucket whose objects may be files on the disk of their user.
type sharer interface {
	// share makes the file to, which does not exist, of the bytes of an object
	// without copying them, and says whether they are durable. An error, and no
	// file, where that cannot be. Nobody may write into the file.
	share(key, to string) (durable bool, err error)
}
