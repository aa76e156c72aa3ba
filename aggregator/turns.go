package aggregator

import (
	"math"
	"time"
)

// turn is when in an interval the partition applies, flushes and publishes, as a
// part of it: a read beside what all of them do at once would wait for long.
// Multiples of the golden ratio keep any number of partitions apart (Knuth, The Art
// of Computer Programming, 6.4).
func (t *task) turn() float64 {
	_, part := math.Modf(float64(t.partition) * math.Phi)
	return part
}

// rota is a timer for what a partition does at each interval, in its turn: for the
// first time after one interval to two. It goes by the clock: what takes long moves
// no turn. C has a time for each interval, but for those that were missed. One
// goroutine.
type rota struct {
	*time.Timer
	next     time.Time
	interval time.Duration
}

// rota begins one, so long behind its turn; it needs a Stop.
func (t *task) rota(interval, behind time.Duration) *rota {
	first := interval + time.Duration(t.turn()*float64(interval)) + behind
	return &rota{time.NewTimer(first), time.Now().Add(first), interval}
}

// again goes on after a time came.
func (r *rota) again() {
	missed := max(time.Since(r.next)/r.interval, 0)
	r.next = r.next.Add((missed + 1) * r.interval)
	r.Reset(time.Until(r.next))
}
