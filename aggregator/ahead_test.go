package aggregator

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// memOutside is the group as one who is no member sees it.
type memOutside struct {
	*memGroup
	members bool
}

func (o *memOutside) Committed(ctx context.Context) (map[int32]Commit, error) {
	return (&memCommits{memGroup: o.memGroup}).Committed(ctx)
}

func (o *memOutside) CommitAll(_ context.Context, commits map[int32]Commit) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.members {
		return ErrFenced
	}
	for p, c := range commits {
		o.commits[p] = c
	}
	return nil
}

// ahead is a load of the rig's history by a command.
func (r *rig) ahead() *Ahead {
	return &Ahead{
		Definition: r.program.Definition(), Topic: r.log.topic, Seeder: r.seeder, Snapshots: r.snapshots,
		Seeds: NewSeeds(r.seeder, r.snapshots, func() (Workspace, error) { return memWorkspace{newMemStates(r.program)}, nil }),
		Group: &memOutside{memGroup: r.commits.memGroup},
	}
}

// untold is for those who need no telling.
var untold = Telling{Waits: func(string) {}, Reads: func(SeedProgress) {}}

// withHistory gives the rig the documents of n users, with one sale of 0.50 each.
func (r *rig) withHistory(n int) {
	r.seeder.latest, r.seeder.history = true, []string{}
	for user := range n {
		r.seeder.history = append(r.seeder.history, fmt.Sprintf(`{"userId":%d,"sales":1,"revenue":0.50}`, user))
	}
}

// sales are those of all users over the partitions, which must be caught up.
func (r *rig) sales(users int) (n int) {
	for user := range users {
		for _, s := range r.p.Status() {
			row := r.row(s.Partition, fmt.Sprint(user))
			for k := 1; k < 10; k++ {
				if strings.Contains(row, fmt.Sprintf(`"sales":%d,`, k)) {
					n += k
				}
			}
		}
	}
	return n
}

// TestLoadAhead: what a command has loaded is what serving begins with, the
// history is not read again, and the totals are as if serving had loaded it.
func TestLoadAhead(t *testing.T) {
	r := newRig(t, 3)
	r.withHistory(30)
	r.log.produce(0, sale(1, "1000")) // in the history already
	var told []string
	done, err := r.ahead().Load(t.Context(), Telling{
		Waits: func(reason string) { told = append(told, reason) },
		Reads: func(p SeedProgress) { told = append(told, p.String()) },
	})
	if err != nil {
		t.Fatal(err)
	}
	documents := int64(0)
	for p := range int32(3) {
		documents += done.Seeds[p].Documents
		if s := done.First[p]; s.Seq != 0 || s.Progress.Position != int64(len(r.log.parts[p].records)) || !s.Progress.Seeded {
			t.Errorf("partition %d: snapshot %+v", p, s)
		}
		if c := r.commits.commits[p]; !strings.Contains(c.Metadata, `"snapshot":{"seq":0`) {
			t.Errorf("partition %d: the group's commit is %+v", p, c)
		}
	}
	if documents != 30 || done.Kept != nil {
		t.Errorf("loaded %+v", done)
	}
	if text := strings.Join(told, "\n"); !strings.Contains(text, "1 documents, 1 a second, 25 %, about 3s left") || !strings.Contains(text, "3 of 3 partitions are left") {
		t.Errorf("it tells\n%s", text)
	}
	r.seeder.seed = func(context.Context) error { return errors.New("it is read again") }
	for p := range int32(3) {
		r.log.produce(p, sale(1, "0.25"))
	}
	r.start(0, 1, 2)
	for p := range int32(3) {
		r.caughtUp(p)
	}
	if n := r.sales(30); n != 33 {
		t.Errorf("%d sales, want 30 of the history and 3 of the log", n)
	}
	r.stop()
	// A second load finds them, and names them.
	_, err = r.ahead().Load(t.Context(), untold)
	if !errors.Is(err, ErrPublished) || !strings.Contains(err.Error(), "partitions 0 to 2") {
		t.Errorf("a second load: %v", err)
	}
}

// TestB12LoadAheadInterrupted: a load that ends anywhere is followed by one that
// keeps its cuts and what it had published, and the totals are exact.
func TestB12LoadAheadInterrupted(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint("seed", seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 3))
			partitions := int32(1 + rnd.IntN(5))
			r := newRig(t, partitions)
			r.withHistory(30)
			for p := range partitions {
				r.log.produce(p, make([]string, rnd.IntN(4))...) // before the cut
			}
			produced := 0
			kept := 0
			for range 1 + rnd.IntN(3) {
				takes := rnd.IntN(int(partitions) - len(r.snapshots.lines)) // fewer than are left
				ctx, cancel := context.WithCancel(t.Context())
				r.snapshots.edit(func() { r.snapshots.takes = &takes })
				if rnd.IntN(3) == 0 {
					r.seeder.seed = func(context.Context) error { cancel(); return ctx.Err() }
				}
				_, err := r.ahead().Load(ctx, Telling{Reads: untold.Reads, Waits: func(reason string) {
					if strings.Contains(reason, "the store is full") {
						cancel()
					}
				}})
				cancel()
				if err == nil {
					t.Fatal("it was not interrupted")
				}
				r.seeder.seed = nil
				kept = len(r.snapshots.lines)
				if _, ok := r.snapshots.newest(0); ok {
					t.Fatal("the first partition is published before the end")
				}
				for p := range partitions { // after the cut, which stands
					r.log.produce(p, sale(rnd.IntN(30), "0.25"))
					produced++
				}
			}
			r.snapshots.edit(func() { r.snapshots.takes = nil })
			if rnd.IntN(2) == 0 { // else serving ends what was begun
				done, err := r.ahead().Load(t.Context(), untold)
				if err != nil {
					t.Fatal(err)
				}
				if len(done.Kept) != kept || len(done.First) != int(partitions) {
					t.Errorf("kept %v of %d, and %d are there", done.Kept, kept, len(done.First))
				}
			}
			r.start(allOf(partitions)...)
			for p := range partitions {
				r.caughtUp(p)
			}
			if n := r.sales(30); n != 30+produced {
				t.Errorf("%d sales, want 30 of the history and %d of the log", n, produced)
			}
		})
	}
}

