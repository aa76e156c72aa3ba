package aggregator

import (
	"strings"
	"testing"

	"tidemark/event"
)

// TestD01D10OddRecords: what a producer may send by mistake, each between two
// good events that count whatever it was.
func TestD01D10OddRecords(t *testing.T) {
	const good = `{"userId":"U-1","revenue":1.25}`
	for record, want := range map[string]event.Reason{
		"\x00":                                                      event.NotJSON,
		strings.Repeat("\x00", 64):                                  event.NotJSON,
		" \t\r\n":                                                   event.Empty,
		"\xef\xbb\xbf":                                              event.Empty,
		"\xef\xbb\xbf\xef\xbb\xbf" + good:                           event.NotJSON, // one mark is dropped
		good + good:                                                 event.NotJSON,
		good + ",":                                                  event.NotJSON,
		good + "\x00":                                               event.NotJSON,
		good + " // a comment":                                      event.NotJSON,
		good[:len(good)-1] + ",}":                                   event.NotJSON,
		"'" + good + "'":                                            event.NotJSON,
		"{'userId':1}":                                              event.NotJSON,
		"{userId:1}":                                                event.NotJSON,
		"\u00a0" + good:                                             event.NotJSON, // no blank of JSON
		`{"userId":"U-1","revenue":NaN}`:                            event.NotJSON,
		`{"userId":"U-1","revenue":Infinity}`:                       event.NotJSON,
		`{"userId":"U-1","revenue":+1}`:                             event.NotJSON,
		`{"userId":"U-1","revenue":01}`:                             event.NotJSON,
		`{"userId":"U-1","revenue":.5}`:                             event.NotJSON,
		`{"userId":"U-1","revenue":1.}`:                             event.NotJSON,
		`{"userId":"U-1","revenue":0x10}`:                           event.NotJSON,
		`{"userId":"U-1","revenue":1_000}`:                          event.NotJSON,
		`{"userId":"U-1","revenue":None}`:                           event.NotJSON,
		"{\"userId\":\"U-1\n\",\"revenue\":1}":                      event.NotJSON,   // a bare control character
		`{"userId":"U-1","x":"\ud800","revenue":1}`:                 event.NotJSON,   // half of a pair, in a field that is not read
		"{\"userId\":\"U-\xc0\x80\",\"revenue\":1}":                 event.NotUTF8,   // an overlong form
		"{\"userId\":\"U-\xed\xa0\x80\",\"revenue\":1}":             event.NotUTF8,   // a surrogate in bytes
		"{\"userId\":\"U-\xf5\x80\x80\x80\",\"revenue\":1}":         event.NotUTF8,   // beyond Unicode
		"\x00\x00\x00\x00\x05" + good:                               event.NotJSON,   // the head of a schema registry
		"\x1f\x8b\x08":                                              event.NotUTF8,   // gzip
		`"` + strings.ReplaceAll(good, `"`, `\"`) + `"`:             event.NotObject, // encoded twice
		"[" + good + "]":                                            event.NotObject,
		strings.Repeat("[", 100_000):                                event.NotJSON,
		strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000):     event.NotObject,
		strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000): event.NotJSON, // deeper than is read
		`{"userId":"U-1","revenue":"1,25"}`:                         event.BadNumber,
		`{"userId":"U-1","revenue":"1.25 €"}`:                       event.BadNumber,
		`{"userId":"U-1","revenue":"１.25"}`:                         event.BadNumber, // full-width digits
		`{"userId":"U-1","revenue":"1e400"}`:                        event.Overflow,
		`{"userId":"U-1","revenue":{"amount":1}}`:                   event.WrongType,
		`{"userId":"U-1","revenue":false}`:                          event.WrongType,
		`{"userId":"U-1","revenue":1,"revenue":2}`:                  event.DuplicateField,
		`{"userId":"U-1","revenue":1,"reven\u0075e":2}`:             event.DuplicateField, // the same name
		`{"userId":"U-1","userId":"U-1","revenue":1}`:               event.DuplicateField,
		`{"USERID":"U-1","revenue":1}`:                              event.MissingField,
		`{"userId":"","revenue":1}`:                                 event.MissingField,
		`{"userId":["U-1"],"revenue":1}`:                            event.WrongType,
		`{"userId":1e999999999999,"revenue":1}`:                     event.Overflow,
	} {
		r := selects(t, "sum(revenue) AS revenue, count(*) AS n")
		r.value(good)
		out := r.value(record)
		r.value(good)
		if out.Result != Bad || out.Reason != want {
			t.Errorf("%.80q is %v %v, want %v", record, out.Result, out.Reason, want)
		}
		if got := r.row("U-1"); got != `{"userId":"U-1","revenue":2.5,"n":2}` || r.delta.Len() != 1 {
			t.Errorf("beside %.80q: %d keys, %s", record, r.delta.Len(), got)
		}
	}
}

