package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"tidemark/aggregator"
)

// counting counts the bytes that are read of files, and fails after a number
// of them, where it is above zero.
type counting struct {
	bytes   atomic.Int64
	fail    int64
	reading sync.Mutex // where it fails
}

func (c *counting) through(b bucket) bucket {
	return &hooked{bucket: b, onOpen: func(key string, body io.ReadCloser, err error) (io.ReadCloser, error) {
		if err != nil || !strings.Contains(key, "/sst/") {
			return body, err
		}
		return &countingReader{body, c}, nil
	}}
}

type countingReader struct {
	io.ReadCloser
	c *counting
}

func (r *countingReader) Read(p []byte) (int, error) {
	if f := r.c.fail; f > 0 {
		r.c.reading.Lock() // transfers beside each other read no more than that together
		defer r.c.reading.Unlock()
		left := f - r.c.bytes.Load()
		if left <= 0 {
			return 0, errFault
		}
		p = p[:min(int64(len(p)), left)]
	}
	n, err := r.ReadCloser.Read(p)
	r.c.bytes.Add(int64(n))
	return n, err
}

// A restore that is cut off anywhere is gone on with, also in the middle of a
// file, also by another process, also for a newer snapshot.
func TestO12RestoreIsGoneOnWith(t *testing.T) {
	eachBucket(t, func(t *testing.T, open func() bucket) {
		o := claim(t, openStore(t, open(), Options{}), 3)
		first := publish(t, o, 10).Manifest
		second := publish(t, o, 11).Manifest
		for _, fail := range []int64{1, 2500, 5000, first.Bytes() - 1} {
			t.Run(fmt.Sprint(fail), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					dir := filepath.Join(t.TempDir(), "state")
					broken := &counting{fail: fail}
					s := openStore(t, broken.through(open()), Options{Transfers: 2})
					if err := s.Restore(t.Context(), first, dir, RestoreOptions{}); !errors.Is(err, errFault) {
						t.Fatalf("a restore that is cut off: %v", err)
					}
					if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
						t.Errorf("half a state is there: %v", err)
					}
					rest := &counting{}
					s = openStore(t, rest.through(open()), Options{})
					var last, need int64
					err := s.Restore(t.Context(), second, dir, RestoreOptions{Progress: func(have, of int64) {
						if have < 0 || have > of {
							t.Errorf("%d of %d bytes are there", have, of)
						}
						last, need = have, of
					}})
					if err != nil {
						t.Fatal(err)
					}
					compare(t, dir, at(11))
					if last != second.Bytes() || need != last {
						t.Errorf("at the end %d of %d bytes are there", last, need)
					}
					// What both share and was read once is not read again.
					var shared int64
					for _, f := range second.Files {
						for _, g := range first.Files {
							if f.Size > 0 && f == g {
								shared += f.Size
							}
						}
					}
					if got, most := rest.bytes.Load(), second.Bytes()-min(fail, shared)+first.Bytes()-shared; got > most || fail == first.Bytes()-1 && got > second.Bytes()-shared+1 {
						t.Errorf("read %d bytes again, at most %d are missing", got, most)
					}
					leftovers(t, dir)
				})
			})
		}
	})
}

// leftovers fails where something stands beside dir.
func leftovers(t testing.TB, dir string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(dir))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != filepath.Base(dir) {
			t.Errorf("%s is left", e.Name())
		}
	}
}

