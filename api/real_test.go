package api

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tidemark/aggregator"
	"tidemark/query"
	"tidemark/store"
)

// real is a server over the real processor and the real store, with what is
// beside them made up: it is for measuring.
type real struct {
	server *Server
	stop   func()
}

// realUsers are states of users, spread over partitions, each of whom has had
// some events, on disk; open serves them.
type realStates struct {
	tb         testing.TB
	dir        string
	program    *aggregator.Program
	partitions int32
	users      int
	positions  []int64
}

// newRealStates folds each times the users' number of events into states.
func newRealStates(tb testing.TB, users int, each int, partitions int32) *realStates {
	def, err := query.Parse(salesQuery)
	if err != nil {
		tb.Fatal(err)
	}
	program, err := aggregator.Compile(def, aggregator.Options{SetLimit: 10_000})
	if err != nil {
		tb.Fatal(err)
	}
	s := &realStates{tb: tb, dir: tb.TempDir(), program: program, partitions: partitions, users: users, positions: make([]int64, partitions)}
	states := s.openDir()
	placed := make([][]int, partitions)
	for u := range users {
		p := placedAt(strconv.Itoa(u), partitions)
		placed[p] = append(placed[p], u)
	}
	for p := range partitions {
		st, err := states.Create(s.identity(p), aggregator.Progress{Seeded: true, Placement: 1<<aggregator.NumPartitioners - 1})
		if err != nil {
			tb.Fatal(err)
		}
		progress := st.Progress()
		for round := range each {
			delta := s.fold(p, placed[p], progress.Position, uint64(round))
			progress.Position = delta.Next
			progress.Counts.Add(delta.Counts)
			progress.Placement &= delta.Placement
			if err := st.Apply(tb.Context(), delta.Sorted(nil), progress); err != nil {
				tb.Fatal(err)
			}
		}
		s.positions[p] = progress.Position
		if err := st.Close(); err != nil {
			tb.Fatal(err)
		}
	}
	if err := states.Close(); err != nil {
		tb.Fatal(err)
	}
	return s
}

func (s *realStates) identity(p int32) aggregator.Identity {
	return aggregator.Identity{
		Topic: "sales", Partition: p, Partitions: s.partitions, SeedPartitions: s.partitions,
		Definition: s.program.Definition(), Cut: aggregator.Cut{Mode: aggregator.CutEarliest},
	}
}

func (s *realStates) openDir() *store.Dir {
	s.tb.Helper()
	states, err := store.Open(s.dir, store.Options{Program: s.program, Fatal: func(reason string) { panic(reason) }})
	if err != nil {
		s.tb.Fatal(err)
	}
	return states
}

// fold folds one event of each of the users.
func (s *realStates) fold(p int32, users []int, first int64, seed uint64) *aggregator.Delta {
	decoder, err := s.program.NewDecoder(aggregator.DecodeCut{}, nil)
	if err != nil {
		s.tb.Fatal(err)
	}
	delta := s.program.NewDelta(p, s.partitions)
	delta.Reset(first)
	rnd := rand.New(rand.NewPCG(seed, uint64(p)))
	for i, u := range users {
		record := realRecord(rnd, u, first+int64(i))
		if _, err := decoder.Fold(delta, p, &record); err != nil {
			s.tb.Fatal(err)
		}
	}
	return delta
}

func realRecord(rnd *rand.Rand, user int, offset int64) aggregator.Record {
	cents := rnd.IntN(50_000)
	return aggregator.Record{Offset: offset, Timestamp: 1_438_161_432_000 + offset, Value: fmt.Appendf(nil,
		`{"userId":%d,"saleTimestamp":"2015-07-29T09:17:%02dZ","totalRevenue":%d.%02d,"totalPoints":%d,"productList":[%d,%d]}`,
		user, rnd.IntN(60), cents/100, cents%100, rnd.IntN(300), rnd.IntN(2000), rnd.IntN(2000))}
}

