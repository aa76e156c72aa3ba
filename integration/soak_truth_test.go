//go:build integration

package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"sort"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// truth is what the topic says, read by another client: the totals of each key
// up to each offset.
type truth struct {
	mu     sync.Mutex
	oracle *oracle // of all that is read
	keys   map[int]*story
	front  map[int32]int64 // all before it is read
	seen   map[int]int     // how often a record was read, by its number
}

// story is what came of one key.
type story struct {
	base  step
	steps map[int32][]step // by partition, in order of offsets
}

// step is the sum over a partition up to and with an offset.
type step struct {
	offset int64
	sales  int64
	units  *big.Int
	points int64
}

// tag travels with each record of a soak, in its header.
type tag struct {
	N      int
	Effect effect
}

func newTruth(o *oracle) *truth {
	tr := &truth{oracle: o, keys: map[int]*story{}, front: map[int32]int64{}, seen: map[int]int{}}
	for user, t := range o.totals {
		tr.keys[user] = &story{
			base:  step{sales: t.sales, units: new(big.Int).Set(&t.revenue), points: t.points.Int64()},
			steps: map[int32][]step{},
		}
	}
	return tr
}

// read takes in the topic until ctx ends.
func (tr *truth) read(ctx context.Context, t *testing.T, cl *kgo.Client) {
	for {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			return
		}
		tr.mu.Lock()
		fetches.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				if err := tr.take(r); err != nil {
					t.Errorf("a record that no soak has made: %v", err)
				}
			}
			tr.front[r.Partition] = r.Offset + 1
		})
		tr.mu.Unlock()
	}
}

func (tr *truth) take(r *kgo.Record) error {
	if len(r.Headers) != 1 {
		return errors.New("it has no tag")
	}
	var of tag
	if err := json.Unmarshal(r.Headers[0].Value, &of); err != nil {
		return err
	}
	tr.seen[of.N]++
	tr.oracle.take(of.Effect)
	if of.Effect.Kind != "folded" {
		return nil
	}
	s := tr.keys[of.Effect.User]
	if s == nil {
		s = &story{base: step{units: new(big.Int)}, steps: map[int32][]step{}}
		tr.keys[of.Effect.User] = s
	}
	last := step{units: new(big.Int)}
	if all := s.steps[r.Partition]; len(all) > 0 {
		last = all[len(all)-1]
	}
	s.steps[r.Partition] = append(s.steps[r.Partition], step{
		r.Offset, last.sales + 1, new(big.Int).Add(last.units, big.NewInt(of.Effect.Units)), last.points + of.Effect.Points,
	})
	return nil
}

// reached says whether all before the positions is read.
func (tr *truth) reached(positions map[int32]int64) bool {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for p, at := range positions {
		if tr.front[p] < at {
			return false
		}
	}
	return true
}

// at is what a row must be at positions, which have been reached: sales,
// revenue and points.
func (tr *truth) at(user int, positions map[string]int64) (sales int64, revenue string, points int64) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	s := tr.keys[user]
	if s == nil {
		return 0, "0", 0
	}
	sales, points = s.base.sales, s.base.points
	units := new(big.Int).Set(s.base.units)
	for p, all := range s.steps {
		before, ok := positions[strconv.Itoa(int(p))]
		if !ok {
			continue // it is not among those that may hold the key, as of then
		}
		if i := sort.Search(len(all), func(i int) bool { return all[i].offset >= before }); i > 0 {
			sales += all[i-1].sales
			units.Add(units, all[i-1].units)
			points += all[i-1].points
		}
	}
	return sales, decimal(units, false), points
}

// ledger is what producers know of the records that they made: those that the
// brokers have acknowledged, or that were committed, are in the topic once;
// aborted ones are not; of the others nobody knows.
type ledger struct {
	mu      sync.Mutex
	n       int
	there   []int
	aborted []int
	unknown int
	last    []written // of the newest that were acknowledged
}

// written is a sale whose place is known.
type written struct {
	user      int
	partition int32
	offset    int64
}

func (l *ledger) number() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n++
	return l.n
}

func (l *ledger) wrote(n int, w written, folded bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.there = append(l.there, n)
	if folded {
		if l.last = append(l.last, w); len(l.last) > 64 {
			l.last = slices.Delete(l.last, 0, 32)
		}
	}
}

// recent is one of the newest sales that were acknowledged.
func (l *ledger) recent(pick func(int) int) (written, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.last) == 0 {
		return written{}, false
	}
	return l.last[pick(len(l.last))], true
}

// check compares the ledger with what was read.
func (l *ledger) check(t *testing.T, tr *truth) {
	t.Helper()
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for _, n := range l.there {
		if tr.seen[n] != 1 {
			t.Errorf("record %d, which was acknowledged, is in the topic %d times", n, tr.seen[n])
		}
	}
	for _, n := range l.aborted {
		if tr.seen[n] != 0 {
			t.Errorf("record %d, which was aborted, is in the topic %d times", n, tr.seen[n])
		}
	}
}

// tagged makes the next record of a load.
func tagged(l *ledger, o *oracle, topic string) (*kgo.Record, tag) {
	r, e := o.draw()
	of := tag{l.number(), e}
	r.Topic = topic
	r.Headers = []kgo.RecordHeader{{Key: "soak", Value: []byte(text(of))}}
	return r, of
}

// produceSteadily writes rate records a second until ctx ends, then waits for
// what is under way.
func (l *ledger) produceSteadily(ctx context.Context, t *testing.T, cl *kgo.Client, o *oracle, topic string, rate int) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		for range max(1, rate/20) {
			r, of := tagged(l, o, topic)
			cl.Produce(context.WithoutCancel(ctx), r, func(r *kgo.Record, err error) {
				if err != nil {
					t.Errorf("a record of the idempotent producer was not taken: %v", err)
					return
				}
				l.wrote(of.N, written{of.Effect.User, r.Partition, r.Offset}, of.Effect.Kind == "folded")
			})
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	if err := cl.Flush(t.Context()); err != nil {
		t.Errorf("the last records were not taken: %v", err)
	}
}

// produceInTransactions commits two transactions and aborts the third, and so
// on, until ctx ends.
func (l *ledger) produceInTransactions(ctx context.Context, t *testing.T, client func() *kgo.Client, o *oracle, topic string) {
	cl := client()
	defer func() { cl.Close() }()
	for round := 0; ctx.Err() == nil; round++ {
		abort := round%3 == 2
		numbers, err := l.transaction(t.Context(), cl, o, topic, abort)
		l.mu.Lock()
		switch {
		case err != nil:
			l.unknown += len(numbers)
		case abort:
			l.aborted = append(l.aborted, numbers...)
		default:
			l.there = append(l.there, numbers...)
		}
		l.mu.Unlock()
		if err != nil {
			t.Logf("a transaction of %d records ended in doubt: %v", len(numbers), err)
			cl.Close()
			cl = client()
		}
		pause(t, 200*time.Millisecond)
	}
}

func (l *ledger) transaction(ctx context.Context, cl *kgo.Client, o *oracle, topic string, abort bool) (numbers []int, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := cl.BeginTransaction(); err != nil {
		return nil, err
	}
	var records []*kgo.Record
	for range 20 {
		r, of := tagged(l, o, topic)
		records, numbers = append(records, r), append(numbers, of.N)
	}
	if err := cl.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return numbers, fmt.Errorf("produce: %w", errors.Join(err, cl.EndTransaction(ctx, kgo.TryAbort)))
	}
	return numbers, cl.EndTransaction(ctx, kgo.TransactionEndTry(!abort))
}
