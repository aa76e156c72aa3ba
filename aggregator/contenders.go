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
type contenders[T any] struct {
	limit int
	line  height
	bar   bar
	list  []contender[T]
}

type contender[T any] struct {
	height height
	of     T
}

// add takes a key in by its ceiling, where it may be one of them.
func (c *contenders[T]) add(h height, of T) {
	if h < c.line || c.bar.set && h <= c.bar.height {
		return
	}
	if c.list = append(c.list, contender[T]{h, of}); len(c.list) >= 2*c.limit {
		c.prune()
	}
}

// prune keeps the highest of them.
func (c *contenders[T]) prune() {
	if len(c.list) <= c.limit {
		return
	}
	slices.SortFunc(c.list, func(a, b contender[T]) int { return cmp.Compare(b.height, a.height) })
	c.bar.raise(c.list[c.limit].height)
	clear(c.list[c.limit:])
	c.list = c.list[:c.limit]
}
