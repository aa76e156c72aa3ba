package query

import (
	"strings"
	"testing"
	"time"

	"tidemark/decimal"
	"tidemark/event"
)

func TestConvertTo(t *testing.T) {
	number := func(text string) event.Value { return event.Value{Kind: event.Number, Bytes: []byte(text)} }
	text := func(text string) event.Value { return event.Value{Kind: event.Text, Bytes: []byte(text)} }
	sum := func(text string) event.Value {
		d, err := decimal.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return event.Value{Kind: event.Decimal, Num: d.Mul(d)}
	}
	instant := event.Value{Kind: event.Timestamp, Time: event.Time{Sec: 1438161432, Nsec: 250_000_000}}
	early := event.Value{Kind: event.Timestamp, Time: event.Time{Sec: -2, Nsec: 500_000_000}}
	ten9s := strings.Repeat("9", 30)
	for _, c := range []struct {
		v    event.Value
		t    string
		want string
	}{
		{event.Value{}, "decimal", "NULL"},
		{event.Value{Kind: event.Null}, "timestamp", "NULL"},

		{number("1.50"), "decimal", "1.5"},
		{text("1.50"), "decimal", "1.5"},
		{text("1,5"), "decimal", "bad_number"},
		{text(""), "decimal", "bad_number"},
		{event.Value{Kind: event.True}, "decimal", "wrong_type"},
		{event.Value{Kind: event.Array, Bytes: []byte("[1]")}, "decimal", "wrong_type"},
		{number("1e38"), "decimal", "overflow"},
		{sum(ten9s), "decimal", "999999999999999999999999999998000000000000000000000000000001"},
		{instant, "decimal", "1438161432.25"},
		{early, "decimal", "-1.5"},

		// HALF_UP: halves go away from zero.
		{number("1.005"), "decimal(10,2)", "1.01"},
		{number("-1.005"), "decimal(10,2)", "-1.01"},
		{number("1.0049999"), "decimal(10,2)", "1"},
		{number("0.5"), "decimal(3)", "1"},
		{number("-0.4"), "decimal(3)", "0"},
		{number("99.994"), "decimal(4,2)", "99.99"},
		{number("99.995"), "decimal(4,2)", "overflow"},
		{number("0.999"), "decimal(2,2)", "overflow"},
		{number("0.99"), "decimal(2,2)", "0.99"},
		{number(strings.Repeat("9", 38)), "decimal(38,0)", strings.Repeat("9", 38)},
		{number(strings.Repeat("9", 38)), "decimal(38,1)", "overflow"},

		{number("-1.9"), "bigint", "-1"},
		{number("1.9"), "bigint", "1"},
		{text("1e3"), "bigint", "1000"},
		{number("9223372036854775807.9"), "bigint", "9223372036854775807"},
		{number("9223372036854775808"), "bigint", "overflow"},
		{number("-9223372036854775808.5"), "bigint", "-9223372036854775808"},
		{number("-9223372036854775809"), "bigint", "overflow"},
		{sum(ten9s), "bigint", "overflow"},
		{instant, "bigint", "1438161432"},
		{early, "bigint", "-1"},

		{text("a'b"), "string", "'a'b'"},
		{number("2.30e1"), "string", "'23'"},
		{number("-0"), "string", "'0'"},
		{sum("0.5"), "string", "'0.25'"},
		{event.Value{Kind: event.False}, "string", "'false'"},
		{instant, "string", "'2015-07-29T09:17:12.250Z'"},
		{number("1e400"), "string", "overflow"},
		{event.Value{Kind: event.Object, Bytes: []byte("{}")}, "string", "wrong_type"},

		{text("2015-07-29 09:17:12"), "timestamp", "2015-07-29T09:17:12.000Z"},
		{number("1438161432.25"), "timestamp", "2015-07-29T09:17:12.250Z"},
		{text("1438161432000"), "timestamp", "2015-07-29T09:17:12.000Z"},
		{instant, "timestamp", "2015-07-29T09:17:12.250Z"},
		{number("5"), "timestamp", "bad_timestamp"},
		{text("2015/07/29"), "timestamp", "bad_timestamp"},
		{event.Value{Kind: event.False}, "timestamp", "wrong_type"},
	} {
		_, x := inAggregate(t, "CAST(b AS "+c.t+")")
		v, reason := ConvertTo(c.v, x.(*Cast).Type, nil)
		got := reason.String()
		if reason == event.OK {
			got = shown(v)
		} else if !v.IsNull() {
			t.Errorf("%s to %s: %s with a value", shown(c.v), c.t, reason)
		}
		if got != c.want {
			t.Errorf("%s to %s: got %s, want %s", shown(c.v), c.t, got, c.want)
		}
	}
}

// TestTextsOfCastsStay: a text that a cast made stays as it is while others
// are made, until its user drops it.
func TestTextsOfCastsStay(t *testing.T) {
	d, x := inAggregate(t, "CAST(n + 0 AS string)")
	env := scanned(t, d, `{"k":1,"n":0}`)
	var texts []event.Value
	for i := range 2000 {
		env.Values[1] = event.Value{Kind: event.Decimal, Num: decimal.FromInt64(int64(i * i * i))}
		v, _, _ := Required(x, env)
		texts = append(texts, v)
	}
	for i, v := range texts {
		want := string(decimal.FromInt64(int64(i * i * i)).AppendText(nil))
		if string(v.Bytes) != want {
			t.Fatalf("text %d is %s, want %s", i, v.Bytes, want)
		}
		if extended := append(v.Bytes, '!'); i+1 < len(texts) && string(texts[i+1].Bytes) != string(decimal.FromInt64(int64((i+1)*(i+1)*(i+1))).AppendText(nil)) {
			t.Fatalf("%s ran into the next text", extended)
		}
	}
}

// TestCastInZone: only texts without a zone depend on it.
func TestCastInZone(t *testing.T) {
	zone := time.FixedZone("", 2*3600)
	for text, want := range map[string]string{"2015-07-29T09:17:12": "2015-07-29T07:17:12.000Z", "2015-07-29T09:17:12Z": "2015-07-29T09:17:12.000Z"} {
		v, _ := ConvertTo(event.Value{Kind: event.Text, Bytes: []byte(text)}, Type{Name: TypeTimestamp}, zone)
		if got := shown(v); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}
