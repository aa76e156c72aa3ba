package query

import (
	"strings"
	"testing"
	"time"

	"tidemark/event"
)

// mustParse parses a query that is right.
func mustParse(t testing.TB, sql string) *Definition {
	t.Helper()
	d, err := Parse(sql)
	if err != nil {
		t.Fatalf("parse %s: %v", sql, err)
	}
	return d
}

// scanned returns an Env with the values that record holds of d's paths.
func scanned(t testing.TB, d *Definition, record string) *Env {
	t.Helper()
	s := event.NewScanner(d.Paths, 0)
	if reason, _ := s.Scan([]byte(record)); reason != event.OK {
		t.Fatalf("scan %s: %s", record, reason)
	}
	return &Env{Values: s.Values, Zone: time.UTC}
}

// inAggregate parses text as the argument of an aggregate, with the field k as
// the key.
func inAggregate(t testing.TB, text string) (*Definition, Expr) {
	t.Helper()
	d := mustParse(t, "SELECT k, first("+text+") AS x FROM t GROUP BY k")
	return d, d.Aggregates[0].Arg
}

// shown is a value as text: NULL, true, 12.5, 'text', or an instant.
func shown(v event.Value) string {
	switch v.Kind {
	case event.Missing:
		return "missing"
	case event.Null:
		return "NULL"
	case event.False:
		return "false"
	case event.True:
		return "true"
	case event.Number:
		return "json " + string(v.Bytes)
	case event.Decimal:
		return string(v.Num.AppendText(nil))
	case event.Text:
		return "'" + string(v.Bytes) + "'"
	case event.Timestamp:
		return string(v.Time.AppendText(nil))
	}
	return string(v.Bytes)
}

// evaluate evaluates text as a required argument over a record. A value is
// shown as above, a bad record as its reason and field: "bad_number x".
func evaluate(t testing.TB, text, record string, how func(Expr, *Env) (event.Value, event.Reason, int)) string {
	t.Helper()
	d, x := inAggregate(t, text)
	v, reason, slot := how(x, scanned(t, d, record))
	if reason == event.OK {
		return shown(v)
	}
	if slot < 0 {
		return reason.String()
	}
	return reason.String() + " " + strings.Join(d.Paths[slot], ".")
}

const sample = `{"k":"K","n":12.50,"neg":-3,"zero":0,"t":"abc","num":"41.70","comma":"41,70","yes":true,"no":false,
	"nil":null,"list":[1,2],"obj":{"a":1,"b":{"c":"deep"}},"huge":123456789012345678901234567890123456789,
	"ts":"2015-07-29T09:17:12Z","local":"2015-07-29 09:17","epoch":1438161432,"umlaut":"Größe","pct":"50%","big":9223372036854775808}`

