package aggregator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// memSnapshots are snapshots in memory, restored into the states of one member.
type memSnapshots struct {
	*memLines
	states *memStates
	slow   chan struct{} // a restore waits for it at a quarter, where not nil
	out    error         // what each claim of this member gets; under mu
}

// memLines are the snapshots of all members.
type memLines struct {
	mu      sync.Mutex
	lines   map[int32][]memSnapshot // by partition, oldest first
	refuses error                   // what each publish gets
	takes   *int                    // how many more snapshots there is room for, where not nil
	away    error                   // what everything gets
	stuck   error                   // what each restore gets
	unclean error                   // what each clean-up gets
	silent  chan struct{}           // a publish waits for it, where not nil
	damaged bool                    // the newest of each cannot be restored
}

type memSnapshot struct {
	Snapshot
	state *memState
}

func newMemSnapshots(states *memStates) *memSnapshots {
	return &memSnapshots{memLines: &memLines{lines: map[int32][]memSnapshot{}}, states: states}
}

// edit changes s under its lock.
func (s *memLines) edit(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// position is that of the newest snapshot, -1 where there is none.
func (s *memLines) position(partition int32) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m, ok := s.newest(partition); ok {
		return m.Progress.Position
	}
	return -1
}

func (s *memLines) newest(partition int32) (memSnapshot, bool) {
	line := s.lines[partition]
	if len(line) == 0 {
		return memSnapshot{}, false
	}
	return line[len(line)-1], true
}

func (s *memSnapshots) Newest(_ context.Context, _ Topic, partition int32) (Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away != nil {
		return Snapshot{}, s.away
	}
	if m, ok := s.newest(partition); ok {
		return m.Snapshot, nil
	}
	return Snapshot{}, ErrNoSnapshot
}

func (s *memSnapshots) Claim(_ context.Context, _ Topic, partition int32, after int64) (Publisher, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := cmp.Or(s.away, s.out); err != nil {
		return nil, err
	}
	o := &memPublisher{s: s, partition: partition, epoch: after + 1}
	if m, ok := s.newest(partition); ok {
		o.epoch = max(after, m.Epoch) + 1
		m.Seq, m.Epoch = m.Seq+1, o.epoch
		s.lines[partition] = append(s.lines[partition], m)
		o.last = &m.Snapshot
	}
	return o, nil
}

func (s *memSnapshots) Restore(ctx context.Context, _ Topic, partition int32, position int64, progress func(have, need int64)) (Snapshot, error) {
	if s.slow != nil {
		progress(25, 100)
		select {
		case <-s.slow:
		case <-ctx.Done():
			return Snapshot{}, ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := cmp.Or(s.away, s.stuck); err != nil {
		return Snapshot{}, err
	}
	line := s.lines[partition]
	for i, m := range slices.Backward(line) {
		if m.Progress.Position <= position {
			break
		}
		if s.damaged && m.Progress.Position == line[len(line)-1].Progress.Position {
			continue
		}
		s.states.mu.Lock()
		defer s.states.mu.Unlock()
		if was := s.states.states[partition]; was != nil && was.open {
			return Snapshot{}, errors.New("the state is open")
		}
		s.states.states[partition] = line[i].state.copy()
		return m.Snapshot, nil
	}
	return Snapshot{}, fmt.Errorf("beyond %d: %w", position, ErrNoSnapshot)
}

// copy is the state as it is on disk now.
func (s *memState) copy() *memState {
	return &memState{
		identity: s.identity, applies: slices.Clone(s.applies), durable: len(s.applies), guards: maps.Clone(s.guards),
	}
}

type memPublisher struct {
	s         *memSnapshots
	partition int32
	epoch     int64

	last *Snapshot // under s.mu
}

func (o *memPublisher) Epoch() int64 { return o.epoch }

func (o *memPublisher) Newest() (Snapshot, bool) {
	o.s.mu.Lock()
	defer o.s.mu.Unlock()
	if o.last == nil {
		return Snapshot{}, false
	}
	return *o.last, true
}

func (o *memPublisher) Publish(ctx context.Context, store Store) (Snapshot, error) {
	if o.s.silent != nil {
		select {
		case <-o.s.silent:
		case <-ctx.Done():
			return Snapshot{}, ctx.Err()
		}
	}
	o.s.mu.Lock()
	defer o.s.mu.Unlock()
	if o.s.away != nil {
		return Snapshot{}, o.s.away
	}
	if o.s.refuses != nil {
		return Snapshot{}, o.s.refuses
	}
	seq := int64(0)
	if m, ok := o.s.newest(o.partition); ok {
		if m.Epoch > o.epoch || m.Epoch == o.epoch && o.last == nil {
			return Snapshot{}, fmt.Errorf("epoch %d is past: %w", o.epoch, ErrFenced)
		}
		if m.Progress.Position == store.Progress().Position {
			return m.Snapshot, nil
		}
		seq = m.Seq + 1
	}
	if n := o.s.takes; n != nil {
		if *n == 0 {
			return Snapshot{}, errors.New("the store is full")
		}
		*n--
	}
	st := store.(*memStore)
	st.m.mu.Lock()
	state := st.s.copy()
	st.m.mu.Unlock()
	m := memSnapshot{Snapshot{Seq: seq, Epoch: o.epoch, Identity: state.identity, Progress: state.progress(), Bytes: 100}, state}
	o.s.lines[o.partition] = append(o.s.lines[o.partition], m)
	o.last = &m.Snapshot
	return m.Snapshot, nil
}

func (o *memPublisher) Reap(_ context.Context, keep int) error {
	o.s.mu.Lock()
	defer o.s.mu.Unlock()
	if o.s.unclean != nil {
		return o.s.unclean
	}
	line := o.s.lines[o.partition]
	o.s.lines[o.partition] = line[max(0, len(line)-keep):]
	return nil
}

// memWorkspace are stores in memory that are gone when it is closed.
type memWorkspace struct{ *memStates }

func (w memWorkspace) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.states = nil
	return nil
}
