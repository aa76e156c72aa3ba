package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// lockPoll is how often a lock in use is tried again.
const lockPoll = 100 * time.Millisecond

// errBusy is returned by the lock functions of the platforms for a lock that
// somebody else holds.
var errBusy = errors.New("lock is held")

// hold is a held lock of a state directory.
type hold struct {
	layout layout
	file   io.Closer
}

// acquire takes the lock of a state directory, waiting for it for a while, and
// writes beside it who holds it. The lock file itself is never removed: a lock
// on a file that is gone locks nothing.
func (l layout) acquire(lock func(path string) (io.Closer, error), wait time.Duration) (*hold, error) {
	deadline := time.NewTimer(wait)
	defer deadline.Stop()
	poll := time.NewTicker(lockPoll)
	defer poll.Stop()
	for {
		file, err := lock(l.lock())
		if err == nil {
			h := &hold{l, file}
			if err := h.sign(); err != nil && !isFull(err) {
				return nil, errors.Join(fmt.Errorf("write %s: %w", l.holder(), err), file.Close())
			}
			return h, nil
		}
		if !errors.Is(err, errBusy) {
			return nil, fmt.Errorf("lock %s: %w", l.lock(), err)
		}
		select {
		case <-poll.C:
		case <-deadline.C:
			return nil, l.inUse()
		}
	}
}

// inUse is ErrLocked with the path and the likely holder.
func (l layout) inUse() error {
	return fmt.Errorf("%w: %s is held by %s; stop it, or use another state.dir", ErrLocked, l.root, l.likelyHolder())
}

// sign writes who holds the lock, for people.
func (h *hold) sign() error {
	host, err := os.Hostname()
	if err != nil {
		host = "an unknown host"
	}
	f, err := h.layout.fs.Create(h.layout.holder(), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "process %d on %s since %s\n", os.Getpid(), host, time.Now().UTC().Format(time.RFC3339))
	return errors.Join(err, f.Close())
}

// release gives the lock back.
func (h *hold) release() error {
	err := h.layout.fs.Remove(h.layout.holder())
	return errors.Join(err, h.file.Close())
}

// likelyHolder is what the holder of the lock wrote about itself. A process
// that crashed leaves its line; a new holder overwrites it.
func (l layout) likelyHolder() string {
	f, err := l.fs.Open(l.holder())
	if err != nil {
		return "another process"
	}
	defer f.Close()
	line, err := io.ReadAll(io.LimitReader(f, 1024))
	if text := strings.TrimSpace(string(line)); err == nil && text != "" {
		return text
	}
	return "another process"
}
