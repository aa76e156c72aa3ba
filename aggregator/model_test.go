package aggregator

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"tidemark/event"
	"tidemark/query"
)

// TestModel folds random events of random definitions in two ways and compares
// both with a slow, obvious reference: once in order into one delta, and once
// in any order, in any batches, through encodings that are merged in any tree.
// Answers must be the reference's, and encodings the same byte for byte. D18.
func TestModelD18(t *testing.T) { rapid.Check(t, checkModel) }

func checkModel(t *rapid.T) {
	m := drawModel(t)
	def, err := query.Parse(m.sql())
	if err != nil {
		t.Fatalf("%s: %v", m.sql(), err)
	}
	p, err := Compile(def, Options{SetLimit: m.limit})
	if err != nil {
		t.Fatal(err)
	}
	events := rapid.SliceOfN(rapid.Custom(drawEvent), 0, 40).Draw(t, "events")
	for i := range events {
		events[i].at.offset = int64(i)
	}

	straight := p.NewDelta(1, 3)
	folder := newFolder(t, p)
	for i := range events {
		folder.fold(straight, m, &events[i])
	}
	if n := straight.Counts.Consumed(); n != int64(len(events)) {
		t.Fatalf("%d records are counted, of %d", n, len(events))
	}
	want := m.answers()
	if straight.Len() != len(want) {
		t.Fatalf("the delta has %d keys, want %d", straight.Len(), len(want))
	}
	whole := encodings(straight)
	placement := allPartitioners
	for _, key := range slices.Sorted(maps.Keys(want)) {
		total := p.NewTotal()
		if err := total.Merge(whole[key]); err != nil {
			t.Fatal(err)
		}
		if got := string(total.AppendRow(nil, []byte(key), false)); got != want[key].row {
			t.Fatalf("%s\nkey %s\n got %s\nwant %s", m.sql(), key, got, want[key].row)
		}
		if got := strings.Join(total.Capped(), ","); got != want[key].capped {
			t.Fatalf("%s: key %s is capped in %q, want %q", m.sql(), key, got, want[key].capped)
		}
		placement = placement.keep([]byte(key), 1, 3)
	}
	if straight.Placement != placement {
		t.Fatalf("the placement is %03b, want %03b", straight.Placement, placement)
	}

	// Any order, any batches; deltas that were used before.
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	shuffled := slices.Clone(events)
	r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	var parts []map[string][]byte
	var counts Counts
	delta := p.NewDelta(1, 3)
	for len(shuffled) > 0 {
		delta.Reset(0)
		n := 1 + r.IntN(len(shuffled))
		records := map[int32][]Record{} // by partition
		for i := range shuffled[:n] {
			p := shuffled[i].at.partition
			records[p] = append(records[p], *shuffled[i].record())
		}
		for p, some := range records {
			done, err := folder.decoder.FoldAll(delta, p, some, make([]Outcome, len(some)))
			if err != nil || done != len(some) {
				t.Fatal(done, err)
			}
		}
		shuffled = shuffled[n:]
		parts = append(parts, encodings(delta))
		counts.Add(delta.Counts)
	}
	if counts != straight.Counts {
		t.Fatalf("counts of the batches are %v, of the whole %v", counts, straight.Counts)
	}
	merged := mergeTree(t, p, r, parts)
	if len(merged) != len(whole) {
		t.Fatalf("%d keys after merging, want %d", len(merged), len(whole))
	}
	for key, total := range whole {
		if !bytes.Equal(merged[key], total) {
			t.Fatalf("%s\nkey %s\nmerged %x\nwhole  %x", m.sql(), key, merged[key], total)
		}
	}
}

// encodings are a delta's totals by key. Sorted, Smallest and Get must agree.
func encodings(d *Delta) map[string][]byte {
	all := map[string][]byte{}
	last := ""
	for key, total := range d.Sorted(nil) {
		if len(all) > 0 && string(key) <= last {
			panic(fmt.Sprintf("key %q comes after %q", key, last))
		}
		last = string(key)
		all[last] = bytes.Clone(total)
		if got, ok := d.Get(nil, key); !ok || !bytes.Equal(got, total) {
			panic(fmt.Sprintf("Get of %q returns %x, Sorted %x", key, got, total))
		}
	}
	return all
}

// mergeTree merges maps of totals in a random tree, in random order.
func mergeTree(t *rapid.T, p *Program, r *rand.Rand, parts []map[string][]byte) map[string][]byte {
	total := p.NewTotal()
	for len(parts) > 1 {
		i := r.IntN(len(parts))
		a := parts[i]
		parts = slices.Delete(parts, i, i+1)
		j := r.IntN(len(parts))
		b := parts[j]
		out := map[string][]byte{}
		for _, m := range []map[string][]byte{a, b} {
			for key, encoded := range m {
				total.Reset()
				operands := [][]byte{encoded, out[key]}
				if r.IntN(2) == 0 {
					slices.Reverse(operands)
				}
				for _, o := range operands {
					if o == nil {
						continue
					}
					if err := total.Merge(o); err != nil {
						t.Fatal(err)
					}
				}
				out[key] = total.Append(nil)
			}
		}
		parts[j] = out
	}
	if len(parts) == 0 {
		return nil
	}
	return parts[0]
}

