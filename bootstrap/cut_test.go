package bootstrap

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tidemark/aggregator"
	"tidemark/event"
)

var (
	noon  = time.Date(2015, 7, 29, 12, 0, 0, 0, time.UTC)
	topic = aggregator.Topic{Name: "sales", ID: "t", Partitions: 2}
)

func sale(at time.Time, revenue int) string {
	return fmt.Sprintf(`{"userId":"U-1","saleTimestamp":%q,"totalRevenue":%d,"totalPoints":1,"productList":[]}`, at.Format(time.RFC3339Nano), revenue)
}

// TestBoundarySalesCountOnce lays sales on both sides of each mode's boundary,
// gives the history those that it holds by the mode's meaning, folds the log
// from the cut and finds each sale once. Each revenue is a power of two, so a
// sale that is lost or counted twice shows which.
func TestBoundarySalesCountOnce(t *testing.T) {
	p := compile(t, `SELECT userId, sum(totalRevenue) AS totalRevenue, CAST(max(saleTimestamp) AS timestamp) AS latest FROM sales GROUP BY userId`)
	log := &memLog{}
	// Sale i has revenue 1<<i, happened at noon + times[i], reached the log
	// arrived[i] after that, and lies in partition parts[i].
	times := []time.Duration{-3 * time.Hour, -2 * time.Hour, -time.Hour, -1, 0, 1, -time.Millisecond, time.Hour, 2 * time.Hour}
	arrived := []time.Duration{0, time.Second, 0, 0, 0, 0, 90 * time.Minute, 0, 0}
	parts := []int32{0, 1, 0, 0, 0, 0, 0, 0, 1}
	all := 0
	for i := range times {
		log.append(parts[i], noon.Add(times[i]+arrived[i]), "U-1", sale(noon.Add(times[i]), 1<<i))
		all += 1 << i
	}
	ends := []int64{4, 1} // the readable ends while the cut was made
	atNoon := aggregator.Instant(noon)
	eventTime := event.Path{"saleTimestamp"}
	before := func(i int) bool { return times[i] < 0 }
	atCut := func(i int) bool {
		offset := int64(0)
		for j := range i {
			if parts[j] == parts[i] {
				offset++
			}
		}
		return offset < ends[parts[i]]
	}
	for _, c := range []struct {
		cut     Cut
		ends    bool           // the log ends at ends when the cut is made
		history func(int) bool // what the history holds of sale i
		starts  [2]int64
	}{
		{Cut{Mode: aggregator.CutEarliest}, false, func(int) bool { return false }, [2]int64{0, 0}},
		{Cut{Mode: aggregator.CutLatest}, true, atCut, [2]int64{4, 1}},
		{Cut{Mode: aggregator.CutOffsets, Offsets: map[int32]int64{0: 4, 1: 1}}, false, atCut, [2]int64{4, 1}},
		{Cut{Mode: aggregator.CutTimestamp, Timestamp: noon, Slack: 3 * time.Hour, EventTime: eventTime}, false, before, [2]int64{0, 0}},
		{Cut{Mode: aggregator.CutTimestamp, Timestamp: noon, EventTime: eventTime}, false, before, [2]int64{3, 1}},
		{Cut{Mode: aggregator.CutTimestamp, Timestamp: noon.Add(time.Millisecond), Slack: time.Minute}, false,
			func(i int) bool { return times[i]+arrived[i] < time.Millisecond }, [2]int64{2, 1}},
		{Cut{Mode: aggregator.CutGuard, EventTime: eventTime}, false, func(i int) bool { return times[i] <= 0 }, [2]int64{0, 0}},
	} {
		t.Run(fmt.Sprint(c.cut.Mode, c.cut.Slack), func(t *testing.T) {
			held, latest := 0, time.Duration(0)
			for i := range times {
				if c.history(i) {
					held |= 1 << i
					latest = max(latest, times[i])
				}
			}
			mapping := aggregator.Mapping{}
			if c.cut.Mode == aggregator.CutGuard {
				mapping.Guard = event.Path{"latest"}
			}
			file := filepath.Join(t.TempDir(), "history.ndjson")
			document := fmt.Sprintf(`{"userId":"U-1","totalRevenue":%d,"latest":%q}`, held, noon.Add(latest).Format(time.RFC3339Nano))
			if err := os.WriteFile(file, []byte(document), 0o600); err != nil {
				t.Fatal(err)
			}
			seen := log
			if c.ends {
				seen = &memLog{partitions: [][]aggregator.Record{log.partitions[0][:ends[0]], log.partitions[1][:ends[1]]}}
			}
			s, err := New(Options{Program: p, Log: seen, Cut: c.cut, Source: NewFile(file), Mapping: mapping, Partitioner: "murmur2"})
			if err != nil {
				t.Fatal(err)
			}
			stores := storesFor(p, 0, 1)
			cuts := [2]aggregator.Cut{}
			for partition := range int32(2) {
				if cuts[partition], err = s.Cut(t.Context(), topic, partition, false); err != nil {
					t.Fatal(err)
				}
				if cuts[partition].Start != c.starts[partition] || cuts[partition].Mode != c.cut.Mode {
					t.Errorf("partition %d begins at %d in mode %s, want %d", partition, cuts[partition].Start, cuts[partition].Mode, c.starts[partition])
				}
			}
			if c.cut.Mode == aggregator.CutTimestamp && c.cut.Timestamp.Equal(noon) && *cuts[0].Before != atNoon {
				t.Errorf("events before %v are left out", *cuts[0].Before)
			}
			if _, err := s.Seed(t.Context(), topic, "murmur2", seedStores(stores), untold); err != nil {
				t.Fatal(err)
			}
			for partition, cut := range cuts {
				foldFrom(t, p, stores[int32(partition)], int32(partition), cut, log.partitions[partition])
			}
			row := rows(t, p, stores)["U-1"]
			if want := fmt.Sprintf(`"totalRevenue":%d,`, all); !strings.Contains(row, want) {
				t.Errorf("the row is %s, want %s (the history held %b)", row, want, held)
			}
		})
	}
}

