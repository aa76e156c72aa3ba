package query

import (
	"strings"
	"testing"
)

// TestSpellings: one query in the many ways that people and tools write it.
func TestSpellings(t *testing.T) {
	const canonical = "SELECT userId, sum(revenue) AS revenue, count(*) AS n FROM sales WHERE channel = 'web' GROUP BY userId"
	want, err := Parse(canonical)
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		strings.ToUpper("select ") + "userId, SUM(revenue) revenue, COUNT(*) n FROM sales WHERE channel = 'web' GROUP BY userId",
		"select userId as userId,sum(revenue)as revenue,count(*)as n from sales where channel='web'group by userId",
		"\ufeff" + canonical + ";;",
		strings.ReplaceAll(canonical, " ", "\r\n\t"),
		strings.ReplaceAll(canonical, " ", "\u00a0"),
		strings.ReplaceAll(canonical, " ", " /* a /* nested */ comment; 'x' */ "),
		strings.ReplaceAll(canonical, ", ", ", -- it's a \"comment\"\n"),
		"SELECT `userId`, sum(`revenue`) AS `revenue`, count(*) AS `n` FROM `sales` WHERE `channel` = 'web' GROUP BY `userId`",
		`SELECT "userId", sum("revenue") AS "revenue", count(*) AS "n" FROM "sales" WHERE "channel" = 'web' GROUP BY "userId"`,
		strings.Replace(canonical, "channel = 'web'", "((channel) = ('web'))", 1),
		strings.Replace(canonical, "channel = 'web'", "NOT NOT channel = 'web'", 1),
		strings.Replace(canonical, "channel = 'web'", "NOT channel <> 'web'", 1),
		strings.Replace(canonical, "channel = 'web'", "NOT (channel != 'web')", 1),
		strings.Replace(canonical, "sum(revenue)", "sum( ( revenue ) )", 1),
		strings.Replace(canonical, "GROUP BY userId", "GROUP BY (userId)", 1),
		strings.Replace(canonical, "count(*)", "count(1)", 1),
		strings.Replace(canonical, "count(*)", "count( * )", 1),
		strings.Replace(strings.Replace(canonical, "SELECT userId", "SELECT userId AS userId", 1), "GROUP BY userId", "group  by  userId", 1),
	} {
		is, err := Parse(sql)
		if err != nil {
			t.Errorf("%q: %v", sql, err)
		} else if d := Differs(want.Clauses(), is.Clauses()); d != "" {
			t.Errorf("%q differs: %s", sql, d)
		}
	}
	// Nearly the same is another query.
	for _, sql := range []string{
		strings.Replace(canonical, "'web'", "'Web'", 1),
		strings.Replace(canonical, "'web'", "'web '", 1),
		strings.Replace(canonical, "channel", "Channel", 1),
		strings.Replace(canonical, "userId, ", "userId AS user, ", 1),
		strings.Replace(canonical, "sum(revenue)", "sum(revenue + 0)", 1),
		strings.Replace(canonical, "sum(revenue)", "sum(- -revenue)", 1), // of a number only
		strings.Replace(canonical, "sum(revenue)", "sum(CAST(revenue AS decimal))", 1),
		strings.Replace(canonical, "count(*)", "count(revenue)", 1),
		strings.Replace(canonical, "= 'web'", "LIKE 'web'", 1),
		strings.Replace(canonical, "FROM sales", "FROM Sales", 1),
		strings.Replace(canonical, "sum(revenue) AS revenue, count(*) AS n", "count(*) AS n, sum(revenue) AS revenue", 1),
		strings.Replace(canonical, " WHERE channel = 'web'", "", 1),
		strings.Replace(canonical, "channel = 'web'", "channel = \"web\"", 1),
		strings.Replace(canonical, "channel = 'web'", "channel = 'web' AND true", 1),
	} {
		is, err := Parse(sql)
		if err != nil {
			t.Errorf("%q: %v", sql, err)
		} else if Differs(want.Clauses(), is.Clauses()) == "" {
			t.Errorf("%q is the same query", sql)
		}
	}
}
