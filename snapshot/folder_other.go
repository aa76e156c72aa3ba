//go:build !linux

package snapshot

import (
	"errors"
	"os"
)

// link gives the file temp the name name, unless there is one: fs.ErrExist.
func link(temp, name string) error { return os.Link(temp, name) }

// clone would make a file that shares its bytes with another.
func clone(from, to string) error { return errors.ErrUnsupported }
