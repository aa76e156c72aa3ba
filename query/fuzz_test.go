package query

import (
	"errors"
	"testing"

	"tidemark/event"
)

// FuzzParse: no text makes Parse crash; its errors have a place; what it reads
// has a canonical text that reads back as the same definition; and evaluating
// it over any event ends.
func FuzzParse(f *testing.F) {
	for _, sql := range []string{
		canonicalBase,
		"select userId, cast(max(saleTimestamp) as Timestamp) as latestSaleTimestamp, sum(totalRevenue) as totalRevenue, sum(totalPoints) as totalPoints from sales group by userId",
		"select `odd ``name`.\"a.b\", count(*), count(b), min_by(b, c) from `my-topic.v1` group by `odd ``name`.`a.b` -- end",
		"select a, sum(case b when 'x' then -c else coalesce(d, .5) * 2 - 1e3 end) s from t where not (a is not null and b not in (1, 'it''s', null) or c between 1 and 2 and d not like '%a\\_b_') group by a;",
		"select a, cast(cast(last(b) as timestamp) as string) l, cast(avg(b) as decimal(10,2)), collect_set(cast(b as bigint)) from t where cast(c as timestamp) > '2015-07-29' group by a",
		"select a, sum(b) over (partition by c) from t", "select 'open", "select /* open", "(((((", "select a from t group by window(b)",
		"select a, sum(- - -b - -(-(-c))) s, first(not not not (not b)) f, max(true) from t group by a",
	} {
		f.Add(sql)
	}
	f.Fuzz(func(t *testing.T, sql string) {
		d, err := Parse(sql)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Line < 1 || e.Column < 1 || e.Message == "" {
				t.Fatalf("%q: the error has no place: %#v", sql, err)
			}
			return
		}
		text := d.String()
		if len(text) > MaxBytes {
			return
		}
		again, err := Parse(text)
		if err != nil {
			t.Fatalf("%q is %q, which does not read back: %v", sql, text, err)
		}
		if again.String() != text || Fingerprint(again.Clauses()) != Fingerprint(d.Clauses()) {
			t.Fatalf("%q is %q, which reads back as %q", sql, text, again)
		}
		if len(d.Keys) == 0 || len(d.Columns) != len(d.Keys)+len(d.Aggregates) {
			t.Fatalf("%q has %d keys, %d aggregates and %d columns", sql, len(d.Keys), len(d.Aggregates), len(d.Columns))
		}
		env := &Env{Values: make([]event.Value, len(d.Paths))}
		for i := range env.Values {
			env.Values[i] = event.Value{Kind: event.Kind(i % int(event.Object+1)), Bytes: []byte("12")}
		}
		if d.Where != nil {
			True(d.Where, env)
		}
		for _, a := range d.Aggregates {
			if a.Arg == nil {
				continue
			}
			if v, reason, _ := Required(a.Arg, env); reason == event.OK && v.IsNull() {
				t.Fatalf("%s: a required value is NULL", a)
			}
			Optional(a.Arg, env)
		}
		d.ReadsTimestamps()
	})
}
