package query

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

const canonicalBase = "SELECT userId, CAST(max(ts) AS timestamp) AS latest, sum(CASE WHEN kind <> 'x' AND a = 1 THEN b ELSE c END) AS total FROM sales WHERE channel IS NULL OR channel <> 'test' GROUP BY userId"

// TestSameFingerprint: how a query is written does not matter.
func TestSameFingerprint(t *testing.T) {
	want := Fingerprint(mustParse(t, canonicalBase).Clauses())
	for _, sql := range []string{
		"select userId, cast(max(ts) as Timestamp) latest, SUM(case when kind != 'x' and a = 1 then b else c end) total from sales where channel is null or channel != 'test' group by userId;",
		"SELECT `userId` AS userId, max(CAST(\"ts\" AS TIMESTAMP)) `latest`, sum(CASE WHEN ((kind <> 'x') AND (a = 1.0)) THEN (b) ELSE c END) AS total FROM \"sales\" WHERE (channel IS NULL) OR NOT (channel = 'test') GROUP BY `userId`",
		"SELECT userId -- the user\n,/* newest */max(cast(ts as timestamp)) latest,\n\nsum(CASE WHEN kind <> 'x' AND a = 1e0 THEN b ELSE c END) total\tFROM sales WHERE NOT channel IS NOT NULL OR channel <> 'test' GROUP\nBY userId",
	} {
		d := mustParse(t, sql)
		if got := Fingerprint(d.Clauses()); got != want {
			t.Errorf("%s: %s", sql, Differs(mustParse(t, canonicalBase).Clauses(), d.Clauses()))
		}
	}
}

