package aggregator

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"tidemark/event"
	"tidemark/query"
)

// rows folds events, given as JSON or as whole records, into one program's
// delta, and answers.
type rows struct {
	t       testing.TB
	program *Program
	decoder *Decoder
	delta   *Delta
	offset  int64
}

func newRows(t testing.TB, sql string, opts Options) *rows {
	t.Helper()
	def, err := query.Parse(sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	p, err := Compile(def, opts)
	if err != nil {
		t.Fatal(err)
	}
	d, err := p.NewDecoder(DecodeCut{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &rows{t: t, program: p, decoder: d, delta: p.NewDelta(0, 1)}
}

// selects is newRows for aggregates of userId.
func selects(t testing.TB, columns string) *rows {
	t.Helper()
	return newRows(t, "SELECT userId, "+columns+" FROM sales GROUP BY userId", Options{})
}

// record folds one record.
func (r *rows) record(rec Record) Outcome {
	r.t.Helper()
	out, err := r.decoder.Fold(r.delta, 0, &rec)
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

// value folds one event at the next offset.
func (r *rows) value(json string) Outcome {
	r.t.Helper()
	r.offset++
	return r.record(Record{Offset: r.offset, Timestamp: r.offset * 1000, Value: []byte(json)})
}

// fold folds events of user 1, given without the braces and the user; all must
// be folded.
func (r *rows) fold(events ...string) *rows {
	r.t.Helper()
	for _, e := range events {
		if e != "" {
			e = "," + e
		}
		if out := r.value(`{"userId":1` + e + `}`); out.Result != Folded {
			r.t.Errorf("{%s} is %v: %v %s", e, out.Result, out.Reason, out.Field)
		}
	}
	return r
}

// bad folds an event of user 1 that must be bad.
func (r *rows) bad(e string, reason event.Reason, field string) *rows {
	r.t.Helper()
	before := encodedDelta(r.delta)
	if got, want := r.value(`{"userId":1,`+e+`}`), (Outcome{Bad, reason, field}); got != want {
		r.t.Errorf("{%s} is %v %v %q, want bad %v %q", e, got.Result, got.Reason, got.Field, reason, field)
	}
	if after := encodedDelta(r.delta); !slices.Equal(before, after) {
		r.t.Errorf("{%s} is bad and left a trace: %x, before %x", e, after, before)
	}
	return r
}

// encodedDelta is a delta's keys and totals.
func encodedDelta(d *Delta) (all []string) {
	for key, total := range d.Sorted(nil) {
		all = append(all, fmt.Sprintf("%s=%x", key, total))
	}
	return all
}

// total is a key's total, taken through its encoding.
func (r *rows) total(key string) *Total {
	r.t.Helper()
	encoded, ok := r.delta.Get(nil, []byte(key))
	if !ok {
		r.t.Fatalf("the delta has no key %q", key)
	}
	total := r.program.NewTotal()
	if err := total.Merge(encoded); err != nil {
		r.t.Fatal(err)
	}
	if again := total.Append(nil); !bytes.Equal(encoded, again) {
		r.t.Errorf("total %x becomes %x", encoded, again)
	}
	return total
}

// row is a key's row.
func (r *rows) row(key string) string {
	r.t.Helper()
	return string(r.total(key).AppendRow(nil, []byte(key), false))
}

// expect compares user 1's row without the user.
func (r *rows) expect(want string) *rows {
	r.t.Helper()
	got := strings.TrimSuffix(strings.TrimPrefix(r.row("1"), `{"userId":1,`), "}")
	if got != want {
		r.t.Errorf("the row has %s, want %s", got, want)
	}
	return r
}
