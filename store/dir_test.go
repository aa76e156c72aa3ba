package store_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tidemark/aggregator"
	"tidemark/store"
)

// TestHolder is the other process of the tests of the lock: it opens the
// directory, says so, and closes when its standard input ends. It does nothing
// in an ordinary run.
func TestHolder(t *testing.T) {
	path := os.Getenv("TIDEMARK_TEST_HOLD")
	if path == "" {
		return
	}
	d, err := store.Open(path, options(t))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("holding")
	io.Copy(io.Discard, os.Stdin)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

// holder starts another process that holds path, and returns when it does.
func holder(t *testing.T, path string) (cmd *exec.Cmd, release func()) {
	t.Helper()
	cmd = exec.Command(os.Args[0], "-test.run=^TestHolder$")
	cmd.Env = append(os.Environ(), "TIDEMARK_TEST_HOLD="+path)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Wait() // the tests that care look at it themselves
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if lines.Text() == "holding" {
			return cmd, func() { in.Close() }
		}
	}
	t.Fatal("the other process did not open the directory")
	return nil, nil
}

// A directory that another process holds is refused after a bounded wait, by an
// error with its path and that process; nothing is removed.
func TestS01LockedByAnotherProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	cmd, release := holder(t, path)
	o := options(t)
	o.LockWait = 250 * time.Millisecond
	start := time.Now()
	_, err := store.Open(path, o)
	if waited := time.Since(start); waited < o.LockWait {
		t.Errorf("gave up after %s", waited)
	}
	if !errors.Is(err, store.ErrLocked) {
		t.Fatalf("open: %v", err)
	}
	for _, part := range []string{path, "process " + strconv.Itoa(cmd.Process.Pid) + " on "} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
	if _, err := store.Inspect(path); !errors.Is(err, store.ErrLocked) || !strings.Contains(err.Error(), strconv.Itoa(cmd.Process.Pid)) {
		t.Errorf("inspect: %v", err)
	}
	release()
	o.LockWait = time.Minute
	openDir(t, path, o)
}

// A process that is killed holds nothing.
func TestS01LockEndsWithItsProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	cmd, _ := holder(t, path)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	o := options(t)
	o.LockWait = time.Minute
	openDir(t, path, o)
}

// The lock file outlives its holders: a lock on a file that is gone is none.
func TestS01LockFileStays(t *testing.T) {
	path := t.TempDir()
	var first os.FileInfo
	for range 3 {
		d, err := store.Open(path, options(t))
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(filepath.Join(path, "LOCK"))
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = info
		}
		if !os.SameFile(first, info) {
			t.Error("the lock file was made anew")
		}
	}
}

// One who waits gets the directory when its holder closes within the wait.
func TestS01WaitsForAHolderThatCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewMem()
		o := options(t).WithFS(disk)
		o.LockWait = store.DefaultLockWait
		first, err := store.Open("state", o)
		if err != nil {
			t.Fatal(err)
		}
		closed := make(chan error)
		go func() {
			<-time.After(8 * time.Second) // an old process still closing
			closed <- first.Close()
		}()
		second, err := store.Open("state", o)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(<-closed, second.Close()); err != nil {
			t.Fatal(err)
		}
	})
}

// A directory is not opened twice, nor a partition in it.
func TestOpenTwice(t *testing.T) {
	path := t.TempDir()
	d := openDir(t, path, options(t))
	if _, err := store.Open(path, options(t)); !errors.Is(err, store.ErrLocked) {
		t.Errorf("second open: %v", err)
	}
	created(t, d, 0)
	if _, err := d.Open(0); err == nil || !strings.Contains(err.Error(), "open already") {
		t.Errorf("second open of a partition: %v", err)
	}
}

// Partitions are opened by number, and what is not there is ErrNoState.
func TestPartitionsOfADirectory(t *testing.T) {
	path := t.TempDir()
	d := openDir(t, path, options(t))
	for _, n := range []int32{12, 0, 3} {
		apply(t, created(t, d, n), map[string]int64{"a": int64(n)}, 1)
	}
	if _, err := d.Create(identity(3), aggregator.Progress{}); err == nil {
		t.Error("made a state that is open")
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = openDir(t, path, options(t))
	if got, err := d.Partitions(); err != nil || !slices.Equal(got, []int32{0, 3, 12}) {
		t.Errorf("partitions %v, %v", got, err)
	}
	if _, err := d.Open(1); !errors.Is(err, aggregator.ErrNoState) {
		t.Errorf("open 1: %v", err)
	}
	if _, err := d.Create(identity(3), aggregator.Progress{}); !errors.Is(err, store.ErrExists) {
		t.Errorf("make a state that is there: %v", err)
	}
	for _, n := range []int32{0, 3, 12} {
		p := openPartition(t, d, n)
		if got, _ := contents(t, p); got["a"].sum != int64(n) {
			t.Errorf("partition %d holds %v", n, got)
		}
	}
	stats := d.Stats()
	if len(stats) != 3 || stats[2].Partition != 12 || stats[2].Bytes == 0 || stats[2].Keys != 1 {
		t.Errorf("figures %+v", stats)
	}
}

// Options that cannot work are refused, all at once.
func TestOptionsAreChecked(t *testing.T) {
	_, err := store.Open(t.TempDir(), store.Options{Memory: 1, Compactions: -1})
	if err == nil {
		t.Fatal("opened")
	}
	for _, part := range []string{"Program", "Fatal", "Memory is 1 B, at least 16.0 MiB", "Compactions is -1"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
}

// A state directory that cannot be made is an error that names it.
func TestDirectoryThatIsAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Open(path, options(t)); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("open a file: %v", err)
	}
}
