package store_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tidemark/aggregator"
	"tidemark/event"
	"tidemark/query"
	"tidemark/store"
)

var update = flag.Bool("update", false, "write the fixture of the present format anew")

// allAggregates is a query in which every aggregate occurs.
const allAggregates = `SELECT userId, sum(revenue) AS revenue, count(*) AS sales, count(note) AS notes,
  min(revenue) AS least, max(CAST(at AS timestamp)) AS latest, avg(revenue) AS average,
  first(note) AS firstNote, last(note) AS lastNote, min_by(note, revenue) AS cheapest,
  max_by(shop, at) AS shop, collect_set(products) AS products
FROM sales WHERE shop IS NULL OR shop <> 'test' GROUP BY userId`

func compiled(t testing.TB, sql string) *aggregator.Program {
	t.Helper()
	def, err := query.Parse(sql)
	if err != nil {
		t.Fatal(err)
	}
	program, err := aggregator.Compile(def, aggregator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// programOptions are options with a real program.
func programOptions(t testing.TB, program *aggregator.Program) store.Options {
	return store.Options{
		Program: program, Memory: 16 << 20, MinFree: -1,
		Fatal: func(reason string) { t.Errorf("fatal: %s", reason) },
	}
}

// sale is the record at an offset, pure.
func sale(offset int64) aggregator.Record {
	rng := rand.New(rand.NewPCG(uint64(offset), 7))
	note := ""
	if rng.IntN(3) == 0 {
		note = fmt.Sprintf(`,"note":"note %d"`, rng.IntN(50))
	}
	value := fmt.Sprintf(`{"userId":%d,"revenue":"%d.%02d","at":%d,"shop":"shop %d","products":[%d,"%d"]%s}`,
		rng.IntN(40), rng.IntN(2000)-500, rng.IntN(100), 1438000000+rng.IntN(1e6), rng.IntN(5), rng.IntN(30), rng.IntN(30), note)
	if rng.IntN(20) == 0 {
		value = `{"userId":` // bad
	}
	return aggregator.Record{Offset: offset, Timestamp: 1438000000000 + offset, Value: []byte(value)}
}

// foldSales folds [from, to) into a delta, with the progress that follows was.
func foldSales(t testing.TB, program *aggregator.Program, was aggregator.Progress, to int64) (*aggregator.Delta, aggregator.Progress) {
	t.Helper()
	decoder, err := program.NewDecoder(aggregator.DecodeCut{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	delta := program.NewDelta(2, 8)
	delta.Reset(was.Position)
	for offset := was.Position; offset < to; offset++ {
		r := sale(offset)
		if _, err := decoder.Fold(delta, 2, &r); err != nil {
			t.Fatal(err)
		}
	}
	next := was
	next.Position = to
	next.Counts.Add(delta.Counts)
	next.Placement = 3
	return delta, next
}

func programIdentity(program *aggregator.Program) aggregator.Identity {
	id := identity(2)
	id.Definition = program.Definition()
	return id
}

// rows are the answers of all keys, as they go out.
func rows(t testing.TB, program *aggregator.Program, s viewer) map[string]string {
	t.Helper()
	v, err := s.View()
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]string)
	for key, encoded := range v.Scan(nil) {
		total := program.NewTotal()
		if err := total.Merge(encoded); err != nil {
			t.Fatal(err)
		}
		all[string(key)] = string(total.AppendRow(nil, key, false))
	}
	if err := errors.Join(v.Err(), v.Close()); err != nil {
		t.Fatal(err)
	}
	return all
}

// However the log is cut into applies, flushed and compacted, the bytes of the
// totals are those of one delta over all of it.
func TestProgramTotalsAreTheStraightFold(t *testing.T) {
	program := compiled(t, allAggregates)
	const end = 3000
	whole, want := foldSales(t, program, aggregator.Progress{Seeded: true}, end)
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 6))
		d := openDir(t, t.TempDir(), programOptions(t, program))
		s, err := d.Create(programIdentity(program), aggregator.Progress{Seeded: true})
		if err != nil {
			t.Fatal(err)
		}
		p := s.(*store.Partition)
		for p.Progress().Position < end {
			delta, next := foldSales(t, program, p.Progress(), min(end, p.Progress().Position+1+rng.Int64N(600)))
			if err := p.Apply(t.Context(), delta.Sorted(nil), next); err != nil {
				t.Fatal(err)
			}
			if rng.IntN(2) == 0 {
				if err := p.Flush(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if rng.IntN(2) == 0 {
			if err := p.Compact(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if p.Progress() != want {
			t.Errorf("progress %+v, want %+v", p.Progress(), want)
		}
		keys := 0
		for key, total := range whole.Sorted(nil) {
			keys++
			if got, ok, err := read(p, nil, key); err != nil || !ok || string(got) != string(total) {
				t.Errorf("seed %d: %q is %x, want %x (%v)", seed, key, got, total, err)
			}
		}
		if got := len(rows(t, program, p)); got != keys {
			t.Errorf("seed %d: %d keys, want %d", seed, got, keys)
		}
	}
}

// golden is what the fixture of a format holds.
type golden struct {
	Identity aggregator.Identity
	Progress aggregator.Progress
	Guards   map[string]event.Time
	Rows     map[string]string
}

// Every format that was ever released is opened and read by this program, goes
// on from there, and gives the rows that it gave when it was written.
func TestS14OldFormatsAreRead(t *testing.T) {
	const position, further = 2000, 2500
	program := compiled(t, allAggregates)
	if *update {
		writeFixture(t, program, filepath.Join("testdata", fmt.Sprintf("v%d", store.FormatVersion)), position)
	}
	fixtures, err := filepath.Glob("testdata/v*")
	if err != nil || len(fixtures) != store.FormatVersion {
		t.Fatalf("fixtures %v (%v), want one for each of the formats 1 to %d", fixtures, err, store.FormatVersion)
	}
	for _, fixture := range fixtures {
		t.Run(filepath.Base(fixture), func(t *testing.T) {
			var want golden
			text, err := os.ReadFile(filepath.Join(fixture, "golden.json"))
			if err := errors.Join(err, json.Unmarshal(text, &want)); err != nil {
				t.Fatal(err)
			}
			path := t.TempDir()
			if err := os.CopyFS(path, os.DirFS(filepath.Join(fixture, "state"))); err != nil {
				t.Fatal(err)
			}
			d := openDir(t, path, programOptions(t, program))
			p := openPartition(t, d, 2)
			if got := asJSON(t, held(t, program, p)); got != asJSON(t, want) {
				t.Errorf("it holds\n%s\nwant\n%s", got, asJSON(t, want))
			}
			delta, next := foldSales(t, program, p.Progress(), further)
			if err := errors.Join(p.Apply(t.Context(), delta.Sorted(nil), next), d.Close()); err != nil {
				t.Fatal(err)
			}
			p = openPartition(t, openDir(t, path, programOptions(t, program)), 2)
			whole, _ := foldSales(t, program, aggregator.Progress{}, further)
			for key, total := range whole.Sorted(nil) {
				if got, ok, err := read(p, nil, key); err != nil || !ok || string(got) != string(total) {
					t.Errorf("%q after more is %x, want %x (%v)", key, got, total, err)
				}
			}
		})
	}
}

func held(t *testing.T, program *aggregator.Program, p *store.Partition) golden {
	g := golden{Identity: p.Identity(), Progress: p.Progress(), Rows: rows(t, program, p), Guards: make(map[string]event.Time)}
	for key := range g.Rows {
		at, ok, err := p.Guard([]byte(key))
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			g.Guards[key] = at
		}
	}
	return g
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// writeFixture makes a state in several tables, closes it, and writes down what
// it holds.
func writeFixture(t *testing.T, program *aggregator.Program, path string, position int64) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(path, "state")
	d := openDir(t, state, programOptions(t, program))
	p, err := d.Create(programIdentity(program), aggregator.Progress{})
	if err != nil {
		t.Fatal(err)
	}
	guards := func(yield func([]byte, event.Time) bool) {
		_ = yield([]byte("10"), event.Time{Sec: -1, Nsec: 999999999}) && yield([]byte("7"), event.Time{Sec: 1438000000})
	}
	if err := p.Guards(guards); err != nil {
		t.Fatal(err)
	}
	for to := position / 4; to <= position; to += position / 4 {
		was := p.Progress()
		was.Seeded, was.Epoch, was.Documents = true, 3, 2
		delta, next := foldSales(t, program, was, to)
		if err := errors.Join(p.Apply(t.Context(), delta.Sorted(nil), next), p.Flush()); err != nil {
			t.Fatal(err)
		}
	}
	text := asJSON(t, held(t, program, p.(*store.Partition)))
	if err := errors.Join(d.Close(), os.WriteFile(filepath.Join(path, "golden.json"), []byte(text+"\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	for name := range files(t, path) { // what is of no use to a reader
		if strings.HasSuffix(name, "LOCK") || strings.HasSuffix(name, ".log") {
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
		}
	}
}
