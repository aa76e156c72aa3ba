package query

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tidemark/event"
)

// TestTheQueryToReplace binds the query that the service is made for, as it
// stands.
func TestTheQueryToReplace(t *testing.T) {
	const sql = "select userId, cast(max(saleTimestamp) as Timestamp) as latestSaleTimestamp, sum(totalRevenue) as totalRevenue, sum(totalPoints) as totalPoints from sales group by userId"
	path := func(slot int, name string) *Path { return &Path{Slot: slot, Name: name} }
	want := &Definition{
		SQL:   sql,
		Topic: "sales",
		Paths: []event.Path{{"userId"}, {"saleTimestamp"}, {"totalRevenue"}, {"totalPoints"}},
		Keys:  []Key{{Name: "userId", Slot: 0}},
		Aggregates: []Aggregate{
			{Func: Max, Name: "latestSaleTimestamp", Arg: &Cast{X: path(1, "saleTimestamp"), Type: Type{Name: TypeTimestamp}}},
			{Func: Sum, Name: "totalRevenue", Arg: path(2, "totalRevenue")},
			{Func: Sum, Name: "totalPoints", Arg: path(3, "totalPoints")},
		},
		Columns: []Column{
			{Name: "userId", Key: 0, Aggregate: -1},
			{Name: "latestSaleTimestamp", Key: -1, Aggregate: 0},
			{Name: "totalRevenue", Key: -1, Aggregate: 1},
			{Name: "totalPoints", Key: -1, Aggregate: 2},
		},
	}
	if diff := cmp.Diff(want, mustParse(t, sql)); diff != "" {
		t.Error(diff)
	}
}

// TestSlots: each path has one slot, the keys the first.
func TestSlots(t *testing.T) {
	d := mustParse(t, `SELECT sum(a.b) s, region, max_by(c, a.b) m, user.id FROM t WHERE c > 1 AND user.id <> region AND "a.b" = 1 GROUP BY user.id, region`)
	want := []event.Path{{"user", "id"}, {"region"}, {"c"}, {"a.b"}, {"a", "b"}}
	if diff := cmp.Diff(want, d.Paths); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]Key{{"id", 0}, {"region", 1}}, d.Keys); diff != "" {
		t.Error(diff)
	}
	wantColumns := []Column{{"s", -1, 0}, {"region", 1, -1}, {"m", -1, 1}, {"id", 0, -1}}
	if diff := cmp.Diff(wantColumns, d.Columns); diff != "" {
		t.Error(diff)
	}
}

