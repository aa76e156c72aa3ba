package aggregator

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"tidemark/event"
)

// fakeLog is a topic in memory.
type fakeLog struct {
	mu      sync.Mutex
	topic   Topic
	missing bool
	parts   map[int32]*fakePartition
	change  chan struct{}
	batches func(n int) int // how many of n waiting records the next batch gets
	opened  []int64         // the offsets that reading began at
}

type fakePartition struct {
	start   int64
	records []Record // offsets rise; holes are allowed
	next    int64
}

func newFakeLog(name string, partitions int32) *fakeLog {
	l := &fakeLog{topic: Topic{name, "id-1", partitions}, parts: map[int32]*fakePartition{}, change: make(chan struct{})}
	for p := range partitions {
		l.parts[p] = &fakePartition{}
	}
	return l
}

// edit changes the log under its lock and wakes feeds.
func (l *fakeLog) edit(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
	close(l.change)
	l.change = make(chan struct{})
}

func (l *fakeLog) produce(partition int32, values ...string) {
	l.edit(func() {
		p := l.parts[partition]
		for _, v := range values {
			r := Record{Offset: p.next, Timestamp: 1_438_160_000_000 + p.next, Value: []byte(v)}
			if v == "" {
				r.Value = nil
			}
			p.records = append(p.records, r)
			p.next++
		}
	})
}

// trim is retention: it removes all before offset.
func (l *fakeLog) trim(partition int32, offset int64) {
	l.edit(func() {
		p := l.parts[partition]
		p.start = offset
		p.records = slices.DeleteFunc(p.records, func(r Record) bool { return r.Offset < offset })
		p.next = max(p.next, offset)
	})
}

func (l *fakeLog) Topic(context.Context) (Topic, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.missing {
		return Topic{}, fmt.Errorf("topic %s: %w", l.topic.Name, ErrNoTopic)
	}
	return l.topic, nil
}

func (l *fakeLog) Bounds(_ context.Context, partition int32) (start, end int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.missing {
		return 0, 0, ErrNoTopic
	}
	p := l.parts[partition]
	return p.start, p.next, nil
}

func (l *fakeLog) Open(partition int32, offset int64) Feed {
	l.mu.Lock()
	l.opened = append(l.opened, offset)
	l.mu.Unlock()
	return &fakeFeed{l, partition, offset}
}

type fakeFeed struct {
	l         *fakeLog
	partition int32
	next      int64
}

func (f *fakeFeed) Close() {}

func (f *fakeFeed) Next(ctx context.Context) (*Batch, error) {
	for {
		f.l.mu.Lock()
		p, change := f.l.parts[f.partition], f.l.change
		switch {
		case f.l.missing:
			f.l.mu.Unlock()
			return nil, ErrNoTopic
		case f.next < p.start || f.next > p.next:
			f.l.mu.Unlock()
			return nil, fmt.Errorf("offset %d: %w", f.next, ErrOutOfRange)
		case f.next < p.next:
			i, _ := slices.BinarySearchFunc(p.records, f.next, func(r Record, o int64) int { return int(r.Offset - o) })
			rest := p.records[i:]
			n := len(rest)
			if f.l.batches != nil && n > 0 {
				n = f.l.batches(n)
			}
			b := &Batch{First: f.next, Next: p.next, Records: slices.Clone(rest[:n]), End: p.next, LogStart: p.start}
			if n < len(rest) {
				b.Next = rest[n].Offset
			}
			f.next = b.Next
			f.l.mu.Unlock()
			return b, nil
		}
		f.l.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-change:
		}
	}
}

// memStates are stores in memory. A crash keeps a prefix of the applies.
type memStates struct {
	program *Program
	mu      sync.Mutex
	states  map[int32]*memState
	noSpace bool
	full    bool // nothing becomes durable
	failing error
	stalled chan struct{} // an apply waits for it, where not nil
	flushes chan struct{} // a flush waits for it, where not nil
	applied chan struct{} // gets a token for each apply, where not nil
	scanned func()        // called in a scan, at its first key, where not nil
}

// memState is what one partition has on disk.
type memState struct {
	identity Identity
	applies  []memApply
	durable  int // applies that a crash cannot take
	guards   map[string]event.Time
	open     bool
	damaged  bool
	merged   map[string][]byte // of the first applies
	first    int               // so many
}

// memApply is one apply, or one write of a seed.
type memApply struct {
	totals   []Entry
	replace  bool
	progress Progress
}

func newMemStates(p *Program) *memStates {
	return &memStates{program: p, states: map[int32]*memState{}}
}

// crash drops all but n of the applies that are not durable.
func (m *memStates) crash(partition int32, keep func(n int) int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.states[partition]
	if s == nil {
		return
	}
	volatile := len(s.applies) - s.durable
	s.applies = s.applies[:s.durable+keep(volatile)]
	s.merged, s.first = nil, 0
	s.open = false
}

