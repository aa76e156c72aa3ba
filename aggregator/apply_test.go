package aggregator

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestHeavyStreamsAreAppliedSeldom: what a light stream brings goes down with
// the next interval, what a heavy one brings with the next flush; either is
// visible at once.
func TestHeavyStreamsAreAppliedSeldom(t *testing.T) {
	for _, c := range []struct {
		name    string
		records int
		after   int // minutes
	}{
		{"light", manyRecords - 1, 1},
		{"heavy", manyRecords, 15},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, 1)
				r.tuning.ApplyInterval, r.tuning.ApplyRecords, r.tuning.FlushInterval = time.Minute, 1_000_000, 15*time.Minute
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
					t.Errorf("applied after %.2f minutes, want %d", n, c.after)
				}
				r.stop()
			})
		})
	}
}

// TestHeavyStreamsAreAppliedInTurns: of partitions whose streams are heavy, each
// is applied once for each flush, and no two at the same time.
func TestHeavyStreamsAreAppliedInTurns(t *testing.T) {
	const partitions, rounds, round = 4, 2, 15 // minutes
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, partitions)
		r.tuning.ApplyInterval, r.tuning.ApplyRecords, r.tuning.FlushInterval = time.Minute, 10_000_000, round*time.Minute
		r.start(0, 1, 2, 3)
		for p := range int32(partitions) {
			r.until(p, "live", func(s PartitionStatus) bool { return s.State == Live })
		}
		began, flood := time.Now(), slices.Repeat([]string{sale(1, "1")}, manyRecords)
		at, applies := make([]int64, partitions), make([]int, partitions)
		for minute := range (1+rounds)*round - 1 { // nothing is flushed in the first round
			for p := range int32(partitions) {
				r.log.produce(p, flood...)
				r.caughtUp(p)
			}
			for time.Since(began) < time.Duration(minute+1)*time.Minute {
				<-time.After(time.Second)
				synctest.Wait()
				applied := 0
				for p := range at {
					if position := r.stored(int32(p)); position != at[p] {
						at[p] = position
						applies[p]++
						applied++
					}
				}
				if applied > 1 {
					t.Fatalf("%d partitions are applied after %s", applied, time.Since(began))
				}
			}
		}
		for p, n := range applies {
			if n != rounds {
				t.Errorf("partition %d was applied %d times, want %d", p, n, rounds)
			}
		}
		r.stop()
	})
}

// TestO03StalledApplyIsGivenUp: an apply that waits when the process is told to
// end may take as long as the last one does, which goes in; one that waits on is
// given up, and what it held is folded again, once.
func TestO03StalledApplyIsGivenUp(t *testing.T) {
	for _, c := range []struct {
		name  string
		waits time.Duration
		kept  int64 // records in the state when the process has ended
	}{
		{"goes on in time", lastApply - time.Second, 3},
		{"waits on", time.Hour, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, 1)
				r.log.produce(0, sale(1, "1"))
				r.start(0)
				r.caughtUp(0)
				r.p.PublishSnapshots(t.Context())
				stalled := make(chan struct{})
				r.states.mu.Lock()
				r.states.stalled = stalled
				r.states.mu.Unlock()
				r.log.produce(0, sale(1, "1"))
				<-time.After(2 * r.tuning.ApplyInterval) // it waits
				r.log.produce(0, sale(1, "1"))
				r.caughtUp(0)
				goOn := time.AfterFunc(c.waits, func() { close(stalled) })
				began := time.Now()
				r.stop()
				if took := time.Since(began); took > lastApply+time.Second {
					t.Errorf("it ends after %s", took)
				}
				if at := r.stored(0); at != c.kept {
					t.Errorf("the state is at %d, want %d", at, c.kept)
				}
				if goOn.Stop() {
					close(stalled)
				}
				r.start(0)
				r.caughtUp(0)
				r.expect(0, "1", `{"userId":1,"sales":3,"revenue":3}`)
				r.stop()
			})
		})
	}
}

// TestLettingGoKeepsAnswers: an apply that waits for long when the partition is
// let go of is given up, and while the last snapshot is published then answers do
// not go back to what the state holds.
func TestLettingGoKeepsAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		r.log.produce(0, sale(1, "1"))
		r.start(0)
		r.caughtUp(0)
		r.until(0, "applied", func(PartitionStatus) bool { return r.stored(0) == 1 })
		stalled, silent := make(chan struct{}), make(chan struct{})
		r.states.mu.Lock()
		r.states.stalled = stalled
		r.states.mu.Unlock()
		r.snapshots.edit(func() { r.snapshots.silent = silent })
		r.log.produce(0, sale(1, "1"), sale(1, "1"))
		r.caughtUp(0)
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			r.p.Revoke(t.Context(), 0)
		}()
		seen := 0
		for left := false; !left; {
			reading, err := r.p.Get(t.Context(), 0, []byte("1"))
			switch {
			case err != nil || !reading.Answers:
			case reading.Position < 3:
				t.Fatalf("it answers with position %d, and had answered with 3", reading.Position)
			default:
				seen++
			}
			select {
			case <-time.After(lastApply / 20):
			case <-gone:
				left = true
			}
		}
		if seen < 20 {
			t.Errorf("it answered %d times while it was let go of", seen)
		}
		close(silent)
		close(stalled)
		r.p.Assign(0)
		r.caughtUp(0)
		r.expect(0, "1", `{"userId":1,"sales":3,"revenue":3}`)
		r.stop()
	})
}

