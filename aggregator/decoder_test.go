package aggregator

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"tidemark/event"
)

// All records are accounted for: here 37 of 1000 are bad in six ways.
func TestD18CountsAddUp(t *testing.T) {
	r := newRows(t, "SELECT userId, sum(points) AS points FROM sales WHERE channel IS NULL OR channel <> 'test' GROUP BY userId", Options{})
	bad := []string{`{"userId":1,"points":`, `{"userId":1}`, `{"points":1}`, `[]`, `{"userId":1,"points":"x"}`, `{"userId":{},"points":1}`}
	n := 0
	for i := range 1000 {
		switch {
		case i%27 == 0 && n < 37:
			r.value(bad[n%len(bad)])
			n++
		case i%100 == 50:
			r.record(Record{Offset: int64(i)})
		case i%100 == 60:
			r.value(`{"userId":1,"channel":"test"}`)
		default:
			r.value(`{"userId":1,"points":1}`)
		}
	}
	c := r.delta.Counts
	want := [NumResults]int64{Folded: 1000 - 37 - 20, Filtered: 10, Bad: 37, Tombstone: 10}
	if c.Results != want {
		t.Errorf("results are %v, want %v", c.Results, want)
	}
	var reasons int64
	for _, n := range c.Reasons {
		reasons += n
	}
	if c.Consumed() != 1000 || reasons != 37 {
		t.Errorf("%d consumed, %d with reasons", c.Consumed(), reasons)
	}
	r.expect(fmt.Sprintf(`"points":%d`, want[Folded]))
}

func TestKeysOfEvents(t *testing.T) {
	r := selects(t, "count(*) AS n")
	is := func(event string, want string) {
		t.Helper()
		r.delta.Reset(0)
		if out := r.value(event); out.Result != Folded {
			t.Errorf("%s is %v %v %s", event, out.Result, out.Reason, out.Field)
		}
		for key := range r.delta.Sorted(nil) {
			if string(key) != want {
				t.Errorf("%s has key %q, want %q", event, key, want)
			}
		}
	}
	is(`{"userId":23}`, "23")
	is(`{"userId":23.0}`, "23")
	is(`{"userId":2.3e1}`, "23")
	is(`{"userId":"23.0"}`, "23.0")
	is(`{"userId":-0}`, "0")
	is(`{"userId":"a/b c"}`, "a/b c")
	is(`{"userId":"`+strings.Repeat("x", 1024)+`"}`, strings.Repeat("x", 1024))
	bad := func(event string, want event.Reason) {
		t.Helper()
		if out := r.value(event); out != (Outcome{Bad, want, "userId"}) {
			t.Errorf("%s is %v %v %q, want %v", event, out.Result, out.Reason, out.Field, want)
		}
	}
	bad(`{"n":1}`, event.MissingField)
	bad(`{"userId":""}`, event.MissingField)
	bad(`{"userId":null}`, event.NullField)
	bad(`{"userId":true}`, event.WrongType)
	bad(`{"userId":[1]}`, event.WrongType)
	bad(`{"userId":{}}`, event.WrongType)
	bad(`{"userId":1e38}`, event.Overflow)
	bad(`{"userId":"`+strings.Repeat("x", 1025)+`"}`, event.TooLarge)
	if r.delta.Len() != 1 {
		t.Errorf("bad keys made keys: %d", r.delta.Len())
	}
}

// A key is shown as a number where everything that made it carried one.
func TestKeyIsShownAsItCame(t *testing.T) {
	r := selects(t, "count(*) AS n")
	r.value(`{"userId":23}`)
	r.value(`{"userId":2.3e1}`)
	if got := r.row("23"); got != `{"userId":23,"n":2}` {
		t.Error(got)
	}
	r.value(`{"userId":"23"}`)
	r.value(`{"userId":23}`)
	if got := r.row("23"); got != `{"userId":"23","n":4}` {
		t.Error(got)
	}
}

