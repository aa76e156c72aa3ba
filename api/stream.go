package api

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"slices"

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
	prefix    uint64 // of the first entry's key

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
		s.from, s.prefix = after(s.entries[n-1].Key), prefixOf(s.entries[0].Key)
	} else {
		s.more = false
	}
	if s.chunk = min(2*s.chunk, s.share); !s.read {
		s.first, s.chunk = page.Position, s.share/4+1
	}
	s.read, s.position, s.answers, s.state, s.reason = true, page.Position, page.Answers, page.State, page.Reason
}

// has says whether the first entry is the key's, of which prefix is the prefix.
func (s *stream) has(key []byte, prefix uint64) bool {
	return len(s.entries) > 0 && s.prefix == prefix && bytes.Equal(s.entries[0].Key, key)
}

// before says whether the first entry comes before other's; both have one.
func (s *stream) before(other *stream) bool {
	if s.prefix != other.prefix {
		return s.prefix < other.prefix
	}
	return bytes.Compare(s.entries[0].Key, other.entries[0].Key) < 0
}

// prefixOf is the first eight bytes of a key, zeros behind its end: as numbers,
// prefixes that differ order keys.
func prefixOf(key []byte) uint64 {
	if len(key) >= 8 {
		return binary.BigEndian.Uint64(key)
	}
	var first [8]byte
	copy(first[:], key)
	return binary.BigEndian.Uint64(first[:])
}

// pop takes the first entry and returns the parts of its total.
func (s *stream) pop() []byte {
	parts := s.entries[0].Parts
	if s.entries = s.entries[1:]; len(s.entries) > 0 {
		s.prefix = prefixOf(s.entries[0].Key)
	}
	return parts
}

// fill reads on where a stream has run dry and returns the one whose first entry has
// the smallest key, nil at the end of all.
func fill(streams []*stream, read func(*stream) error) (head *stream, err error) {
	for _, s := range streams {
		if len(s.entries) == 0 && s.more {
			if err := read(s); err != nil {
				s.gone = errors.Is(err, errGone)
				return nil, err
			}
		}
		if len(s.entries) > 0 && (head == nil || s.before(head)) {
			head = s
		}
	}
	return head, nil
}

// waiting is how many entries of the streams have been read and not taken.
func waiting(streams []*stream) (n int) {
	for _, s := range streams {
		n += len(s.entries)
	}
	return n
}

// mergeItems merges the lists of several members by key, as far as all of
// them reach, and at most limit keys. more says whether keys follow.
func mergeItems(lists []answer, limit int) (items []item, more bool) {
	if len(lists) == 1 {
		items, more = lists[0].Items, lists[0].More
		if len(items) > limit {
			items, more = items[:limit], true
		}
		return items, more
	}
	next := make([]int, len(lists))
	for len(items) < limit {
		var head []byte
		for i := range lists {
			switch {
			case next[i] < len(lists[i].Items):
				if key := lists[i].Items[next[i]].Key; head == nil || bytes.Compare(key, head) < 0 {
					head = key
				}
			case lists[i].More:
				return items, true // what follows is not known
			}
		}
		if head == nil {
			return items, false
		}
		it := item{Key: head}
		for i := range lists {
			if next[i] < len(lists[i].Items) && bytes.Equal(lists[i].Items[next[i]].Key, head) {
				part := &lists[i].Items[next[i]]
				it.add(part.Parts)
				it.Marks = append(it.Marks, part.Marks...)
				next[i]++
			}
		}
		items = append(items, it)
	}
	for i := range lists {
		more = more || lists[i].More || next[i] < len(lists[i].Items)
	}
	return items, more
}

// add adds parts to the item's. They are not written to, though another item's
// bytes may follow them.
func (it *item) add(parts []byte) {
	if it.Parts == nil {
		it.Parts = parts
		return
	}
	it.Parts = append(slices.Clip(it.Parts), parts...)
}