// TestDiffers: what alters the totals or the answer is another definition, and
// the clause is named.
func TestDiffers(t *testing.T) {
	was := mustParse(t, canonicalBase).Clauses()
	if got := Differs(was, was); got != "" {
		t.Errorf("a definition differs from itself: %s", got)
	}
	for sql, want := range map[string]string{
		"SELECT userId, CAST(max(ts) AS timestamp) AS latest, sum(CASE WHEN kind <> 'x' AND a = 1 THEN b ELSE c END) AS total FROM orders WHERE channel IS NULL OR channel <> 'test' GROUP BY userId":                       "FROM: was sales, is orders",
		"SELECT userId, CAST(max(ts) AS timestamp) AS latest, sum(CASE WHEN kind <> 'x' AND a = 1 THEN b ELSE c END) AS total FROM sales GROUP BY userId":                                                                   "WHERE: was channel IS NULL OR channel <> 'test', is gone",
		"SELECT userId, CAST(max(ts) AS timestamp) AS latest, sum(CASE WHEN kind <> 'x' AND a = 1 THEN b ELSE c END) AS total FROM sales WHERE channel IS NULL OR channel <> 'Test' GROUP BY userId":                        "WHERE: was channel IS NULL OR channel <> 'test', is channel IS NULL OR channel <> 'Test'",
		"SELECT userid AS userId, CAST(max(ts) AS timestamp) AS latest, sum(CASE WHEN kind <> 'x' AND a = 1 THEN b ELSE c END) AS total FROM sales WHERE channel IS NULL OR channel <> 'test' GROUP BY userid":              "GROUP BY: was userId, is userid",
		"SELECT userId, max(ts) AS latest, sum(CASE WHEN kind <> 'x' AND a = 1 THEN b ELSE c END) AS total FROM sales WHERE channel IS NULL OR channel <> 'test' GROUP BY userId":                                           "SELECT latest: was max(CAST(ts AS TIMESTAMP)), is max(ts)",
		"SELECT userId, CAST(max(ts) AS timestamp) AS latest, CAST(sum(CASE WHEN kind <> 'x' AND a = 1 THEN b ELSE c END) AS decimal(10,2)) AS total FROM sales WHERE channel IS NULL OR channel <> 'test' GROUP BY userId": "SELECT total: was sum(CASE WHEN kind <> 'x' AND a = 1 THEN b ELSE c END), is CAST(sum(CASE WHEN kind <> 'x' AND a = 1 THEN b ELSE c END) AS DECIMAL(10,2))",
		"SELECT userId, CAST(max(ts) AS timestamp) AS newest, sum(CASE WHEN kind <> 'x' AND a = 1 THEN b ELSE c END) AS total FROM sales WHERE channel IS NULL OR channel <> 'test' GROUP BY userId":                        "SELECT latest: was max(CAST(ts AS TIMESTAMP)), is gone",
		canonicalBase[:7] + "count(*) AS n, " + canonicalBase[7:]: "SELECT n: was not there, is count(*)",
		"SELECT CAST(max(ts) AS timestamp) AS latest, userId, sum(CASE WHEN kind <> 'x' AND a = 1 THEN b ELSE c END) AS total FROM sales WHERE channel IS NULL OR channel <> 'test' GROUP BY userId": "SELECT: the order of the columns was userId, latest, total, is latest, userId, total",
	} {
		is := mustParse(t, sql).Clauses()
		if got := Differs(was, is); got != want {
			t.Errorf("%s:\n got %s\nwant %s", sql, got, want)
		}
		if Fingerprint(is) == Fingerprint(was) {
			t.Errorf("%s: the fingerprint is the same", sql)
		}
	}
	if got, want := Differs([]Clause{{"a", "b"}}, []Clause{{"a", "b"}, {"events.timestamp_zone", "UTC"}}), "events.timestamp_zone: was not there, is UTC"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := Differs(nil, []Clause{{"WHERE", "a"}}), "WHERE: was not there, is a"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestFingerprintIsFixed: states on disk carry it, so it must never change for
// a query that keeps its meaning.
func TestFingerprintIsFixed(t *testing.T) {
	clauses := mustParse(t, canonicalBase).Clauses()
	want := []Clause{
		{"FROM", "sales"},
		{"WHERE", "channel IS NULL OR channel <> 'test'"},
		{"GROUP BY", "userId"},
		{"SELECT userId", "userId"},
		{"SELECT latest", "max(CAST(ts AS TIMESTAMP))"},
		{"SELECT total", "sum(CASE WHEN kind <> 'x' AND a = 1 THEN b ELSE c END)"},
	}
	if diff := cmp.Diff(want, clauses); diff != "" {
		t.Error(diff)
	}
	const fingerprint = "193c7a7e1c77d4bd1b46037aeaef7d9df0de2d07204267199307617a8856cc5d"
	if got := Fingerprint(clauses); got != fingerprint {
		t.Errorf("got %s, want %s", got, fingerprint)
	}
	// The bounds between texts count.
	if Fingerprint([]Clause{{"a", "bc"}}) == Fingerprint([]Clause{{"ab", "c"}}) {
		t.Error("the bound between name and text does not count")
	}
}

// TestReadsTimestamps: the zone is part of the definition where it matters.
func TestReadsTimestamps(t *testing.T) {
	for sql, want := range map[string]bool{
		"select a, sum(b) from t group by a":                                                                                   false,
		"select a, cast(max(b) as timestamp) x from t group by a":                                                              true,
		"select a, cast(max_by(b, c) as timestamp) x from t group by a":                                                        true,
		"select a, max_by(b, cast(c as timestamp)) x from t group by a":                                                        true,
		"select a, sum(b) from t where not (c = 1 or coalesce(cast(d as timestamp), cast(e as timestamp)) is null) group by a": true,
		"select a, sum(case b when 1 then c else cast(cast(d as timestamp) as bigint) * -2 + 1 end) x from t group by a":       true,
		"select a, count(*) from t where b between 1 and 2 and c in (1, d) and e like ' AS TIMESTAMP)' group by a":             false,
	} {
		if got := mustParse(t, sql).ReadsTimestamps(); got != want {
			t.Errorf("%s: got %v, want %v", sql, got, want)
		}
	}
}

// TestResultType: what casts make sure of.
func TestResultType(t *testing.T) {
	for expr, want := range map[string]string{
		"b":                        "",
		"1":                        "",
		"b + 1":                    "",
		"CAST(b AS decimal(10,2))": "DECIMAL(10,2)",
		"COALESCE(CAST(b AS timestamp), '2015-07-29T00:00:00Z')":                        "TIMESTAMP",
		"COALESCE(CAST(b AS bigint), 0)":                                                "",
		"COALESCE(CAST(b AS bigint), NULL)":                                             "BIGINT",
		"CASE WHEN a THEN CAST(b AS string) WHEN c THEN CAST(d AS string) END":          "STRING",
		"CASE WHEN a THEN CAST(b AS decimal(5,1)) ELSE CAST(d AS decimal(5,2)) END":     "",
		"CASE WHEN a THEN COALESCE(CAST(b AS bigint), CAST(c AS bigint)) ELSE NULL END": "BIGINT",
	} {
		_, x := inAggregate(t, expr)
		got := ""
		if typ, ok := ResultType(x); ok {
			got = typ.String()
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", expr, got, want)
		}
	}
}

// TestDecimals: how many decimals decimal(p,s) gives an expression.
func TestDecimals(t *testing.T) {
	const two, three = "CAST(b AS decimal(10,2))", "CAST(c AS decimal(10,3))"
	for expr, want := range map[string]int32{
		two:                                  2,
		"CAST(b AS decimal(10))":             0,
		"-" + two:                            2,
		"COALESCE(" + two + ", 0)":           2,
		"COALESCE(NULL, " + two + ", 0.125)": 3,
		two + " + " + three + " - 1":         3,
		two + " * " + three + " * 1.5":       6,
		two + " * CAST(n AS bigint)":         2,
		"CASE WHEN a THEN -" + two + " ELSE " + two + " END": 2,
		"CASE WHEN a THEN " + two + " END":                   2,

		"b":                                -1,
		"1.50":                             -1,
		"CAST(b AS bigint)":                -1,
		"CAST(b AS decimal)":               -1,
		two + " + b":                       -1,
		two + " + CAST(b AS decimal)":      -1,
		"COALESCE(" + two + ", b)":         -1,
		"CAST(" + two + " AS string)":      -1,
		"COALESCE(" + two + ", 'none')":    -1,
		"CASE WHEN a THEN 1 ELSE TRUE END": -1,
	} {
		_, x := inAggregate(t, expr)
		got := int32(-1)
		if scale, ok := Decimals(x); ok {
			got = scale
		}
		if got != want {
			t.Errorf("%s: got %d, want %d", expr, got, want)
		}
	}
}
