package snapshot

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tidemark/aggregator"
	"tidemark/query"
	"tidemark/store"
)

const salesQuery = `SELECT userId, sum(revenue) AS revenue, count(*) AS sales, collect_set(product) AS products FROM sales GROUP BY userId`

// states is a real state directory with one partition.
type states struct {
	t       testing.TB
	program *aggregator.Program
	dir     *store.Dir
	p       *store.Partition
}

func salesProgram(t testing.TB) *aggregator.Program {
	t.Helper()
	def, err := query.Parse(salesQuery)
	if err != nil {
		t.Fatal(err)
	}
	program, err := aggregator.Compile(def, aggregator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return program
}

func openStates(t testing.TB, program *aggregator.Program, root string) *states {
	t.Helper()
	dir, err := store.Open(root, store.Options{
		Program: program, Memory: 16 << 20, MinFree: -1,
		Fatal: func(reason string) { t.Errorf("fatal: %s", reason) },
	})
	if err != nil {
		t.Fatal(err)
	}
	s := &states{t: t, program: program, dir: dir}
	t.Cleanup(func() {
		if err := dir.Close(); err != nil {
			t.Error(err)
		}
	})
	p, err := dir.Open(3)
	if errors.Is(err, aggregator.ErrNoState) {
		id := identity(3)
		id.Definition, id.Cut, id.HasHistory = program.Definition(), aggregator.Cut{}, false
		p, err = dir.Create(id, aggregator.Progress{Seeded: true})
	}
	if err != nil {
		t.Fatal(err)
	}
	s.p = p.(*store.Partition)
	return s
}

// sale is the record at an offset, pure.
func sale(offset int64) aggregator.Record {
	rng := rand.New(rand.NewPCG(uint64(offset), 7))
	value := fmt.Sprintf(`{"userId":%d,"revenue":"%d.%02d","product":%d}`, rng.IntN(500), rng.IntN(2000)-500, rng.IntN(100), rng.IntN(40))
	if rng.IntN(50) == 0 {
		value = `{"userId":`
	}
	return aggregator.Record{Offset: offset, Timestamp: 1438000000000 + offset, Value: []byte(value)}
}

// foldTo folds and applies up to an offset.
func (s *states) foldTo(to int64) error {
	decoder, err := s.program.NewDecoder(aggregator.DecodeCut{}, nil)
	if err != nil {
		return err
	}
	was := s.p.Progress()
	delta := s.program.NewDelta(3, 8)
	delta.Reset(was.Position)
	for offset := was.Position; offset < to; offset++ {
		r := sale(offset)
		if _, err := decoder.Fold(delta, 3, &r); err != nil {
			return err
		}
	}
	next := was
	next.Position = to
	next.Counts.Add(delta.Counts)
	return s.p.Apply(context.Background(), delta.Sorted(nil), next)
}

// now is the state as a task knows it.
func (s *states) now() State {
	return State{s.p.Identity(), s.p.Progress(), store.FormatVersion}
}

// totals reads all that is stored.
func (s *states) totals() (position int64, totals string) {
	v, err := s.p.View()
	if err != nil {
		s.t.Fatal(err)
	}
	position, err = v.Position()
	if err != nil {
		s.t.Fatal(err)
	}
	var b strings.Builder
	for key, total := range v.Scan(nil) {
		fmt.Fprintf(&b, "%q %x\n", key, total)
	}
	if err := errors.Join(v.Err(), v.Close()); err != nil {
		s.t.Fatal(err)
	}
	return position, b.String()
}

// inspect opens a checkpoint with the real store.
func inspect(dir string) (State, error) {
	in, err := store.Inspect(dir)
	if err != nil {
		return State{}, err
	}
	p := in.Partitions[0]
	return State{p.Identity, p.Progress, p.Format}, p.Err
}

// Snapshots taken while events are folded each open, and their totals are
// those of a replay to their position; uploads are incremental.
func TestS02PublishWhileFolding(t *testing.T) {
	program := salesProgram(t)
	root := filepath.Join(t.TempDir(), "state")
	live := openStates(t, program, root)
	s := openStore(t, buckets["folder"](t)(), Options{Inspect: inspect, Format: store.FormatVersion})
	l := lineage(3)
	o, err := s.Claim(t.Context(), l, 0)
	if err != nil {
		t.Fatal(err)
	}
	stop, folded := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				folded <- nil
				return
			default:
				if err := live.foldTo(live.p.Progress().Position + 997); err != nil {
					folded <- err
					return
				}
			}
		}
	}()
	var snapshots []Published
	for len(snapshots) < 6 {
		p, err := o.Publish(t.Context(), live.now(), live.p, root+".checkpoint")
		if err != nil {
			t.Error(err)
			break
		}
		if p.New {
			snapshots = append(snapshots, p)
		}
	}
	close(stop)
	if err := <-folded; err != nil {
		t.Fatal(err)
	}
	replay := openStates(t, program, filepath.Join(t.TempDir(), "replay"))
	for i, p := range snapshots {
		if i > 0 && p.Uploaded >= p.Bytes() {
			t.Errorf("snapshot %d: all %d bytes were uploaded", p.Seq, p.Bytes())
		}
		if err := replay.foldTo(p.Position()); err != nil {
			t.Fatal(err)
		}
		home := t.TempDir()
		dir := filepath.Join(home, "partitions", "3")
		if err := s.Restore(t.Context(), p.Manifest, dir, RestoreOptions{Reuse: []string{filepath.Join(root, "partitions", "3")}}); err != nil {
			t.Fatal(err)
		}
		copied := openStates(t, program, home)
		wantAt, want := replay.totals()
		if at, got := copied.totals(); at != wantAt || at != p.Position() || got != want {
			t.Errorf("snapshot %d: position %d, replayed to %d; totals are equal: %v", p.Seq, at, wantAt, got == want)
		}
		if copied.p.Progress().Counts != replay.p.Progress().Counts {
			t.Errorf("snapshot %d: counts %v, replayed %v", p.Seq, copied.p.Progress().Counts, replay.p.Progress().Counts)
		}
		// It is a state of its own: what it goes on with is not in the one that
		// it was linked from.
		if err := copied.foldTo(p.Position() + 100); err != nil {
			t.Fatal(err)
		}
		if err := copied.p.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if at, _ := live.totals(); at != live.p.Progress().Position {
		t.Errorf("the live state is at %d, it was at %d", at, live.p.Progress().Position)
	}
}

