package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"tidemark/aggregator"
)

// publishSteps are those of a claim, a publish and a clean-up.
var publishSteps = []string{"claim", "claimed", "checkpoint", "inspect", "upload", "upload file", "uploaded", "manifest", "created", "remove"}

// stopper ends calls at the n-th time of a step.
type stopper struct {
	name string
	n    int
	mu   sync.Mutex
	seen map[string]int
}

func (s *stopper) step(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[name]++
	if name == s.name && s.seen[name] == s.n {
		return fmt.Errorf("%w at %s", errStep, name)
	}
	return nil
}

// A process that ends at any step leaves a whole newest snapshot, and nothing
// that the next one does not use or clean up.
func TestS10EndAtEveryStepOfAPublish(t *testing.T) {
	eachBucket(t, func(t *testing.T, open func() bucket) {
		all := &stopper{seen: make(map[string]int)}
		if err := someLife(t, openStore(t, buckets["mem"](t)(), Options{Transfers: 1, step: all.step})); err != nil {
			t.Fatal(err)
		}
		if got := slices.Sorted(maps.Keys(all.seen)); !slices.Equal(got, slices.Sorted(slices.Values(publishSteps))) {
			t.Fatalf("steps %v, want %v", got, publishSteps)
		}
		for _, name := range publishSteps {
			for n := 1; n <= all.seen[name]; n += max(1, all.seen[name]/4) { // of many the first and some others
				t.Run(fmt.Sprint(name, " ", n), func(t *testing.T) {
					endAt(t, open, &stopper{name: name, n: n, seen: make(map[string]int)})
				})
			}
		}
	})
}

// someLife is what an owner does: claim, publish, clean up.
func someLife(t testing.TB, s *Store) error {
	for range 2 {
		o, err := s.Claim(t.Context(), lineage(3), 0)
		if err != nil {
			return err
		}
		position := int64(10)
		if m := o.Newest(); m != nil {
			position = m.Position() + 1
		}
		if _, err := try(t, o, position); err != nil {
			return err
		}
		if _, err := o.Reap(t.Context(), 1); err != nil {
			return err
		}
	}
	return nil
}

func endAt(t *testing.T, makeBucket func() bucket, stop *stopper) {
	b := makeBucket()
	for _, key := range keys(t, b, "") { // of the run before
		if err := b.delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	if err := someLife(t, openStore(t, b, Options{Transfers: 1, step: stop.step})); !errors.Is(err, errStep) {
		t.Fatalf("it ended with %v", err)
	}
	s := openStore(t, makeBucket(), Options{})
	if m, err := s.Newest(t.Context(), lineage(3)); err == nil {
		restored(t, s, m)
	} else if !errors.Is(err, ErrNoSnapshot) || errors.Is(err, ErrDamaged) {
		t.Error(err)
	}
	if err := someLife(t, s); err != nil {
		t.Error(err)
	}
	later := openStore(t, makeBucket(), Options{Clock: func() time.Time { return time.Now().Add(2 * time.Hour) }})
	if _, err := later.Reap(t.Context(), lineage(3), 1); err != nil {
		t.Error(err)
	}
	orphans(t, b, later, 1)
	m, err := later.Newest(t.Context(), lineage(3))
	if err != nil {
		t.Fatal(err)
	}
	restored(t, later, m)
}

// liveOneLife is someLife in a process that kills itself at the n-th step,
// whichever it is.
func liveOneLife(args []string) error {
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		return err
	}
	f, err := openFolder(args[0])
	if err != nil {
		return err
	}
	s := newStore(f, args[0], Options{Transfers: 1, step: func(string) error {
		if n--; n == 0 {
			if err := self.Kill(); err != nil {
				return err
			}
			select {}
		}
		return nil
	}})
	ctx := context.Background()
	o, err := s.Claim(ctx, lineage(3), 0)
	if err != nil {
		return err
	}
	position := int64(10)
	if m := o.Newest(); m != nil {
		position = m.Position() + 1
		if err := os.RemoveAll(args[2]); err != nil {
			return err
		}
		if _, err := s.RestoreNewest(ctx, lineage(3), args[2], nil, RestoreOptions{}); err != nil {
			return err
		}
	}
	if _, err := o.Publish(ctx, state(3, position), at(position), args[2]+".checkpoint"); err != nil {
		return err
	}
	_, err = o.Reap(ctx, 2)
	return err
}

// The same with kill -9, and a restore among the steps.
func TestS10KilledAtEveryStep(t *testing.T) {
	root, dir := t.TempDir(), filepath.Join(t.TempDir(), "state")
	f, err := openFolder(root)
	if err != nil {
		t.Fatal(err)
	}
	s := openStore(t, f, Options{})
	publish(t, claim(t, s, 3), 10)
	killed := 0
	for n := 1; ; n++ {
		var out bytes.Buffer
		err := spawn(t, &out, "life", root, strconv.Itoa(n), dir).Wait()
		m, nerr := s.Newest(t.Context(), lineage(3))
		if nerr != nil {
			t.Fatalf("killed at step %d: %v", n, nerr)
		}
		restored(t, s, m)
		if _, serr := os.Stat(dir); serr == nil {
			if is, err := os.ReadFile(filepath.Join(dir, "MANIFEST-1")); err != nil || len(is) == 0 {
				t.Errorf("killed at step %d: the restored state is half: %v", n, err)
			}
		} else if !errors.Is(serr, fs.ErrNotExist) {
			t.Fatal(serr)
		}
		if err == nil {
			break
		}
		if out.Len() > 0 {
			t.Fatalf("killed at step %d: %s", n, &out)
		}
		killed++
	}
	if killed < 15 {
		t.Errorf("killed %d times", killed)
	}
	if _, err := try(t, claim(t, s, 3), 1000); err != nil && !errors.Is(err, aggregator.ErrFenced) {
		t.Error(err)
	}
	later := openStore(t, f, Options{Clock: func() time.Time { return time.Now().Add(2 * time.Hour) }})
	r, err := later.Reap(t.Context(), lineage(3), 2)
	if err != nil {
		t.Fatal(err)
	}
	orphans(t, f, later, 2)
	left, err := os.ReadDir(filepath.Join(root, tempFolder))
	if err != nil || len(left) > 0 {
		t.Errorf("temporary files are left: %v, %v (%d were removed)", left, err, r.Temporary)
	}
}
