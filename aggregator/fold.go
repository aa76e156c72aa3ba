package aggregator

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"tidemark/event"
)

// foldSlice is how many records are folded under the lock at once: some tens
// of microseconds, so that a read waits no longer than that.
const foldSlice = 256

// foldLoop follows the log from the position of the totals. It returns when
// ctx ends, with errPaused where the position has no future, or with an error
// that ends the process.
func (t *task) foldLoop(ctx context.Context, store Store) error {
	cut := t.identity.Cut
	decoder, err := t.p.program.NewDecoder(DecodeCut{
		Before: cut.Before, EventTime: cut.EventTime, Guard: cut.Mode == CutGuard,
	}, store.Guard)
	if err != nil {
		return fmt.Errorf("make a decoder for partition %d: %w", t.partition, err)
	}
	for claimed := false; ; {
		position, err := t.place(ctx, store)
		if err != nil {
			return err
		}
		if !claimed {
			claimed = true
			t.mu.Lock()
			t.target = t.end
			t.mu.Unlock()
			t.reached(position)
		}
		err = t.follow(ctx, decoder, position)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, ErrOutOfRange):
			// place says what it means; a moment later, should it find nothing.
			err = sleep(ctx, minWait)
		case errors.Is(err, ErrNoTopic):
			err = t.awaitTopic(ctx)
		case errors.Is(err, errGuard):
		default:
			t.wait(fmt.Sprintf("read the log: %v", err))
			err = sleep(ctx, minWait)
		}
		if err != nil {
			return err
		}
	}
}

// place compares the position with the log's bounds and returns where to read
// on. A gap and a position above the end are dealt with here, see on_gap.
func (t *task) place(ctx context.Context, store Store) (int64, error) {
	for {
		var start, end int64
		err := t.retry(ctx, "ask for the bounds of the log", func() (err error) {
			start, end, err = t.p.source.Bounds(ctx, t.partition)
			if errors.Is(err, ErrNoTopic) {
				if err := t.awaitTopic(ctx); err != nil {
					return err
				}
			}
			return err
		})
		if err == nil {
			// The bounds may be those of a topic that was created again since it was
			// looked at, and a reader that begins now would take it for the state's.
			err = t.sameTopic(ctx)
		}
		if err != nil {
			return 0, err
		}
		t.bounds(start, end)
		position := t.totals.position()
		switch {
		case position > end:
			t.pause(holdEnd, fmt.Sprintf("the position %d is above the end of the log, %d: the log has lost its tail; "+
				"folding goes on once the end has passed the position, or choose another group.id and state.dir to start over", position, end))
			if err := sleep(ctx, time.Second); err != nil {
				return 0, err
			}
			continue
		case position >= start:
			t.pause(holdEnd, "")
			return position, nil
		case !t.p.options.AcceptGap:
			t.mu.Lock()
			t.missing = start - position
			t.gap = fmt.Sprintf("retention removed %d records before they were folded: the position is %d, the log starts at %d; "+
				"set on_gap: accept to go on without them, or load the history again", start-position, position, start)
			t.log.Error("partition has a gap", "position", position, "log_start", start, "records", start-position)
			t.mu.Unlock()
			t.totals.wake()
			return 0, errPaused
		}
		if err := t.skip(ctx, store, position, start); err != nil {
			return 0, err
		}
	}
}

// skip moves the position over a gap that the operator has accepted.
func (t *task) skip(ctx context.Context, store Store, position, start int64) error {
	if err := t.apply(ctx, store); err != nil {
		return err
	}
	next := t.totals.summary()
	next.Position = start
	next.Gap += start - position
	err := t.retry(ctx, "store the position after a gap", func() error {
		return store.Apply(ctx, nothing, next)
	})
	if err != nil {
		return err
	}
	t.totals.moved(next)
	t.log.Warn("records were lost to retention, and on_gap accepts it", "records", start-position, "position", start)
	return nil
}

// nothing is no totals.
func nothing(func(key, total []byte) bool) {}

// bounds notes what the log holds.
func (t *task) bounds(start, end int64) {
	t.mu.Lock()
	t.logStart, t.end = start, end
	t.mu.Unlock()
}

// reached turns the task live where position has reached the end that was
// readable when the partition was claimed.
func (t *task) reached(position int64) {
	t.mu.Lock()
	live := t.phase == CatchingUp && position >= t.target
	if live {
		t.phase, t.answers, t.waiting = Live, true, ""
	}
	t.mu.Unlock()
	if live {
		t.totals.caughtUp()
		t.log.Info("partition is live", "position", position)
		t.totals.wake()
	}
}

