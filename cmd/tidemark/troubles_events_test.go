package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tidemark/internal/testkit"
)

// reproduced is a trouble of events as it is reported: its records, in a
// partition of their own, and what the service makes of them.
type reproduced struct {
	id      string
	records []testkit.Message
	rows    map[string]string // by key; "404" where there is none
	bad     map[string]int64  // by reason
	more    int64             // records that are neither folded nor bad
}

// reproduce gives each trouble to one service, and looks at its rows, at the
// counts of its partition, and at the totals after a restart.
func reproduce(t *testing.T, sql string, all ...reproduced) {
	t.Helper()
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: "sales", Partitions: int32(len(all))})
	h := newHome(t, b, sql)
	reasons := map[string]int64{}
	for n, r := range all {
		b.Produce("sales", int32(n), r.records...)
		for reason, count := range r.bad {
			reasons[reason] += count
		}
	}
	look := func(s *running, restarted bool) {
		s.caughtUp()
		for n, r := range all {
			for key, want := range r.rows {
				if have := s.row(key); have != want && !(want == "404" && strings.HasPrefix(have, want)) {
					t.Errorf("%s: key %s: %s, want %s", r.id, key, have, want)
				}
			}
			var bad int64
			for _, count := range r.bad {
				bad += count
			}
			p, consumed := s.part(int32(n)), int64(len(r.records))
			c := p.Counts
			if p.Position != consumed || c["bad"] != bad || c["folded"] != consumed-bad-r.more || c["folded"]+c["bad"]+c["tombstone"]+c["filtered"] != consumed {
				t.Errorf("%s: partition %d is at %d with %v, want %d with %d bad", r.id, n, p.Position, c, consumed, bad)
			}
		}
		if restarted {
			return // the counters are of a process
		}
		for reason, count := range reasons {
			lines := s.series("tidemark_bad_events_total", fmt.Sprintf("reason=%q", reason))
			if want := fmt.Sprintf(`{reason=%q} %d`, reason, count); len(lines) != 1 || !strings.HasSuffix(lines[0], want) {
				t.Errorf("the metric says %v, want %s", lines, want)
			}
		}
	}
	s := h.serve()
	look(s, false)
	s.stop()
	look(h.serve(), true)
}

// TestD01D03D09D10D14D20RecordsAsReported: broken and odd records, each between
// good ones, through the whole service.
func TestD01D03D09D10D14D20RecordsAsReported(t *testing.T) {
	t.Parallel()
	utf16 := []byte{0xff, 0xfe}
	for _, r := range `{"userId":"D09","revenue":1}` {
		utf16 = append(utf16, byte(r), 0)
	}
	large := `{"userId":"D20","revenue":1,"products":[` + strings.Repeat(`"1234567890123456789",`, 400_000) + `"x"]}`
	row := func(key, revenue string, sales int) string {
		return fmt.Sprintf(`{"userId":"%s","revenue":%s,"sales":%d}`, key, revenue, sales)
	}
	reproduce(t, "SELECT userId, sum(revenue) AS revenue, count(*) AS sales FROM sales GROUP BY userId",
		reproduced{"D01", []testkit.Message{
			testkit.Text("", `{"userId":"D01","revenue":5.00}`), {Key: []byte("k"), Value: []byte{}}, testkit.Text("", `{"userId":"D01"`),
			testkit.Text("", `{"userId":"D01","revenue":7.00}`),
		}, map[string]string{"D01": row("D01", "12", 2)}, map[string]int64{"empty": 1, "not_json": 1}, 0},
		reproduced{"D03", append(messages(`null`, `42`, `[]`, `"x"`, `{}`), testkit.Text("D03", "")),
			nil, map[string]int64{"not_object": 4, "missing_field": 1}, 1},
		reproduced{"D09", []testkit.Message{testkit.Text("", "\xef\xbb\xbf"+`{"userId":"D09","revenue":2.5}`), {Value: utf16}},
			map[string]string{"D09": row("D09", "2.5", 1)}, map[string]int64{"not_utf8": 1}, 0},
		reproduced{"D10", []testkit.Message{
			{Value: []byte("{\"userId\":\"U-\xff\",\"revenue\":1.00}")}, {Value: []byte("{\"userId\":\"U-\xfe\",\"revenue\":2.00}")},
			testkit.Text("", `{"userId":"U-","revenue":4}`),
		}, map[string]string{"U-": row("U-", "4", 1), "U-%EF%BF%BD": "404"}, map[string]int64{"not_utf8": 2}, 0},
		reproduced{"D14", []testkit.Message{testkit.Text("", `{"userId":"U-14","revenue":4.00}`), testkit.Text("U-14", `{"revenue":9}`)},
			map[string]string{"U-14": row("U-14", "4", 1)}, map[string]int64{"missing_field": 1}, 0},
		reproduced{"D20", messages(`{"userId":"D20","revenue":1}`, large, `{"userId":"D20","revenue":1}`),
			map[string]string{"D20": row("D20", "3", 3)}, nil, 0},
	)
}