// folder folds events and compares each outcome with the model's.
type folder struct {
	t       *rapid.T
	decoder *Decoder
}

func newFolder(t *rapid.T, p *Program) *folder {
	d, err := p.NewDecoder(DecodeCut{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &folder{t, d}
}

func (f *folder) fold(delta *Delta, m *model, e *modelEvent) {
	got, err := f.decoder.Fold(delta, e.at.partition, e.record())
	if err != nil {
		f.t.Fatal(err)
	}
	if want := m.take(e); got != want {
		f.t.Fatalf("%s\nevent %s\n got %v %v %q\nwant %v %v %q", m.sql(), e.json(),
			got.Result, got.Reason, got.Field, want.Result, want.Reason, want.Field)
	}
}

// model is a definition and, by key, the events that were folded.
type model struct {
	keys    []string // the paths of the key columns
	where   bool     // s IS NULL OR s <> 'x'
	columns []modelColumn
	limit   int
	folded  map[string][]*modelEvent
}

func drawModel(t *rapid.T) *model {
	m := &model{keys: []string{"k"}, limit: rapid.IntRange(1, 9).Draw(t, "limit"), folded: map[string][]*modelEvent{}}
	if rapid.Bool().Draw(t, "two keys") {
		m.keys = append(m.keys, "j")
	}
	m.where = rapid.Bool().Draw(t, "where")
	m.columns = rapid.SliceOfNDistinct(rapid.SampledFrom(modelColumns), 1, 6,
		func(c modelColumn) string { return c.sql }).Draw(t, "columns")
	return m
}

func (m *model) sql() string {
	selected := slices.Clone(m.keys)
	for i, c := range m.columns {
		selected = append(selected, fmt.Sprintf("%s AS c%d", c.sql, i))
	}
	where := ""
	if m.where {
		where = "WHERE s IS NULL OR s <> 'x' "
	}
	return fmt.Sprintf("SELECT %s FROM sales %sGROUP BY %s", strings.Join(selected, ", "), where, strings.Join(m.keys, ", "))
}

// take says what becomes of an event, and remembers it where it is folded.
func (m *model) take(e *modelEvent) Outcome {
	if e.tombstone {
		return Outcome{Result: Tombstone}
	}
	if e.raw != "" {
		return Outcome{Bad, e.rawReason, e.rawField}
	}
	if s := e.fields["s"]; m.where && !s.isNull() && (s.kind != modelText || s.text == "x") {
		return Outcome{Result: Filtered}
	}
	var parts []string
	for _, k := range m.keys {
		text, _, reason := e.fields[k].key()
		if reason != event.OK {
			return Outcome{Bad, reason, k}
		}
		parts = append(parts, text)
	}
	for _, c := range m.columns {
		out := Outcome{Result: Bad}
		for _, a := range c.args {
			if _, reason := a.read(e); reason != event.OK && (out.Reason == event.OK || reason < out.Reason) {
				out.Reason, out.Field = reason, a.path
			}
		}
		if out.Reason != event.OK {
			return out
		}
	}
	key := parts[0]
	if len(parts) > 1 {
		for i, p := range parts {
			parts[i] = escapeKey(p)
		}
		key = strings.Join(parts, "/")
	}
	m.folded[key] = append(m.folded[key], e)
	return Outcome{Result: Folded}
}

func escapeKey(text string) string {
	var out strings.Builder
	for _, c := range []byte(text) {
		if strings.IndexByte("-._~", c) >= 0 || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' {
			out.WriteByte(c)
		} else {
			fmt.Fprintf(&out, "%%%02X", c)
		}
	}
	return out.String()
}

type modelAnswer struct{ row, capped string }

// answers are the rows by key.
func (m *model) answers() map[string]modelAnswer {
	all := map[string]modelAnswer{}
	for key, events := range m.folded {
		var row, capped []string
		for _, k := range m.keys {
			text, number := "", true
			for _, e := range events {
				t, n, _ := e.fields[k].key()
				text, number = t, number && n
			}
			if !number {
				text = quoteJSON(text)
			}
			row = append(row, fmt.Sprintf("%q:%s", k, text))
		}
		for i, c := range m.columns {
			answer, full := c.answer(m.limit, c.args, events)
			row = append(row, fmt.Sprintf(`"c%d":%s`, i, answer))
			if full {
				capped = append(capped, fmt.Sprintf("c%d", i))
			}
		}
		all[key] = modelAnswer{"{" + strings.Join(row, ",") + "}", strings.Join(capped, ",")}
	}
	return all
}
