//go:build !linux

package snapshot

import "os"

// link gives the file temp the name name, unless there is one: fs.ErrExist.
func link(temp, name string) error { return os.Link(temp, name) }