func TestKeysOfSeveralColumns(t *testing.T) {
	r := newRows(t, "SELECT count(*) AS n, shop.id AS shop, userId FROM sales GROUP BY shop.id, userId", Options{})
	r.value(`{"userId":"a/b","shop":{"id":7}}`)
	key, err := r.program.Key([]string{"7", "a/b"})
	if err != nil || string(key) != "7/a%2Fb" {
		t.Fatalf("key is %q, %v", key, err)
	}
	if got := r.row(string(key)); got != `{"n":1,"shop":7,"userId":"a/b"}` {
		t.Error(got)
	}
	if got := string(r.program.AppendKey(nil, key)); got != `["7","a/b"]` {
		t.Error(got)
	}
	if got := r.program.KeyTexts(key); len(got) != 2 || got[0] != "7" || got[1] != "a/b" {
		t.Errorf("texts are %q", got)
	}
	if _, err := r.program.Key([]string{"7"}); err == nil || err.Error() != "the key has 2 columns (shop, userId), not 1" {
		t.Error(err)
	}
	if out := r.value(`{"userId":1,"shop":{}}`); out != (Outcome{Bad, event.MissingField, "shop.id"}) {
		t.Error(out)
	}
	half := strings.Repeat("x", 600)
	if out := r.value(`{"userId":"` + half + `","shop":{"id":"` + half + `"}}`); out != (Outcome{Bad, event.TooLarge, "userId"}) {
		t.Error(out.Result, out.Reason, out.Field)
	}
	slashes := strings.Repeat("/", 512)
	if out := r.value(`{"userId":"` + slashes + `","shop":{"id":"` + slashes + `"}}`); out.Result != Folded {
		t.Error(out.Result, out.Reason, out.Field)
	}
	key, _ = r.program.Key([]string{slashes, slashes})
	if got := r.program.KeyTexts(key); got[0] != slashes || got[1] != slashes {
		t.Errorf("texts are %q", got)
	}
	r.total(string(key))
}

// decoding is newRows with a cut.
func decoding(t *testing.T, cut DecodeCut, guard func([]byte) (event.Time, bool, error)) *rows {
	t.Helper()
	r := selects(t, "sum(x) AS x")
	d, err := r.program.NewDecoder(cut, guard)
	if err != nil {
		t.Fatal(err)
	}
	r.decoder = d
	return r
}

func at(sec int64) event.Time { return event.Time{Sec: sec} }

func TestCutByTimestamp(t *testing.T) {
	before := at(1_500_000_000)
	r := decoding(t, DecodeCut{Before: &before, EventTime: event.Path{"sale", "ts"}}, nil)
	is := func(event string, want Outcome) {
		t.Helper()
		if got := r.value(event); got != want {
			t.Errorf("%s is %v %v %q, want %v %v %q", event, got.Result, got.Reason, got.Field, want.Result, want.Reason, want.Field)
		}
	}
	is(`{"userId":1,"x":1,"sale":{"ts":1499999999}}`, Outcome{Result: BeforeCut})
	is(`{"userId":1,"x":1,"sale":{"ts":1500000000}}`, Outcome{Result: Folded})
	is(`{"userId":1,"x":"?","sale":{"ts":1499999999}}`, Outcome{Result: BeforeCut}) // before any column
	is(`{"userId":1,"x":1}`, Outcome{Bad, event.MissingField, "sale.ts"})
	is(`{"userId":1,"x":1,"sale":{"ts":null}}`, Outcome{Bad, event.NullField, "sale.ts"})
	is(`{"userId":1,"x":1,"sale":{"ts":"soon"}}`, Outcome{Bad, event.BadTimestamp, "sale.ts"})
	is(`{"x":1}`, Outcome{Bad, event.MissingField, "userId"}) // keys come first
	r.expect(`"x":1`)

	r = decoding(t, DecodeCut{Before: &before}, nil) // by the record's timestamp
	for _, c := range []struct {
		ms   int64
		want Result
	}{{1_499_999_999_999, BeforeCut}, {1_500_000_000_000, Folded}, {-1, BeforeCut}} {
		if got := r.record(Record{Timestamp: c.ms, Value: []byte(`{"userId":1,"x":1}`)}); got.Result != c.want {
			t.Errorf("a record at %d is %v", c.ms, got.Result)
		}
	}
}

