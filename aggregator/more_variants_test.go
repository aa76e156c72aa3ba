package aggregator

import (
	"strings"
	"testing"

	"tidemark/event"
)

// TestD01D12NestedFields: paths of several names, over what lies in their way.
func TestD01D12NestedFields(t *testing.T) {
	for record, want := range map[string]event.Reason{
		`{"user":{"id":"7"},"cart":{"total":"2.5"}}`:                                     event.OK,
		`{"cart":{"x":{"total":9},"total":2.5},"user":{"x":1,"id":7}}`:                   event.OK,
		`{"user":{"id":7,"ID":8},"USER":{"id":9},"cart":{"total":25e-1}}`:                event.OK,
		`{"user":{"id":7},"user.id":8,"cart.total":9,"cart":{"total":2.5}}`:              event.OK, // a name with a point is another
		`{"user":{"id":7,"id":8},"cart":{"total":2.5}}`:                                  event.DuplicateField,
		`{"user":{"id":7},"cart":{"total":2.5},"user":{"id":7}}`:                         event.DuplicateField,
		`{"user":{"id":7},"cart":{"total":2.5},"user":{"x":7}}`:                          event.DuplicateField,
		`{"user":{"id":7},"cart":{"total":2.5},"cart":null}`:                             event.DuplicateField,
		`{"user":{"id":7},"cart":{"total":2.5},"x":{"a":1,"a":2},"x":1}`:                 event.OK, // nobody reads it
		`{"user":5,"cart":{"total":2.5}}`:                                                event.MissingField,
		`{"user":[{"id":7}],"cart":{"total":2.5}}`:                                       event.MissingField,
		`{"user":{},"cart":{"total":2.5}}`:                                               event.MissingField,
		`{"user":{"id":7},"cart":"{\"total\":2.5}"}`:                                     event.MissingField,
		`{"user":{"id":null},"cart":{"total":2.5}}`:                                      event.NullField,
		`{"user":{"id":7},"cart":{"total":null}}`:                                        event.NullField,
		`{"user":{"id":{"id":7}},"cart":{"total":2.5}}`:                                  event.WrongType,
		`{"user":{"id":7},"cart":{"total":{"total":2.5}}}`:                               event.WrongType,
		`{"user":{"id":7},"cart":{"total":[]}}`:                                          event.WrongType,
		`{"user":{"id":7},"cart":{"total":"2.5"},"x":` + strings.Repeat(" ", 1e6) + `1}`: event.OK,
	} {
		r := newRows(t, "SELECT user.id AS id, sum(cart.total) AS total FROM sales GROUP BY user.id", Options{})
		out := r.value(record)
		if out.Reason != want {
			t.Errorf("%.100s is %v %v of %q, want %v", record, out.Result, out.Reason, out.Field, want)
		} else if want == event.OK && !strings.HasSuffix(r.row("7"), `,"total":2.5}`) {
			t.Errorf("%.100s: %s", record, r.row("7"))
		}
	}
}

// TestD04NumbersOfKeyboards: numbers as text, as people and programs write them.
func TestD04NumbersOfKeyboards(t *testing.T) {
	for text, want := range map[string]string{
		"7": "7", "007": "", "00": "", "-0": "0", "-0.0": "0", "1e3": "1000", "1E+3": "1000", "1e-3": "0.001", "0.10": "0.1", "100": "100",
		"1e0": "1", "0e99999999999": "0", "-1.5e1": "-15", strings.Repeat("9", 38): strings.Repeat("9", 38),
		"+5": "", ".5": "", "5.": "", "-": "", "--5": "", "1e": "", "e1": "", "1e1.5": "", "0x10": "", "1_000": "", "1 000": "", "1'000": "", "1,000.00": "",
		"٣": "", "½": "", "1\u00a0": "", "\ufeff1": "", "1\n": "", "$5": "", "5%": "", "(5)": "", "5-": "", "NaN": "", "-inf": "", "true": "", "null": "", "1e38": "", "1e-39": "",
		strings.Repeat("9", 39): "", "0." + strings.Repeat("0", 38) + "1": "", "0." + strings.Repeat("0", 37) + "1": "0." + strings.Repeat("0", 37) + "1",
		strings.Repeat("0", 50): "", "0." + strings.Repeat("0", 50): "0", "1." + strings.Repeat("0", 50): "1",
	} {
		r := selects(t, "sum(x) AS x")
		out := r.value(`{"userId":1,"x":` + jsonText(text) + `}`)
		if (out.Result == Folded) != (want != "") || want == "" && out.Reason != event.BadNumber && out.Reason != event.Overflow {
			t.Errorf("%q is %v %v, want %q", text, out.Result, out.Reason, want)
		} else if want != "" {
			r.expect(`"x":` + want)
		}
	}
}

