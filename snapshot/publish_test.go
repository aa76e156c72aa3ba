package snapshot

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"tidemark/aggregator"
)

func TestPublishAndRestore(t *testing.T) {
	eachBucket(t, func(t *testing.T, open func() bucket) {
		var moved moves
		s := openStore(t, open(), Options{Observer: &moved})
		if _, err := s.Newest(t.Context(), lineage(3)); !errors.Is(err, ErrNoSnapshot) {
			t.Fatalf("newest of nothing: %v", err)
		}
		o := claim(t, s, 3)
		if o.Newest() != nil || o.Epoch() != 1 {
			t.Errorf("a first owner has epoch %d over %v", o.Epoch(), o.Newest())
		}
		first := publish(t, o, 10)
		if first.Seq != 0 || first.Epoch != 1 || first.Parent != -1 || !first.New || first.Uploaded != at(10).bytes() {
			t.Errorf("first publish: %+v", first)
		}
		second := publish(t, o, 11)
		want := int64(len(table(11)) + len(at(11)["MANIFEST-1"]))
		if second.Seq != 1 || second.Parent != 0 || second.Uploaded != want {
			t.Errorf("second publish: seq %d parent %d uploaded %d, want %d", second.Seq, second.Parent, second.Uploaded, want)
		}
		again := openStore(t, open(), Options{})
		m, err := again.Newest(t.Context(), lineage(3))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(second.Manifest, m); diff != "" {
			t.Errorf("read back (-written +read):\n%s", diff)
		}
		restored(t, again, m)
		if err := again.Verify(t.Context(), m, nil); err != nil {
			t.Error(err)
		}
		if want := []int64{at(10).bytes(), second.Uploaded}; !slices.Equal(moved.published, want) {
			t.Errorf("observed %v, want %v", moved.published, want)
		}
	})
}

// moves observes.
type moves struct{ published, restored []int64 }

func (m *moves) Published(bytes int64, _ float64) { m.published = append(m.published, bytes) }
func (m *moves) Restored(bytes int64, _ float64)  { m.restored = append(m.restored, bytes) }

// never is a Checkpointer that must not be asked.
type never struct{ t *testing.T }

func (n never) Checkpoint(string) error {
	n.t.Error("a checkpoint is made")
	return nil
}

func TestPublishOfAnUnchangedPartitionWritesNothing(t *testing.T) {
	eachBucket(t, func(t *testing.T, open func() bucket) {
		b := open()
		s := openStore(t, b, Options{})
		publish(t, claim(t, s, 3), 10)
		o := claim(t, s, 3)
		before := keys(t, b, "")
		p, err := o.Publish(t.Context(), state(3, 10), never{t}, filepath.Join(t.TempDir(), "x"))
		if err != nil {
			t.Fatal(err)
		}
		if p.New || p.Manifest != o.Newest() || p.Uploaded != 0 {
			t.Errorf("publish of nothing new: %+v", p)
		}
		if after := keys(t, b, ""); !slices.Equal(before, after) {
			t.Errorf("objects before %v, after %v", before, after)
		}
	})
}

func TestPublishRefuses(t *testing.T) {
	s := openStore(t, buckets["mem"](t)(), Options{})
	o := claim(t, s, 3)
	publish(t, o, 10)
	for name, change := range map[string]func(*State){
		"definition": func(s *State) { s.Identity.Definition = definition("other") },
		"topic":      func(s *State) { s.Identity.TopicID = "BBBBBBBBBBBBBBBBBBBBBB" },
		"partition":  func(s *State) { s.Identity.Partition = 4 },
		"cut":        func(s *State) { s.Identity.Cut.Start++ },
		"spread":     func(s *State) { s.Identity.Cut.Partitioner = "crc32" },
	} {
		st := state(3, 11)
		change(&st)
		if _, err := o.Publish(t.Context(), st, never{t}, t.TempDir()); !errors.Is(err, ErrOtherState) {
			t.Errorf("another %s: %v", name, err)
		}
	}
	st := state(3, 11)
	st.Identity.Definition.SQL = "select  the same"
	if _, err := o.Publish(t.Context(), st, at(11), filepath.Join(t.TempDir(), "x")); err != nil {
		t.Errorf("the same definition in other words: %v", err)
	}
	st.Progress.Seeded = false
	if _, err := o.Publish(t.Context(), st, never{t}, t.TempDir()); err == nil {
		t.Error("half a history is published")
	}
}