func TestCutByGuard(t *testing.T) {
	asked := map[string]int{}
	failure := error(nil)
	guard := func(key []byte) (event.Time, bool, error) {
		asked[string(key)]++
		return at(1_500_000_000), string(key) == "1", failure
	}
	r := decoding(t, DecodeCut{EventTime: event.Path{"ts"}, Guard: true}, guard)
	is := func(event string, want Result) {
		t.Helper()
		if got := r.value(event); got.Result != want {
			t.Errorf("%s is %v, want %v", event, got.Result, want)
		}
	}
	is(`{"userId":1,"x":1,"ts":1500000000}`, BeforeCut)
	is(`{"userId":1,"x":"?","ts":1500000001}`, Bad)
	is(`{"userId":2,"x":"?","ts":1400000000}`, Bad)
	if n := r.delta.Len(); n != 0 {
		t.Errorf("keys of which nothing was folded count: %d", n)
	}
	if all := encodedDelta(r.delta); all != nil {
		t.Errorf("and are there: %v", all)
	}
	if _, ok := r.delta.Get(nil, []byte("1")); ok {
		t.Error("and are found")
	}
	for range r.delta.Smallest(nil, 9) {
		t.Error("and are listed")
	}
	if r.delta.Placement != allPartitioners {
		t.Error("and have a say in the placement")
	}
	is(`{"userId":1,"x":2,"ts":"2017-07-14T02:40:00.000000001Z"}`, Folded)
	is(`{"userId":2,"x":4,"ts":1400000000}`, Folded)
	r.expect(`"x":2`)
	if asked["1"] != 1 || asked["2"] != 1 {
		t.Errorf("guards were asked for %v times", asked)
	}
	r.delta.Reset(0)
	is(`{"userId":1,"x":1,"ts":1500000000}`, BeforeCut)
	if asked["1"] != 2 {
		t.Error("a delta that was reset still knows the guard")
	}
	// A guard that cannot be looked up counts nothing.
	failure = errors.New("disk")
	before := r.delta.Counts
	_, err := r.decoder.Fold(r.delta, 0, &Record{Value: []byte(`{"userId":3,"x":1,"ts":1500000000}`)})
	if !errors.Is(err, failure) || r.delta.Counts != before {
		t.Errorf("error is %v, counts %v", err, r.delta.Counts)
	}
	failure = nil
	is(`{"userId":3,"x":1,"ts":1500000000}`, Folded)

	if _, err := r.program.NewDecoder(DecodeCut{Guard: true}, nil); err == nil {
		t.Error("a decoder without guards is made for cut mode guard")
	}
}

// What the scanner finds is the outcome, with the field where there is one.
func TestBadRecords(t *testing.T) {
	r := selects(t, "sum(user.points) AS p")
	for value, want := range map[string]Outcome{
		"":                        {Bad, event.Empty, ""},
		" \n":                     {Bad, event.Empty, ""},
		"{":                       {Bad, event.NotJSON, ""},
		"null":                    {Bad, event.NotObject, ""},
		"{\"userId\":\"\xff\"}":   {Bad, event.NotUTF8, ""},
		`{"userId":1,"userId":1}`: {Bad, event.DuplicateField, "userId"},
		`{"userId":1,"user":{"points":1,"points":2}}`: {Bad, event.DuplicateField, "user.points"},
	} {
		if got := r.record(Record{Value: []byte(value)}); got != want {
			t.Errorf("%q is %v %v %q, want %v %q", value, got.Result, got.Reason, got.Field, want.Reason, want.Field)
		}
	}
	small := newRows(t, "SELECT userId, count(*) AS n FROM sales GROUP BY userId", Options{MaxBytes: 20})
	if got := small.value(`{"userId":1,       "x":1}`); got != (Outcome{Bad, event.TooLarge, ""}) {
		t.Errorf("%v %v", got.Result, got.Reason)
	}
}

