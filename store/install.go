package store

import (
	"errors"
	"fmt"

	"tidemark/internal/crashpoint"
)

// Path is the directory of a partition's state, whether there is one or not.
// While the state is closed its files may be read and linked.
func (d *Dir) Path(partition int32) string { return d.layout.partition(partition) }

// Restores is where a restore of the partition is laid, for Install: beside
// the states and no state. The folder that it lies in may not exist. What is
// there, and what a restore keeps beside it, stays over restarts, so that it
// is not downloaded twice. A folder that was whole when the process ended, and
// was not installed, is there too and in the way of the next restore: Peek says
// what it is, so it can be installed or removed.
func (d *Dir) Restores(partition int32) string { return d.layout.restore(partition) }

// Checkpoints is where a checkpoint of the partition is made, for a snapshot.
// What is left there is removed by the next Open.
func (d *Dir) Checkpoints(partition int32) string { return d.layout.checkpoint(partition) }

// Install makes the folder from, which holds a whole state of the partition,
// durable but for its name, on the file system of the directory, the state of
// the partition. The state that is there is removed; it must not be open. from
// is gone on return.
//
// A crash leaves the state as it was, the new one, or none; from is whole until
// it is the state. aggregator.ErrNoState where from has no files; where it
// holds another partition, cannot be read or cannot be moved, nothing has
// changed.
func (d *Dir) Install(partition int32, from string) error {
	if err := d.install(partition, from); err != nil {
		return fmt.Errorf("install %s as the state of partition %d in %s: %w", from, partition, d.layout.root, err)
	}
	return nil
}

func (d *Dir) install(partition int32, from string) error {
	fs := d.layout.fs
	s, err := peek(fs, from)
	if err != nil {
		return err
	}
	if s.Identity.Partition != partition {
		return fmt.Errorf("it holds the state of partition %d", s.Identity.Partition)
	}
	if _, err := d.reserve(partition); err != nil {
		return err
	}
	defer d.settle(partition, nil)
	retired, err := d.layout.retire(partition)
	if err != nil {
		return err
	}
	crashpoint.Hit("retired")
	if err := fs.Rename(from, d.layout.partition(partition)); err != nil {
		return errors.Join(err, d.layout.reinstate(partition))
	}
	// The new name first: a crash between the two may leave both, never none.
	if err := errors.Join(d.layout.sync(d.layout.partitions()), d.layout.sync(fs.PathDir(from))); err != nil {
		return err
	}
	crashpoint.Hit("moved")
	if !retired {
		return nil
	}
	return d.layout.bury(partition)
}
