package store

import (
	"errors"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// manifestMarker is how the empty file begins whose name says which manifest
// is the present one.
const manifestMarker = "marker.manifest."

// orderedFS makes the names in a database's directory durable before its
// manifest marker moves. Pebble 2.1.7 makes the new manifest and the new
// marker, removes the old marker, and syncs the directory once, after all: a
// power cut may keep the marker without the manifest that it names, or no
// marker at all, and the state does not open any more.
type orderedFS struct{ vfs.FS }

// Create syncs the directory before a manifest marker is made in it.
func (o orderedFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := o.settle(name); err != nil {
		return nil, err
	}
	return o.FS.Create(name, category)
}

// Remove syncs the directory before a manifest marker is removed from it.
func (o orderedFS) Remove(name string) error {
	if err := o.settle(name); err != nil {
		return err
	}
	return o.FS.Remove(name)
}

// settle syncs the directory of a manifest marker.
func (o orderedFS) settle(name string) error {
	if !strings.HasPrefix(o.FS.PathBase(name), manifestMarker) {
		return nil
	}
	dir, err := o.FS.OpenDir(o.FS.PathDir(name))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Unwrap implements vfs.FS.
func (o orderedFS) Unwrap() vfs.FS { return o.FS }