// TestGood has queries and their canonical text.
func TestGood(t *testing.T) {
	for _, c := range []struct{ sql, want string }{
		// Names.
		{"select count, sum(sum) value, first(first), last(timestamp) cast from max group by count",
			"SELECT count AS count, sum(sum) AS value, first(first) AS `first(first)`, last(timestamp) AS cast FROM max GROUP BY count"},
		{"select order, max(limit) as from_, min(having.select) as end_ from union group by order",
			"SELECT order AS order, max(limit) AS from_, min(having.`select`) AS end_ FROM union GROUP BY order"},
		{"select `odd ``name`, sum(\"say \"\"so\"\"\") as `x y` from \"my-topic.v1\" group by \"odd `name\"",
			"SELECT `odd ``name` AS `odd ``name`, sum(`say \"so\"`) AS `x y` FROM `my-topic.v1` GROUP BY `odd ``name`"},
		{"select user.`odd name`.\"a.b\", count(*) n from t group by user.`odd name`.`a.b`",
			"SELECT user.`odd name`.`a.b` AS `a.b`, count(*) AS n FROM t GROUP BY user.`odd name`.`a.b`"},
		{"select größe, sum(`select`) s from t group by größe",
			"SELECT `größe` AS `größe`, sum(`select`) AS s FROM t GROUP BY `größe`"},
		{"select a.end, sum(b.case) \u0131n, sum(\u017felect) x from t group by a.end",
			"SELECT a.`end` AS `end`, sum(b.`case`) AS `\u0131n`, sum(`\u017felect`) AS x FROM t GROUP BY a.`end`"},
		{"select `@timestamp`, count(*) as `group` from t group by `@timestamp`",
			"SELECT `@timestamp` AS `@timestamp`, count(*) AS `group` FROM t GROUP BY `@timestamp`"},
		{"select user.id as uid, count(*) n from t group by uid", "SELECT user.id AS uid, count(*) AS n FROM t GROUP BY user.id"},
		{"select a as b, b as a, count(*) n from t group by b, a", "SELECT a AS b, b AS a, count(*) AS n FROM t GROUP BY b, a"},
		{"select (a), (sum((b))) s from t group by (a)", "SELECT a AS a, sum(b) AS s FROM t GROUP BY a"},
		{"select Key, key, count(*) n from t group by key, Key", "SELECT Key AS Key, key AS key, count(*) AS n FROM t GROUP BY key, Key"},
		// A query of keys alone says which there are.
		{"select a, b from t group by a, b;", "SELECT a AS a, b AS b FROM t GROUP BY a, b"},

		// White space and comments.
		{"\ufeff-- the job\nSELECT/* a /* nested */ one */a,count(*)AS n--n\r\n\tFROM\u00a0t GROUP\nBY a ; ;",
			"SELECT a AS a, count(*) AS n FROM t GROUP BY a"},
		{"select a, sum(b--c\n-1) s from t group by a", "SELECT a AS a, sum(b - 1) AS s FROM t GROUP BY a"},

		// Aggregates.
		{"SELECT a, SUM(b), COUNT(*), Count(b), MIN(b), MAX(b), AVG(b), FIRST(b), LAST(b), MIN_BY(b, c), MAX_BY(b, c), COLLECT_SET(b) FROM t GROUP BY a",
			"SELECT a AS a, sum(b) AS `sum(b)`, count(*) AS `count(1)`, count(b) AS `count(b)`, min(b) AS `min(b)`, max(b) AS `max(b)`, avg(b) AS `avg(b)`, first(b) AS `first(b)`, last(b) AS `last(b)`, min_by(b, c) AS `min_by(b, c)`, max_by(b, c) AS `max_by(b, c)`, collect_set(b) AS `collect_set(b)` FROM t GROUP BY a"},
		{"select a, count(1) as n from t group by a", "SELECT a AS a, count(*) AS n FROM t GROUP BY a"},
		{"select a, cast(max(b) as timestamp) m, cast(min(CAST(b as timestamp)) as timestamp) n, max(cast(b as timestamp)) o from t group by a",
			"SELECT a AS a, max(CAST(b AS TIMESTAMP)) AS m, min(CAST(b AS TIMESTAMP)) AS n, max(CAST(b AS TIMESTAMP)) AS o FROM t GROUP BY a"},
		{"select a, cast(first(b) as timestamp) m, cast(cast(last(b) as timestamp) as string) n from t group by a",
			"SELECT a AS a, first(CAST(b AS TIMESTAMP)) AS m, CAST(last(CAST(b AS TIMESTAMP)) AS STRING) AS n FROM t GROUP BY a"},
		{"select a, cast(sum(b) as decimal(10,2)) m, cast(avg(b) as numeric(5)) n, cast(max(b) as dec) o, cast(count(*) as long) p, cast(max_by(b,c) as timestamp) q from t group by a",
			"SELECT a AS a, CAST(sum(b) AS DECIMAL(10,2)) AS m, CAST(avg(b) AS DECIMAL(5,0)) AS n, CAST(max(b) AS DECIMAL) AS o, CAST(count(*) AS BIGINT) AS p, CAST(max_by(b, c) AS TIMESTAMP) AS q FROM t GROUP BY a"},

		// Expressions: parentheses where they are needed, and nowhere else.
		{"select a, sum(((b + c)) + (d - (e - f)) - (g + h) * 2 * (i * j)) s from t group by a",
			"SELECT a AS a, sum(b + c + d - (e - f) - (g + h) * 2 * i * j) AS s FROM t GROUP BY a"},
		{"select a, sum(-b * -5 - -c) s, sum(-(b + 1)) u, sum(-(-b)) v, sum(- - -b) w, sum(-(-(b+c))) x from t group by a",
			"SELECT a AS a, sum(-b * -5 - -c) AS s, sum(-(b + 1)) AS u, sum(-(-b)) AS v, sum(-b) AS w, sum(b + c) AS x FROM t GROUP BY a"},
		{"select a, sum(coalesce(b, 00.500, 1E2, .25)) s, sum(coalesce(b)) u from t group by a",
			"SELECT a AS a, sum(COALESCE(b, 0.5, 100, 0.25)) AS s, sum(b) AS u FROM t GROUP BY a"},
		{"select a, sum(case when b then 1 else null end) s, sum(case b when 'x' then c when null then d else -0 end) u from t group by a",
			"SELECT a AS a, sum(CASE WHEN b THEN 1 END) AS s, sum(CASE b WHEN 'x' THEN c WHEN NULL THEN d ELSE 0 END) AS u FROM t GROUP BY a"},
		{"select a, count(*) n from t where (b = 1 and (c = 2 and d = 3)) or ((e or f) or not g) and h group by a",
			"SELECT a AS a, count(*) AS n FROM t WHERE b = 1 AND c = 2 AND d = 3 OR (e OR f OR NOT g) AND h GROUP BY a"},
		{"select a, count(*) n from t where not b = 1 and not (c < d) and not e is null and not (f in (1, 'it''s', null)) and not g like 'x%' and not h between 1 and 2 group by a",
			"SELECT a AS a, count(*) AS n FROM t WHERE b <> 1 AND c >= d AND e IS NOT NULL AND f NOT IN (1, 'it''s', NULL) AND g NOT LIKE 'x%' AND h NOT BETWEEN 1 AND 2 GROUP BY a"},
		{"select a, count(*) n from t where (b = c) = (d != e) and not not f and not (not (not g)) group by a",
			"SELECT a AS a, count(*) AS n FROM t WHERE (b = c) = (d <> e) AND NOT NOT f AND NOT g GROUP BY a"},
		{"select a, count(*) n from t where cast(b as timestamp) > '2015-07-29T11:00+02:00' and '2015-07-29' < cast(b as timestamp) group by a",
			"SELECT a AS a, count(*) AS n FROM t WHERE CAST(b AS TIMESTAMP) > CAST('2015-07-29T09:00:00.000Z' AS TIMESTAMP) AND CAST('2015-07-29T00:00:00' AS TIMESTAMP) < CAST(b AS TIMESTAMP) GROUP BY a"},
		{"select a, count(*) n from t where cast(b as timestamp) = 1438161432 group by a",
			"SELECT a AS a, count(*) AS n FROM t WHERE CAST(b AS TIMESTAMP) = CAST('2015-07-29T09:17:12.000Z' AS TIMESTAMP) GROUP BY a"},
	} {
		d, err := Parse(c.sql)
		if err != nil {
			t.Errorf("%s: %v", c.sql, err)
			continue
		}
		if d.SQL != c.sql {
			t.Errorf("the text %q was kept as %q", c.sql, d.SQL)
		}
		if got := d.String(); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.sql, got, c.want)
		}
		again := mustParse(t, d.String())
		if diff := cmp.Diff(d.Clauses(), again.Clauses()); diff != "" {
			t.Errorf("%s reads back otherwise: %s", d, diff)
		}
	}
}

