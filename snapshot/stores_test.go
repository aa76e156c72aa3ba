//go:build integration && stores

package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"tidemark/aggregator"
	"tidemark/internal/testkit/servers"
	"tidemark/store"
)

// Rounds on real servers with the interfaces of S3, Google and Azure, behind a
// proxy that can be slow, cut and closed. STORES names those to run, else all;
// STORES_SOAK adds the long rounds.
func TestStores(t *testing.T) {
	wanted := servers.ObjectStores
	if text := os.Getenv("STORES"); text != "" {
		wanted = strings.Split(text, ",")
	}
	for _, scheme := range wanted {
		t.Run(scheme, func(t *testing.T) {
			e := &emulator{Objects: servers.NewObjects(t, scheme, servers.ObjectOptions{})}
			for name, value := range e.Environ() {
				t.Setenv(name, value)
			}
			rounds := storeRounds
			if os.Getenv("STORES_SOAK") != "" {
				rounds = append(slices.Clone(rounds), longStoreRounds...)
			}
			for _, round := range rounds {
				t.Run(round.name, func(t *testing.T) { round.run(t, e) })
			}
		})
	}
}

type storeRound struct {
	name string
	run  func(*testing.T, *emulator)
}

var storeRounds = []storeRound{
	{"S11 life of a partition", lifeOfAPartition},
	{"large objects", largeObjects},
	{"prune", pruneGroup},
	{"processes race", processesRace},
	{"answers are lost", answersAreLost},
	{"slow", slowStore},
	{"cut off", cutOffStore},
	{"away", storeAway},
	{"silent", silentStore},
	{"refusals", refusals},
}

// longStoreRounds are those of `make soak`: each takes minutes.
var longStoreRounds = []storeRound{
	{"lists of several pages", manyObjects},
	{"silent for minutes", longSilence},
}

// emulator is a store and what the rounds need of it.
type emulator struct {
	*servers.Objects
	buckets int
}

// newURL makes a bucket and returns the URL of a folder in it.
func (e *emulator) newURL(t testing.TB) string {
	t.Helper()
	e.buckets++
	name := fmt.Sprintf("rounds-%d", e.buckets)
	if err := e.NewBucket(name); err != nil {
		t.Fatal(err)
	}
	return e.through(e.URL(name))
}

// mend takes all faults away.
func (e *emulator) mend(t testing.TB) {
	t.Helper()
	if err := e.Proxy.Mend(); err != nil {
		t.Fatal(err)
	}
}

func (e *emulator) fault(t testing.TB, toxics ...servers.Toxic) {
	t.Helper()
	if err := e.Proxy.Add(toxics...); err != nil {
		t.Fatal(err)
	}
}

// toxic is a fault of the proxy.
func toxic(kind, stream string, attributes ...any) servers.Toxic {
	all := make(map[string]int)
	for i := 0; i < len(attributes); i += 2 {
		all[attributes[i].(string)] = attributes[i+1].(int)
	}
	return servers.Toxic{Type: kind, Stream: stream, Attributes: all}
}

// reach opens the store at a URL, as each process does.
func reach(t testing.TB, url string, opts Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), url, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// counted counts log lines by their text.
type counted struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *counted) Enabled(context.Context, slog.Level) bool { return true }
func (c *counted) WithAttrs([]slog.Attr) slog.Handler       { return c }
func (c *counted) WithGroup(string) slog.Handler            { return c }
func (c *counted) Handle(_ context.Context, r slog.Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = make(map[string]int)
	}
	c.n[r.Message]++
	return nil
}

func (c *counted) of(message string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[message]
}