func TestRequired(t *testing.T) {
	for _, c := range []struct{ expr, want string }{
		// Paths and literals are themselves.
		{"n", "json 12.50"},
		{"t", "'abc'"},
		{"obj.b.c", "'deep'"},
		{"list", "[1,2]"},
		{"'it''s'", "'it's'"},
		{"12.50", "12.5"},
		{".5", "0.5"},
		{"1e3", "1000"},
		{"007", "7"},
		{"true", "true"},

		// Null is bad, with the field that made it.
		{"gone", "missing_field gone"},
		{"nil", "null_field nil"},
		{"NULL + 1", "null_field"},
		{"n + gone", "missing_field gone"},
		{"nil + gone", "missing_field gone"},
		{"n + nil", "null_field nil"},
		{"CASE WHEN t = 'x' THEN n END", "null_field"},

		// Arithmetic is exact.
		{"n + 0.1", "12.6"},
		{"n - neg * 2", "18.5"},
		{"-n", "-12.5"},
		{"- -n", "12.5"},
		{"-(n - n)", "0"},
		{"num + 1", "42.7"},
		{"num * 1000000000000000000000000000000", "41700000000000000000000000000000"},
		{"0.1 + 0.2", "0.3"},
		{"1 - 2 - 3", "-4"},
		{"1 - (2 - 3)", "2"},
		{"2 + 3 * 4", "14"},
		{"(2 + 3) * 4", "20"},

		// What is no number is a bad record, the smallest reason first.
		{"t + 1", "bad_number t"},
		{"comma * 2", "bad_number comma"},
		{"-t", "bad_number t"},
		{"yes + 1", "wrong_type yes"},
		{"list + 1", "wrong_type list"},
		{"obj + 1", "wrong_type obj"},
		{"huge + 1", "overflow huge"},
		{"huge + t", "bad_number t"},
		{"huge + t + list", "wrong_type list"},
		{"t + comma", "bad_number t"},
		{"t + gone", "missing_field gone"},
		{"t + nil", "null_field nil"},

		// Branches that are not taken are not read.
		{"CASE WHEN yes THEN n ELSE gone END", "json 12.50"},
		{"CASE WHEN no THEN gone WHEN yes THEN neg END", "json -3"},
		{"CASE WHEN nil THEN gone ELSE n END", "json 12.50"},
		{"CASE WHEN gone = 1 THEN t ELSE n END", "json 12.50"},
		{"CASE t WHEN 'x' THEN gone WHEN 'abc' THEN n END", "json 12.50"},
		{"CASE n WHEN 12.5 THEN 'same' ELSE 'other' END", "'same'"},
		{"CASE nil WHEN NULL THEN 1 ELSE 2 END", "2"},
		{"CASE WHEN t = 'abc' THEN -n ELSE n END", "-12.5"},
		{"COALESCE(n, gone)", "json 12.50"},
		{"COALESCE(gone, nil, 0)", "0"},
		{"COALESCE(gone, nil)", "missing_field gone"},
		{"COALESCE(nil, nil)", "null_field nil"},
		{"COALESCE(t, 0) + 1", "bad_number t"},
		{"COALESCE(nil, t) + 1", "bad_number t"},

		// A failure is one though something makes up for the NULL.
		{"COALESCE(CAST(t AS decimal), 0)", "bad_number t"},
		{"CASE WHEN CAST(t AS bigint) > 5 THEN 1 ELSE 2 END", "bad_number t"},
		{"CASE WHEN CAST(t AS bigint) > 5 THEN 1 END", "bad_number t"},
		{"CASE WHEN t THEN 1 ELSE 2 END", "wrong_type t"},
		{"CASE WHEN NOT n THEN 1 ELSE 2 END", "wrong_type n"},
		{"CASE WHEN yes OR t + 1 > 2 THEN 1 ELSE 2 END", "bad_number t"},
		{"CASE WHEN no AND t + 1 > 2 THEN 1 ELSE 2 END", "bad_number t"},
		{"CASE WHEN nil IS NULL THEN CAST(t AS bigint) END", "bad_number t"},

		// Casts.
		{"CAST(n AS decimal)", "12.5"},
		{"CAST(num AS decimal(10,1))", "41.7"},
		{"CAST(n AS decimal(3,0))", "13"},
		{"CAST(n AS decimal(3,2))", "overflow n"},
		{"CAST(n AS bigint)", "12"},
		{"CAST(-n AS bigint)", "-12"},
		{"CAST(big AS bigint)", "overflow big"},
		{"CAST(n + big AS bigint)", "overflow"},
		{"CAST(t AS bigint)", "bad_number t"},
		{"CAST(list AS string)", "wrong_type list"},
		{"CAST(n AS string)", "'12.5'"},
		{"CAST(yes AS string)", "'true'"},
		{"CAST(ts AS timestamp)", "2015-07-29T09:17:12.000Z"},
		{"CAST(local AS timestamp)", "2015-07-29T09:17:00.000Z"},
		{"CAST(epoch AS timestamp)", "2015-07-29T09:17:12.000Z"},
		{"CAST(CAST(ts AS timestamp) AS bigint)", "1438161432"},
		{"CAST(t AS timestamp)", "bad_timestamp t"},
		{"CAST(yes AS timestamp)", "wrong_type yes"},
		{"CAST(gone AS timestamp)", "missing_field gone"},
		{"CAST(nil AS string)", "null_field nil"},
		{"COALESCE(CAST(nil AS timestamp), '2015-07-29')", "2015-07-29T00:00:00.000Z"},

		// Conditions are values too.
		{"n > 12", "true"},
		{"n > 12 AND t = 'x'", "false"},
		{"nil = 1", "null_field nil"},
		{"t > 1", "null_field"},
		{"nil IS NULL", "true"},
		{"gone IS NOT NULL", "false"},
	} {
		if got := evaluate(t, c.expr, sample, Required); got != c.want {
			t.Errorf("%s: got %s, want %s", c.expr, got, c.want)
		}
	}
}

