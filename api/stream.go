package api

import (
	"bytes"
	"errors"
	"math"

	"tidemark/aggregator"
)

// stream is a walk through the keys of one partition, a chunk at a time. No
// read view is held between chunks, so a slow client holds nothing.
type stream struct {
	partition int32
	from      []byte // first key not yet read
	more      bool   // keys may follow the entries
	share     int    // the first chunk
	chunk     int    // the next
	entries   []aggregator.Entry

	read     bool  // a chunk has been read: what follows is as of the last
	first    int64 // the position of the first chunk
	position int64 // the position of the entries
	answers  bool
	state    aggregator.State
	reason   string
	gone     bool
}

// errGone says that the partition of some stream went away.
var errGone = errors.New("a partition went away")

// chunkSize is how many keys to read at first from each of n partitions for a
// page of limit keys: its share and some, so that few need more, which come in
// small chunks at first.
func chunkSize(limit, n int) int {
	share := float64(limit) / float64(max(n, 1))
	return min(limit, int(share+2*math.Sqrt(share))+4) + 1
}

// take takes in the next chunk.
func (s *stream) take(page *aggregator.Page) {
	s.entries, s.more = page.Entries, page.More
	if n := len(s.entries); n > 0 {
		s.from = after(s.entries[n-1].Key)
	} else {
		s.more = false
	}
	if s.chunk = min(2*s.chunk, s.share); !s.read {
		s.first, s.chunk = page.Position, s.share/4+1
	}
	s.read, s.position, s.answers, s.state, s.reason = true, page.Position, page.Answers, page.State, page.Reason
}

func (s *stream) has(key []byte) bool {
	return len(s.entries) > 0 && bytes.Equal(s.entries[0].Key, key)
}

// pop takes the first entry and returns its total.
func (s *stream) pop() []byte {
	total := s.entries[0].Total
	s.entries = s.entries[1:]
	return total
}

// fill reads on where a stream has run dry and returns the entry with the
// smallest key, nil at the end of all.
func fill(streams []*stream, read func(*stream) error) (head *aggregator.Entry, err error) {
	for _, s := range streams {
		if len(s.entries) == 0 && s.more {
			if err := read(s); err != nil {
				s.gone = errors.Is(err, errGone)
				return nil, err
			}
		}
		if len(s.entries) > 0 && (head == nil || bytes.Compare(s.entries[0].Key, head.Key) < 0) {
			head = &s.entries[0]
		}
	}
	return head, nil
}

// mergeItems merges the lists of several members by key, as far as all of
// them reach, and at most limit keys. more says whether keys follow.
func mergeItems(program *aggregator.Program, lists []answer, limit int) (items []item, more bool, err error) {
	if len(lists) == 1 {
		items, more = lists[0].Items, lists[0].More
		if len(items) > limit {
			items, more = items[:limit], true
		}
		return items, more, nil
	}
	var (
		total = program.NewTotal()
		next  = make([]int, len(lists))
	)
	for len(items) < limit {
		var head []byte
		for i := range lists {
			switch {
			case next[i] < len(lists[i].Items):
				if key := lists[i].Items[next[i]].Key; head == nil || bytes.Compare(key, head) < 0 {
					head = key
				}
			case lists[i].More:
				return items, true, nil // what follows is not known
			}
		}
		if head == nil {
			return items, false, nil
		}
		it := item{Key: head}
		var parts [][]byte
		for i := range lists {
			if next[i] < len(lists[i].Items) && bytes.Equal(lists[i].Items[next[i]].Key, head) {
				part := &lists[i].Items[next[i]]
				parts = append(parts, part.Total)
				it.Marks = append(it.Marks, part.Marks...)
				next[i]++
			}
		}
		if it.Total = parts[0]; len(parts) > 1 {
			if it.Total, err = total.AppendSum(nil, parts...); err != nil {
				return nil, false, err
			}
		}
		items = append(items, it)
	}
	for i := range lists {
		more = more || lists[i].More || next[i] < len(lists[i].Items)
	}
	return items, more, nil
}
