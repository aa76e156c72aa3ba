package aggregator

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestStandingsAreThoseOfTheStatus: what reads go by is what the status says,
// wherever the records are: nowhere, pending, or in the store, and where a
// partition stands still.
func TestStandingsAreThoseOfTheStatus(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed", seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 3))
			const partitions = 4
			r := newRig(t, partitions)
			r.tuning.ApplyRecords = 1 + rnd.IntN(200)
			r.start(2, 0, 1, 3)
			for p := range int32(3) { // the last one stays empty
				r.log.produce(p, mixed(rnd, rnd.IntN(300))...)
			}
			for p := range int32(partitions) {
				r.caughtUp(p)
			}
			r.sameStandings()
			r.stop()
			r.log.produce(0, mixed(rnd, 10)...)
			_, end, _ := r.log.Bounds(t.Context(), 0)
			r.log.trim(0, end)
			r.start(0, 1, 2, 3)
			r.until(0, "in a gap", func(s PartitionStatus) bool { return s.State == Gap })
			for p := range int32(3) {
				r.caughtUp(p + 1)
			}
			r.sameStandings()
		})
	}
}

// sameStandings compares the standings with the status, while nothing comes in.
func (r *rig) sameStandings() {
	r.t.Helper()
	var want []Standing
	for _, s := range r.p.Status() {
		want = append(want, Standing{
			Partition: s.Partition, State: s.State, Reason: s.Reason, Answers: s.Answers, Position: s.Position,
			Placement: s.Placement, Partitions: s.Partitions, Holds: s.Documents > 0 || s.Counts.Results[Folded] > 0,
		})
	}
	if got := r.p.Standings(); !slices.Equal(got, want) {
		r.t.Errorf("the standings are\n%+v\nthe status says\n%+v", got, want)
	}
}