// TestD06D12OddRecordsThatCount: what looks odd and says all that is wanted.
func TestD06D12OddRecordsThatCount(t *testing.T) {
	for _, record := range []string{
		"\xef\xbb\xbf" + `{"userId":"U-1","revenue":2.5}`,
		" \r\n\t{ \"userId\" : \"U-1\" , \"revenue\" : 2.5 }\r\n",
		`{"userId":"U-1","revenue":"2.5"}`,
		`{"userId":"\u0055-1","revenue":25e-1}`,
		`{"userId":"U-1","revenue":0.25E+1}`,
		`{"\u0075serId":"U-1","revenue":2.50000000000000000000000000000000}`,
		`{"userId":"U-1","revenue":2.5,"x":1,"x":2,"y":{"userId":3,"userId":4}}`, // twice, where it is not read
		`{"userId":"U-1","revenue":2.5,"trace":` + strings.Repeat("9", 5000) + `}`,
		`{"userId":"U-1","revenue":2.5,"x":1e-999999999999999}`,
		`{"revenue":2.5,"deep":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `,"userId":"U-1"}`,
		`{"userId":"U-1","revenue":2.5,"":"an empty name","\u0000":0}`,
		`{"userId":"U-1","revenue":2.5,"text":"\ud83d\ude00 \\ \" \/"}`,
	} {
		r := selects(t, "sum(revenue) AS revenue, count(*) AS n")
		if out := r.value(record); out.Result != Folded {
			t.Errorf("%.80q is %v %v in %q", record, out.Result, out.Reason, out.Field)
			continue
		}
		if got := r.row("U-1"); got != `{"userId":"U-1","revenue":2.5,"n":1}` {
			t.Errorf("%.80q: %s", record, got)
		}
	}
}

// TestD10KeysThatLookAlike are keys of their own: nothing is normalised.
func TestD10KeysThatLookAlike(t *testing.T) {
	r := selects(t, "sum(revenue) AS revenue")
	keys := []string{"é", "e\u0301", "Ａ", "A", "a", " a", "a ", "a\u200b", "a\u0000", "а", "1", "1.0", "01", "+1", "null", "ﬁ", "fi", "ß", "ss", "İ", "i"}
	for _, key := range keys {
		if out := r.value(`{"userId":"` + strings.ReplaceAll(key, "\u0000", `\u0000`) + `","revenue":1}`); out.Result != Folded {
			t.Errorf("%q is %v %v", key, out.Result, out.Reason)
		}
	}
	if r.delta.Len() != len(keys) {
		t.Errorf("%d keys make %d", len(keys), r.delta.Len())
	}
	for _, broken := range []string{"U-\xff", "U-\xfe", "U-\xef\xbf"} {
		if out := r.value(`{"userId":"` + broken + `","revenue":1}`); out.Reason != event.NotUTF8 {
			t.Errorf("%q is %v %v", broken, out.Result, out.Reason)
		}
	}
	if out := r.value("{\"userId\":\"U-\ufffd\",\"revenue\":1}"); out.Result != Folded { // the mark itself is a character
		t.Errorf("the replacement mark is %v %v", out.Result, out.Reason)
	}
	if r.delta.Len() != len(keys)+1 || r.row("U-\ufffd") != "{\"userId\":\"U-\ufffd\",\"revenue\":1}" {
		t.Errorf("broken keys leave a trace: %d keys", r.delta.Len())
	}
}

// TestN01N04SumsThatFloatsGetWrong, and casts of them.
func TestN01N04SumsThatFloatsGetWrong(t *testing.T) {
	expect := func(column, want string, values ...string) {
		t.Helper()
		r := selects(t, column+" AS c")
		for _, v := range values {
			r.fold(`"x":` + v)
		}
		r.expect(`"c":` + want)
	}
	repeated := func(v string, n int) []string { return strings.Split(strings.Repeat(v+" ", n-1)+v, " ") }
	expect("sum(x)", "0.3", "0.1", "0.2")
	expect("sum(x)", "0", "0.1", "0.2", "-0.3")
	expect("sum(x)", "100", repeated("0.1", 1000)...)
	expect("sum(x)", "9007199254740993", "9007199254740992", "1")
	expect("sum(x)", "100000000000000000000.01", "1e20", "0.01")
	expect("sum(x)", "0.01", "1e37", "0.01", "-1e37")
	expect("sum(x)", "99999999999999999999999999999999999999.00000000000000000000000000000000000001", strings.Repeat("9", 38), "1e-38")
	expect("sum(x * 3)", "0.3", "0.1")
	expect("sum(x * x)", "0.0001", "0.01")
	expect("sum(1.1 * x - 0.1 * x)", "1", "1")
	expect("CAST(sum(x) AS decimal(10,2))", "1.01", "1.005")
	expect("CAST(sum(x) AS decimal(10,2))", "-1.01", "-1.005")
	expect("CAST(sum(x) AS decimal(10,2))", "0.00", "-0.0049")
	expect("CAST(sum(x) AS decimal(10,0))", "3", "2.5")
	expect("CAST(sum(x) AS bigint)", "2", "2.9")
	expect("CAST(sum(x) AS bigint)", "-2", "-2.9")
	expect("CAST(sum(x) AS string)", `"2.9"`, "2.90")
	expect("avg(x)", "0.2", "0.1", "0.2", "0.3")
	expect("CAST(avg(x) AS decimal(10,4))", "0.3333", "0", "0", "1")
	expect("CAST(avg(x) AS decimal(10,4))", "0.6667", "0", "1", "1")
	expect("min(x)", "1", "1.00", "1", "1.0")
	expect("max(x)", "0", "-0", "0", "-0.0")
	expect("max(x)", "9007199254740993", "9007199254740992", "9007199254740993", "9007199254740991")
	expect("collect_set(x)", "[0.1,1,100]", "1", "1.0", "1e2", "100", "0.10", "1E0", "0.1")
	expect("count(x)", "2", "0", "null", "-0")
	expect("sum(CASE WHEN x > 0.3 THEN 1 ELSE 0 END)", "0", "0.3")
	expect("sum(CASE WHEN x = 0.30 THEN 1 ELSE 0 END)", "1", "3e-1")
}

// TestD17DocumentsTakeTheSameDates: what a date may look like is the same in
// events and in history documents.
func TestD17DocumentsTakeTheSameDates(t *testing.T) {
	for text, want := range map[string]string{
		`"2025-06-03T10:00:05Z"`: "2025-06-03T10:00:05.000Z", `"2025-06-03 10:00:05"`: "2025-06-03T10:00:05.000Z",
		`"2025-06-03 10:00:05.0"`: "2025-06-03T10:00:05.000Z", `"2025-06-03T12:00:05+0200"`: "2025-06-03T10:00:05.000Z",
		`"2025-06-03T12:00:05+02:00"`: "2025-06-03T10:00:05.000Z", `"2025-06-03T10:00"`: "2025-06-03T10:00:00.000Z",
		`"2025-06-03T10:00:05.1234567Z"`: "2025-06-03T10:00:05.123456700Z",
		"1748944805":                     "2025-06-03T10:00:05.000Z", "1748944805000": "2025-06-03T10:00:05.000Z", `"1748944805000000"`: "2025-06-03T10:00:05.000Z",
		"1748944805000000000": "2025-06-03T10:00:05.000Z", "1.748944805e9": "2025-06-03T10:00:05.000Z",
		`"2025-06-03"`: "", `"2025/06/03 10:00:05"`: "", `"0000-00-00 00:00:00"`: "", `"2025-02-30"`: "", `"2025-06-03T24:00:01Z"`: "", `"03.06.2025"`: "",
		`"Jun 3, 2025"`: "", `"2025-06-03T10:00:05 Europe/Madrid"`: "", "1748944": "", `"now"`: "", `"2025-6-3"`: "",
	} {
		r := selects(t, "max(CAST(ts AS timestamp)) AS latest")
		out := r.value(`{"userId":1,"ts":` + text + `}`)
		history, d := documents(t, "max(CAST(ts AS timestamp)) AS latest", Mapping{})
		doc := d.Read([]byte(`{"userId":1,"latest":` + text + `}`))
		if want == "" {
			if out.Reason != event.BadTimestamp || doc.Reason != event.BadTimestamp {
				t.Errorf("%s is %v in an event and %v in a document", text, out.Reason, doc.Reason)
			}
			continue
		}
		if doc.Reason != event.OK || out.Result != Folded {
			t.Errorf("%s is %v in an event and %v in a document", text, out.Reason, doc.Reason)
			continue
		}
		d.AddTo(history.delta)
		row := `{"userId":1,"latest":"` + want + `"}`
		if e, h := r.row("1"), history.row("1"); e != row || h != row {
			t.Errorf("%s is %s of an event and %s of a document, want %s", text, e, h, row)
		}
	}
}
