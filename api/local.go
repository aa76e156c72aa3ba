package api

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"tidemark/aggregator"
)

// local is the source of this member's own partitions.
type local struct {
	program   *aggregator.Program
	reader    Reader
	group     Group
	knowledge *knowledge
	pages     chan struct{} // a slot for each page read at a time
}

// gone says whether an error means that the partition is not here any more,
// or is about to go.
func gone(err error) bool {
	return errors.Is(err, aggregator.ErrNotOwned) || errors.Is(err, aggregator.ErrClosing)
}

// standings of those of the partitions that are here. A member that has not
// been heard by the group for a session timeout answers for none.
func (l *local) standings(view *View, of []int32) []standing {
	if view.Silent {
		return nil
	}
	all := l.reader.Standings()
	out := make([]standing, 0, len(all))
	for _, st := range all {
		if _, ok := slices.BinarySearch(of, st.Partition); ok {
			out = append(out, standing(st))
		}
	}
	return out
}

// begin starts an answer.
func (l *local) begin(of []int32) (answer, *holders) {
	view := l.group.View()
	l.knowledge.heed(&view)
	a := answer{Standings: l.standings(&view, of)}
	l.knowledge.learn(a.Standings)
	return a, newHolders(l.knowledge, a.Standings, view.partitions())
}

// Read implements source.
func (l *local) Read(ctx context.Context, of []int32, q readQuestion) (answer, error) {
	if len(q.Keys) > 0 && q.Wait > 0 {
		if err := l.wait(ctx, of, &q); err != nil {
			return answer{}, err
		}
	}
	a, h := l.begin(of)
	if h.partitions == 0 {
		return a, nil
	}
	late := time.Now().Add(workLimit) // a timer for each read would cost more than some reads
	for _, key := range q.Keys {
		if err := ctx.Err(); err != nil {
			return answer{}, err
		}
		if time.Now().After(late) {
			return answer{}, context.DeadlineExceeded
		}
		at := h.places(key)
		var readings []reading
		for i := 0; i < len(a.Standings); i++ {
			p := a.Standings[i].Partition
			if !h.may(p, &at) && !slices.ContainsFunc(q.Min, func(m mark) bool { return m.Partition == p }) {
				continue
			}
			r, err := l.reader.Get(ctx, p, key)
			if gone(err) {
				a.Standings = slices.Delete(a.Standings, i, i+1)
				i--
				continue
			}
			if err != nil {
				return answer{}, fmt.Errorf("read a key from partition %d: %w", p, err)
			}
			readings = append(readings, reading{
				Partition: p, Position: r.Position, Parts: r.Parts,
				Answers: r.Answers, State: r.State, Reason: r.Reason,
			})
		}
		a.Readings = append(a.Readings, readings)
	}
	return a, nil
}

// wait holds a question back as its Min and Since ask for. It returns nil when
// the wait is over, too.
func (l *local) wait(ctx context.Context, of []int32, q *readQuestion) error {
	waiting, cancel := context.WithTimeout(ctx, q.Wait)
	defer cancel()
	for _, m := range q.Min {
		if !slices.Contains(of, m.Partition) {
			continue
		}
		l.reach(waiting, m, q.Keys[0])
	}
	if len(q.Since) > 0 {
		l.move(waiting, q.Since, q.Keys[0])
	}
	return ctx.Err()
}

// reach waits until a partition counts and has reached a position. A partition
// that is not here, or that stands still before it counts, is not waited for.
func (l *local) reach(ctx context.Context, m mark, key []byte) {
	for {
		changed := l.reader.Changed(m.Partition)
		r, err := l.reader.Get(ctx, m.Partition, key)
		switch {
		case err != nil || ctx.Err() != nil:
			return // the read that follows finds the same
		case r.Answers && r.Position >= m.Position:
			return
		case !r.Answers && (r.State == aggregator.Gap || r.State == aggregator.Paused):
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// move waits until one of the partitions among since that are here differs
// from what since says of it.
func (l *local) move(ctx context.Context, since []moment, key []byte) {
	for ctx.Err() == nil {
		cases := []reflect.SelectCase{{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(ctx.Done())}}
		for _, m := range since {
			changed := l.reader.Changed(m.Partition)
			r, err := l.reader.Get(ctx, m.Partition, key)
			if err != nil {
				continue
			}
			if r.Position != m.Position || r.Answers != m.Answers {
				return
			}
			cases = append(cases, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(changed)})
		}
		if len(cases) == 1 {
			return
		}
		reflect.Select(cases)
	}
}

// maxPageBytes bounds the totals of one page; a page that would be larger
// holds fewer keys.
const maxPageBytes = 32 << 20

// Scan implements source.
func (l *local) Scan(ctx context.Context, of []int32, q scanQuestion) (answer, error) {
	if err := acquire(ctx, l.pages); err != nil {
		return answer{}, err
	}
	defer release(l.pages)
	a, h := l.begin(of)
	var streams []*stream
	share := chunkSize(q.Limit, len(a.Standings))
	for i := range a.Standings {
		streams = append(streams, &stream{
			partition: a.Standings[i].Partition, from: q.From, more: true, share: share, chunk: share,
		})
	}
	read := func(s *stream) error {
		page, err := l.reader.Scan(ctx, s.partition, s.from, q.Prefix, s.chunk)
		if gone(err) {
			return errGone
		}
		if err != nil {
			return fmt.Errorf("list keys of partition %d: %w", s.partition, err)
		}
		s.take(&page)
		return nil
	}
	size := 0
	var marks []mark // of all items
	for len(a.Items) < q.Limit && size < maxPageBytes {
		head, err := fill(streams, read)
		if errors.Is(err, errGone) {
			// What was read of the partition may be missing from here on.
			streams = slices.DeleteFunc(streams, func(s *stream) bool { return s.gone })
			continue
		}
		if err != nil {
			return answer{}, err
		}
		if head == nil {
			break
		}
		if a.Items == nil {
			n := min(waiting(streams), q.Limit)
			a.Items, marks = make([]item, 0, n), make([]mark, 0, n)
		}
		it, prefix := item{Key: head.entries[0].Key}, head.prefix
		at := h.places(it.Key)
		first := len(marks)
		for _, s := range streams {
			has := s.has(it.Key, prefix)
			if has {
				it.add(s.pop())
			}
			if has || h.may(s.partition, &at) {
				marks = append(marks, mark{s.partition, s.position})
			}
		}
		it.Marks = marks[first:len(marks):len(marks)]
		size += len(it.Key) + len(it.Parts)
		a.Items = append(a.Items, it)
	}
	for _, s := range streams {
		a.More = a.More || s.more || len(s.entries) > 0
	}
	a.Standings = keep(a.Standings, streams)
	return a, nil
}

// keep drops the standings of partitions that went away, and takes over how
// those stood that were read: the position is that of the first chunk, before
// which a key that is in none of them is surely not there.
func keep(standings []standing, streams []*stream) []standing {
	out := standings[:0]
	for _, st := range standings {
		i := slices.IndexFunc(streams, func(s *stream) bool { return s.partition == st.Partition })
		if i < 0 {
			continue
		}
		if s := streams[i]; s.read {
			st.Answers, st.State, st.Reason, st.Position = s.answers, s.state, s.reason, s.first
		}
		out = append(out, st)
	}
	return out
}

// acquire takes a slot, waiting for one as long as ctx allows.
func acquire(ctx context.Context, slots chan struct{}) error {
	select {
	case slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func release(slots chan struct{}) { <-slots }

// workLimit is the longest that a request may work; over it, it is busy.
const workLimit = 10 * time.Second
