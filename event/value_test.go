package event

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"tidemark/decimal"
)

// scanOne is the value of the JSON text raw, as the scanner reads it.
func scanOne(t testing.TB, raw string) *Value {
	t.Helper()
	s := NewScanner([]Path{{"x"}}, 0)
	record := `{"x":` + raw + `}`
	if raw == "" {
		record = `{}`
	}
	if reason, _ := s.Scan([]byte(record)); reason != OK {
		t.Fatalf("Scan(%s) = %v", record, reason)
	}
	return &s.Values[0]
}

func TestReasonNames(t *testing.T) {
	for r := Empty; int(r) < NumReasons; r++ {
		if got, ok := ReasonNamed(r.String()); !ok || got != r {
			t.Errorf("ReasonNamed(%q) = %v, %v", r, got, ok)
		}
	}
	for _, name := range []string{"", "nonsense"} {
		if _, ok := ReasonNamed(name); ok {
			t.Errorf("ReasonNamed(%q) found one", name)
		}
	}
}

func TestDecimalOfValues(t *testing.T) {
	long := strings.Repeat("9", 39)
	for _, c := range []struct {
		raw, want string
		reason    Reason
	}{
		{"41.70", "41.7", OK}, {`"41.70"`, "41.7", OK}, {`"7E+3"`, "7000", OK}, {`"\u0031"`, "1", OK}, {"-0", "0", OK},
		{"1e38", "", Overflow}, {"1e-39", "", Overflow}, {`"1e38"`, "", Overflow}, {long, "", Overflow}, {`"` + long + `"`, "", Overflow},
		{"", "", MissingField}, {"null", "", NullField}, {"true", "", WrongType}, {"false", "", WrongType}, {"[3]", "", WrongType}, {`{"a":1}`, "", WrongType},
	} {
		got, reason := scanOne(t, c.raw).Decimal()
		if reason != c.reason || reason == OK && got.String() != c.want {
			t.Errorf("%s: %v %v, want %s %v", c.raw, got, reason, c.want, c.reason)
		}
	}
	v := Value{Kind: Decimal, Num: decimal.FromInt64(5)}
	if got, reason := v.Decimal(); reason != OK || got.String() != "5" {
		t.Errorf("a decimal: %v %v", got, reason)
	}
	v = Value{Kind: Timestamp}
	if _, reason := v.Decimal(); reason != WrongType {
		t.Errorf("an instant: %v", reason)
	}
}

func TestD04NumbersAsText(t *testing.T) {
	for raw, want := range map[string]Reason{
		`"41.70"`: OK, `"-3"`: OK, `"41,70"`: BadNumber, `"abc"`: BadNumber, `""`: BadNumber, `" 5"`: BadNumber, `"5 "`: BadNumber, `"+5"`: BadNumber,
		`".5"`: BadNumber, `"NaN"`: BadNumber, `"Infinity"`: BadNumber, `"0x10"`: BadNumber, `"1_000"`: BadNumber, `"٣"`: BadNumber, `"5\u0000"`: BadNumber,
	} {
		if _, got := scanOne(t, raw).Decimal(); got != want {
			t.Errorf("%s: %v, want %v", raw, got, want)
		}
	}
}

func TestKeys(t *testing.T) {
	long := strings.Repeat("9", 39)
	for _, c := range []struct {
		raw, want string
		number    bool
		reason    Reason
	}{
		{"23", "23", true, OK}, {"23.0", "23", true, OK}, {"2.3e1", "23", true, OK}, {`"23"`, "23", false, OK}, {`"23.0"`, "23.0", false, OK},
		{"0", "0", true, OK}, {"-0", "0", true, OK}, {"-0.0", "0", true, OK}, {"-23", "-23", true, OK}, {"0.50", "0.5", true, OK}, {"1e3", "1000", true, OK},
		{long[:38], long[:38], true, OK}, {"-" + long[:38], "-" + long[:38], true, OK}, {long, "", false, Overflow}, {"-" + long, "", false, Overflow},
		{"1e400", "", false, Overflow}, {`"` + long + `"`, long, false, OK}, {`"a\u0062"`, "ab", false, OK}, {`" "`, " ", false, OK}, {`"é/ü"`, "é/ü", false, OK},
		{`""`, "", false, MissingField}, {"", "", false, MissingField}, {"null", "", false, NullField}, {"true", "", false, WrongType},
		{"false", "", false, WrongType}, {"[1]", "", false, WrongType}, {`{}`, "", false, WrongType},
	} {
		got, number, reason := AppendKey([]byte("head"), scanOne(t, c.raw))
		if string(got) != "head"+c.want || number != c.number || reason != c.reason {
			t.Errorf("%s: %q %v %v, want %q %v %v", c.raw, got[4:], number, reason, c.want, c.number, c.reason)
		}
		if key, ok := PlainKey(scanOne(t, c.raw)); ok && (string(key) != c.want || c.reason != OK) {
			t.Errorf("%s: as it stands %q, want %q %v", c.raw, key, c.want, c.reason)
		}
	}
	for _, raw := range []string{"23", "-23", "0", `"23.0"`, `" "`, `"a\u0062"`} {
		if key, ok := PlainKey(scanOne(t, raw)); !ok {
			t.Errorf("%s: no key as it stands, but %q", raw, key)
		}
	}
	v := Value{Kind: Decimal, Num: decimal.New(0, 2300, 2)}
	if got, number, reason := AppendKey(nil, &v); string(got) != "23" || !number || reason != OK {
		t.Errorf("a decimal: %q %v %v", got, number, reason)
	}
	v = Value{Kind: Timestamp}
	if got, number, reason := AppendKey(nil, &v); string(got) != "1970-01-01T00:00:00.000Z" || number || reason != OK {
		t.Errorf("an instant: %q %v %v", got, number, reason)
	}
}