func allOf(partitions int32) (all []int32) {
	for p := range partitions {
		all = append(all, p)
	}
	return all
}

// TestB12LoadAheadUntold: all is published, and the group was not told of it:
// the next load ends it, and reads nothing.
func TestB12LoadAheadUntold(t *testing.T) {
	r := newRig(t, 2)
	r.withHistory(10)
	if _, err := r.ahead().Load(t.Context(), untold); err != nil {
		t.Fatal(err)
	}
	told := r.commits.commits[0]
	for p, s := range r.snapshots.lines {
		r.commits.commits[p] = commitOf(s[0].Identity, nil)
	}
	r.seeder.seed = func(context.Context) error { return ErrHopeless }
	done, err := r.ahead().Load(t.Context(), untold)
	if err != nil || len(done.Kept) != 2 || len(done.Seeds) != 0 || r.commits.commits[0] != told {
		t.Errorf("%+v, %v, commits %v", done, err, r.commits.commits)
	}
	if _, err := r.ahead().Load(t.Context(), untold); !errors.Is(err, ErrPublished) {
		t.Errorf("a third load: %v", err)
	}
}

// TestLoadAheadRefuses: it writes nothing where it is not the first.
func TestLoadAheadRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(r *rig, a *Ahead)
		want string
	}{
		"members":           {func(_ *rig, a *Ahead) { a.Group.(*memOutside).members = true }, "fenced"},
		"offsets of others": {func(r *rig, _ *Ahead) { r.commits.commits[1] = Commit{Offset: 7} }, "partition 1: the group has committed offset 7, which Tidemark did not write"},
		"states":            {func(_ *rig, a *Ahead) { a.Local = []int32{0, 2, 3, 4} }, "there are states already here, of partitions 0, 2 to 4"},
		"a lost snapshot": {func(r *rig, _ *Ahead) {
			r.commits.commits[0] = commitOf(Identity{Partitions: 2, SeedPartitions: 2, Cut: Cut{Mode: CutLatest}}, &Snapshot{Seq: 4})
		}, "names snapshot 4"},
		"another cut": {func(r *rig, _ *Ahead) {
			r.commits.commits[0] = commitOf(Identity{Partitions: 2, SeedPartitions: 2, Cut: Cut{Mode: CutEarliest}}, nil)
		}, "the group began with history.cut.mode earliest"},
		"a snapshot without a history": {func(r *rig, _ *Ahead) {
			r.snapshots.lines[1] = []memSnapshot{{Snapshot: Snapshot{Identity: Identity{Partition: 1, Partitions: 2, SeedPartitions: 2}}}}
		}, "there are snapshots already of partition 1 of topic sales"},
		"no answer of the store":  {func(r *rig, _ *Ahead) { r.snapshots.away = errors.New("no route to the store") }, "no route to the store"},
		"no space":                {func(r *rig, _ *Ahead) { r.seeder.seed = func(context.Context) error { return ErrNoSpace } }, ErrNoSpace.Error()},
		"a history that is wrong": {func(r *rig, _ *Ahead) { r.seeder.seed = func(context.Context) error { return ErrHopeless } }, ErrHopeless.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 2)
			r.withHistory(10)
			a := r.ahead()
			c.set(r, a)
			before := len(r.snapshots.lines)
			_, err := a.Load(t.Context(), untold)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if len(r.snapshots.lines) != before {
				t.Errorf("it has published: %v", r.snapshots.lines)
			}
		})
	}
}

// TestLoadAheadReadsAgain: a history that was lost on the way is read again.
func TestLoadAheadReadsAgain(t *testing.T) {
	r := newRig(t, 2)
	r.withHistory(10)
	lost := 1
	r.seeder.seed = func(context.Context) error {
		if lost--; lost >= 0 {
			return errors.New("the snapshot was lost")
		}
		return nil
	}
	var told []string
	done, err := r.ahead().Load(t.Context(), Telling{Reads: untold.Reads, Waits: func(reason string) { told = append(told, reason) }})
	if err != nil || len(done.First) != 2 || !slices.ContainsFunc(told, func(s string) bool { return strings.Contains(s, "the snapshot was lost") }) {
		t.Errorf("%+v, %v, told %v", done, err, told)
	}
}

// TestB12ReadingIsShown: the owner of the first partition shows how far it is,
// and goes on once it is loaded.
func TestB12ReadingIsShown(t *testing.T) {
	r := newRig(t, 2)
	r.withHistory(10)
	let := make(chan struct{})
	r.seeder.seed = func(ctx context.Context) error {
		select {
		case <-let:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	r.start(0, 1)
	r.until(0, "reading", func(s PartitionStatus) bool {
		return s.State == Bootstrapping && s.Reason == "the history is being read: 1 documents, 1 a second, 25 %, about 3s left"
	})
	close(let)
	for p := range int32(2) {
		r.caughtUp(p)
		if s := r.p.Status()[p]; s.Reason != "" {
			t.Errorf("partition %d is live, because of %q", p, s.Reason)
		}
	}
}
