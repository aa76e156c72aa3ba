package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"tidemark/config"
	"tidemark/store"
)

// tryListen tries the address to answer at.
func tryListen(cfg *config.Config) checked {
	const step = "listen"
	l, err := net.Listen("tcp", cfg.HTTP.Listen)
	if errors.Is(err, syscall.EADDRINUSE) {
		err = fmt.Errorf("another process listens at it, perhaps the service itself; see http.listen: %w", err)
	} else if err != nil {
		err = fmt.Errorf("see http.listen: %w", err)
	}
	if err == nil {
		err = l.Close()
	}
	return outcome(step, cfg.HTTP.Listen, "is free to answer at", err)
}

// tryLock is how long a state directory in use is waited for by a check.
const tryLock = 300 * time.Millisecond

// tryState tries whether the state directory can be written and locked. Where
// there is none yet, or an empty one, a folder beside or in it is tried, and
// removed.
func tryState(cfg *config.Config) checked {
	dir := cfg.State.Dir
	var err error
	detail := "can be written and locked, and nobody uses it"
	used, empty := dirState(dir)
	if used {
		err = openAndClose(cfg, dir)
	} else {
		detail = "can be made, written and locked"
		parent := dir
		if !empty {
			parent = existing(dir)
		}
		err = tryIn(cfg, parent)
	}
	if err != nil && !errors.Is(err, store.ErrLocked) {
		err = fmt.Errorf("see state.dir: %w", err)
	}
	return outcome("state", dir, detail, err)
}

// dirState says whether dir is a directory with something in it, or an empty one.
func dirState(dir string) (used, empty bool) {
	names, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, false
	}
	return err != nil || len(names) > 0, err == nil && len(names) == 0
}

// existing is the nearest folder above path that is there.
func existing(path string) string {
	for {
		parent := filepath.Dir(path)
		if _, err := os.Stat(parent); err == nil || parent == path {
			return parent
		}
		path = parent
	}
}

// tryIn tries a state directory in parent and removes it.
func tryIn(cfg *config.Config, parent string) (err error) {
	dir, err := os.MkdirTemp(parent, ".tidemark-check-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	return openAndClose(cfg, dir)
}

func openAndClose(cfg *config.Config, dir string) error {
	log := slog.New(slog.DiscardHandler)
	states, err := store.Open(dir, store.Options{
		Program: cfg.Program, Memory: leastMemory, MinFree: -1, LockWait: tryLock, Logger: log, Fatal: dies(log),
	})
	if err != nil {
		return err
	}
	return states.Close()
}