// A number's key is the plain text of the number, however it was written.
func TestKeyIsTheNumber(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`-?(0|[1-9][0-9]{0,12})(\.[0-9]{1,6})?([eE][+-]?[0-9]{1,2})?`).Draw(t, "number")
		v := Value{Kind: Number, Bytes: []byte(text)}
		got, number, reason := AppendKey(nil, &v)
		d, err := decimal.Parse(v.Bytes)
		if err != nil {
			if reason != Overflow {
				t.Fatalf("%s: %q %v", text, got, reason)
			}
			return
		}
		if string(got) != d.String() || !number || reason != OK {
			t.Fatalf("%s: %q %v %v, want %v", text, got, number, reason, d)
		}
		if key, ok := PlainKey(&v); ok && string(key) != d.String() {
			t.Fatalf("%s: as it stands %q, want %v", text, key, d)
		}
	})
}

func TestElementsAgainstReference(t *testing.T) {
	var e Elements
	for _, r := range records {
		b := []byte(r)
		if !jsontext.Value(b).IsValid(jsontext.AllowDuplicateNames(true)) {
			continue
		}
		for _, array := range []string{`[` + r + `]`, `[ ` + r + ` , [` + r + `],"x\n",` + r + "\t]", `[1,-2.5e3,true,false,null,"","a",[],{},` + r + `,[[1],{"]":"}"}]]`} {
			checkElements(t, &e, []byte(array))
		}
	}
	for _, array := range []string{`[]`, `[ ]`, "[\n]", `["]",",","\"","\\"]`, `[["]"],{"a":"[\"{"}]`} {
		checkElements(t, &e, []byte(array))
	}
	if (&Elements{}).Next() != nil {
		t.Error("the zero Elements has one")
	}
}

func checkElements(t testing.TB, e *Elements, array []byte) {
	t.Helper()
	dec := jsontext.NewDecoder(bytes.NewReader(array), jsontext.AllowDuplicateNames(true))
	if _, err := dec.ReadToken(); err != nil {
		t.Fatal(err)
	}
	var kept []Value
	e.Reset(array)
	for v := e.Next(); v != nil; v = e.Next() {
		kept = append(kept, *v)
	}
	for i, v := range kept {
		raw, err := dec.ReadValue()
		if err != nil {
			t.Fatalf("%s: element %d: %v", array, i, err)
		}
		want := valueOf(t, raw)
		if !sameValue(&v, &want) {
			t.Fatalf("%s: element %d is %s, want %s", array, i, show(&v), show(&want))
		}
	}
	if dec.PeekKind() != ']' {
		t.Fatalf("%s: only %d elements", array, len(kept))
	}
}

func TestElementsAllocateNothing(t *testing.T) {
	raw := []byte(`[47,1484,"a text","with \n escape",[1,{"a":"]"}],{"b":[]},null,true]`)
	var e Elements
	if n := testing.AllocsPerRun(100, func() {
		e.Reset(raw)
		for e.Next() != nil {
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzElements(f *testing.F) {
	for _, r := range records {
		f.Add([]byte("[" + r + "]"))
	}
	f.Fuzz(func(t *testing.T, record []byte) {
		s := NewScanner([]Path{{"x"}}, 0)
		record = slices.Concat([]byte(`{"x":`), record, []byte(`}`))
		if reason, _ := s.Scan(record); reason != OK || s.Values[0].Kind != Array {
			return
		}
		checkElements(t, &Elements{}, s.Values[0].Bytes)
	})
}

func TestCompareIsTheOrderOfSets(t *testing.T) {
	num := func(s string) Value { return Value{Kind: Number, Bytes: []byte(s)} }
	dec := func(s string) Value { return Value{Kind: Decimal, Num: must(decimal.Parse([]byte(s)))} }
	text := func(s string) Value { return Value{Kind: Text, Bytes: []byte(s)} }
	// In order; what is in one group is equal.
	groups := [][]Value{
		{{Kind: Missing}, {Kind: Null}}, {{Kind: False}}, {{Kind: True}},
		{num("1e400")}, {num("-1e3"), dec("-1000")}, {num("-0.5")}, {num("0"), num("-0"), dec("0.0")}, {num("1"), num("1.0"), dec("1"), num("10e-1")},
		{num("1.0000000000000000000000000000000001")}, {num("9")}, {num("10")}, {num("47")}, {num("9007199254740993")}, {num("1e37")},
		{text("")}, {text("10")}, {text("47")}, {text("9")}, {text("B")}, {text("a")}, {text("aa")}, {text("é")},
		{{Kind: Timestamp, Time: Time{-1, 5}}}, {{Kind: Timestamp}}, {{Kind: Timestamp, Time: Time{0, 1}}},
		{{Kind: Array, Bytes: []byte("[1]")}}, {{Kind: Array, Bytes: []byte("[2]")}},
	}
	for i, g := range groups {
		for j, h := range groups {
			for _, v := range g {
				for _, w := range h {
					want := 0
					if i < j {
						want = -1
					} else if i > j {
						want = 1
					}
					if got := Compare(&v, &w); got != want {
						t.Errorf("Compare(%s, %s) = %d, want %d", show(&v), show(&w), got, want)
					}
				}
			}
		}
	}
}