// TestSparkNames: a column without AS has the name that Spark gives it.
func TestSparkNames(t *testing.T) {
	for column, want := range map[string]string{
		"sum(totalRevenue)":                  "sum(totalRevenue)",
		"SUM( user.points )":                 "sum(user.points)",
		"count(*)":                           "count(1)",
		"count(1)":                           "count(1)",
		"count(`odd name`)":                  "count(odd name)",
		"cast(max(ts) as timestamp)":         "CAST(max(ts) AS TIMESTAMP)",
		"max(cast(ts as timestamp))":         "max(CAST(ts AS TIMESTAMP))",
		"cast(sum(a) as decimal(10, 2))":     "CAST(sum(a) AS DECIMAL(10,2))",
		"sum(a + b - c)":                     "sum(((a + b) - c))",
		"sum(a * b * 2)":                     "sum(((a * b) * 2))",
		"sum(-a)":                            "sum((- a))",
		"sum(coalesce(a, 0))":                "sum(coalesce(a, 0))",
		"min_by(a, b)":                       "min_by(a, b)",
		"count(a <> 'x')":                    "count((NOT (a = x)))",
		"count(a is not null and b)":         "count(((a IS NOT NULL) AND b))",
		"count(a in (1, 2) or b or c)":       "count((((a IN (1, 2)) OR b) OR c))",
		"count(a not in ('x') or not b)":     "count(((NOT (a IN (x))) OR (NOT b)))",
		"count(a between 1 and 2)":           "count(between(a, 1, 2))",
		"count(a like 'x%')":                 "count(a LIKE x%)",
		"first(case a when 1 then true end)": "first(CASE WHEN (a = 1) THEN true END)",
		"sum(CASE WHEN kind = 'refund' THEN -amount ELSE amount END)": "sum(CASE WHEN (kind = refund) THEN (- amount) ELSE amount END)",
	} {
		d := mustParse(t, "SELECT k, "+column+" FROM t GROUP BY k")
		if got := d.Columns[1].Name; got != want {
			t.Errorf("%s is named %s, want %s", column, got, want)
		}
	}
}

