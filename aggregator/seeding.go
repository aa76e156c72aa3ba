package aggregator

import (
	"context"
	"fmt"
	"sync"
)

// seeding gathers the partitions that want their share of the history, so that
// one pass over it serves them all. A pass begins when every task that is
// opening has decided whether it wants any.
type seeding struct {
	seeder Seeder

	mu      sync.Mutex
	change  sync.Cond
	open    int // tasks that have not decided yet
	running bool
	waiting map[int32]*seedJob
}

// seedJob is one partition's wish.
type seedJob struct {
	ctx      context.Context
	identity Identity
	store    SeedStore
	done     bool
	seed     Seed
	err      error
}

func newSeeding(s Seeder) *seeding {
	g := &seeding{seeder: s, waiting: map[int32]*seedJob{}}
	g.change.L = &g.mu
	return g
}

// opening counts a task that may want a seed; the function returned says that
// it has decided, and may be called more than once.
func (g *seeding) opening() (decided func()) {
	g.mu.Lock()
	g.open++
	g.mu.Unlock()
	return sync.OnceFunc(func() {
		g.mu.Lock()
		g.open--
		g.change.Broadcast()
		g.mu.Unlock()
	})
}

// seed fills t's store, in a pass shared with others. It returns when the pass
// is over; the store is not written to afterwards. A pass ends with an error
// when one of its tasks is told to end: the others ask again.
func (g *seeding) seed(ctx context.Context, t *task, store SeedStore, decided func()) (Seed, error) {
	t.mu.Lock()
	job := &seedJob{ctx: ctx, identity: t.identity, store: store}
	t.mu.Unlock()
	wake := context.AfterFunc(ctx, func() {
		g.mu.Lock()
		g.change.Broadcast()
		g.mu.Unlock()
	})
	defer wake()

	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting[t.partition] = job
	g.mu.Unlock()
	decided()
	g.mu.Lock()
	for !job.done {
		queued := g.waiting[t.partition] == job
		switch {
		case queued && ctx.Err() != nil:
			delete(g.waiting, t.partition)
			return Seed{}, ctx.Err()
		case queued && !g.running && g.open == 0:
			g.pass()
		default:
			g.change.Wait()
		}
	}
	return job.seed, job.err
}

// pass runs the seeder over all that wait and are spread alike. The caller holds mu, which is let go meanwhile.
func (g *seeding) pass() {
	g.running = true
	jobs := map[int32]*seedJob{}
	stores := map[int32]SeedStore{}
	var spread spread
	for p, job := range g.waiting {
		of := spreadOf(job.identity)
		if len(jobs) > 0 && of != spread {
			continue // in a pass of its own
		}
		spread = of
		jobs[p], stores[p] = job, job.store
		delete(g.waiting, p)
	}
	g.mu.Unlock()
	seeds, err := g.run(spread, jobs, stores)
	g.mu.Lock()
	for p, job := range jobs {
		job.done, job.err, job.seed = true, err, seeds[p]
	}
	g.running = false
	g.change.Broadcast()
}

// spread is how the history lies over partitions.
type spread struct {
	topic       Topic
	partitioner string
}

func spreadOf(id Identity) spread {
	return spread{Topic{id.Topic, id.TopicID, id.SeedPartitions}, id.Cut.Partitioner}
}

// run is one pass; it ends early when one of the jobs is told to end.
func (g *seeding) run(s spread, jobs map[int32]*seedJob, stores map[int32]SeedStore) (map[int32]Seed, error) {
	var any *seedJob
	for _, any = range jobs {
		break
	}
	ctx, cancel := context.WithCancel(any.ctx)
	defer cancel()
	for _, job := range jobs {
		defer context.AfterFunc(job.ctx, cancel)()
	}
	seeds, err := g.seeder.Seed(ctx, s.topic, s.partitioner, stores)
	if err != nil {
		return nil, fmt.Errorf("load the history: %w", err)
	}
	return seeds, nil
}
