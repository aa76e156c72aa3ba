//go:build !unix

package store

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// lockFile locks path for this process alone, until the closer is closed or
// the process ends.
func lockFile(path string) (io.Closer, error) {
	c, err := vfs.Default.Lock(path)
	if err != nil && !errors.Is(err, os.ErrPermission) && !errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("%w: %w", errBusy, err)
	}
	return c, err
}

// lockFileShared finds whether path is locked: opening a file that is fails.
// It writes nothing: a file that does not exist is fs.ErrNotExist.
func lockFileShared(path string) (io.Closer, error) {
	f, err := os.Open(path)
	if err != nil && !errors.Is(err, os.ErrPermission) && !errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("%w: %w", errBusy, err)
	}
	return f, err
}