// Of several things that are wrong in one column the first reason counts,
// whichever argument or member it is about.
func TestFirstReasonOfAColumn(t *testing.T) {
	r := newRows(t, "SELECT userId, max_by(x, y) AS best, collect_set(z) AS zs FROM sales GROUP BY userId", Options{})
	for fields, want := range map[string]Outcome{
		`"x":[1]`:                      {Bad, event.MissingField, "y"},
		`"x":{},"y":null`:              {Bad, event.NullField, "y"},
		`"x":1e50,"y":[]`:              {Bad, event.WrongType, "y"},
		`"x":[],"y":1e50`:              {Bad, event.WrongType, "x"},
		`"x":null,"y":[]`:              {Bad, event.NullField, "x"},
		`"y":null`:                     {Bad, event.MissingField, "x"},
		`"x":{},"y":[]`:                {Bad, event.WrongType, "x"},
		`"x":1,"y":1,"z":[1e50,{}]`:    {Bad, event.WrongType, "z"},
		`"x":1,"y":1,"z":[1e50,2,[3]]`: {Bad, event.WrongType, "z"},
		`"x":1,"y":1,"z":[1,1e50,2]`:   {Bad, event.Overflow, "z"},
		`"x":1e50,"y":1,"z":{}`:        {Bad, event.Overflow, "x"}, // columns before reasons
	} {
		if got := r.value(`{"userId":1,` + fields + `}`); got != want {
			t.Errorf("{%s} is %v %v %q, want %v %q", fields, got.Result, got.Reason, got.Field, want.Reason, want.Field)
		}
	}
}

// Folding allocates nothing for a key that was seen before.
func TestFoldAllocatesNothing(t *testing.T) {
	r := newRows(t, `SELECT userId, shop, sum(a) AS a, avg(b) AS b, min(s) AS s, max(CAST(ts AS timestamp)) AS ts, first(s) AS f, last(s) AS l,
		min_by(s, a) AS m, collect_set(tags) AS tags, count(s) AS n, sum(CASE WHEN s = 'x' THEN -a ELSE a END) AS e
		FROM sales WHERE s IS NULL OR s <> 'y' GROUP BY userId, shop`, Options{})
	records := []Record{
		{Offset: 1, Value: []byte(`{"userId":1,"shop":"s/1","a":1.5,"b":"2","s":"some text","ts":"2015-07-29T09:17:12.000Z","tags":[1,"a",1.5]}`)},
		{Offset: 2, Value: []byte(`{"userId":1,"shop":"s/1","a":17,"b":0.01,"s":"x","ts":1438161432,"tags":["b\n",2,true]}`)},
		{Offset: 3, Value: []byte(`{"userId":"a longer user than usual","shop":2,"a":-1,"b":3,"s":"another text, longer","ts":1438161432,"tags":7}`)},
	}
	for range 4 {
		records = append(records, records...) // more than are scanned ahead
	}
	outcomes := make([]Outcome, len(records))
	fold := func() {
		if done, err := r.decoder.FoldAll(r.delta, 0, records, outcomes); err != nil || done != len(records) {
			t.Fatal(done, err)
		}
		for _, out := range outcomes {
			if out.Result != Folded {
				t.Fatal(out.Result, out.Reason, out.Field)
			}
		}
	}
	fold()
	if n := testing.AllocsPerRun(100, fold); n != 0 {
		t.Errorf("%v allocations", n)
	}
	// New keys cost a few for memory, not one each.
	r = selects(t, "sum(x) AS x, max(s) AS s, collect_set(x) AS set")
	values := make([][]byte, 20_000)
	for i := range values {
		values[i] = fmt.Appendf(nil, `{"userId":"user number %d","x":%d,"s":"text %d"}`, i, i, i)
	}
	n := testing.AllocsPerRun(1, func() {
		r.delta = r.program.NewDelta(0, 1)
		for _, v := range values {
			if out, err := r.decoder.Fold(r.delta, 0, &Record{Value: v}); err != nil || out.Result != Folded {
				t.Fatal(out, err)
			}
		}
	})
	if n > 200 {
		t.Errorf("%v allocations for %d new keys", n, len(values))
	}
}
