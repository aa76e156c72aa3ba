package store

import (
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// limiter bounds the compactions that run at once over all partitions, and
// gives a slot that becomes free to the partition that needs it most.
//
// Locks: Pebble calls TrySchedule with the database's lock held, so mu is
// never held while a database is called. At most one goroutine grants; another
// that finds it doing so asks it to look once more and goes.
type limiter struct {
	limit int

	mu       sync.Mutex
	idle     sync.Cond // a call of a database has returned
	running  int
	seats    map[*seat]struct{} // of open databases
	granting bool
	again    bool
}

func newLimiter(limit int) *limiter {
	l := &limiter{limit: limit, seats: make(map[*seat]struct{})}
	l.idle.L = &l.mu
	return l
}

// seat is one database's place at a limiter: the pebble.CompactionScheduler of
// that database and the handle of its compactions. It grants nothing before
// arm, so that a state is not rewritten before it is known to be this
// program's.
type seat struct {
	l    *limiter
	done func() // called after each compaction, without locks; nil for nothing

	// Guarded by l.mu.
	db    pebble.DBForCompaction // nil before Register and after Unregister
	armed bool
	held  bool // for a while nothing new begins
	calls int  // of db under way
}

func (l *limiter) seat() *seat { return &seat{l: l} }

// arm lets the database compact.
func (s *seat) arm() {
	s.l.mu.Lock()
	s.armed = true
	s.l.mu.Unlock()
	s.l.grant()
}

// disarm lets no new compaction begin.
func (s *seat) disarm() {
	s.l.mu.Lock()
	s.armed = false
	s.l.mu.Unlock()
}

// hold lets no new compaction begin until it is called with false.
func (s *seat) hold(held bool) {
	s.l.mu.Lock()
	s.held = held
	s.l.mu.Unlock()
	if !held {
		s.l.grant()
	}
}

// isHeld says whether no new compaction may begin.
func (s *seat) isHeld() bool {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	return s.held
}

// isArmed says whether the database may compact.
func (s *seat) isArmed() bool {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	return s.armed
}

// Register implements pebble.CompactionScheduler.
func (s *seat) Register(_ int, db pebble.DBForCompaction) {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	s.db = db
	s.l.seats[s] = struct{}{}
}

// Unregister implements pebble.CompactionScheduler: on return the database is
// not called any more.
func (s *seat) Unregister() {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	delete(s.l.seats, s)
	for s.calls > 0 {
		s.l.idle.Wait()
	}
	s.db = nil
}

// TrySchedule implements pebble.CompactionScheduler.
func (s *seat) TrySchedule() (bool, pebble.CompactionGrantHandle) {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	if _, open := s.l.seats[s]; !open || !s.armed || s.held || s.l.running >= s.l.limit {
		return false, nil
	}
	s.l.running++
	return true, s
}

// UpdateGetAllowedWithoutPermission implements pebble.CompactionScheduler. The
// limit is the process's alone, so there is nothing to learn.
func (s *seat) UpdateGetAllowedWithoutPermission() {}

// Started implements pebble.CompactionGrantHandle.
func (s *seat) Started() {}

// MeasureCPU implements pebble.CompactionGrantHandle.
func (s *seat) MeasureCPU(pebble.CompactionGoroutineKind) {}

// CumulativeStats implements pebble.CompactionGrantHandle.
func (s *seat) CumulativeStats(pebble.CompactionGrantHandleStats) {}

// Done implements pebble.CompactionGrantHandle. Pebble calls it without locks.
func (s *seat) Done() {
	s.l.mu.Lock()
	s.l.running--
	s.l.mu.Unlock()
	if s.done != nil {
		s.done()
	}
	s.l.grant()
}

// grant gives free slots to waiting databases until one of the two runs out.
// It must be called without any database's lock.
//
// No wake-up is lost: a database that was refused holds its lock until it is
// noted as waiting, and whoever frees a slot grants after having freed it, so
// its question to that database comes after the note.
func (l *limiter) grant() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.granting {
		l.again = true
		return
	}
	l.granting = true
	for l.running < l.limit {
		l.again = false
		best := l.neediest()
		switch {
		case best == nil && !l.again:
			l.granting = false
			return
		case best == nil || !best.armed || best.held || l.running >= l.limit:
			continue
		}
		l.running++
		if !l.call(best, func(db pebble.DBForCompaction) bool { return db.Schedule(best) }) {
			l.running--
		}
	}
	l.granting = false
}

// neediest asks all databases and returns the seat of the one whose waiting
// compaction comes first, nil where none waits. mu is held, but not during the
// questions.
func (l *limiter) neediest() (best *seat) {
	asked := make([]*seat, 0, len(l.seats))
	for s := range l.seats {
		if s.armed && !s.held {
			asked = append(asked, s)
		}
	}
	var need pebble.WaitingCompaction
	for _, s := range asked {
		var w pebble.WaitingCompaction
		waits := l.call(s, func(db pebble.DBForCompaction) (ok bool) {
			ok, w = db.GetWaitingCompaction()
			return ok
		})
		if waits && (best == nil || before(w, need)) {
			best, need = s, w
		}
	}
	return best
}

// call calls a database without mu, and not after its Unregister.
func (l *limiter) call(s *seat, f func(pebble.DBForCompaction) bool) bool {
	if _, open := l.seats[s]; !open {
		return false
	}
	db := s.db
	s.calls++
	l.mu.Unlock()
	ok := f(db)
	l.mu.Lock()
	s.calls--
	l.idle.Broadcast()
	return ok
}

// before is Pebble's order of waiting compactions.
func before(a, b pebble.WaitingCompaction) bool {
	switch {
	case a.Optional != b.Optional:
		return b.Optional
	case a.Priority != b.Priority:
		return a.Priority > b.Priority
	}
	return a.Score > b.Score
}