// A partition goes from member to member, each with a directory of its own:
// file numbers of two lines of one Pebble clash, sums do not.
func TestHandOvers(t *testing.T) {
	program := salesProgram(t)
	b := buckets["folder"](t)()
	replay := openStates(t, program, filepath.Join(t.TempDir(), "replay"))
	var position int64
	for member := range 5 {
		s := openStore(t, b, Options{Inspect: inspect, Format: store.FormatVersion})
		o, err := s.Claim(t.Context(), lineage(3), 0)
		if err != nil {
			t.Fatal(err)
		}
		home := t.TempDir()
		if m := o.Newest(); m != nil {
			m, err := s.RestoreNewest(t.Context(), lineage(3), filepath.Join(home, "partitions", "3"), nil, RestoreOptions{})
			if err != nil || m.Position() != position {
				t.Fatalf("member %d: restored %+v, %v; want position %d", member, m, err, position)
			}
		}
		st := openStates(t, program, home)
		for range 3 {
			position += 1500
			if err := st.foldTo(position); err != nil {
				t.Fatal(err)
			}
			p, err := o.Publish(t.Context(), st.now(), st.p, filepath.Join(home, "checkpoint"))
			if err != nil || p.Position() != position {
				t.Fatalf("member %d: published %+v, %v", member, p, err)
			}
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
		// What it folds after its last publish is lost with it, and folded by
		// the next one.
		if err := st.foldTo(position + 200); err != nil {
			t.Fatal(err)
		}
		if err := st.dir.Close(); err != nil {
			t.Fatal(err)
		}
	}
	late := openStore(t, b, Options{Clock: func() time.Time { return time.Now().Add(2 * time.Hour) }})
	if _, err := late.Reap(t.Context(), lineage(3), 2); err != nil {
		t.Fatal(err)
	}
	orphans(t, b, late, 2)
}