func jsonText(s string) string {
	return `"` + strings.NewReplacer("\n", `\n`, `"`, `\"`).Replace(s) + `"`
}

// TestD16D17InstantsAtTheEdges: the first and last that are read, and spellings
// next to those that are documented.
func TestD16D17InstantsAtTheEdges(t *testing.T) {
	for text, want := range map[string]string{
		"100000000": "1973-03-03T09:46:40.000Z", "99999999": "", "99999999999": "5138-11-16T09:46:39.000Z", "100000000000": "1973-03-03T09:46:40.000Z",
		"99999999999999": "5138-11-16T09:46:39.999Z", "100000000000000": "1973-03-03T09:46:40.000Z",
		"100000000000000000": "1973-03-03T09:46:40.000Z", "9223372036854775807": "2262-04-11T23:47:16.854775807Z", "9223372036854775808": "",
		"-1748944805": "", "0": "", "1748944805.5": "2025-06-03T10:00:05.500Z", `"1748944805.5"`: "2025-06-03T10:00:05.500Z", "1748944805000.25": "",
		"true": "", `[1748944805]`: "", `""`: "", `"2025-06-03T10:00:05z"`: "2025-06-03T10:00:05.000Z", `"2025-06-03t10:00:05Z"`: "2025-06-03T10:00:05.000Z",
		`"2025-06-03T10:00:60Z"`: "", `"2025-06-03T24:00:00Z"`: "", `"2025-02-29T10:00:00Z"`: "", `"2024-02-29T10:00:00Z"`: "2024-02-29T10:00:00.000Z",
		`"1900-02-29T10:00:00Z"`: "", `"2000-02-29T10:00:00Z"`: "2000-02-29T10:00:00.000Z", `"2025-06-31T10:00:00Z"`: "", `"2025-13-01T10:00:00Z"`: "",
		`"2025-06-03T10:00:05,5Z"`: "", `"2025-06-03T10:00:05.Z"`: "", `"2025-06-03T10:00:05.1234567890Z"`: "", `"2025-06-03T10:00:05.123456789Z"`: "2025-06-03T10:00:05.123456789Z",
		`"2025-06-03T10:00:05+24:00"`: "", `"2025-06-03T10:00:05-00:00"`: "2025-06-03T10:00:05.000Z", `"2025-06-03T10:00:05+02"`: "", `"2025-06-03T10:00:05 +02:00"`: "",
		`"2025-06-03T10:00:05ZZ"`: "", `" 2025-06-03T10:00:05Z"`: "", `"2025-06-03T10:00:05Z "`: "", `"2025-06-03T10:00:05+0530"`: "2025-06-03T04:30:05.000Z",
		`"２025-06-03T10:00:05Z"`: "", `"20250603T100005Z"`: "", `"2025-154T10:00:05Z"`: "", `"2025-W23-2T10:00:05Z"`: "",
	} {
		r := selects(t, "max(CAST(ts AS timestamp)) AS latest")
		out := r.value(`{"userId":1,"ts":` + text + `}`)
		switch {
		case (out.Result == Folded) != (want != ""):
			t.Errorf("%s is %v %v, want %q", text, out.Result, out.Reason, want)
		case want != "":
			r.expect(`"latest":"` + want + `"`)
		case out.Reason != event.BadTimestamp && out.Reason != event.WrongType && out.Reason != event.Overflow:
			t.Errorf("%s is bad for %v", text, out.Reason)
		}
	}
}