func TestS02CheckpointIsOpenedBeforeItIsPublished(t *testing.T) {
	var found State
	var bad error
	b := buckets["mem"](t)()
	s := openStore(t, b, Options{Inspect: func(dir string) (State, error) {
		if _, err := os.Stat(filepath.Join(dir, "MANIFEST-1")); err != nil {
			return State{}, err
		}
		return found, bad
	}})
	o := claim(t, s, 3)
	bad = errors.New("torn")
	if _, err := try(t, o, 10); !errors.Is(err, bad) {
		t.Errorf("a torn checkpoint: %v", err)
	}
	bad, found = nil, state(3, 9)
	if _, err := try(t, o, 10); err == nil || !strings.Contains(err.Error(), "position 9") {
		t.Errorf("a checkpoint from before: %v", err)
	}
	if left := keys(t, b, ""); left != nil {
		t.Errorf("something is published: %v", left)
	}
	found = state(3, 12) // applied meanwhile
	p, err := o.Publish(t.Context(), state(3, 10), at(12), filepath.Join(t.TempDir(), "x"))
	if err != nil || p.Position() != 12 {
		t.Errorf("published position %d, %v; want what is in the checkpoint", p.Position(), err)
	}
}

func TestPublishRemovesAnOldCheckpoint(t *testing.T) {
	s := openStore(t, buckets["mem"](t)(), Options{})
	dir := filepath.Join(t.TempDir(), "checkpoint")
	if err := os.MkdirAll(filepath.Join(dir, "of", "a", "crash"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := claim(t, s, 3).Publish(t.Context(), state(3, 10), at(10), dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the checkpoint is left: %v", err)
	}
}

func TestClaimFencesTheOldOwner(t *testing.T) {
	eachBucket(t, func(t *testing.T, open func() bucket) {
		old := claim(t, openStore(t, open(), Options{}), 3)
		publish(t, old, 10)
		s := openStore(t, open(), Options{})
		o, err := s.Claim(t.Context(), lineage(3), 41)
		if err != nil {
			t.Fatal(err)
		}
		m := o.Newest()
		if o.Epoch() != 42 || m.Seq != 1 || m.Parent != 0 || m.Position() != 10 || m.Epoch != 42 {
			t.Errorf("claimed epoch %d with %+v", o.Epoch(), m)
		}
		restored(t, s, m)
		_, err = try(t, old, 11)
		var fenced *FencedError
		if !errors.Is(err, aggregator.ErrFenced) || !errors.As(err, &fenced) || fenced.Epoch != 42 || fenced.Own != 1 || fenced.Seq != 1 {
			t.Errorf("the old owner publishes: %v", err)
		}
		if _, err := old.Publish(t.Context(), state(3, 12), never{t}, t.TempDir()); !errors.Is(err, aggregator.ErrFenced) {
			t.Errorf("once fenced it goes on: %v", err)
		}
		if _, err := old.Reap(t.Context(), 1); !errors.Is(err, aggregator.ErrFenced) {
			t.Errorf("once fenced it cleans up: %v", err)
		}
		if p := publish(t, o, 12); p.Seq != 2 {
			t.Errorf("the new owner's snapshot is %d", p.Seq)
		}
	})
}

// Without a snapshot nothing can be claimed: the first publish decides, and
// whoever comes after an earlier epoch goes on.
func TestFirstPublishDecides(t *testing.T) {
	open := buckets["mem"](t)
	one, two := claim(t, openStore(t, open(), Options{}), 3), claim(t, openStore(t, open(), Options{}), 3)
	publish(t, one, 10)
	if _, err := try(t, two, 11); !errors.Is(err, aggregator.ErrFenced) {
		t.Errorf("two owners of one epoch: %v", err)
	}
	later, err := openStore(t, open(), Options{}).Claim(t.Context(), lineage(4), 6)
	if err != nil {
		t.Fatal(err)
	}
	early := claim(t, openStore(t, open(), Options{}), 4)
	publish(t, early, 10)
	if p := publish(t, later, 12); p.Seq != 1 {
		t.Errorf("the later epoch's snapshot is %d", p.Seq)
	}
	if _, err := try(t, early, 13); !errors.Is(err, aggregator.ErrFenced) {
		t.Errorf("the early owner goes on: %v", err)
	}
}

// An owner that slept while its numbers were cleaned up finds them free, and
// is fenced all the same.
func TestSleeperIsFenced(t *testing.T) {
	eachBucket(t, func(t *testing.T, open func() bucket) {
		b := open()
		sleeper := claim(t, openStore(t, open(), Options{}), 3)
		publish(t, sleeper, 10)
		o := claim(t, openStore(t, b, Options{}), 3)
		for position := int64(11); position < 20; position++ {
			publish(t, o, position)
		}
		if _, err := o.Reap(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
		before := keys(t, b, lineage(3).manifests())
		var fenced *FencedError
		if _, err := try(t, sleeper, 11); !errors.As(err, &fenced) || fenced.Seq != o.Newest().Seq || fenced.Epoch != 2 {
			t.Errorf("the sleeper publishes: %v", err)
		}
		if after := keys(t, b, lineage(3).manifests()); !slices.Equal(after, before) {
			t.Errorf("manifests before %v, after %v", before, after)
		}
		publish(t, o, 20)
	})
}

// Partitions that publish at the same time keep no more cores busy than there
// are, so that folding gets its turn.
func TestS02PublishesTakeTurns(t *testing.T) {
	var made, most atomic.Int64
	s := openStore(t, buckets["mem"](t)(), Options{Inspect: func(dir string) (State, error) {
		defer made.Add(-1)
		for n := made.Add(1); ; {
			if was := most.Load(); n <= was || most.CompareAndSwap(was, n) {
				break
			}
		}
		runtime.Gosched()
		partition, err := strconv.Atoi(filepath.Base(dir))
		return state(int32(partition), 10), err
	}})
	home := t.TempDir()
	var all sync.WaitGroup
	for p := range int32(24) {
		o := claim(t, s, p)
		all.Go(func() {
			if _, err := o.Publish(t.Context(), state(p, 10), at(10), filepath.Join(home, strconv.Itoa(int(p)))); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n, limit := most.Load(), int64(max(1, runtime.GOMAXPROCS(0)/2)); n > limit {
		t.Errorf("%d checkpoints at the same time, want at most %d", n, limit)
	}
}

// A publish that waits behind the checkpoints of others, and is not wanted any
// more, gives up, makes no checkpoint, and goes on later; they are not held up.
func TestS02PublishGivesUpItsTurn(t *testing.T) {
	slots := max(1, runtime.GOMAXPROCS(0)/2)
	begun, goOn := make(chan struct{}, slots), make(chan struct{})
	s := openStore(t, buckets["mem"](t)(), Options{Inspect: func(dir string) (State, error) {
		partition, err := strconv.Atoi(filepath.Base(dir))
		if partition < slots {
			begun <- struct{}{}
			<-goOn
		}
		return state(int32(partition), 10), err
	}})
	home := t.TempDir()
	var all sync.WaitGroup
	for p := range slots {
		o := claim(t, s, int32(p))
		all.Go(func() {
			if _, err := o.Publish(t.Context(), state(int32(p), 10), at(10), filepath.Join(home, strconv.Itoa(p))); err != nil {
				t.Error(err)
			}
		})
		<-begun
	}
	late, dir := claim(t, s, int32(slots)), filepath.Join(home, strconv.Itoa(slots))
	ctx, cancel := context.WithCancel(t.Context())
	defer time.AfterFunc(10*time.Millisecond, cancel).Stop()
	if _, err := late.Publish(ctx, state(int32(slots), 10), at(10), dir); !errors.Is(err, context.Canceled) {
		t.Errorf("a publish that waited: %v", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its checkpoint: %v", err)
	}
	close(goOn)
	all.Wait()
	if p, err := late.Publish(t.Context(), state(int32(slots), 10), at(10), dir); err != nil || !p.New {
		t.Errorf("the same later: %+v, %v", p, err)
	}
}

// slowCopy is a copy that takes until it may go on.
type slowCopy struct {
	copies
	begun, may chan struct{}
}

func (c slowCopy) Checkpoint(dir string) error {
	c.begun <- struct{}{}
	<-c.may
	return c.copies.Checkpoint(dir)
}

// A last publish, which has a deadline, does not wait in line behind those of
// partitions that stay, however long these take.
func TestLastPublishGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t, buckets["mem"](t)(), Options{})
		slow := slowCopy{at(10), make(chan struct{}), make(chan struct{})}
		places, stay := cap(s.copies), make(chan error)
		for n := range 2 * places { // as many wait as are at it
			o := claim(t, s, int32(n))
			dir := filepath.Join(t.TempDir(), "checkpoint")
			go func() {
				_, err := o.Publish(t.Context(), state(o.lineage.Partition, 10), slow, dir)
				stay <- err
			}()
		}
		for range places {
			<-slow.begun
		}
		synctest.Wait()
		leaving := int32(2 * places)
		last := claim(t, s, leaving)
		ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
		defer cancel()
		if _, err := last.Publish(ctx, state(leaving, 20), at(20), filepath.Join(t.TempDir(), "last")); err != nil {
			t.Errorf("the last publish: %v", err)
		}
		close(slow.may)
		for range places {
			<-slow.begun
		}
		for range 2 * places {
			if err := <-stay; err != nil {
				t.Error(err)
			}
		}
	})
}