// TestSizeAndDepth: long and deep queries end in an answer, not in a crash.
func TestSizeAndDepth(t *testing.T) {
	query := func(expr string) string { return "SELECT k, sum(" + expr + ") s FROM t GROUP BY k" }
	for name, sql := range map[string]string{
		"terms":    query("a" + strings.Repeat("+a", 4_000)),
		"factors":  query("a" + strings.Repeat("*a", 4_000)),
		"minuses":  query(strings.Repeat("- ", 30_000) + "a"),
		"nots":     query("CASE WHEN " + strings.Repeat("NOT ", 16_000) + "a THEN 1 END"),
		"or":       query("CASE WHEN a" + strings.Repeat(" OR a", 3_000) + " THEN 1 END"),
		"list":     query("CASE WHEN a IN (0" + strings.Repeat(",0", 3_000) + ") THEN 1 END"),
		"whens":    query("CASE" + strings.Repeat(" WHEN a THEN 1", 1_000) + " END"),
		"deep":     query(strings.Repeat("(", MaxDepth-1) + "a" + strings.Repeat(")", MaxDepth-1)),
		"casts":    query(strings.Repeat("CAST(", MaxDepth-1) + "a" + strings.Repeat(" AS bigint)", MaxDepth-1)),
		"comments": query(strings.Repeat("/*", 10_000) + strings.Repeat("*/", 10_000) + "a"),
	} {
		d, err := Parse(sql)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		Required(d.Aggregates[0].Arg, scanned(t, d, `{"k":1,"a":1}`))
		if _, err := Parse(d.String()); err != nil && len(d.String()) <= MaxBytes {
			t.Errorf("%s does not read back: %v", name, err)
		}
	}
	for name, c := range map[string]struct{ sql, want string }{
		"long":     {query(strings.Repeat(" ", MaxBytes)), "query:1:1: found a query of 65571 bytes; at most 65536 are read"},
		"deep":     {query(strings.Repeat("(", 60_000)), `query:1:114: found "(" nested more than 100 deep; expected a flatter expression`},
		"ends":     {query(strings.Repeat("a.end+", 5_000) + strings.Repeat("(", 5_000)), `query:1:30114: found "(" nested more than 100 deep; expected a flatter expression`},
		"cases":    {query(strings.Repeat("CASE ", 10_000)), `query:1:510: found "CASE" nested more than 100 deep; expected a flatter expression`},
		"path":     {query("a" + strings.Repeat(".a", 100)), "query:1:15: found a path of 101 names; at most 100 are read"},
		"group by": {"SELECT a FROM t GROUP BY a" + strings.Repeat(".a", 100), "query:1:26: found a path of 101 names; at most 100 are read"},
	} {
		if _, err := Parse(c.sql); err == nil || err.Error() != c.want {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
}

// TestErrorIsTyped: what Parse returns carries its place.
func TestErrorIsTyped(t *testing.T) {
	_, err := Parse("SELECT größe,\r\n\tsum(größe) AS s,\n  nope(x) FROM t GROUP BY größe")
	var e *Error
	if !errors.As(err, &e) || e.Line != 3 || e.Column != 3 {
		t.Errorf("got %v", err)
	}
}