// TestD10N06KeysAtTheEdges: what is one key, and what is none.
func TestD10N06KeysAtTheEdges(t *testing.T) {
	for value, want := range map[string]string{ // key, or a reason
		`23`: "23", `23.0`: "23", `2.3e1`: "23", `230e-1`: "23", `"23"`: "23", `"23.0"`: "23.0", `-0`: "0", `-0.0e5`: "0", `0.50`: "0.5", `-1.50`: "-1.5",
		`1e37`: "1" + strings.Repeat("0", 37), `1e38`: "overflow", `1e-38`: "0." + strings.Repeat("0", 37) + "1", `1e-39`: "overflow", `9007199254740993`: "9007199254740993",
		`true`: "wrong_type", `null`: "null_field", `""`: "missing_field", `" "`: " ", `[]`: "wrong_type", `{}`: "wrong_type",
		`"` + strings.Repeat("k", 1024) + `"`: strings.Repeat("k", 1024), `"` + strings.Repeat("k", 1025) + `"`: "too_large", `"` + strings.Repeat("é", 513) + `"`: "too_large",
		`"\ud83d\ude00"`: "😀", `"😀"`: "😀", `"\u0000"`: "\x00", `"a/b"`: "a/b", `"a\/b"`: "a/b", `"\ud83d"`: "not_json", `"a\tb"`: "a\tb",
	} {
		r := newRows(t, "SELECT userId, count(*) AS n FROM sales GROUP BY userId", Options{})
		out := r.value(`{"userId":` + value + `}`)
		if out.Result != Folded {
			if out.Reason.String() != want {
				t.Errorf("%.60s is %v, want %.60q", value, out.Reason, want)
			}
			continue
		}
		if _, ok := r.delta.Get(nil, []byte(want)); !ok || r.delta.Len() != 1 {
			t.Errorf("%.60s is not the key %.60q", value, want)
		}
	}
	// Of several columns, in all; and none of them runs into the next.
	r := newRows(t, "SELECT a, b, count(*) AS n FROM sales GROUP BY a, b", Options{})
	for _, pair := range []string{`"a":"x","b":"yz"`, `"a":"xy","b":"z"`, `"a":"x/","b":"z"`, `"a":"x","b":"/z"`, `"a":"x\u0000","b":"z"`, `"a":"x","b":"\u0000z"`, `"a":1,"b":"1"`, `"a":"%2F","b":"/"`} {
		if out := r.value("{" + pair + "}"); out.Result != Folded {
			t.Errorf("%s: %v", pair, out.Reason)
		}
	}
	if r.delta.Len() != 8 {
		t.Errorf("8 pairs make %d keys", r.delta.Len())
	}
	if out := r.value(`{"a":"` + strings.Repeat("k", 600) + `","b":"` + strings.Repeat("k", 600) + `"}`); out.Reason != event.TooLarge {
		t.Errorf("a key of 1200 bytes is %v", out.Reason)
	}
}

