package aggregator

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestTurnsOfPartitionsAreApart: however many partitions there are, no two have
// their turns closer together than a third of what they would have evenly spread.
func TestTurnsOfPartitionsAreApart(t *testing.T) {
	turns := []float64{}
	for n := 1; n <= 1000; n++ {
		turns = append(turns, (&task{partition: int32(n - 1)}).turn())
		round := slices.Sorted(slices.Values(turns))
		round = append(round, 1+round[0])
		for i := range n {
			if gap := round[i+1] - round[i]; round[i] < 0 || round[i] >= 1 || gap < 1/float64(3*n) {
				t.Fatalf("of %d partitions, one has its turn at %.4f and the next at %.4f", n, round[i], round[i+1])
			}
		}
	}
}

// TestSnapshotsFollowTheFlush: what a heavy stream has brought until a partition's
// turn is in the snapshot of that turn.
func TestSnapshotsFollowTheFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const round = 15 * time.Minute
		r := newRig(t, 3)
		r.tuning.ApplyInterval, r.tuning.ApplyRecords = time.Minute, 10_000_000
		r.tuning.FlushInterval, r.tuning.SnapshotInterval = round, round
		r.start(0, 1, 2)
		flood := slices.Repeat([]string{sale(1, "1")}, manyRecords)
		for p := range int32(3) {
			r.until(p, "live", func(s PartitionStatus) bool { return s.State == Live })
			r.log.produce(p, flood...)
			r.caughtUp(p)
		}
		<-time.After(2*round + round/8)
		synctest.Wait()
		for p := range int32(3) {
			if s := r.p.tasks[p].published(); s == nil || s.Progress.Position != manyRecords {
				t.Errorf("the snapshot of partition %d is %+v", p, s)
			}
		}
		r.stop()
	})
}