func (m *memStates) Open(partition int32) (Store, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.states[partition]
	if s == nil {
		return nil, ErrNoState
	}
	if m.noSpace {
		return nil, fmt.Errorf("the disk has 0 bytes left: %w", ErrNoSpace)
	}
	if s.open {
		return nil, fmt.Errorf("the state of partition %d is open already", partition)
	}
	if s.damaged {
		return nil, fmt.Errorf("a table has a wrong sum: %w", ErrDamaged)
	}
	s.open = true
	return &memStore{m, s}, nil
}

func (m *memStates) Create(id Identity, p Progress) (NewStore, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.states == nil {
		return nil, fmt.Errorf("the workspace is closed")
	}
	if m.states[id.Partition] != nil {
		return nil, fmt.Errorf("partition %d has a state already", id.Partition)
	}
	if m.noSpace {
		return nil, fmt.Errorf("the disk has 0 bytes left: %w", ErrNoSpace)
	}
	s := &memState{identity: id, applies: []memApply{{progress: p}}, durable: 1, guards: map[string]event.Time{}, open: true}
	m.states[id.Partition] = s
	return &memStore{m, s}, nil
}

func (s *memState) progress() Progress { return s.applies[len(s.applies)-1].progress }

// rows are the totals by key, which do not change.
func (s *memState) rows(p *Program) map[string][]byte {
	if s.first == len(s.applies) && s.merged != nil {
		return s.merged
	}
	rows := maps.Clone(s.merged)
	if rows == nil {
		rows = map[string][]byte{}
	}
	sum := p.NewTotal()
	for _, a := range s.applies[s.first:] {
		for _, e := range a.totals {
			old := rows[string(e.Key)]
			if old == nil || a.replace {
				rows[string(e.Key)] = e.Parts
				continue
			}
			sum.Reset()
			for _, part := range [][]byte{old, e.Parts} {
				if err := sum.Merge(part); err != nil {
					panic(err)
				}
			}
			rows[string(e.Key)] = sum.Append(nil)
		}
	}
	s.merged, s.first = rows, len(s.applies)
	return rows
}

type memStore struct {
	m *memStates
	s *memState
}

func (s *memStore) Identity() Identity { return s.s.identity }

func (s *memStore) Progress() Progress {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	return s.s.progress()
}

func (s *memStore) Apply(ctx context.Context, totals iter.Seq2[[]byte, []byte], next Progress) error {
	entries := entriesOf(totals)
	if !slices.IsSortedFunc(entries, func(a, b Entry) int { return bytes.Compare(a.Key, b.Key) }) {
		return fmt.Errorf("totals out of order")
	}
	s.m.mu.Lock()
	stalled := s.m.stalled
	s.m.mu.Unlock()
	if stalled != nil {
		select {
		case <-stalled:
		case <-ctx.Done():
			return fmt.Errorf("wait for compaction: %w", ctx.Err())
		}
	}
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if s.m.noSpace {
		return fmt.Errorf("disk has 0 bytes left: %w", ErrNoSpace)
	}
	if s.m.failing != nil {
		return s.m.failing
	}
	s.s.applies = append(s.s.applies, memApply{totals: entries, progress: next})
	if s.m.applied != nil {
		select {
		case s.m.applied <- struct{}{}:
		default:
		}
	}
	return nil
}

func entriesOf(totals iter.Seq2[[]byte, []byte]) (entries []Entry) {
	for k, v := range totals {
		entries = append(entries, Entry{bytes.Clone(k), bytes.Clone(v)})
	}
	return entries
}

func (s *memStore) Seed(totals iter.Seq2[[]byte, []byte], replace bool) error {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	s.s.applies = append(s.s.applies, memApply{entriesOf(totals), replace, s.s.progress()})
	return nil
}

func (s *memStore) Guards(guards iter.Seq2[[]byte, event.Time]) error {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	for k, t := range guards {
		s.s.guards[string(k)] = t
	}
	return nil
}

func (s *memStore) Guard(key []byte) (event.Time, bool, error) {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	t, ok := s.s.guards[string(key)]
	return t, ok, nil
}

func (s *memStore) View() (View, error) {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	return &memView{s.s.progress().Position, s.s.rows(s.m.program), s.m.scanned}, nil
}

func (s *memStore) Keys() int64 {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	return int64(len(s.s.rows(s.m.program)))
}

func (s *memStore) Bytes() int64 { return s.Keys() * 50 }

func (s *memStore) CatchUp(bool) {}

func (s *memStore) Flush() error {
	s.m.mu.Lock()
	flushes := s.m.flushes
	s.m.mu.Unlock()
	if flushes != nil {
		<-flushes
	}
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	return s.flush()
}

// flush is Flush; a disk that is full takes nothing of what is not durable.
func (s *memStore) flush() error {
	if s.m.full && s.s.durable < len(s.s.applies) {
		return fmt.Errorf("the disk is full: %w", ErrNoSpace)
	}
	s.s.durable = len(s.s.applies)
	return nil
}

