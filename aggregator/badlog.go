package aggregator

import (
	"cmp"
	"log/slog"
	"slices"
	"sync"
	"time"

	"tidemark/event"
)

const (
	badLines   = 20 // log lines for bad records, for each reason and minute
	badMinute  = time.Minute
	badSamples = 5 // bad records that are remembered of each reason
)

// BadSample is where a bad record lies and what is wrong with it. What it holds
// is for the dead letter alone.
type BadSample struct {
	Reason    event.Reason
	Field     string // "" where the whole record is bad
	Error     string // one sentence
	Topic     string
	Partition int32
	Offset    int64
	Seen      time.Time
}

// badLog logs bad records, so many a minute for each reason, says how many it
// held back, and remembers the newest. Shared by all tasks.
type badLog struct {
	log *slog.Logger
	now func() time.Time

	mu      sync.Mutex
	reasons [event.NumReasons]badWindow
}

// badWindow is one reason's present minute.
type badWindow struct {
	began       time.Time
	lines, held int
	samples     []BadSample // oldest first, of the process
}

func (l *badLog) write(b BadRecord) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := &l.reasons[b.Reason]
	now := l.now()
	if now.Sub(w.began) >= badMinute {
		l.end(b.Reason, w)
		w.began, w.lines = now, 0
	}
	if len(w.samples) == badSamples {
		w.samples = append(w.samples[:0], w.samples[1:]...)
	}
	w.samples = append(w.samples, BadSample{b.Reason, b.Field, b.Error, b.Topic, b.Partition, b.Record.Offset, now})
	if w.lines == badLines {
		w.held++
		return
	}
	w.lines++
	l.log.Warn("bad record", "reason", b.Reason.String(), "topic", b.Topic, "partition", b.Partition,
		"offset", b.Record.Offset, "field", b.Field, "err", b.Error)
}

// settle reports what was held back in minutes that are over, or, at the end
// of the process, in all.
func (l *badLog) settle(all bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for r := range l.reasons {
		w := &l.reasons[r]
		if all || l.now().Sub(w.began) >= badMinute {
			l.end(event.Reason(r), w)
		}
	}
}

// newest returns what is remembered, newest first.
func (l *badLog) newest() (all []BadSample) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for r := range l.reasons {
		all = append(all, l.reasons[r].samples...)
	}
	slices.SortStableFunc(all, func(a, b BadSample) int {
		return cmp.Or(b.Seen.Compare(a.Seen), cmp.Compare(a.Partition, b.Partition), cmp.Compare(b.Offset, a.Offset))
	})
	return all
}

func (l *badLog) end(r event.Reason, w *badWindow) {
	if w.held > 0 {
		l.log.Warn("more bad records were not logged one by one", "reason", r.String(), "records", w.held)
		w.held = 0
	}
}

// badShareOf is how many records badShare looks back on.
const badShareOf = 1000

// badShare knows the share of bad records among the last thousand, or among
// all while they are fewer. The zero value has seen none. One goroutine.
type badShare struct {
	ring [badShareOf]bool
	next int
	seen int // up to badShareOf
	bad  int
}

func (s *badShare) add(bad bool) {
	if was := s.ring[s.next]; was != bad {
		s.ring[s.next] = bad
		if bad {
			s.bad++
		} else {
			s.bad--
		}
	}
	if s.next++; s.next == badShareOf {
		s.next = 0
	}
	s.seen = min(s.seen+1, badShareOf)
}

// share is from 0 to 1.
func (s *badShare) share() float64 { return float64(s.bad) / float64(max(s.seen, 1)) }

// sessionCounts are the counts of one partition in this process, kept when the
// partition leaves and comes back.
type sessionCounts struct {
	mu     sync.Mutex
	counts Counts
}

func (s *sessionCounts) add(c Counts) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.Add(c)
}

func (s *sessionCounts) get() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts
}