// TestD04D06D07D12D13D21N01N04N06NumbersAsReported: numbers in every spelling,
// through the whole service.
func TestD04D06D07D12D13D21N01N04N06NumbersAsReported(t *testing.T) {
	t.Parallel()
	event := func(key string, revenues ...string) (all []testkit.Message) {
		for _, r := range revenues {
			all = append(all, testkit.Text("", fmt.Sprintf(`{"userId":"%s","revenue":%s}`, key, r)))
		}
		return all
	}
	row := func(key, revenue, products string, sales int) string {
		return fmt.Sprintf(`{"userId":"%s","revenue":%s,"products":%s,"sales":%d}`, key, revenue, products, sales)
	}
	thirty := strings.Repeat("7", 30)
	reproduce(t, "SELECT userId, sum(revenue) AS revenue, collect_set(products) AS products, count(*) AS sales FROM sales GROUP BY userId",
		reproduced{"D04", event("D04", `"41.70"`, `"41,70"`, `"abc"`, `""`, `" 5"`),
			map[string]string{"D04": row("D04", "41.7", "[]", 1)}, map[string]int64{"bad_number": 4}, 0},
		reproduced{"D06", messages(`{"userId":"U-6","revenue":2.50,"points":1,"trace":327000000000000000000001}`),
			map[string]string{"U-6": row("U-6", "2.5", "[]", 1)}, nil, 0},
		reproduced{"D07", event("D07", `7E+3`, `4.2e-3`, `1e400`, `1e-2000000000`),
			map[string]string{"D07": row("D07", "7000.0042", "[]", 2)}, map[string]int64{"overflow": 2}, 0},
		reproduced{"D12", messages(`{"userId":"D12","revenue":1,"products":"A"}`, `{"userId":"D12","revenue":1,"products":["A","B"]}`,
			`{"userId":"D12","revenue":1,"products":[]}`, `{"userId":"D12","revenue":1,"products":null}`, `{"userId":"D12","revenue":[3],"products":"C"}`),
			map[string]string{"D12": row("D12", "4", `["A","B"]`, 4)}, map[string]int64{"wrong_type": 1}, 0},
		reproduced{"D13", append(append(event("D13", "1", "1", "1", "1", "null", "1"),
			event("D13", "1", "1", "1", "1", "1")...), testkit.Text("", `{"userId":null,"revenue":1}`)),
			map[string]string{"D13": row("D13", "10", "[]", 10)}, map[string]int64{"null_field": 2}, 0},
		reproduced{"D21", append(event("D21", "30.00", "-30.00", "-5.25"), event("zero", "30.00", "-30.00", "-5.25", "5.25", "-0")...),
			map[string]string{"D21": row("D21", "-5.25", "[]", 3), "zero": row("zero", "0", "[]", 5)}, nil, 0},
		reproduced{"N01", event("N01", "12.33", "75.10", "138.66"), map[string]string{"N01": row("N01", "226.09", "[]", 3)}, nil, 0},
		reproduced{"N04", event("N04", "1.5", "0.125", "2", "0.000000000000000000000000000001"),
			map[string]string{"N04": row("N04", "3.625000000000000000000000000001", "[]", 4)}, nil, 0},
		reproduced{"N06", append(event("N06", "9223372036854775807", "1"), event("wide", thirty, thirty+".5", strings.Repeat("9", 39))...),
			map[string]string{"N06": row("N06", "9223372036854775808", "[]", 2), "wide": row("wide", "1"+strings.Repeat("5", 29)+"4.5", "[]", 2),
				"N06?numbers=string": `{"userId":"N06","revenue":"9223372036854775808","products":[],"sales":"2"}`}, map[string]int64{"overflow": 1}, 0},
	)
}