func TestOptional(t *testing.T) {
	for _, c := range []struct{ expr, want string }{
		{"n", "json 12.50"},
		{"gone + 1", "NULL"},
		{"nil", "NULL"},
		{"CASE WHEN gone THEN 1 END", "NULL"},
		{"CAST(t AS bigint)", "bad_number t"},
		{"CAST(gone AS bigint)", "NULL"},
		{"CAST(t AS bigint) + gone", "bad_number t"},
	} {
		got := evaluate(t, c.expr, sample, Optional)
		if got == "missing" {
			got = "NULL"
		}
		if got != c.want {
			t.Errorf("%s: got %s, want %s", c.expr, got, c.want)
		}
	}
}

// TestRequiredNamesTheSource: with OK, the slot is the field that the value
// came from, so that what is wrong with it later still has a field.
func TestRequiredNamesTheSource(t *testing.T) {
	for expr, want := range map[string]string{
		"n":                                   "n",
		"COALESCE(gone, t)":                   "t",
		"COALESCE(gone, 0)":                   "",
		"CASE WHEN n = 1 THEN t ELSE num END": "num",
		"n + 1":                               "",
		"-n":                                  "n",
		"CAST(n AS string)":                   "n",
		"n = num":                             "",
		"gone IS NULL":                        "",
	} {
		d, x := inAggregate(t, expr)
		_, reason, slot := Required(x, scanned(t, d, sample))
		got := ""
		if slot >= 0 {
			got = strings.Join(d.Paths[slot], ".")
		}
		if reason != event.OK || got != want {
			t.Errorf("%s: got %v and field %q, want %q", expr, reason, got, want)
		}
	}
}