// follow folds batch after batch from position on.
func (t *task) follow(ctx context.Context, decoder *Decoder, position int64) error {
	feed := t.p.source.Open(t.partition, position)
	defer feed.Close()
	wanted := func() bool { return len(t.kick) > 0 }
	for {
		batch, err := feed.Next(ctx)
		if err != nil {
			return err
		}
		t.wait("")
		share := t.p.pendingShare()
		if err := t.totals.waitRoom(ctx, 2*int64(t.p.options.ApplyRecords), share, wanted); err != nil {
			return err
		}
		began := time.Now()
		if err := t.foldBatch(ctx, decoder, batch, share); err != nil {
			return err
		}
		if n := len(batch.Records); n > 0 && t.p.observer != nil {
			t.p.observer.Folded(n, time.Since(began).Seconds())
		}
		t.bounds(batch.LogStart, batch.End)
		t.reached(t.totals.position())
	}
}

// errGuard wraps a failed look-up of a key's guard: the store is broken.
var errGuard = errors.New("look up a guard")

// badAt is a record of the batch in hand that came to nothing.
type badAt struct {
	index   int
	outcome Outcome
}

// foldBatch folds one batch, a slice at a time. It calls for an apply once
// there are enough records, or their totals take up their share of memory.
func (t *task) foldBatch(ctx context.Context, decoder *Decoder, batch *Batch, share int) error {
	var bad []badAt
	var outcomes [foldSlice]Outcome
	for from := 0; ; {
		to := min(from+foldSlice, len(batch.Records))
		t.totals.mu.Lock()
		active := t.totals.active
		before := active.Counts
		for from < to && batch.Records[from].Offset < active.Next {
			from++ // a batch may begin before the offset that was asked for
		}
		done, err := decoder.FoldAll(active, t.partition, batch.Records[from:to], outcomes[:])
		bad = bad[:0]
		for i, out := range outcomes[:done] {
			t.recent.add(out.Result == Bad)
			if out.Result == Bad {
				bad = append(bad, badAt{from + i, out})
			}
		}
		if done > 0 {
			active.Next = batch.Records[from+done-1].Offset + 1
		}
		last := to == len(batch.Records)
		if last && err == nil {
			active.Next = max(active.Next, batch.Next)
		}
		gained := active.Counts
		full := active.fills(int64(t.p.options.ApplyRecords), share)
		t.totals.touch()
		t.sending.Lock() // before an apply can take them: it waits for their letters
		t.totals.mu.Unlock()

		gained.subtract(before)
		t.session.add(gained)
		t.share.Store(math.Float64bits(t.recent.share()))
		rejected := t.rejectAll(ctx, batch, bad)
		t.unsent = rejected != nil
		t.sending.Unlock()
		if err != nil {
			return fmt.Errorf("%w of partition %d: %w", errGuard, t.partition, err)
		}
		if rejected != nil {
			return rejected
		}
		if full {
			select {
			case t.kick <- struct{}{}:
			default: // one is wanted already
			}
		}
		if last {
			return nil
		}
		from = to
	}
}

// rejectAll rejects the bad records of a slice. Its error is ctx's.
func (t *task) rejectAll(ctx context.Context, batch *Batch, bad []badAt) error {
	for _, b := range bad {
		if err := t.reject(ctx, &batch.Records[b.index], b.outcome); err != nil {
			return err
		}
	}
	return nil
}

// reject logs a bad record and hands it to the dead letter.
func (t *task) reject(ctx context.Context, r *Record, out Outcome) error {
	bad := BadRecord{
		Topic: t.p.options.Topic, Partition: t.partition, Record: *r,
		Reason: out.Reason, Field: out.Field, Error: explain(out.Reason, out.Field),
	}
	t.p.badLog.write(bad)
	if t.p.letters == nil {
		return nil
	}
	for {
		err := t.p.letters.Send(ctx, bad)
		if err == nil {
			t.pause(holdLetter, "")
			return nil
		}
		t.pause(holdLetter, fmt.Sprintf("the dead letter takes nothing: %v", err))
		t.measure(ctx)
		if err := sleep(ctx, time.Second); err != nil {
			return err
		}
	}
}

// explain is a bad record's sentence.
func explain(reason event.Reason, field string) string {
	what := reasonSentences[reason]
	if field == "" {
		return "the record " + what
	}
	return fmt.Sprintf("field %q %s", field, what)
}

var reasonSentences = [event.NumReasons]string{
	event.Empty:          "is empty",
	event.TooLarge:       "is too large",
	event.NotUTF8:        "is not UTF-8",
	event.NotJSON:        "is not one whole JSON value",
	event.NotObject:      "is JSON, but no object",
	event.DuplicateField: "is there twice",
	event.MissingField:   "is missing",
	event.NullField:      "is null",
	event.WrongType:      "has a type that cannot be used here",
	event.BadNumber:      "is not a number",
	event.Overflow:       "is a number out of range",
	event.BadTimestamp:   "is not a timestamp of the documented forms",
}
