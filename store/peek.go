package store

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"tidemark/aggregator"
)

// State is what a partition's state is, and how far it is. It converts to
// snapshot.State.
type State struct {
	Identity aggregator.Identity
	Progress aggregator.Progress
	Format   int // of what is on disk
}

const (
	// peekCache, in bytes, and peekFiles are what a look at three keys needs.
	peekCache = 256 << 10
	peekFiles = 16
)

// Peek opens the directory of one partition (a checkpoint, or a folder that
// was restored) and says what it is. It writes nothing, takes no lock, reads
// no total, and takes a few milliseconds. Nobody may write there meanwhile.
// aggregator.ErrNoState where there are no files; ErrNoMarker, ErrNewerFormat
// and ErrCorrupt as of Dir.Open.
func Peek(dir string) (State, error) {
	s, err := peek(vfs.Default, dir)
	if err != nil {
		return State{}, fmt.Errorf("look at the state in %s: %w", dir, err)
	}
	return s, nil
}

// PeekAll is Peek of every partition of a state directory, in order, with why
// those are damaged, by number, that are (ErrCorrupt). It keeps a service from
// opening it meanwhile: ErrLocked where one has. A directory that is not there,
// or holds no partition, has none.
func PeekAll(dir string) (all []State, damaged map[int32]error, err error) {
	l := layout{vfs.Default, dir}
	numbers, err := l.numbers()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("look at the states in %s: %w", dir, err)
	}
	unlock, err := holdOff(l)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, unlock.Close()) }()
	damaged = make(map[int32]error)
	for _, n := range numbers {
		s, err := Peek(l.partition(n))
		switch {
		case errors.Is(err, aggregator.ErrNoState): // an empty folder
		case errors.Is(err, ErrCorrupt):
			damaged[n] = err
		case err != nil:
			return nil, nil, err
		default:
			all = append(all, s)
		}
	}
	return all, damaged, nil
}

func peek(disk vfs.FS, dir string) (s State, err error) {
	there, err := hasFiles(disk, dir)
	if err != nil {
		return s, err
	}
	if !there {
		return s, aggregator.ErrNoState
	}
	if err := probe(disk, dir); err != nil {
		return s, err
	}
	opts := readOnlyOptions(disk)
	cache := pebble.NewCache(peekCache)
	defer cache.Unref()
	files := pebble.NewFileCache(1, peekFiles)
	defer files.Unref()
	opts.Cache, opts.FileCache = cache, files
	db, err := pebble.Open(dir, opts)
	if err != nil {
		return s, notOpened(err)
	}
	s, err = readState(db)
	return s, errors.Join(err, damaged(db.Close()))
}

// readState reads what every state has.
func readState(db *pebble.DB) (s State, err error) {
	marker, ok, err := get(db, nil, formatKey)
	if err != nil {
		return s, err
	}
	if !ok {
		return s, ErrNoMarker
	}
	if s.Format, err = checkFormat(marker); err != nil {
		return s, err
	}
	identity, err := required(db, identityKey)
	if err != nil {
		return s, err
	}
	if s.Identity, err = decodeIdentity(identity); err != nil {
		return s, err
	}
	progress, err := required(db, progressKey)
	if err != nil {
		return s, err
	}
	s.Progress, err = decodeProgress(progress)
	return s, err
}

// required reads a key that every state has.
func required(db *pebble.DB, key []byte) ([]byte, error) {
	value, ok, err := get(db, nil, key)
	if err == nil && !ok {
		err = fmt.Errorf("no %s: %w", key, ErrCorrupt)
	}
	return value, err
}