func TestWhere(t *testing.T) {
	for _, c := range []struct {
		where string
		want  bool
	}{
		{"yes", true}, {"no", false}, {"nil", false}, {"gone", false}, {"t", false}, {"n", false}, {"list", false},
		{"NOT no", true}, {"NOT nil", false}, {"NOT t", false}, {"NOT NOT yes", true},
		{"gone IS NULL", true}, {"gone IS NULL OR gone <> 'test'", true}, {"t IS NULL OR t <> 'test'", true},
		{"t IS NULL OR t <> 'abc'", false}, {"nil <> 'x'", false},
		{"n = 12.5", true}, {"n = 12.50", true}, {"12.5 = n", true}, {"n <> 12.5", false}, {"n != 3", true},
		{"n < 13", true}, {"n <= 12.5", true}, {"n > 12.5", false}, {"n >= 12.5", true},
		// A number beside text reads the text as a number.
		{"num = 41.7", true}, {"num > 5", true}, {"n = '12.5'", true}, {"n = '012.5'", false}, {"t > 5", false}, {"NOT t > 5", false}, {"comma > 5", false},
		// Text beside text goes by bytes.
		{"num > '5'", false}, {"t < 'abd'", true}, {"t > 'B'", true}, {"umlaut = 'Größe'", true},
		// Arrays and objects compare with nothing.
		{"list = 1", false}, {"list <> 1", false}, {"obj = obj", false}, {"NOT list = list", false},
		// Nor do booleans with anything else.
		{"yes = true", true}, {"yes = no", false}, {"no < yes", true}, {"yes = 'true'", false}, {"yes <> 'true'", false}, {"yes = n", false},
		// Numbers out of range compare with nothing.
		{"huge > 1", false}, {"huge < 1", false}, {"huge IS NULL", false},
		{"n IN (1, 12.5)", true}, {"n IN (1, 2)", false}, {"n NOT IN (1, 2)", true}, {"n NOT IN (1, NULL)", false}, {"n IN (12.5, NULL)", true},
		{"n IN ('12.5')", true}, {"t IN ('x', 'abc')", true}, {"nil IN (1)", false}, {"nil NOT IN (1)", false}, {"t NOT IN (1)", false}, {"huge IN (1, 2)", false},
		{"n IN (neg, n)", true},
		{"n BETWEEN 12 AND 13", true}, {"n BETWEEN 12.5 AND 12.5", true}, {"n BETWEEN 13 AND 12", false}, {"n NOT BETWEEN 1 AND 2", true},
		{"n NOT BETWEEN NULL AND 2", true}, {"n NOT BETWEEN NULL AND 20", false}, {"n BETWEEN NULL AND 2", false},
		{"t LIKE 'a%'", true}, {"t LIKE 'A%'", false}, {"t NOT LIKE 'b%'", true}, {"t LIKE 'a_c'", true}, {"t LIKE '_'", false}, {"umlaut LIKE 'Gr__e'", true},
		{`pct LIKE '50\%'`, true}, {`t LIKE 'ab\%'`, false}, {"n LIKE '12.5'", true}, {"n LIKE '12.50'", false}, {"yes LIKE 't%'", false}, {"list LIKE '%'", false},
		{"nil LIKE '%'", false}, {"nil NOT LIKE '%'", false},
		// Instants.
		{"CAST(ts AS timestamp) > '2015-07-29'", true}, {"CAST(ts AS timestamp) = '2015-07-29T11:17:12+02:00'", true},
		{"CAST(ts AS timestamp) BETWEEN '2015-07-29T09:17:12Z' AND '2015-07-30'", true}, {"CAST(ts AS timestamp) = epoch", true},
		{"CAST(ts AS timestamp) = 1438161432", true}, {"CAST(ts AS timestamp) = t", false}, {"CAST(ts AS timestamp) <> t", false},
		{"CAST(ts AS timestamp) IN (CAST(epoch AS timestamp))", true}, {"local < CAST(ts AS timestamp)", true},
		{"CAST(ts AS timestamp) = list", false}, {"CAST(ts AS timestamp) <> yes", false},
		// What fails is NULL, and nothing more.
		{"CAST(t AS bigint) > 5", false}, {"CAST(t AS bigint) IS NULL", true}, {"t + 1 > 2", false}, {"t + 1 IS NULL", true}, {"CAST(list AS string) IS NULL", true},
		{"CAST(t AS bigint) > 5 OR yes", true}, {"yes OR CAST(t AS bigint) > 5", true}, {"no AND t + 1 > 2", false},
		{"COALESCE(CAST(t AS bigint), 7) = 7", true}, {"CASE WHEN t THEN false ELSE true END", true},
		// AND binds before OR, NOT before AND.
		{"yes OR yes AND no", true}, {"(yes OR yes) AND no", false}, {"NOT no AND yes", true}, {"NOT (no AND yes)", true}, {"NOT no = no", false},
		{"1 + 2 * 3 = 7", true}, {"-n + 1 < 0", true}, {"n - 1 - 1 = 10.5", true},
	} {
		d := mustParse(t, "SELECT k, count(*) AS c FROM t WHERE "+c.where+" GROUP BY k")
		env := scanned(t, d, sample)
		if got := True(d.Where, env); got != c.want {
			t.Errorf("WHERE %s: got %v, want %v", c.where, got, c.want)
		}
		if env.Reason != event.OK {
			t.Errorf("WHERE %s noted %s", c.where, env.Reason)
		}
	}
}