// TestD16D17T01TimesAsReported: instants in every spelling, and late ones,
// through the whole service.
func TestD16D17T01TimesAsReported(t *testing.T) {
	t.Parallel()
	event := func(key string, times ...string) (all []testkit.Message) {
		for i, at := range times {
			all = append(all, testkit.Text("", fmt.Sprintf(`{"userId":"%s-%d","ts":%s,"revenue":1}`, key, i, at)))
		}
		return all
	}
	at := func(rows map[string]string, key, latest string) {
		rows[key] = fmt.Sprintf(`{"userId":"%s","latest":"%s","revenue":1}`, key, latest)
	}
	epochs, dates := map[string]string{"D16-5": "404"}, map[string]string{"D17-6": "404", "D17-7": "404"}
	for i := range 5 {
		at(epochs, fmt.Sprint("D16-", i), "2025-06-03T10:00:05.000Z")
	}
	for i, latest := range []string{"2025-06-03T10:00:05.000Z", "2025-06-03T10:00:05.000Z", "2025-06-03T10:00:05.000Z",
		"2025-06-03T10:00:05.000Z", "2025-06-03T10:00:00.000Z", "2025-06-03T10:00:05.123456700Z"} {
		at(dates, fmt.Sprint("D17-", i), latest)
	}
	reproduce(t, "SELECT userId, max(CAST(ts AS timestamp)) AS latest, sum(revenue) AS revenue FROM sales GROUP BY userId",
		reproduced{"D16", event("D16", "1748944805", "1748944805000", "1748944805000000", "1748944805000000000", `"1748944805"`, "1748944"),
			epochs, map[string]int64{"bad_timestamp": 1}, 0},
		reproduced{"D17", event("D17", `"2025-06-03T10:00:05Z"`, `"2025-06-03 10:00:05"`, `"2025-06-03 10:00:05.0"`, `"2025-06-03T12:00:05+0200"`,
			`"2025-06-03T10:00"`, `"2025-06-03T10:00:05.1234567Z"`, `"2025/06/03 10:00:05"`, `"0000-00-00 00:00:00"`), dates, map[string]int64{"bad_timestamp": 2}, 0},
		reproduced{"T01", messages(`{"userId":"T01","ts":"2025-06-03T10:00:05Z","revenue":1}`, `{"userId":"T01","ts":"2025-06-03T09:58:00Z","revenue":1}`),
			map[string]string{"T01": `{"userId":"T01","latest":"2025-06-03T10:00:05.000Z","revenue":2}`}, nil, 0},
	)
}

// TestB07B08D12N03N05HistoryAsReported: documents with numbers that floats
// change, and products in every form, with events after them, through the whole
// service.
func TestB07B08D12N03N05HistoryAsReported(t *testing.T) {
	t.Parallel()
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: "sales"})
	h := newHome(t, b, "SELECT userId, sum(revenue) AS revenue, sum(points) AS points, collect_set(products) AS products FROM sales GROUP BY userId")
	file := filepath.Join(t.TempDir(), "history.ndjson")
	if err := os.WriteFile(file, []byte(strings.Join([]string{
		`{"userId":"N03","revenue":48151.62,"points":1,"products":"A"}`,
		`{"userId":"N03-2","revenue":1234567.89,"points":1,"products":["A","B"]}`,
		`{"userId":"B07","revenue":19.999,"points":1,"products":[]}`,
		`{"userId":"B08","revenue":12345678901234567.89,"points":1,"products":null}`,
		`{"userId":"B08-2","revenue":1.50e2,"points":1,"products":["A"]}`,
		`{"userId":"N05","revenue":0,"points":9007199254740992,"products":["A"]}`,
	}, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	h.rest = fmt.Sprintf("history: {file: %q, max_missing_share: 0.2, cut: {mode: latest}}\n", file)
	h.write()
	s := h.serve()
	s.caughtUp()
	for key, want := range map[string]string{
		"N03":   `{"userId":"N03","revenue":48151.62,"points":1,"products":["A"]}`,
		"N03-2": `{"userId":"N03-2","revenue":1234567.89,"points":1,"products":["A","B"]}`,
		"B07":   `{"userId":"B07","revenue":19.999,"points":1,"products":[]}`,
		"B08":   `{"userId":"B08","revenue":12345678901234567.89,"points":1,"products":[]}`,
		"B08-2": `{"userId":"B08-2","revenue":150,"points":1,"products":["A"]}`,
	} {
		s.expect(key, want)
	}
	b.Produce("sales", 0, messages(`{"userId":"N05","revenue":0,"points":1,"products":"B"}`, `{"userId":"B08","revenue":0.11,"points":1,"products":["B"]}`)...)
	s.caughtUp()
	s.expect("N05", `{"userId":"N05","revenue":0,"points":9007199254740993,"products":["A","B"]}`)
	s.expect("N05?numbers=string", `{"userId":"N05","revenue":"0","points":"9007199254740993","products":["A","B"]}`)
	s.expect("B08", `{"userId":"B08","revenue":12345678901234568,"points":2,"products":["B"]}`)
}