func (s *memStore) Checkpoint(string) error { return s.Flush() }

func (s *memStore) Close() error {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	s.s.open = false
	err := s.flush()
	s.s.applies = s.s.applies[:s.s.durable]
	return err
}

type memView struct {
	position int64
	rows     map[string][]byte
	scanned  func()
}

func (v *memView) Position() (int64, error) { return v.position, nil }
func (v *memView) Err() error               { return nil }
func (v *memView) Close() error             { return nil }

func (v *memView) Get(dst, key []byte) ([]byte, bool, error) {
	total, ok := v.rows[string(key)]
	return append(dst, total...), ok, nil
}

func (v *memView) Scan(from []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func([]byte, []byte) bool) {
		if v.scanned != nil {
			v.scanned()
		}
		for _, k := range slices.Sorted(maps.Keys(v.rows)) {
			if k >= string(from) && !yield([]byte(k), v.rows[k]) {
				return
			}
		}
	}
}

// memCommits is the group's offsets, as one member writes them.
type memCommits struct {
	*memGroup
	out bool // the group knows this member no more
}

// memGroup is the group's offsets.
type memGroup struct {
	mu      sync.Mutex
	commits map[int32]Commit
}

// edit changes what members see of the group, under its lock.
func (g *memGroup) edit(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f()
}

func newMemCommits() *memCommits {
	return &memCommits{memGroup: &memGroup{commits: map[int32]Commit{}}}
}

func (c *memCommits) Committed(context.Context) (map[int32]Commit, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.commits), nil
}

func (c *memCommits) Commit(_ context.Context, partition int32, commit Commit) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.out {
		return ErrFenced
	}
	c.commits[partition] = commit
	return nil
}

// fakeSeeder starts at the beginning, or at the end with latest, and seeds
// what documents say.
type fakeSeeder struct {
	log     *fakeLog
	latest  bool
	program *Program
	history []string // documents with field userId
	cut     func() (Cut, error)

	configured *Cut                            // what the configuration says, where it is not what cut does
	seed       func(ctx context.Context) error // before a pass

	mu     sync.Mutex
	passes [][]int32
}

func (s *fakeSeeder) HasHistory() bool { return s.history != nil }

func (s *fakeSeeder) Configured(int32) Cut {
	cut := Cut{Mode: CutEarliest}
	if s.latest {
		cut.Mode = CutLatest
	}
	if s.cut != nil {
		cut, _ = s.cut()
	}
	cut.Start, cut.Partitioner = -1, ""
	if s.configured != nil {
		cut = *s.configured
	}
	return cut
}

func (s *fakeSeeder) Cut(ctx context.Context, _ Topic, partition int32, later bool) (Cut, error) {
	if s.cut != nil {
		return s.cut()
	}
	start, end, err := s.log.Bounds(ctx, partition)
	if s.latest && !later {
		return Cut{Mode: CutLatest, Start: end}, err
	}
	return Cut{Mode: CutEarliest, Start: start}, err
}

func (s *fakeSeeder) Seed(ctx context.Context, topic Topic, _ string, stores map[int32]SeedStore, told func(SeedProgress)) (map[int32]Seed, error) {
	s.mu.Lock()
	s.passes = append(s.passes, slices.Sorted(maps.Keys(stores)))
	s.mu.Unlock()
	told(SeedProgress{Documents: 1, Read: 1, Total: 4, Took: time.Second})
	if s.seed != nil {
		if err := s.seed(ctx); err != nil {
			return nil, err
		}
	}
	docs, err := s.program.NewDocuments(Mapping{Keys: []event.Path{{"userId"}}})
	if err != nil {
		return nil, err
	}
	seeds := map[int32]Seed{}
	deltas := map[int32]*Delta{}
	for p := range stores {
		deltas[p] = s.program.NewDelta(p, topic.Partitions)
		seeds[p] = Seed{Placement: allPartitioners}
	}
	for _, text := range s.history {
		doc := docs.Read([]byte(text))
		p := Murmur2.Partition(doc.Key, topic.Partitions)
		if deltas[p] != nil {
			docs.AddTo(deltas[p])
			seeds[p] = Seed{seeds[p].Documents + 1, seeds[p].Placement & deltas[p].Placement}
		}
	}
	for p, d := range deltas {
		if err := stores[p].Seed(d.Sorted(nil), false); err != nil {
			return nil, err
		}
	}
	return seeds, nil
}

// fakeLetters is a dead letter in memory.
type fakeLetters struct {
	mu      sync.Mutex
	sent    []BadRecord
	stored  int
	refuses error
	takes   func() error // called by Send, before the record is in
}

func (l *fakeLetters) Send(_ context.Context, b BadRecord) error {
	if l.takes != nil {
		if err := l.takes(); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	b.Record.Value = bytes.Clone(b.Record.Value)
	l.sent = append(l.sent, b)
	return nil
}

func (l *fakeLetters) Flush(context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refuses == nil {
		l.stored = len(l.sent)
	}
	return l.refuses
}