// A partial file that is not a beginning, as a power cut can leave it, is read
// again from the start.
func TestPartOfAnotherLife(t *testing.T) {
	s := openStore(t, buckets["mem"](t)(), Options{})
	m := publish(t, claim(t, s, 3), 10).Manifest
	dir := filepath.Join(t.TempDir(), "state")
	if err := os.MkdirAll(dir+partsSuffix, 0o755); err != nil {
		t.Fatal(err)
	}
	for i, f := range m.Files {
		name := filepath.Join(dir+partsSuffix, f.SHA256)
		if i%2 == 0 {
			name += partialSuffix
		}
		if err := os.WriteFile(name, make([]byte, f.Size*int64(i+1)/2), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Restore(t.Context(), m, dir, RestoreOptions{}); err != nil {
		t.Fatal(err)
	}
	compare(t, dir, at(10))
	leftovers(t, dir)
}

// Files that are there by their sums are not downloaded; those that Pebble may
// write to are copies, and what has the right name and size but other bytes is
// not taken.
func TestRestoreReusesLocalFiles(t *testing.T) {
	read := &counting{}
	var moved moves
	s := openStore(t, read.through(buckets["mem"](t)()), Options{Observer: &moved})
	m := publish(t, claim(t, s, 3), 10).Manifest
	old := filepath.Join(t.TempDir(), "old")
	files := at(10)
	delete(files, "000009.sst")
	files["000008.sst"] = strings.Repeat("x", len(files["000008.sst"]))
	if err := files.Checkpoint(old); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "state")
	if err := s.Restore(t.Context(), m, dir, RestoreOptions{Reuse: []string{filepath.Join(old, "not there"), old}}); err != nil {
		t.Fatal(err)
	}
	compare(t, dir, at(10))
	if got, want := read.bytes.Load(), int64(len(table(8))+len(table(9))); got != want || moved.restored[0] != want {
		t.Errorf("downloaded %d, observed %v, want %d", got, moved.restored, want)
	}
	shared := func(name string) bool {
		a, aerr := os.Stat(filepath.Join(old, name))
		b, berr := os.Stat(filepath.Join(dir, name))
		if err := errors.Join(aerr, berr); err != nil {
			t.Fatal(err)
		}
		return os.SameFile(a, b)
	}
	if !shared("000010.sst") {
		t.Error("a table is not linked")
	}
	if shared("MANIFEST-1") || shared("OPTIONS-1") {
		t.Error("a file that may be written to is shared")
	}
	a, aerr := os.Stat(filepath.Join(dir, "marker.a"))
	b, berr := os.Stat(filepath.Join(dir, "marker.b"))
	if errors.Join(aerr, berr) != nil || os.SameFile(a, b) {
		t.Error("two files of one content are the same file")
	}
}

func TestRestoreNeedsAnEmptyPlace(t *testing.T) {
	s := openStore(t, buckets["mem"](t)(), Options{})
	m := publish(t, claim(t, s, 3), 10).Manifest
	dir := t.TempDir() // empty: fine
	if err := s.Restore(t.Context(), m, dir, RestoreOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Restore(t.Context(), m, dir, RestoreOptions{}); !errors.Is(err, ErrOccupied) {
		t.Errorf("restore over a state: %v", err)
	}
	compare(t, dir, at(10))
}

// restoreSteps are those of a restore.
var restoreSteps = []string{"shared", "download", "downloaded", "lay out", "install", "installed"}

func TestEndAtEveryStepOfARestore(t *testing.T) {
	open := buckets["folder"](t)
	m := publish(t, claim(t, openStore(t, open(), Options{}), 3), 10).Manifest
	for _, name := range restoreSteps {
		for _, n := range []int{1, 3} {
			t.Run(fmt.Sprint(name, " ", n), func(t *testing.T) {
				stop := &stopper{name: name, n: n, seen: make(map[string]int)}
				dir := filepath.Join(t.TempDir(), "state")
				err := openStore(t, open(), Options{step: stop.step}).Restore(t.Context(), m, dir, RestoreOptions{})
				if stop.seen[name] < n {
					if err != nil || stop.seen[name] == 0 {
						t.Errorf("step seen %d times, %v", stop.seen[name], err)
					}
					return
				}
				if !errors.Is(err, errStep) {
					t.Fatal(err)
				}
				if name == "installed" {
					compare(t, dir, at(10))
					return
				}
				if err := openStore(t, open(), Options{}).Restore(t.Context(), m, dir, RestoreOptions{}); err != nil {
					t.Fatal(err)
				}
				compare(t, dir, at(10))
				leftovers(t, dir)
			})
		}
	}
}

func TestRestoreNewestAccepts(t *testing.T) {
	s := openStore(t, buckets["mem"](t)(), Options{})
	o := claim(t, s, 3)
	publish(t, o, 10)
	publish(t, o, 20)
	dir := filepath.Join(t.TempDir(), "state")
	further := func(m *Manifest) bool { return m.Position() > 20 }
	if _, err := s.RestoreNewest(t.Context(), lineage(3), dir, further, RestoreOptions{}); !errors.Is(err, ErrNoSnapshot) || errors.Is(err, ErrDamaged) {
		t.Errorf("none is further on: %v", err)
	}
	m, err := s.RestoreNewest(t.Context(), lineage(3), dir, func(m *Manifest) bool { return m.Position() < 20 }, RestoreOptions{})
	if err != nil || m.Position() != 10 {
		t.Errorf("restored %+v, %v", m, err)
	}
}

// A server that accepts a request and then says nothing does not hold a
// restore up for ever.
func TestStalledDownload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := buckets["mem"](t)()
		m := publish(t, claim(t, openStore(t, b, Options{}), 3), 10).Manifest
		stalls := 0
		s := openStore(t, &stalling{b, &stalls}, Options{Transfers: 1})
		dir := filepath.Join(t.TempDir(), "state")
		if err := s.Restore(t.Context(), m, dir, RestoreOptions{}); err != nil {
			t.Fatal(err)
		}
		compare(t, dir, at(10))
		if stalls == 0 {
			t.Error("nothing stalled")
		}
	})
}

// stalling stalls every other body.
type stalling struct {
	bucket
	stalls *int
}

func (s *stalling) open(ctx context.Context, key string, offset int64) (io.ReadCloser, error) {
	body, err := s.bucket.open(ctx, key, offset)
	if *s.stalls++; err != nil || *s.stalls%2 == 0 {
		return body, err
	}
	return &stalled{body, ctx}, nil
}

type stalled struct {
	io.ReadCloser
	ctx context.Context
}

func (s *stalled) Read([]byte) (int, error) {
	<-s.ctx.Done()
	return 0, s.ctx.Err()
}

// A cancelled call says so.
func TestCancelled(t *testing.T) {
	s := openStore(t, buckets["folder"](t)(), Options{})
	o := claim(t, s, 3)
	m := publish(t, o, 10).Manifest
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, perr := o.Publish(ctx, state(3, 11), at(11), filepath.Join(t.TempDir(), "x"))
	_, cerr := s.Claim(ctx, lineage(3), 0)
	_, nerr := s.Newest(ctx, lineage(3))
	for what, err := range map[string]error{
		"publish": perr, "claim": cerr, "newest": nerr,
		"restore": s.Restore(ctx, m, filepath.Join(t.TempDir(), "x"), RestoreOptions{}),
		"verify":  s.Verify(ctx, m, nil),
	} {
		if !errors.Is(err, context.Canceled) || errors.Is(err, ErrDamaged) || errors.Is(err, aggregator.ErrFenced) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
