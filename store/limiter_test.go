package store_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"tidemark/aggregator"
	"tidemark/store"
)

// Over several partitions that are written at once, never more compactions run
// than allowed, all debt is worked off, and the totals are right.
func TestCompactionsAreLimitedOverAllPartitions(t *testing.T) {
	for _, limit := range []int{1, 2} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			var running, most, ended atomic.Int64
			o := options(t).WithFS(vfs.NewMem()).WithTune(func(o *pebble.Options) {
				o.MemTableSize = 64 << 10
				o.L0CompactionThreshold = 1
				o.LBaseMaxBytes = 64 << 10
				o.DisableTableStats = true
				o.AddEventListener(pebble.EventListener{
					CompactionBegin: func(pebble.CompactionInfo) {
						n := running.Add(1)
						for seen := most.Load(); n > seen && !most.CompareAndSwap(seen, n); {
							seen = most.Load()
						}
					},
					CompactionEnd: func(pebble.CompactionInfo) {
						running.Add(-1)
						ended.Add(1)
					},
				})
			})
			o.Compactions = limit
			d := openDir(t, "state", o)
			const partitions = 4
			want := make([]map[string]sum, partitions)
			var writing sync.WaitGroup
			for n := range partitions {
				p := created(t, d, int32(n))
				want[n] = make(map[string]sum)
				rng := rand.New(rand.NewPCG(uint64(n), 5))
				writing.Go(func() {
					for i := range int64(15) {
						deltas := make(map[string]sum)
						for range 300 {
							key := fmt.Sprintf("key%d", rng.IntN(1000))
							s := deltas[key]
							deltas[key] = sum{s.sum + 1, s.count + 1}
						}
						if err := p.Apply(t.Context(), sortedSums(deltas), aggregator.Progress{Seeded: true, Position: i + 1}); err != nil {
							t.Error(err)
							return
						}
						for key, s := range deltas {
							was := want[n][key]
							want[n][key] = sum{was.sum + s.sum, was.count + s.count}
						}
						if err := p.Flush(); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			writing.Wait()
			for n := range int32(partitions) {
				p := d.Partition(n)
				// A manual compaction goes through the limit as well, and waits
				// until its turn has come.
				if err := p.Compact(t.Context()); err != nil {
					t.Fatal(err)
				}
				if got, _ := contents(t, p); !maps.Equal(got, want[n]) {
					t.Errorf("partition %d: totals differ", n)
				}
			}
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			if most.Load() > int64(limit) || most.Load() == 0 || ended.Load() < partitions {
				t.Errorf("%d compactions, up to %d at once, want at most %d", ended.Load(), most.Load(), limit)
			}
		})
	}
}

// fakeDB is a database that has some compactions to do. Like Pebble it holds
// its lock while it asks, and notes before it lets go that it waits.
type fakeDB struct {
	t         *testing.T
	scheduler pebble.CompactionScheduler
	start     func(db *fakeDB, grant pebble.CompactionGrantHandle)

	mu      sync.Mutex
	waiting bool
	left    int
	need    pebble.WaitingCompaction
	closed  bool
}

func (db *fakeDB) want(n int) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.left += n
	for db.left > 0 && !db.waiting {
		ok, grant := db.scheduler.TrySchedule()
		if !ok {
			db.waiting = true
			return
		}
		db.left--
		db.start(db, grant)
	}
}

func (db *fakeDB) GetAllowedWithoutPermission() int { return 1 }

func (db *fakeDB) GetWaitingCompaction() (bool, pebble.WaitingCompaction) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		db.t.Error("called after Unregister")
	}
	if db.left == 0 {
		db.waiting = false
	}
	return db.waiting, db.need
}

func (db *fakeDB) Schedule(grant pebble.CompactionGrantHandle) bool {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		db.t.Error("called after Unregister")
	}
	if !db.waiting || db.left == 0 {
		db.waiting = false
		return false
	}
	db.left--
	db.start(db, grant)
	return true
}

// Any number of databases that want compactions at any time get all of them,
// never more at once than allowed, and none is called once it is closed.
func TestLimiterForgetsNobody(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 8))
		limit := 1 + rng.IntN(3)
		l := store.NewLimiter(limit)
		var running, done atomic.Int64
		var work sync.WaitGroup
		start := func(db *fakeDB, grant pebble.CompactionGrantHandle) {
			if n := running.Add(1); n > int64(limit) {
				t.Errorf("seed %d: %d at once of %d", seed, n, limit)
			}
			work.Go(func() {
				running.Add(-1)
				grant.Done()
				done.Add(1)
				db.want(0)
			})
		}
		dbs := make([]*fakeDB, 1+rng.IntN(5))
		for i := range dbs {
			db := &fakeDB{t: t, start: start}
			db.need = pebble.WaitingCompaction{Optional: rng.IntN(2) == 0, Priority: rng.IntN(3), Score: rng.Float64()}
			db.scheduler = l.Seat(db)
			dbs[i] = db
		}
		total := 0
		var wanting sync.WaitGroup
		for range 4 {
			n := 1 + rng.IntN(200)
			db := dbs[rng.IntN(len(dbs))]
			total += n
			wanting.Go(func() {
				for range n {
					db.want(1)
				}
			})
		}
		wanting.Wait()
		work.Wait()
		if done.Load() != int64(total) {
			t.Errorf("seed %d: %d of %d compactions ran", seed, done.Load(), total)
		}
		for _, db := range dbs {
			db.scheduler.Unregister()
			db.mu.Lock()
			db.closed = true
			db.mu.Unlock()
		}
	}
}

// The free slot goes to the database that needs it most: what is not optional
// first, then by priority, then by score.
func TestLimiterPrefersTheNeediest(t *testing.T) {
	l := store.NewLimiter(1)
	var order []pebble.WaitingCompaction
	var grants []pebble.CompactionGrantHandle
	start := func(db *fakeDB, grant pebble.CompactionGrantHandle) {
		order = append(order, db.need)
		grants = append(grants, grant)
	}
	needs := []pebble.WaitingCompaction{
		{Optional: false, Priority: 0, Score: 0}, // runs at once
		{Optional: true, Priority: 90, Score: 9},
		{Optional: false, Priority: 80, Score: 2},
		{Optional: false, Priority: 80, Score: 3},
		{Optional: false, Priority: 90, Score: 1},
	}
	for _, need := range needs {
		db := &fakeDB{t: t, start: start, need: need}
		db.scheduler = l.Seat(db)
		db.want(1)
	}
	for i := 0; i < len(grants); i++ {
		grants[i].Done()
	}
	want := []pebble.WaitingCompaction{needs[0], needs[4], needs[3], needs[2], needs[1]}
	for i := range want {
		if i >= len(order) || order[i] != want[i] {
			t.Fatalf("order %v, want %v", order, want)
		}
	}
}
