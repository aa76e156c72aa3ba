package bootstrap

import (
	"maps"
	"strings"
	"testing"
)

// TestB07B10OddDocuments: documents as exports and hands make them. Each is
// read next to a good one, with every fault accepted.
func TestB07B10OddDocuments(t *testing.T) {
	p := compile(t, `SELECT userId, sum(revenue) AS revenue, count(*) AS n, collect_set(products) AS products, max(CAST(ts AS timestamp)) AS latest FROM sales GROUP BY userId`)
	const rest = `"n":1,"products":[],"latest":1748944805`
	row := func(key, revenue string) string {
		return `{"userId":` + key + `,"revenue":` + revenue + `,"n":1,"products":[],"latest":"2025-06-03T10:00:05.000Z"}`
	}
	for line, want := range map[string]string{
		`{"userId":7,"revenue":1.50,` + rest + `}`:                                              row("7", "1.5"),
		`{"userId":7.0,"revenue":"1.50",` + rest + `}`:                                          row("7", "1.5"),
		`{"userId":"7","revenue":15e-1,` + rest + `}`:                                           row(`"7"`, "1.5"),
		"\xef\xbb\xbf" + `{"userId":7,"revenue":-0.0,` + rest + `}`:                             row("7", "0"),
		`{"_source":{"userId":7,"revenue":1.5,` + rest + `}}` + "\r":                            row("7", "1.5"),
		`{"_id":"x","sort":[1],"_source":{"userId":7,"revenue":0.1,` + rest + `},"_index":"i"}`: row("7", "0.1"),
		`{"userId":7,"revenue":123456789012345678901234567890123456789012.5,` + rest + `}`:      "", // 42 digits
		`{"userId":7,"revenue":1e400,` + rest + `}`:                                             "",
		`{"userId":7,"revenue":"1,50",` + rest + `}`:                                            "",
		`{"userId":7,"revenue":[1.5],` + rest + `}`:                                             "",
		`{"userId":[7],"revenue":1.5,` + rest + `}`:                                             "",
		`{"userId":null,"revenue":1.5,` + rest + `}`:                                            "",
		`{"userId":"","revenue":1.5,` + rest + `}`:                                              "",
		`{"revenue":1.5,` + rest + `}`:                                                          "",
		`{"userId":7,"revenue":1.5,"revenue":2,` + rest + `}`:                                   "",
		`{"userId":7,"revenue":1.5,"n":-1,"products":[],"latest":1}`:                            "", // a count below zero
		`{"userId":7,"revenue":1.5,"n":1.5,"products":[],"latest":1}`:                           "", // half of an event
		`{"userId":7,"revenue":1.5,"n":1,"products":[],"latest":"soon"}`:                        "",
		`{"userId":7,"revenue":1.5,"n":1,"products":[{}],"latest":1748944805}`:                  "",
		"{\"userId\":\"\xff\",\"revenue\":1.5," + rest + "}":                                    "",
		`null`: "", `[]`: "", `7`: "", `"x"`: "", `{`: "", `{}`: "", `{"_source":null}`: "", `userId,revenue`: "", "\x00": "",
	} {
		good := `{"userId":"good","revenue":2,` + rest + `}`
		r, err := bootstrap(t, p, 3, []string{good, line, "", good[:0]}, func(o *Options) { o.MaxMissingShare = 1 })
		if err != nil {
			t.Errorf("%q: %v", line, err)
			continue
		}
		expect := map[string]string{"good": row(`"good"`, "2")}
		if want != "" {
			expect["7"] = want
		}
		if have := rows(t, p, r.stores); !maps.Equal(have, expect) {
			t.Errorf("%q gives %v, want %v", line, have, expect)
		}
	}
}

// TestB10OneKeyInTwoSpellings is one key in two documents: a number and the
// same number in other digits, or as a text.
func TestB10OneKeyInTwoSpellings(t *testing.T) {
	p := compile(t, `SELECT userId, sum(revenue) AS revenue FROM sales GROUP BY userId`)
	for _, pair := range [][2]string{{`7`, `7.0`}, {`7`, `"7"`}, {`70`, `7e1`}, {`-0`, `0`}, {`"\u0041"`, `"A"`}} {
		lines := []string{`{"userId":` + pair[0] + `,"revenue":1}`, `{"userId":` + pair[1] + `,"revenue":2}`}
		if _, err := bootstrap(t, p, 3, lines, nil); err == nil || !strings.Contains(err.Error(), "is in two documents") {
			t.Errorf("%v: %v", pair, err)
		}
		r, err := bootstrap(t, p, 3, lines, func(o *Options) { o.Duplicates = "sum" })
		if err != nil || len(rows(t, p, r.stores)) != 1 {
			t.Errorf("%v: %v, %v", pair, rows(t, p, r.stores), err)
			continue
		}
		for _, row := range rows(t, p, r.stores) {
			if !strings.Contains(row, `"revenue":3}`) {
				t.Errorf("%v: %s", pair, row)
			}
		}
	}
	r, err := bootstrap(t, p, 3, []string{`{"userId":"7","revenue":1}`, `{"userId":"7.0","revenue":2}`, `{"userId":"07","revenue":3}`, `{"userId":" 7","revenue":4}`}, nil)
	if err != nil || len(rows(t, p, r.stores)) != 4 {
		t.Errorf("texts are what they are: %v, %v", rows(t, p, r.stores), err)
	}
}
