package query

import (
	"fmt"
	"slices"
	"testing"
)

// TestDoubts has queries that are read, and what in them is probably not meant.
func TestDoubts(t *testing.T) {
	const text = `query:1:%d: found "%s" as a value; double quotes stand round a field's name here, and a text is written '%[2]s'`
	value := func(column int, name string) string { return fmt.Sprintf(text, column, name) }
	for _, c := range []struct {
		sql  string
		want []string
	}{
		{`select a, count(*) from t where c = "web" group by a`, []string{value(37, "web")}},
		{`select a, count(*) from t where c <> "web" or c IS NULL group by a`, []string{value(38, "web")}},
		{`select a, count(*) from t where lower.c >= "a b" group by a`, []string{value(44, "a b")}},
		{`select a, count(*) from t where c in ("web", 'app', "shop") group by a`, []string{value(39, "web"), value(53, "shop")}},
		{`select a, count(*) from t where c not in ('x', "web") group by a`, []string{value(48, "web")}},
		{`select a, count(*) from t where c between "k" and 'z' group by a`, []string{value(43, "k")}},
		{`select a, sum(case when kind = "refund" then -b else b end) from t group by a`, []string{value(32, "refund")}},
		{`select a, sum(case when "kind" = "refund" then -b else b end) from t group by a`, []string{value(34, "refund")}},
		{`select t.a, count(*) from t group by t.a`, []string{
			"query:1:8: found t.a, the field a of the object t; the topic is not named before its fields: write a",
			"query:1:38: found t.a, the field a of the object t; the topic is not named before its fields: write a"}},
		{`select a, sum(T.b.c) from t group by a`, []string{
			"query:1:15: found T.b.c, the field c of the object T.b; the topic is not named before its fields: write b.c"}},
		{"select a, sum(`my-topic`.b) from `my-topic` group by a", []string{
			"query:1:15: found `my-topic`.b, the field b of the object `my-topic`; the topic is not named before its fields: write b"}},

		// Names that are meant as such.
		{`select "a", sum("b") as "c" from "t" where "d" = 'web' and 'x' <> "e" and 1 < "f" group by "a"`, nil},
		{`select a, sum("start") from t where c < "start" group by a`, nil},
		{"select a, count(*) from t where c = `web` group by a", nil},
		{`select a, count(*) from t where c = user."web" and b = "user".c group by a`, nil},
		{`select a, count(*) from t where c = 'x "web"' /* = "web" */ group by a -- = "web"`, nil},
		{`select a, sum(coalesce("b", 0)), sum(case when x then "d" else 0 end) from t group by a`, nil},
		{`select u.t.a, count(*) from t group by u.t.a`, nil},
		{`select a, max(t) from t group by a`, nil},
	} {
		d, err := Parse(c.sql)
		if err != nil {
			t.Errorf("%s: %v", c.sql, err)
			continue
		}
		var have []string
		for _, doubt := range d.Doubts() {
			have = append(have, doubt.String())
		}
		if !slices.Equal(have, c.want) {
			t.Errorf("%s\nhas the doubts %q,\nwant %q", c.sql, have, c.want)
		}
	}
}
