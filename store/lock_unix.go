//go:build unix

package store

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// lockFile locks path for this process alone, until the closer is closed or
// the process ends. The lock belongs to the open file: a second one in the
// same process is refused too.
func lockFile(path string) (io.Closer, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	return flock(f, unix.LOCK_EX)
}

// lockFileShared locks path against lockFile, for reading what it guards. It
// writes nothing: a file that does not exist is fs.ErrNotExist.
func lockFileShared(path string) (io.Closer, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return flock(f, unix.LOCK_SH)
}

func flock(f *os.File, how int) (io.Closer, error) {
	for {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		switch {
		case err == nil:
			return f, nil
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EWOULDBLOCK):
			err = errBusy
		}
		return nil, errors.Join(fmt.Errorf("flock: %w", err), f.Close())
	}
}
