package store

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tidemark/aggregator"
)

const (
	maxBallast = 16 << 20
	openRoom   = 1 << 20
	// fullPause is how long a write that found the disk full, with no ballast
	// left to give, waits before its one retry. Pebble repeats failed flushes
	// and compactions at once and for ever; this keeps them off the processor.
	fullPause = time.Second
)

// space watches the free disk of the state directory, and holds a ballast file
// that is given up when the disk is full, so that what is under way can end.
type space struct {
	fs      vfs.FS // not the one that calls full
	path    string // of the state directory
	floor   int64  // bytes; negative is none
	size    int64  // of the ballast
	ballast string
	log     *slog.Logger
	closing chan struct{}

	mu   sync.Mutex
	held bool  // the ballast is there
	kept int64 // bytes that are about to be written
}

func newSpace(fs vfs.FS, path string, floor int64, log *slog.Logger) *space {
	s := &space{
		fs: fs, path: path, floor: floor, size: min(floor/4, maxBallast),
		ballast: fs.PathJoin(path, ballastName), log: log, closing: make(chan struct{}),
	}
	_, err := fs.Stat(s.ballast)
	s.held = err == nil
	return s
}

// check returns aggregator.ErrNoSpace, with the numbers, where less than the
// floor is free. With room to spare it makes the ballast anew.
func (s *space) check() error {
	free, known, err := s.free()
	switch {
	case s.floor < 0 || err != nil || !known:
		return err
	case free < s.floor:
		return fmt.Errorf("%w: %s is free at %s and state.min_free is %s", aggregator.ErrNoSpace, size(free), s.path, size(s.floor))
	case free >= s.floor+2*s.size:
		s.fill()
	}
	return nil
}

// keep keeps room for bytes until free is called. It returns
// aggregator.ErrNoSpace, with the numbers, where that would leave less than the
// floor. Bytes that are kept and already written count twice: it errs on the
// side of waiting.
func (s *space) keep(bytes int64) (free func(), err error) {
	is, known, err := s.free()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.floor >= 0 && known && is-s.kept-bytes < s.floor {
		return nil, fmt.Errorf("%w: %s is free at %s, %s is to be written and state.min_free is %s",
			aggregator.ErrNoSpace, size(is), s.path, size(s.kept+bytes), size(s.floor))
	}
	s.kept += bytes
	return func() {
		s.mu.Lock()
		s.kept -= bytes
		s.mu.Unlock()
	}, nil
}

// checkOpen returns aggregator.ErrNoSpace where there is no room for the little
// that opening a state writes, not even with the ballast given up.
func (s *space) checkOpen() error {
	free, known, err := s.free()
	if err != nil || !known {
		return err
	}
	s.mu.Lock()
	held := s.held
	s.mu.Unlock()
	if free < openRoom && !held {
		return fmt.Errorf("%w: %s is free at %s and opening a state takes up to %s", aggregator.ErrNoSpace, size(free), s.path, size(openRoom))
	}
	return nil
}

// free returns the bytes that are free; known is false where the system does
// not tell.
func (s *space) free() (free int64, known bool, err error) {
	usage, err := s.fs.GetDiskUsage(s.path)
	if errors.Is(err, vfs.ErrUnsupported) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("ask for the free space of %s: %w", s.path, err)
	}
	return int64(min(usage.AvailBytes, 1<<62)), true, nil
}

// fill makes the ballast where it is missing. It is a help, not a condition: a
// failure is logged.
func (s *space) fill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held || s.size <= 0 {
		return
	}
	s.held = true // also after a failure: not to be tried at each apply
	if err := writeBallast(s.fs, s.ballast, s.size); err != nil {
		s.log.Warn("cannot make the ballast file", "path", s.ballast, "err", err.Error())
	}
}

// full is called by the file system when a write found the disk full, before
// its one retry; other writes wait meanwhile.
func (s *space) full() {
	s.mu.Lock()
	held := s.held
	s.held = false
	s.mu.Unlock()
	if held && s.fs.Remove(s.ballast) == nil {
		s.log.Warn("disk is full: gave up the ballast file", "path", s.ballast, "bytes", s.size)
		return
	}
	pause := time.NewTimer(fullPause)
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-s.closing:
	}
}

// writeBallast fills a file with bytes that no file system can store in less
// room.
func writeBallast(fs vfs.FS, path string, bytes int64) error {
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	noise := rand.NewChaCha8([32]byte{})
	block := make([]byte, min(bytes, 1<<20))
	for left := bytes; left > 0; left -= int64(len(block)) {
		block = block[:min(left, int64(len(block)))]
		noise.Read(block) // never fails
		if _, err := f.Write(block); err != nil {
			return errors.Join(err, f.Close(), fs.Remove(path))
		}
	}
	return errors.Join(f.Sync(), f.Close())
}