// TestD12D13SetsAndOptionals: what a set, a count, first and last make of
// members that are null, nested, equal, or of several types.
func TestD12D13SetsAndOptionals(t *testing.T) {
	const all = "collect_set(x) AS s, count(y) AS n, first(y) AS f, last(y) AS l, sum(COALESCE(z, 0)) AS z"
	r := selects(t, all)
	for _, e := range []string{`"x":null,"y":null`, ``, `"x":[null,1,null],"y":1`, `"x":[1,"1",1.0,true,false,"",""],"y":null`, `"x":[],"z":null`, `"x":"b","z":"2"`, `"x":["a","B"],"y":"z"`} {
		r.fold(e)
	}
	r.expect(`"s":[false,true,1,"","1","B","a","b"],"n":2,"f":1,"l":"z","z":2`)
	r.bad(`"x":[[1]]`, event.WrongType, "x")
	r.bad(`"x":[{}]`, event.WrongType, "x")
	r.bad(`"x":{}`, event.WrongType, "x")
	r.bad(`"x":1,"y":[1]`, event.WrongType, "y")
	r.bad(`"x":1,"z":"two"`, event.BadNumber, "z")
	r.bad(`"x":[1e400]`, event.Overflow, "x")
	r.expect(`"s":[false,true,1,"","1","B","a","b"],"n":2,"f":1,"l":"z","z":2`)
	// Types mix in min and max: false, true, numbers, then text by bytes.
	m := selects(t, "min(x) AS lo, max(x) AS hi").fold(`"x":"9"`, `"x":10`, `"x":"10"`, `"x":true`)
	m.expect(`"lo":true,"hi":"9"`)
	m.fold(`"x":false`, `"x":"é"`, `"x":"z"`).expect(`"lo":false,"hi":"é"`)
	m.bad(`"x":null`, event.NullField, "x")
	m.bad(`"x":[1]`, event.WrongType, "x")
}

// TestD13N04BranchesAndConditions: what is not read makes no bad record, and
// what is unknown is neither true nor false.
func TestD13N04BranchesAndConditions(t *testing.T) {
	for where, want := range map[string]string{ // which of x missing, null, 1, "1", "a", true, [1] are folded
		"x = 1": "__11___", "x <> 1": "_______", "NOT (x = 1)": "_______", "x = '1'": "__11___", "x <> '1'": "____1__", "x = 'a'": "____1__",
		"x IS NULL": "11_____", "x IS NOT NULL": "__11111", "x IN (1, 2)": "__11___", "x NOT IN (1, NULL)": "_______", "x NOT IN (2, 3)": "__11___",
		"x IN (NULL)": "_______", "x = NULL": "_______", "x IN (NULL, 1)": "__11___", "x BETWEEN 0 AND 2": "__11___", "x BETWEEN 2 AND 0": "_______", "x NOT BETWEEN 2 AND 0": "__11___",
		"x LIKE '%'": "__???__", "x = true": "_____1_", "x": "_____1_", "NOT x": "_______", "x OR true": "1111111", "x AND false": "_______",
		"COALESCE(x, 1) = 1": "1111___", "CASE WHEN x = 1 THEN true END": "__11___", "CASE x WHEN 1 THEN false ELSE true END": "11__111",
		"x + 1 = 2": "__11___", "CAST(x AS decimal) = 1": "__11___", "CAST(x AS string) = '1'": "__11___", "x > 0 OR x IS NULL": "1111___",
	} {
		r := newRows(t, "SELECT userId, count(*) AS n FROM sales WHERE "+where+" GROUP BY userId", Options{})
		have := ""
		for _, e := range []string{`{"userId":1}`, `{"userId":1,"x":null}`, `{"userId":1,"x":1}`, `{"userId":1,"x":"1"}`, `{"userId":1,"x":"a"}`, `{"userId":1,"x":true}`, `{"userId":1,"x":[1]}`} {
			switch out := r.value(e); out.Result {
			case Folded:
				have += "1"
			case Filtered:
				have += "_"
			default:
				have += "!"
			}
		}
		for i := range want {
			if want[i] != '?' && want[i] != have[i] {
				t.Errorf("WHERE %s folds %s, want %s", where, have, want)
				break
			}
		}
	}
	r := selects(t, "sum(CASE WHEN kind = 'refund' THEN -amount WHEN kind = 'note' THEN 0 ELSE price END) AS s")
	r.fold(`"kind":"refund","amount":2`, `"kind":"note","amount":"x","price":[]`, `"price":5`, `"kind":null,"price":"1.5","amount":{}`).expect(`"s":4.5`)
	r.bad(`"kind":"refund","price":5`, event.MissingField, "amount")
	r.bad(`"kind":"refund","amount":null`, event.NullField, "amount")
	r.bad(`"kind":"sale","amount":1`, event.MissingField, "price")
}

