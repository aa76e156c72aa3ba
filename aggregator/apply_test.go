package aggregator

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestHeavyStreamsAreAppliedSeldom: what a light stream brings goes down with
// the next interval, what a heavy one brings after ten, with all that came
// meanwhile; either is visible at once.
func TestHeavyStreamsAreAppliedSeldom(t *testing.T) {
	for _, c := range []struct {
		name    string
		records int
		after   int // intervals
	}{
		{"light", manyRecords - 1, 1},
		{"heavy", manyRecords, mostLate},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, 1)
				r.tuning.ApplyInterval, r.tuning.ApplyRecords = time.Minute, 1_000_000
				r.start(0)
				r.until(0, "live", func(s PartitionStatus) bool { return s.State == Live })
				began := time.Now()
				r.log.produce(0, slices.Repeat([]string{sale(1, "1")}, c.records)...)
				r.caughtUp(0)
				if since := time.Since(began); since > time.Second {
					t.Fatalf("folded after %s", since)
				}
				for applied := int64(0); applied < int64(c.records); {
					<-time.After(time.Second)
					synctest.Wait()
					r.states.mu.Lock()
					applied = r.states.states[0].progress().Position
					r.states.mu.Unlock()
				}
				if n := time.Since(began).Minutes(); n < float64(c.after)-1.1 || n > float64(c.after)+0.1 {
					t.Errorf("applied after %.2f intervals, want %d", n, c.after)
				}
				r.stop()
			})
		})
	}
}