// TestTruthTables goes through SQL's three-valued logic.
func TestTruthTables(t *testing.T) {
	values := []string{"yes", "no", "nil"}
	truth := map[string]tri{"yes": isTrue, "no": isFalse, "nil": isNull}
	for _, a := range values {
		for _, b := range values {
			x, y := truth[a], truth[b]
			wantAnd, wantOr := isNull, isNull
			switch {
			case x == isFalse || y == isFalse:
				wantAnd = isFalse
			case x == isTrue && y == isTrue:
				wantAnd = isTrue
			}
			switch {
			case x == isTrue || y == isTrue:
				wantOr = isTrue
			case x == isFalse && y == isFalse:
				wantOr = isFalse
			}
			for expr, want := range map[string]tri{
				a + " AND " + b:                     wantAnd,
				a + " OR " + b:                      wantOr,
				"NOT (" + a + " AND " + b + ")":     wantAnd.not(),
				"NOT " + a + " OR NOT " + b:         wantAnd.not(),
				"NOT " + a + " AND NOT " + b:        wantOr.not(),
				a + " = true AND " + b + " = true":  wantAnd,
				"(" + a + " AND " + b + ") IS NULL": boolean(wantAnd == isNull),
			} {
				d, parsed := inAggregate(t, expr)
				if got := truthOf(parsed, scanned(t, d, sample)); got != want {
					t.Errorf("%s: got %d, want %d", expr, got, want)
				}
			}
		}
	}
}

// TestO11ZoneOfTimestamps: a time without a zone is in the zone of the
// configuration, in events and in the query alike.
func TestO11ZoneOfTimestamps(t *testing.T) {
	kathmandu, err := time.LoadLocation("Asia/Kathmandu")
	if err != nil {
		t.Fatal(err)
	}
	d := mustParse(t, "SELECT k, max(CAST(at AS timestamp)) AS x FROM t WHERE CAST(at AS timestamp) >= '2025-06-03 10:00:05' GROUP BY k")
	for zone, want := range map[*time.Location]string{time.UTC: "2025-06-03T10:00:05.000Z", kathmandu: "2025-06-03T04:15:05.000Z", nil: "2025-06-03T10:00:05.000Z"} {
		env := scanned(t, d, `{"k":"K","at":"2025-06-03 10:00:05"}`)
		env.Zone = zone
		if !True(d.Where, env) {
			t.Errorf("zone %v: the event is filtered", zone)
		}
		if v, reason, _ := Required(d.Aggregates[0].Arg, env); shown(v) != want {
			t.Errorf("zone %v: got %s (%s), want %s", zone, shown(v), reason, want)
		}
	}
}

// TestD04QuotedNumbers: text is a number where it is exactly one.
func TestD04QuotedNumbers(t *testing.T) {
	for text, want := range map[string]string{`"41.70"`: "83.4", `"41,70"`: "bad_number x", `"abc"`: "bad_number x", `""`: "bad_number x", `" 5"`: "bad_number x"} {
		if got := evaluate(t, "x * 2", `{"k":"K","x":`+text+`}`, Required); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

// TestD13NullsAreNoZeros: null is bad where a value is wanted, and absent
// where the query says so.
func TestD13NullsAreNoZeros(t *testing.T) {
	for expr, want := range map[string]string{"x + 0": "null_field x", "-x": "null_field x", "COALESCE(x, 0)": "0"} {
		if got := evaluate(t, expr, `{"k":"K","x":null}`, Required); got != want {
			t.Errorf("%s: got %s, want %s", expr, got, want)
		}
	}
}

// TestD21Refunds: a refund is a sum with a sign of its own.
func TestD21Refunds(t *testing.T) {
	const refund = "CASE WHEN kind = 'refund' THEN -amount ELSE amount END"
	for record, want := range map[string]string{
		`{"k":"K","kind":"refund","amount":30.00}`: "-30",
		`{"k":"K","kind":"sale","amount":30.00}`:   "json 30.00",
		`{"k":"K","amount":30.00}`:                 "json 30.00",
		`{"k":"K","kind":"refund","amount":0}`:     "0",
		`{"k":"K","kind":"refund"}`:                "missing_field amount",
	} {
		if got := evaluate(t, refund, record, Required); got != want {
			t.Errorf("%s: got %s, want %s", record, got, want)
		}
	}
}

// TestN04Scales: decimals of any scale go together exactly.
func TestN04Scales(t *testing.T) {
	const record = `{"k":"K","a":1.5,"b":0.125,"c":2,"d":0.000000000000000000000000000001}`
	for expr, want := range map[string]string{"a + b + c": "3.625", "a + d": "1.500000000000000000000000000001", "b * d": "0.000000000000000000000000000000125"} {
		if got := evaluate(t, expr, record, Required); got != want {
			t.Errorf("%s: got %s, want %s", expr, got, want)
		}
	}
}