// foldFrom folds the records of a partition from the cut on into its store.
func foldFrom(t *testing.T, p *aggregator.Program, store *memStore, partition int32, cut aggregator.Cut, records []aggregator.Record) {
	t.Helper()
	decoder, err := p.NewDecoder(aggregator.DecodeCut{
		Before: cut.Before, EventTime: cut.EventTime, Guard: cut.Mode == aggregator.CutGuard,
	}, store.Guard)
	if err != nil {
		t.Fatal(err)
	}
	delta := p.NewDelta(partition, topic.Partitions)
	for i := range records {
		if records[i].Offset < cut.Start {
			continue
		}
		if outcome, err := decoder.Fold(delta, partition, &records[i]); err != nil || outcome.Result == aggregator.Bad {
			t.Fatalf("offset %d: %+v, %v", records[i].Offset, outcome, err)
		}
	}
	if err := store.Seed(delta.Sorted(nil), false); err != nil {
		t.Fatal(err)
	}
}

// TestK05LaterPartitions: they begin at their beginning, whatever the reset or the cut.
func TestK05LaterPartitions(t *testing.T) {
	log := &memLog{}
	for i := range 5 {
		log.append(0, noon.Add(time.Duration(i)*time.Second), "", "{}")
	}
	log.start = []int64{2}
	one := aggregator.Topic{Name: "sales", Partitions: 1}
	for _, c := range []struct {
		cut          Cut
		first, later int64
	}{
		{Cut{}, 2, 2},
		{Cut{Reset: ResetEarliest}, 2, 2},
		{Cut{Reset: ResetLatest}, 5, 2},
		{Cut{Reset: ResetError}, -1, 2},
		{Cut{Mode: aggregator.CutEarliest}, 2, 2},
		{Cut{Mode: aggregator.CutLatest}, 5, 2},
		{Cut{Mode: aggregator.CutOffsets, Offsets: map[int32]int64{0: 3}}, 3, 2},
		{Cut{Mode: aggregator.CutOffsets, Offsets: map[int32]int64{1: 3}}, -1, 2},
		{Cut{Mode: aggregator.CutTimestamp, Timestamp: noon.Add(4 * time.Second)}, 4, 2},
		{Cut{Mode: aggregator.CutTimestamp, Timestamp: noon.Add(4 * time.Second), Slack: time.Hour}, 2, 2},
		{Cut{Mode: aggregator.CutTimestamp, Timestamp: noon.Add(time.Hour)}, 5, 2},
		{Cut{Mode: aggregator.CutGuard}, 2, 2},
	} {
		s, err := New(Options{Log: log, Cut: c.cut})
		if err != nil {
			t.Fatal(err)
		}
		first, err := s.Cut(t.Context(), one, 0, false)
		if c.first < 0 && !errors.Is(err, aggregator.ErrHopeless) || c.first >= 0 && (err != nil || first.Start != c.first) {
			t.Errorf("%+v begins at %d, %v; want %d", c.cut, first.Start, err, c.first)
		}
		later, err := s.Cut(t.Context(), one, 0, true)
		if err != nil || later.Start != c.later {
			t.Errorf("%+v: a later partition begins at %d, %v; want %d", c.cut, later.Start, err, c.later)
		}
	}
}

// TestCutErrors: what is wrong with the cut ends the service, what is wrong
// with the log is waited for.
func TestCutErrors(t *testing.T) {
	log := &memLog{start: []int64{2, 2}}
	for range 5 {
		log.append(0, noon, "", "{}")
		log.append(1, noon, "", "{}")
	}
	for _, c := range []struct {
		offsets map[int32]int64
		want    string
	}{
		{map[int32]int64{0: 3}, "none for partition 1 of sales"},
		{map[int32]int64{0: 3, 1: 1}, "offset 1 of partition 1 of sales is below 2"},
		{map[int32]int64{0: 3, 1: 6}, "offset 6 of partition 1 of sales is above 5"},
		{map[int32]int64{0: 3, 1: 4, 2: 1}, "name partition 2, and sales has the partitions 0 to 1"},
	} {
		_, err := Cut{Mode: aggregator.CutOffsets, Offsets: c.offsets}.resolve(t.Context(), log, topic, 1, false)
		if !errors.Is(err, aggregator.ErrHopeless) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("offsets %v give %v", c.offsets, err)
		}
	}
	for _, at := range []int64{2, 5} { // the bounds themselves fit
		cut, err := Cut{Mode: aggregator.CutOffsets, Offsets: map[int32]int64{0: at, 1: at}}.resolve(t.Context(), log, topic, 1, false)
		if err != nil || cut.Start != at {
			t.Errorf("offset %d gives %d, %v", at, cut.Start, err)
		}
	}
	log.err = errors.New("broker is away")
	for _, mode := range []string{"", aggregator.CutLatest, aggregator.CutTimestamp, aggregator.CutGuard} {
		_, err := Cut{Mode: mode, Timestamp: noon}.resolve(t.Context(), log, topic, 1, false)
		if !errors.Is(err, log.err) || errors.Is(err, aggregator.ErrHopeless) {
			t.Errorf("mode %q: a broker that is away gives %v", mode, err)
		}
	}
}
