// Package aggregator is the core: what a definition's totals are, how events
// fold into them, and the task that carries one partition from claim to
// hand-over.
//
// The fold is pure. The state of a partition is a function of (definition,
// history up to the cut, log prefix up to the position): no clock, no map
// order, no member identity enters it. A record is decoded (Decoder), folded
// into a Delta for [First, Next), and the delta is applied to the Store with
// the new position in one write. Delta and total have one encoding; merging is
// associative and commutative with the empty total as zero.
//
// Nothing in here knows Kafka, Pebble or HTTP: the interfaces in task.go say
// what a task needs from them.
package aggregator