// open serves the states, with pending events for each partition that are
// folded and not applied, and waits until they are.
func (s *realStates) open(pending int) *real {
	s.tb.Helper()
	states := s.openDir()
	log := &stillLog{states: s, batches: make([]*aggregator.Batch, s.partitions)}
	for p := range s.partitions {
		b := &aggregator.Batch{First: s.positions[p], Next: s.positions[p] + int64(pending)}
		b.End = b.Next
		rnd := rand.New(rand.NewPCG(99, uint64(p)))
		for offset := b.First; offset < b.Next; {
			if u := rnd.IntN(s.users); placedAt(strconv.Itoa(u), s.partitions) == p {
				b.Records = append(b.Records, realRecord(rnd, u, offset))
				offset++
			}
		}
		log.batches[p] = b
	}
	processor := aggregator.NewProcessor(aggregator.Parts{
		Program: s.program, Log: log, States: states, Seeder: noHistory{}, Snapshots: noSnapshots{}, Commits: noCommits{},
		Logger: slog.New(slog.DiscardHandler),
	}, aggregator.Tuning{
		Topic: "sales", ApplyRecords: 1 << 30, ApplyInterval: time.Hour, FlushInterval: time.Hour, SnapshotInterval: time.Hour, Keep: 1,
	})
	ctx, cancel := context.WithCancel(s.tb.Context())
	ended := make(chan error, 1)
	go func() { ended <- processor.Run(ctx) }()
	group := &fakeGroup{}
	view := View{Group: "tidemark-sales", Member: "one", Generation: 3, Assigned: true, Partitions: s.partitions}
	for p := range s.partitions {
		processor.Assign(p)
		view.Own = append(view.Own, p)
	}
	view.Members = []Member{{ID: "one", Address: "http://127.0.0.1:1", Partitions: view.Own}}
	group.set(func(v *View) { *v = view })
	server, err := New(s.program, processor, group, Options{Metrics: NewMetrics(prometheus.NewRegistry(), "", "")})
	if err != nil {
		s.tb.Fatal(err)
	}
	for p := range s.partitions {
		for {
			changed := processor.Changed(p)
			r, err := processor.Get(ctx, p, []byte("0"))
			if err == nil && r.Answers && r.Position == log.batches[p].Next {
				break
			}
			select {
			case <-changed:
			case <-time.After(10 * time.Millisecond): // it is not open yet
			}
		}
	}
	return &real{server, func() {
		server.Close()
		cancel()
		if err := <-ended; err != nil {
			s.tb.Error(err)
		}
		if err := states.Close(); err != nil {
			s.tb.Error(err)
		}
	}}
}

// stillLog has one batch for each partition, and then nothing.
type stillLog struct {
	states  *realStates
	batches []*aggregator.Batch
}

func (l *stillLog) Topic(context.Context) (aggregator.Topic, error) {
	return aggregator.Topic{Name: "sales", Partitions: l.states.partitions}, nil
}

func (l *stillLog) Bounds(_ context.Context, p int32) (start, end int64, err error) {
	return 0, l.batches[p].End, nil
}

func (l *stillLog) Open(p int32, offset int64) aggregator.Feed {
	if offset < l.batches[p].Next {
		return &stillFeed{l.batches[p]}
	}
	return &stillFeed{}
}

type stillFeed struct{ batch *aggregator.Batch }

func (f *stillFeed) Next(ctx context.Context) (*aggregator.Batch, error) {
	if b := f.batch; b != nil {
		f.batch = nil
		return b, nil
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

func (f *stillFeed) Close() {}

// What is beside a processor, without anything in it.
type (
	noHistory   struct{}
	noSnapshots struct{}
	noCommits   struct{}
	noPublisher struct{ epoch int64 }
)

func (noHistory) HasHistory() bool { return false }

func (noHistory) Configured(int32) aggregator.Cut {
	return aggregator.Cut{Mode: aggregator.CutEarliest, Start: -1}
}

func (noHistory) Cut(context.Context, aggregator.Topic, int32, bool) (aggregator.Cut, error) {
	return aggregator.Cut{Mode: aggregator.CutEarliest}, nil
}

func (noHistory) Seed(context.Context, aggregator.Topic, string, map[int32]aggregator.SeedStore, func(aggregator.SeedProgress)) (map[int32]aggregator.Seed, error) {
	return nil, aggregator.ErrHopeless
}

func (noSnapshots) Newest(context.Context, aggregator.Topic, int32) (aggregator.Snapshot, error) {
	return aggregator.Snapshot{}, aggregator.ErrNoSnapshot
}

func (noSnapshots) Claim(_ context.Context, _ aggregator.Topic, _ int32, after int64) (aggregator.Publisher, error) {
	return noPublisher{after + 1}, nil
}

func (noSnapshots) Restore(context.Context, aggregator.Topic, int32, int64, func(have, need int64)) (aggregator.Snapshot, error) {
	return aggregator.Snapshot{}, aggregator.ErrNoSnapshot
}

func (p noPublisher) Epoch() int64 { return p.epoch }

func (noPublisher) Newest() (aggregator.Snapshot, bool) { return aggregator.Snapshot{}, false }

func (noPublisher) Publish(_ context.Context, s aggregator.Store) (aggregator.Snapshot, error) {
	return aggregator.Snapshot{Identity: s.Identity(), Progress: s.Progress()}, nil
}

func (noPublisher) Reap(context.Context, int) error { return nil }

func (noCommits) Committed(context.Context) (map[int32]aggregator.Commit, error) { return nil, nil }

func (noCommits) Commit(context.Context, int32, aggregator.Commit) error { return nil }
