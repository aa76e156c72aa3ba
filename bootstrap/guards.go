package bootstrap

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"tidemark/aggregator"
	"tidemark/event"
)

// guardBytes is about what one guard takes in memory besides its key.
const guardBytes = 80

// guards gathers the instants of keys for cut mode guard and writes them, in
// sorted chunks, to every store: the events of a key may lie in any partition.
type guards struct {
	stores map[int32]aggregator.SeedStore
	limit  int  // bytes in memory before a chunk is written
	latest bool // of several documents of one key the latest instant counts, else that of the last
	chunk  map[string]event.Time
	bytes  int
}

func newGuards(stores map[int32]aggregator.SeedStore, limit int, latest bool) *guards {
	return &guards{stores: stores, limit: limit, latest: latest, chunk: map[string]event.Time{}}
}

// add takes the instant of a key.
func (g *guards) add(key []byte, t event.Time) error {
	have, ok := g.chunk[string(key)]
	switch {
	case !ok:
		g.bytes += len(key) + guardBytes
		g.chunk[string(key)] = t
	case !g.latest || after(t, have):
		g.chunk[string(key)] = t
	}
	if g.bytes < g.limit {
		return nil
	}
	return g.flush()
}

// flush writes what is gathered.
func (g *guards) flush() error {
	if len(g.chunk) == 0 {
		return nil
	}
	keys := make([]string, 0, len(g.chunk))
	for key := range g.chunk {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, strings.Compare)
	for partition, store := range g.stores {
		if g.latest {
			if err := g.keepLater(store, keys); err != nil {
				return fmt.Errorf("read the guards of partition %d: %w", partition, err)
			}
		}
		if err := store.Guards(g.sorted(keys)); err != nil {
			return fmt.Errorf("write the guards of partition %d: %w", partition, err)
		}
	}
	clear(g.chunk)
	g.bytes = 0
	return nil
}

// keepLater takes over from the store, which holds the earlier chunks, what is
// later than what is gathered.
func (g *guards) keepLater(store aggregator.SeedStore, keys []string) error {
	for _, key := range keys {
		have, ok, err := store.Guard([]byte(key))
		if err != nil {
			return err
		}
		if ok && after(have, g.chunk[key]) {
			g.chunk[key] = have
		}
	}
	return nil
}

// sorted yields the chunk in the order of keys.
func (g *guards) sorted(keys []string) iter.Seq2[[]byte, event.Time] {
	return func(yield func([]byte, event.Time) bool) {
		for _, key := range keys {
			if !yield([]byte(key), g.chunk[key]) {
				return
			}
		}
	}
}

// after says whether a is later than b.
func after(a, b event.Time) bool {
	return a.Sec > b.Sec || a.Sec == b.Sec && a.Nsec > b.Nsec
}
