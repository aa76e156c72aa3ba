package aggregator

import "testing"

// TestSeedsWakeWhoWaitsForThem: a seed that is published wakes those that wait
// for its own partition, not all: each asks the snapshot store then.
func TestSeedsWakeWhoWaitsForThem(t *testing.T) {
	s := NewSeeds(nil, nil, nil)
	one, other, two := s.next(1), s.next(1), s.next(2)
	s.tell(1)
	s.tell(3)
	for _, woken := range []<-chan struct{}{one, other} {
		select {
		case <-woken:
		default:
			t.Error("a seed is published, and who waits for it does not hear of it")
		}
	}
	select {
	case <-two:
		t.Error("a partition hears of another's seed")
	case <-s.next(1):
		t.Error("a seed that is published wakes who waits for the next one")
	default:
	}
}
