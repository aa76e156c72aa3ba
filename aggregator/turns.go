package aggregator

import "time"

// turn says when in a round of mostLate the partition applies, flushes and
// publishes: a read beside what all of them do at once would wait for long.
func (t *task) turn() int { return int(t.partition) % mostLate }

// rota is a timer for what a partition does at each interval, in its turn: for the
// first time after one interval to two. It goes by the clock: what takes long moves
// no turn. C has a time for each interval, but for whole rounds of them that were
// missed. One goroutine.
type rota struct {
	*time.Timer
	next     time.Time
	interval time.Duration
	round    time.Duration // in intervals
}

// rota begins one; it needs a Stop.
func (t *task) rota(interval time.Duration, round int) *rota {
	first := interval + interval/mostLate*time.Duration(t.turn())
	return &rota{time.NewTimer(first), time.Now().Add(first), interval, time.Duration(round)}
}

// again goes on after a time came.
func (r *rota) again() {
	r.next = r.next.Add(r.interval)
	missed := max(time.Since(r.next)/r.interval, 0)
	r.next = r.next.Add((missed - missed%r.round) * r.interval)
	r.Reset(time.Until(r.next))
}
