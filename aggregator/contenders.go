package aggregator

import (
	"cmp"
	"slices"

	"tidemark/event"
)

// A bar is a height that no key without a row is above, but those that are
// looked at; without set it is none.
type bar struct {
	height height
	set    bool
}

// raise makes the bar at least h.
func (b *bar) raise(h height) {
	if !b.set || h > b.height {
		b.height, b.set = h, true
	}
}

// clears says whether a value is surely above the bar.
func (b *bar) clears(s *sieve, v *event.Value) bool { return !b.set || s.floor(v) > b.height }

// contenders are keys that may have come to the front: those whose ceilings
// reach a line, and of them the highest. The bar is raised to the others.
type contenders struct {
	limit int
	line  height
	bar   bar
	list  []contender
	at    map[string]int // in list
}

type contender struct {
	key    string
	height height
}

// takes says whether a key with the ceiling h may be one of them.
func (c *contenders) takes(h height) bool { return h >= c.line && (!c.bar.set || h > c.bar.height) }

// add takes a key in by its ceiling, where it may be one of them. One that is in
// already has the higher of its ceilings.
func (c *contenders) add(h height, key string) {
	if !c.takes(h) {
		return
	}
	if i, in := c.at[key]; in {
		c.list[i].height = max(c.list[i].height, h)
		return
	}
	if c.at == nil {
		c.at = map[string]int{}
	}
	c.at[key] = len(c.list)
	if c.list = append(c.list, contender{key, h}); len(c.list) >= 2*c.limit {
		c.prune()
	}
}

// prune keeps the highest of them.
func (c *contenders) prune() {
	if len(c.list) <= c.limit {
		return
	}
	slices.SortFunc(c.list, func(a, b contender) int { return cmp.Compare(b.height, a.height) })
	c.bar.raise(c.list[c.limit].height)
	clear(c.list[c.limit:])
	c.list = c.list[:c.limit]
	clear(c.at)
	for i := range c.list {
		c.at[c.list[i].key] = i
	}
}