// TestLastApplyTakesAllThatIsFolded: folding that is in the middle of a batch when
// the process is told to end folds it to its end, and the last apply comes after
// that: nothing is folded again, no letter sent twice.
func TestLastApplyTakesAllThatIsFolded(t *testing.T) {
	const records = 4 * foldSlice
	r := newRig(t, 1)
	r.tuning.ApplyInterval, r.tuning.ApplyRecords = time.Hour, 10*records
	sending, goOn := make(chan struct{}), make(chan struct{})
	r.letters.takes = func() error {
		close(sending)
		<-goOn
		return nil
	}
	r.letters.refuses = errors.New("not yet") // an apply that has begun waits here
	r.log.produce(0, append([]string{`{"userId":`}, slices.Repeat([]string{sale(1, "1")}, records-1)...)...)
	r.start(0)
	<-sending
	totals := r.p.tasks[0].totals
	r.cancel()
	for deadline := time.After(100 * time.Millisecond); ; {
		totals.mu.Lock()
		begun := totals.frozen != nil
		totals.mu.Unlock()
		select {
		case <-deadline:
			begun = true // or it waits for folding
		case <-time.After(time.Millisecond):
		}
		if begun {
			break
		}
	}
	close(goOn)
	r.until(0, "folded", func(s PartitionStatus) bool { return s.Position == records })
	r.letters.mu.Lock()
	r.letters.refuses = nil
	r.letters.mu.Unlock()
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	if at := r.stored(0); at != records {
		t.Errorf("the state is at %d, and was folded to %d", at, records)
	}
	r.letters.takes = nil
	r.start(0)
	r.caughtUp(0)
	r.expect(0, "1", `{"userId":1,"sales":1023,"revenue":1023}`)
	r.stop()
	if n := len(r.letters.sent); n != 1 {
		t.Errorf("%d letters were sent, want 1", n)
	}
}

// TestFoldingWaitsForAnApplyThatIsLate: while the state is being made durable
// nothing is applied, and what is folded meanwhile takes no more memory than
// beside an apply; then folding goes on.
func TestFoldingWaitsForAnApplyThatIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const few, many = 50, 10_000
		r := newRig(t, 1)
		r.tuning.ApplyInterval, r.tuning.ApplyRecords, r.tuning.FlushInterval = 24*time.Hour, few, time.Minute
		r.log.batches = func(n int) int { return min(n, few/5) }
		flushes := make(chan struct{})
		r.states.flushes = flushes
		r.start(0)
		r.caughtUp(0)
		<-time.After(2 * r.tuning.FlushInterval)
		r.log.produce(0, slices.Repeat([]string{sale(1, "1")}, many)...)
		synctest.Wait()
		if n := r.p.tasks[0].totals.position(); n < few || n > 2*few+few/5 {
			t.Errorf("%d records are folded while none can be applied", n)
		}
		r.states.mu.Lock()
		r.states.flushes = nil
		r.states.mu.Unlock()
		close(flushes)
		r.caughtUp(0)
		r.expect(0, "1", `{"userId":1,"sales":10000,"revenue":10000}`)
		r.stop()
	})
}

// TestTurnsStayApart: an apply that takes longer than an interval moves no turn:
// the next comes whole intervals after it began.
func TestTurnsStayApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const interval = time.Minute
		r := newRig(t, 1)
		r.tuning.ApplyInterval, r.tuning.ApplyRecords, r.tuning.FlushInterval = time.Hour, 10_000_000, interval
		r.start(0)
		r.until(0, "live", func(s PartitionStatus) bool { return s.State == Live })
		flood := slices.Repeat([]string{sale(1, "1")}, 2*manyRecords)
		applied := func() time.Time {
			for at := r.stored(0); ; {
				<-time.After(time.Second)
				synctest.Wait()
				if r.stored(0) != at {
					return time.Now()
				}
			}
		}
		r.log.produce(0, flood...)
		began := applied()
		for _, takes := range []time.Duration{interval / 2, 3 * interval / 2, 5 * interval / 2, 25 * interval} {
			stalled := make(chan struct{})
			r.states.mu.Lock()
			r.states.stalled = stalled
			r.states.mu.Unlock()
			r.log.produce(0, flood...)
			<-time.After(interval + takes - time.Since(began)%interval)
			r.states.mu.Lock()
			r.states.stalled = nil
			r.states.mu.Unlock()
			close(stalled)
			applied()
			r.log.produce(0, flood...)
			if off := applied().Sub(began) % interval; off > time.Second {
				t.Errorf("after an apply that took %v the next is %v behind its turn", takes, off)
			}
		}
		r.stop()
	})
}
