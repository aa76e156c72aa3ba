package aggregator

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// A ceiling is what was added to its key while there is room for all keys, and
// never below it when there is not.
func TestCeilingsAreNeverTooLow(t *testing.T) {
	for _, keys := range []int{100, 600, 2 * minCeilings, 20 * minCeilings} {
		t.Run(fmt.Sprint(keys), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(keys), 6))
			c := newCeilings(sieve{adds: true}, minCeilings/2)
			room := keys < len(c.table)*7/8
			hashes := make([]uint32, keys)
			for i := range hashes {
				hashes[i] = rng.Uint32()
			}
			hashes[0] = 0 // no key's mark in the table
			want := map[uint32]height{}
			for i, h := range hashes {
				if i%3 == 0 {
					continue // these come with a merge
				}
				c.raiseAll([]raise{{h, height(i)}, {h, height(i) - 1}})
				want[h] = max(want[h], height(i))
			}
			for range 20 * keys {
				h, by := hashes[rng.IntN(keys)], height(rng.IntN(9)-2)
				now := c.merged(h, by)
				if kept := c.merge(h, by); kept != now {
					t.Fatalf("a merge of %v gives %v, and was to give %v", by, kept, now)
				}
				if was, in := want[h]; in {
					want[h] = max(was, was+by, by)
				} else {
					want[h] = by
				}
			}
			for h, least := range want {
				got := c.find(h).height
				if got < least || room && got != least {
					t.Fatalf("hash %d has the ceiling %v, %v was added", h, got, least)
				}
			}
		})
	}
}
