package snapshot

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Open opens the store at rawURL and makes sure that it can be reached:
//
//	file:///var/lib/tidemark/snapshots
//	s3://bucket/folder?region=eu-west-1
//	gs://bucket/folder
//	azblob://container/folder
//	mem://                                (for tests: empty each time)
//
// The path of the last four, or the parameter prefix of all, is a folder in
// front of all keys. The other parameters are those of gocloud.dev's drivers.
// ErrNoBucket where the bucket does not exist. Nothing is written; the folder
// of a file URL is made by Pin, or the first publish. The ctx may end after
// Open.
func Open(ctx context.Context, rawURL string, opts Options) (*Store, error) {
	opts.complete()
	b, name, err := openBucket(ctx, rawURL, opts.patience)
	if err != nil {
		return nil, fmt.Errorf("open the snapshot store %s: %w", name, err)
	}
	return newStore(b, name, opts), nil
}

// Validate says what of a URL can never be opened, as far as that is seen
// without asking a store.
func Validate(rawURL string) error {
	u, err := url.Parse(rawURL)
	if err != nil || u.Scheme != "file" {
		return nil //nolint:nilerr // Open says more
	}
	query := u.Query()
	query.Del("prefix")
	_, err = folderRoot(u, query)
	return err
}

func newStore(b bucket, name string, opts Options) *Store {
	opts.complete()
	cores := runtime.GOMAXPROCS(0)
	return &Store{
		bucket: b, name: name, opts: opts, log: opts.Logger.With("store", name), slots: make(chan struct{}, opts.Transfers),
		copies: make(chan struct{}, max(1, cores/2)), lastCopies: make(chan struct{}, cores),
	}
}

// openBucket opens the bucket, and returns its name for people, which is
// without the parameters.
func openBucket(ctx context.Context, rawURL string, patience time.Duration) (b bucket, name string, err error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		var parse *url.Error
		if errors.As(err, &parse) {
			err = parse.Err // the rest repeats the URL
		}
		return nil, "URL", err
	}
	name = u.Scheme + "://" + u.Host + u.Path
	if u.User != nil {
		return nil, name, errors.New("a URL of a store holds no login; the environment of the store's own tools does")
	}
	query := u.Query()
	prefix := query.Get("prefix")
	query.Del("prefix")
	switch u.Scheme {
	case "file":
		root, err := folderRoot(u, query)
		if err != nil {
			return nil, name, err
		}
		f, err := openFolder(filepath.Join(root, filepath.FromSlash(prefix)))
		if err != nil {
			return nil, name, err
		}
		return f, name, nil
	case "s3", "gs", "azblob", "mem":
		prefix = strings.Trim(strings.Trim(u.Path, "/")+"/"+strings.Trim(prefix, "/"), "/")
		if prefix != "" {
			prefix += "/"
		}
		if u.Host == "" && u.Scheme != "mem" {
			return nil, name, errors.New("it names no bucket")
		}
		u.Path, u.RawPath, u.RawQuery = "", "", query.Encode()
		b, err := openCloud(ctx, u, prefix, patience)
		if err != nil {
			return nil, name, &hidden{err, strings.ReplaceAll(err.Error(), u.String(), name)}
		}
		return b, name, nil
	}
	return nil, name, fmt.Errorf("scheme %q is none of file, s3, gs, azblob", u.Scheme)
}

// hidden is an error whose text had the whole URL in it, with parameters.
type hidden struct {
	err  error
	text string
}

func (h *hidden) Error() string { return h.text }
func (h *hidden) Unwrap() error { return h.err }

// folderParams are parameters that gocloud.dev has for folders and that ask
// for what is done here anyway.
var folderParams = []string{"create_dir", "no_tmp_dir", "metadata"}

func folderRoot(u *url.URL, query url.Values) (string, error) {
	for name := range query {
		if !slices.Contains(folderParams, name) {
			return "", fmt.Errorf("parameter %q is unknown for a folder; prefix is known", name)
		}
	}
	if u.Host != "" && u.Host != "localhost" {
		return "", fmt.Errorf("a folder is file:// and an absolute path; %q stands where a host would", u.Host)
	}
	root := filepath.FromSlash(u.Path)
	if !filepath.IsAbs(root) {
		return "", fmt.Errorf("a folder is file:// and an absolute path, not %q", u.Path)
	}
	return filepath.Clean(root), nil
}