// An owner's life with a real state: publishes of which each uploads what is
// new, a claim by another member, a restore into its directory, and clean-ups.
func lifeOfAPartition(t *testing.T, e *emulator) {
	url, program := e.newURL(t), salesProgram(t)
	opts := Options{Inspect: inspect, Format: store.FormatVersion}
	replay := openStates(t, program, filepath.Join(t.TempDir(), "replay"))
	var position int64
	var created [3]int // objects of files, for three publishes each
	for member := range created {
		s := reach(t, url, opts)
		if err := s.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		o, err := s.Claim(t.Context(), lineage(3), 0)
		if err != nil {
			t.Fatal(err)
		}
		home := t.TempDir()
		if member > 0 {
			m, err := s.RestoreNewest(t.Context(), lineage(3), filepath.Join(home, "partitions", "3"), nil, RestoreOptions{})
			if err != nil || m.Position() != position || m.Epoch != o.Epoch() {
				t.Fatalf("member %d: restored %+v, %v; want position %d", member, m, err, position)
			}
		}
		st := openStates(t, program, home)
		var newest *Manifest
		for range 4 {
			position += 4000
			if err := st.foldTo(position); err != nil {
				t.Fatal(err)
			}
			p, err := o.Publish(t.Context(), st.now(), st.p, filepath.Join(home, "checkpoint"))
			if err != nil || p.Position() != position || !p.New {
				t.Fatalf("member %d: published %+v, %v", member, p, err)
			}
			if newest != nil {
				old := make(map[string]bool)
				for _, f := range newest.Files {
					old[f.Object] = true
				}
				for _, f := range p.Files {
					if f.Size > 0 && !old[f.Object] {
						created[member]++
					}
				}
			}
			if newest != nil && p.Uploaded >= p.Bytes() {
				t.Errorf("snapshot %d: all %d bytes were uploaded", p.Seq, p.Bytes())
			}
			newest = p.Manifest
		}
		if err := s.Verify(t.Context(), newest, nil); err != nil {
			t.Error(err)
		}
		if _, err := o.Reap(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
		if err := replay.foldTo(position); err != nil {
			t.Fatal(err)
		}
		_, want := replay.totals()
		if at, got := st.totals(); at != position || got != want {
			t.Errorf("member %d: at %d of %d; totals are equal: %v", member, at, position, got == want)
		}
		if err := st.dir.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("three publishes of each of three owners made %v objects of files", created)
	late := reach(t, url, Options{Clock: inTwoHours})
	if _, err := late.Reap(t.Context(), lineage(3), 2); err != nil {
		t.Fatal(err)
	}
	orphans(t, late.bucket, late, 2)
}

// Objects of several parts, in a state of more than 32 MiB, go up and come
// back whole; what is the same is not sent again.
func largeObjects(t *testing.T, e *emulator) {
	url := e.newURL(t)
	s := reach(t, url, Options{})
	o := claim(t, s, 3)
	state1 := large{"MANIFEST-1": 100, "000001.sst": 3*partSize + 17, "000002.sst": partSize, "000003.sst": smallestPart + 1, "000004.sst": smallestPart}
	first, err := o.Publish(t.Context(), state(3, 10), state1, filepath.Join(t.TempDir(), "checkpoint"))
	if err != nil {
		t.Fatal(err)
	}
	if first.Bytes() < 32<<20 || first.Uploaded != first.Bytes() {
		t.Errorf("%d bytes, %d uploaded; want all of more than 32 MiB", first.Bytes(), first.Uploaded)
	}
	delete(state1, "000002.sst")
	state1["000005.sst"] = 1000
	second, err := o.Publish(t.Context(), state(3, 11), state1, filepath.Join(t.TempDir(), "checkpoint"))
	if err != nil || second.Uploaded != 1000 {
		t.Errorf("uploaded %d of a table of 1000, %v", second.Uploaded, err)
	}
	for _, p := range []Published{first, second} {
		dir := filepath.Join(t.TempDir(), "restored")
		if err := s.Restore(t.Context(), p.Manifest, dir, RestoreOptions{}); err != nil {
			t.Fatal(err)
		}
		for _, f := range p.Files {
			if n, sum, err := hashFile(filepath.Join(dir, f.Name)); err != nil || n != f.Size || sum != f.SHA256 {
				t.Errorf("%s has %d bytes of sum %s, %v; want %d of %s", f.Name, n, sum, err, f.Size, f.SHA256)
			}
		}
	}
	// A second create of a large object is refused too, and leaves the first.
	for _, f := range first.Files {
		key := lineage(3).file(f.Object)
		err := s.bucket.create(t.Context(), key, f.Size, &zeros{n: f.Size})
		if !errors.Is(err, errExists) {
			t.Errorf("a second create of %d bytes: %v", f.Size, err)
		}
	}
	if err := s.Verify(t.Context(), first.Manifest, nil); err != nil {
		t.Error(err)
	}
}

// large is a checkpoint of files that have sizes.
type large map[string]int64

func (l large) Checkpoint(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	for name, size := range l {
		rng, content := seeded(uint64(size)), make([]byte, size)
		for i := range content {
			content[i] = byte(rng.Uint32())
		}
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// zeros reads as n zeros.
type zeros struct{ n int64 }

func (z *zeros) Read(p []byte) (int, error) {
	if z.n == 0 {
		return 0, io.EOF
	}
	n := int(min(int64(len(p)), z.n))
	clear(p[:n])
	z.n -= int64(n)
	return n, nil
}

// Lists of more objects than a store shows at a time are whole.
func manyObjects(t *testing.T, e *emulator) {
	s := reach(t, e.newURL(t), Options{})
	const n = 2100
	many := make(copies, n)
	for i := range n {
		many[fmt.Sprintf("%06d.sst", i)] = fmt.Sprint(i)
	}
	p, err := claim(t, s, 3).Publish(t.Context(), state(3, 10), many, filepath.Join(t.TempDir(), "checkpoint"))
	if err != nil {
		t.Fatal(err)
	}
	if all := keys(t, s.bucket, lineage(3).files()); len(all) != n {
		t.Errorf("%d files are listed, want %d", len(all), n)
	}
	if err := s.Verify(t.Context(), p.Manifest, nil); err != nil {
		t.Error(err)
	}
}

// Prune removes what is of a topic that was made anew, and leaves the rest.
func pruneGroup(t *testing.T, e *emulator) {
	url := e.newURL(t)
	s := reach(t, url, Options{Clock: inTwoHours})
	for partition := range int32(3) {
		o := claim(t, s, partition)
		for position := int64(10); position < 14; position++ {
			publish(t, o, position)
		}
	}
	// Seen from two hours on, since the store's clock gives the ages.
	removed, err := s.Prune(t.Context(), "tidemark-sales", "sales", lineage(0).TopicID, 2, nil)
	if err != nil || removed.Manifests != 3*2 || removed.Files == 0 {
		t.Errorf("pruned %+v, %v", removed, err)
	}
	for partition := range int32(3) {
		if err := verifyNewest(t, s, partition, 13); err != nil {
			t.Error(err)
		}
	}
	removed, err = s.Prune(t.Context(), "tidemark-sales", "sales", "AAAAAAAAAAAAAAAAAAAAAg", 2, nil)
	if err != nil || removed.Manifests != 3*2 {
		t.Errorf("pruned of a topic made anew: %+v, %v", removed, err)
	}
	if left := keys(t, s.bucket, ""); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	groups, err := s.Groups(t.Context())
	if err != nil || len(groups) > 0 {
		t.Errorf("groups %v, %v", groups, err)
	}
}

// verifyNewest reads the newest snapshot of a partition, which must be at the
// position.
func verifyNewest(t testing.TB, s *Store, partition int32, position int64) error {
	m, err := s.Newest(t.Context(), lineage(partition))
	if err != nil {
		return err
	}
	if m.Position() != position {
		return fmt.Errorf("the newest snapshot is at %d, want %d", m.Position(), position)
	}
	if err := s.Verify(t.Context(), m, nil); err != nil {
		return err
	}
	all, err := s.List(t.Context(), lineage(partition))
	if err != nil || len(all.Unreadable) > 0 {
		return errors.Join(append(slices.Clone(all.Unreadable), err)...)
	}
	return nil
}

// neverFenced fails where an owner that has no rival is told of one.
func neverFenced(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, aggregator.ErrFenced) {
		t.Fatalf("fenced by nobody: %v", err)
	}
}
