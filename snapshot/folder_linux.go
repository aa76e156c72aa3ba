package snapshot

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// link gives the file temp the name name, unless there is one: fs.ErrExist.
// Where the file system has no hard links it is renamed without replacing.
func link(temp, name string) error {
	err := os.Link(temp, name)
	if !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.ENOTSUP) && !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EMLINK) {
		return err
	}
	rerr := unix.Renameat2(unix.AT_FDCWD, temp, unix.AT_FDCWD, name, unix.RENAME_NOREPLACE)
	if errors.Is(rerr, unix.EINVAL) || errors.Is(rerr, unix.ENOSYS) {
		return err // it has neither: say what is missing
	}
	if rerr != nil {
		return &os.LinkError{Op: "rename", Old: temp, New: name, Err: rerr}
	}
	return nil
}

// clone makes the file to, which does not exist, with the bytes of from, which
// both share until either is written to; an error, and no file, where the file
// system does not have that.
func clone(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	err = unix.IoctlFileClone(int(out.Fd()), int(in.Fd()))
	if err = errors.Join(err, out.Close()); err != nil {
		return errors.Join(err, os.Remove(to))
	}
	return nil
}