// TestN01N04N06ExactBeyondDoubt: results whose digits floats, 128 bits or a
// careless rounding change.
func TestN01N04N06ExactBeyondDoubt(t *testing.T) {
	nines := strings.Repeat("9", 38)
	for _, c := range []struct {
		column, want string
		values       []string
	}{
		{"avg(x)", "0.3333333333", []string{"1", "0", "0"}}, {"avg(x)", "0.6666666667", []string{"1", "1", "0"}}, {"avg(x)", "-0.6666666667", []string{"-1", "-1", "0"}},
		{"avg(x)", "0.0000000001", []string{"0.0000000001", "0"}}, {"avg(x)", "-0.0000000001", []string{"-0.0000000001", "0"}}, {"avg(x)", "0", []string{"0.00000000004"}},
		{"avg(x)", nines, []string{nines, nines}}, {"CAST(avg(x) AS decimal(38,20))", "0.33333333333333333333", []string{"1", "0", "0"}},
		{"CAST(avg(x) AS decimal(5,2))", "0.01", []string{"0.009", "0.001"}}, {"CAST(avg(x) AS bigint)", "-2", []string{"-3", "-2"}},
		{"CAST(sum(x) AS decimal(4,2))", "null", []string{"99.99", "0.005"}}, {"CAST(sum(x) AS decimal(4,2))", "99.99", []string{"99.99", "0.004"}},
		{"CAST(sum(x) AS bigint)", "9223372036854775807", []string{"9223372036854775807.9"}}, {"CAST(sum(x) AS bigint)", "null", []string{"9223372036854775807", "1"}},
		{"CAST(sum(x) AS bigint)", "-9223372036854775808", []string{"-9223372036854775808.5"}}, {"CAST(sum(x) AS bigint)", "0", []string{"-0.9"}},
		{"sum(CAST(x AS decimal(10,2)))", "0.02", []string{"0.005", "0.005"}}, {"sum(CAST(x AS decimal(10,2)))", "-0.02", []string{"-0.005", "-0.005"}},
		{"sum(CAST(x AS decimal(10,2)))", "3.00", []string{"1", "2"}}, {"sum(CAST(x AS bigint))", "3", []string{"1.9", "2.9"}},
		{"sum(x)", "99999999999999999999999999999999999999000", strings.Fields(strings.Repeat(nines+" ", 1000))},
		{"sum(x)", "1" + strings.Repeat("0", 38), []string{nines, "1"}}, {"sum(x)", "0", []string{nines, "-" + nines}}, {"sum(-x)", "0", []string{"0", "-0"}},
		{"sum(x - x)", "0", []string{"1e37", "1e-38"}}, {"sum(x * 0)", "0", []string{"-1"}}, {"sum(2 * x + 0.1)", "0.5", []string{"0.2"}},
		{"min(x)", "-0.1", []string{"-0.1", "-0.10", "0"}}, {"max(x)", "0.3", []string{"0.30", "0.3", "0.299999999999999999999"}},
		{"min_by(x, y)", "1", []string{`1,"y":0.1`, `2,"y":0.10`, `3,"y":"0.100"`}}, {"max_by(x, y)", "2", []string{`1,"y":9007199254740992`, `2,"y":9007199254740993`}},
		{"collect_set(x)", "[0,0.1,9007199254740992,9007199254740993]", []string{"9007199254740993", "9007199254740992", "0.1", "-0", "1e-1", "0"}},
	} {
		r := selects(t, c.column+" AS c")
		for _, v := range c.values {
			r.fold(`"x":` + v)
		}
		if r.row("1") != `{"userId":1,"c":`+c.want+`}` {
			t.Errorf("%s of %.80v: %s, want %s", c.column, c.values, r.row("1"), c.want)
		}
	}
}
