package api

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"

	"tidemark/aggregator"
	"tidemark/query"
)

// compile makes a program of a query.
func compile(t testing.TB, sql string) *aggregator.Program {
	t.Helper()
	def, err := query.Parse(sql)
	if err != nil {
		t.Fatal(err)
	}
	p, err := aggregator.Compile(def, aggregator.Options{SetLimit: 4})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const salesQuery = `SELECT userId, CAST(max(saleTimestamp) AS timestamp) AS latestSaleTimestamp,
	sum(totalRevenue) AS totalRevenue, sum(totalPoints) AS totalPoints,
	collect_set(productList) AS productList, count(*) AS sales FROM sales GROUP BY userId`

// fakeReader holds partitions in maps; what it holds went through the real
// decoder and the real encoding.
type fakeReader struct {
	t       testing.TB
	program *aggregator.Program

	mu         sync.Mutex
	partitions map[int32]*fakePartition
	scanning   hook // called before each Scan, where set
	getting    hook // called before each Get, where set
	bad        []aggregator.BadSample
}

type hook func(ctx context.Context, partition int32) error

func (r *fakeReader) hook(h *hook) hook {
	r.mu.Lock()
	defer r.mu.Unlock()
	return *h
}

func (r *fakeReader) setHook(h *hook, f hook) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*h = f
}

type fakePartition struct {
	status  aggregator.PartitionStatus
	totals  map[string][]byte // a part for each fold
	decoder *aggregator.Decoder
	changed chan struct{}
}

func newReader(t testing.TB, program *aggregator.Program) *fakeReader {
	return &fakeReader{t: t, program: program, partitions: map[int32]*fakePartition{}}
}

// own gives the reader an empty live partition of a topic of n.
func (r *fakeReader) own(partition, n int32) {
	decoder, err := r.program.NewDecoder(aggregator.DecodeCut{}, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.partitions[partition] = &fakePartition{
		status: aggregator.PartitionStatus{
			Topic: "sales", Partition: partition, State: aggregator.Live, Answers: true, Seeded: true,
			Placement: 1<<aggregator.NumPartitioners - 1, Partitions: n, Epoch: 1,
		},
		totals: map[string][]byte{}, decoder: decoder,
	}
}

// fold folds events into a partition, one offset each.
func (r *fakeReader) fold(partition int32, events ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.partitions[partition]
	delta := r.program.NewDelta(partition, p.status.Partitions)
	delta.Reset(p.status.Position)
	for _, e := range events {
		record := aggregator.Record{Offset: p.status.Position, Timestamp: 1_438_161_432_000, Value: []byte(e)}
		if _, err := p.decoder.Fold(delta, partition, &record); err != nil {
			r.t.Fatal(err)
		}
		p.status.Position++
	}
	p.status.End = max(p.status.End, p.status.Position)
	p.status.Counts.Add(delta.Counts)
	p.status.Session.Add(delta.Counts)
	p.status.Placement &= delta.Placement
	for key, encoded := range delta.Sorted(nil) {
		p.totals[string(key)] = append(p.totals[string(key)], encoded...)
	}
	p.notify()
}

// change changes how a partition stands.
func (r *fakeReader) change(partition int32, f func(*aggregator.PartitionStatus)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.partitions[partition]
	f(&p.status)
	p.notify()
}

// drop takes a partition away.
func (r *fakeReader) drop(partition int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.partitions[partition].notify()
	delete(r.partitions, partition)
}

func (p *fakePartition) notify() {
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// watched says whether somebody waits for the partition to change.
func (r *fakeReader) watched(partition int32) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.partitions[partition].changed != nil
}

func (r *fakeReader) BadSamples() []aggregator.BadSample {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.bad)
}

func (r *fakeReader) Status() (out []aggregator.PartitionStatus) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.partitions {
		out = append(out, p.status)
	}
	slices.SortFunc(out, func(a, b aggregator.PartitionStatus) int { return int(a.Partition - b.Partition) })
	return out
}

func (r *fakeReader) Standings() (out []aggregator.Standing) {
	for _, st := range r.Status() {
		out = append(out, aggregator.Standing{
			Partition: st.Partition, State: st.State, Reason: st.Reason, Answers: st.Answers,
			Position: st.Position, Placement: st.Placement, Partitions: st.Partitions,
			Holds: st.Documents > 0 || st.Counts.Results[aggregator.Folded] > 0,
		})
	}
	return out
}

func (r *fakeReader) Get(ctx context.Context, partition int32, key []byte) (aggregator.Reading, error) {
	if f := r.hook(&r.getting); f != nil {
		if err := f(ctx, partition); err != nil {
			return aggregator.Reading{}, err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.partitions[partition]
	if p == nil {
		return aggregator.Reading{}, fmt.Errorf("partition %d: %w", partition, aggregator.ErrNotOwned)
	}
	st := p.status
	return aggregator.Reading{
		Parts: bytes.Clone(p.totals[string(key)]), Position: st.Position, Answers: st.Answers, State: st.State, Reason: st.Reason,
	}, nil
}

func (r *fakeReader) Scan(ctx context.Context, partition int32, from, prefix []byte, limit int) (aggregator.Page, error) {
	if f := r.hook(&r.scanning); f != nil {
		if err := f(ctx, partition); err != nil {
			return aggregator.Page{}, err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.partitions[partition]
	if p == nil {
		return aggregator.Page{}, fmt.Errorf("partition %d: %w", partition, aggregator.ErrNotOwned)
	}
	st := p.status
	page := aggregator.Page{Position: st.Position, Answers: st.Answers, State: st.State, Reason: st.Reason}
	var keys []string
	for key := range p.totals {
		if key >= string(from) && bytes.HasPrefix([]byte(key), prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		if len(page.Entries) == limit {
			page.More = true
			break
		}
		page.Entries = append(page.Entries, aggregator.Entry{Key: []byte(key), Parts: bytes.Clone(p.totals[key])})
	}
	return page, nil
}

func (r *fakeReader) First(ctx context.Context, partition int32, o aggregator.Order, limit int) (aggregator.Page, error) {
	page, err := r.Scan(ctx, partition, nil, nil, math.MaxInt)
	first, total := aggregator.NewLeaders[aggregator.Entry](o, limit), r.program.NewTotal()
	for _, e := range page.Entries {
		total.Reset()
		if err := total.MergeParts(e.Parts); err != nil {
			r.t.Fatal(err)
		}
		first.Offer(total.Value(o.Column, e.Key), e.Key, e)
	}
	page.Entries = nil
	for _, row := range first.Rows() {
		page.Entries = append(page.Entries, row.Of)
	}
	return page, err
}

func (r *fakeReader) Changed(partition int32) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.partitions[partition]
	if p == nil {
		return nil
	}
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	return p.changed
}

// fakeGroup is a group that says what it is told to.
type fakeGroup struct {
	mu   sync.Mutex
	view View
}

func (g *fakeGroup) View() View {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.view
}

func (g *fakeGroup) set(f func(*View)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f(&g.view)
}
