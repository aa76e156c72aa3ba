package aggregator

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidemark/event"
)

func mustZone(t testing.TB, name string) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

// documents reads documents for the aggregates of userId.
func documents(t *testing.T, columns string, m Mapping) (*rows, *Documents) {
	t.Helper()
	r := selects(t, columns)
	d, err := r.program.NewDocuments(m)
	if err != nil {
		t.Fatal(err)
	}
	return r, d
}

// add reads a document of user 1, given without the braces and the user, and
// adds it.
func add(t *testing.T, r *rows, d *Documents, fields string, missing ...string) {
	t.Helper()
	if fields != "" {
		fields = "," + fields
	}
	doc := d.Read([]byte(`{"userId":1` + fields + `}`))
	if doc.Reason != event.OK || string(doc.Key) != "1" || !slices.Equal(doc.Missing, missing) {
		t.Errorf("{%s} is %v %q of key %q, missing %q; want missing %q", fields, doc.Reason, doc.Field, doc.Key, doc.Missing, missing)
	}
	d.AddTo(r.delta)
}

func TestDocumentsHaveTheShapeOfRows(t *testing.T) {
	r, d := documents(t, `max(CAST(ts AS timestamp)) AS latest, sum(revenue) AS revenue, sum(points) AS points,
		collect_set(products) AS products, count(*) AS sales, first(c) AS f, last(c) AS l, min(c) AS low`, Mapping{})
	add(t, r, d, `"latest":"2015-07-29T09:17:12.000Z","revenue":255.59,"points":"293","products":[1484,47],"sales":7,"f":"web","l":"shop","low":"a"`)
	r.expect(`"latest":"2015-07-29T09:17:12.000Z","revenue":255.59,"points":293,"products":[47,1484],"sales":7,"f":"web","l":"shop","low":"a"`)
	// Events come after the history, whatever their timestamps.
	r.record(Record{Offset: 1, Timestamp: -5, Value: []byte(`{"userId":1,"ts":1438161431,"revenue":12.05,"points":6,"products":[47,"47"],"c":"b"}`)})
	r.expect(`"latest":"2015-07-29T09:17:12.000Z","revenue":267.64,"points":299,"products":[47,1484,"47"],"sales":8,"f":"web","l":"b","low":"a"`)
	if Duplicate(r.total("1").Append(nil)) {
		t.Error("one document is a duplicate")
	}
	add(t, r, d, `"revenue":1,"products":["A"],"latest":null,"points":null`, "latest", "points", "f", "l", "low")
	r.expect(`"latest":"2015-07-29T09:17:12.000Z","revenue":268.64,"points":299,"products":[47,1484,"47","A"],"sales":8,"f":"web","l":"b","low":"a"`)
	if !Duplicate(r.total("1").Append(nil)) {
		t.Error("two documents are no duplicate")
	}
	if r.delta.Counts.Consumed() != 1 {
		t.Errorf("documents are counted as records: %v", r.delta.Counts)
	}
}

// Numbers of documents keep their text exactly, whatever index they come from.
func TestB07B08N03DocumentNumbersAreExact(t *testing.T) {
	r, d := documents(t, "sum(x) AS x", Mapping{})
	add(t, r, d, `"x":48151.62`)
	r.expect(`"x":48151.62`)
	add(t, r, d, `"x":12345678901234567.89`)
	add(t, r, d, `"x":1.50e2`)
	r.expect(`"x":12345678901282869.51`)
	// A total is as long as it is, whatever its terms are cast to.
	r, d = documents(t, "sum(CAST(x AS decimal(4,2))) AS x", Mapping{})
	add(t, r, d, `"x":123456.781`)
	r.expect(`"x":123456.78`)
}

func TestD12DocumentsScalarOrArray(t *testing.T) {
	r, d := documents(t, "collect_set(p) AS p, sum(x) AS x", Mapping{})
	add(t, r, d, `"x":1,"p":"A"`)
	add(t, r, d, `"x":1,"p":["A","B",null]`)
	add(t, r, d, `"x":1,"p":[]`)
	add(t, r, d, `"x":1,"p":null`, "p")
	r.expect(`"p":["A","B"],"x":4`)
	if doc := d.Read([]byte(`{"userId":1,"x":[3],"p":[]}`)); doc.Reason != event.WrongType || doc.Field != "x" {
		t.Errorf("an array for a number is %v in %q", doc.Reason, doc.Field)
	}
}

func TestDocumentsOfAvgAndBy(t *testing.T) {
	m := Mapping{Fields: map[string]event.Path{
		"avg.sum": {"stats", "sum"}, "avg.count": {"stats", "n"},
		"best.by": {"bestRevenue"}, "worst": {"low", "name"}, "worst.by": {"low", "ts"},
	}}
	r, d := documents(t, "avg(x) AS avg, max_by(name, x) AS best, min_by(name, CAST(ts AS timestamp)) AS worst", m)
	add(t, r, d, `"stats":{"sum":10.5,"n":4},"best":"doc","bestRevenue":7,"low":{"name":"first","ts":"2015-07-29T09:17:12Z"}`)
	r.expect(`"avg":2.625,"best":"doc","worst":"first"`)
	r.fold(`"x":7,"name":"event","ts":"2015-07-29T09:17:12Z"`)
	r.expect(`"avg":3.5,"best":"doc","worst":"first"`) // ties go to the history
	r.fold(`"x":7.01,"name":"event","ts":"2015-07-29T09:17:11Z"`)
	r.expect(`"avg":4.085,"best":"event","worst":"event"`)
	// Half of a pair adds nothing and is reported once.
	add(t, r, d, `"stats":{"sum":1},"best":"b","low":{"ts":1438161432}`, "avg", "best", "worst")
	add(t, r, d, `"stats":{"sum":0,"n":0},"bestRevenue":1,"low":null`, "best", "worst")
	r.expect(`"avg":4.085,"best":"event","worst":"event"`)
	bad := func(fields string, reason event.Reason, field string) {
		t.Helper()
		if doc := d.Read([]byte(`{"userId":1,` + fields + `}`)); doc.Reason != reason || doc.Field != field {
			t.Errorf("{%s} is %v in %q, want %v in %q", fields, doc.Reason, doc.Field, reason, field)
		}
		before := encodedDelta(r.delta)
		d.AddTo(r.delta)
		d.SetIn(r.delta)
		if !slices.Equal(before, encodedDelta(r.delta)) {
			t.Errorf("{%s} is bad and left a trace", fields)
		}
	}
	bad(`"stats":{"sum":"x","n":1}`, event.BadNumber, "stats.sum")
	bad(`"stats":{"sum":1,"n":-1}`, event.BadNumber, "stats.n")
	bad(`"stats":{"sum":1,"n":1.5}`, event.BadNumber, "stats.n")
	bad(`"stats":{"sum":1,"n":0}`, event.BadNumber, "stats.n")
	bad(`"stats":{"sum":1,"n":1e30}`, event.Overflow, "stats.n")
	bad(`"best":[],"bestRevenue":1`, event.WrongType, "best")
	bad(`"low":{"name":1,"ts":"soon"}`, event.BadTimestamp, "low.ts")
}

// Of documents of one key, in whatever order, the same remains.
func TestDocumentsOfOneKeyCommute(t *testing.T) {
	columns := "first(x) AS f, last(x) AS l, max_by(x, y) AS b, collect_set(x) AS s"
	m := Mapping{Fields: map[string]event.Path{"b.by": {"y"}}}
	docs := []string{`"f":2,"l":2,"b":2,"y":1,"s":2`, `"f":1,"l":3,"b":1,"y":1.0,"s":1`, `"f":3,"l":1,"b":"0","y":0,"s":null`}
	var want []string
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}} {
		r, d := documents(t, columns, m)
		for _, i := range order {
			d.Read([]byte(`{"userId":1,` + docs[i] + `}`))
			d.AddTo(r.delta)
		}
		r.expect(`"f":1,"l":1,"b":1,"s":[1,2]`)
		if got := encodedDelta(r.delta); want == nil {
			want = got
		} else if !slices.Equal(got, want) {
			t.Errorf("in order %v the total is %v, want %v", order, got, want)
		}
	}
}

func TestDocumentSetIn(t *testing.T) {
	r, d := documents(t, "sum(x) AS x, max(x) AS m, collect_set(s) AS s, count(*) AS n", Mapping{})
	set := func(json string) {
		t.Helper()
		if doc := d.Read([]byte(json)); doc.Reason != event.OK {
			t.Fatal(doc.Reason, doc.Field)
		}
		d.SetIn(r.delta)
	}
	set(`{"userId":"1","x":5,"m":"text, kept in memory","s":[1,2,"a"],"n":3}`)
	set(`{"userId":1,"x":2,"m":1,"s":[7],"n":1}`)
	r.expect(`"x":2,"m":1,"s":[7],"n":1`) // nothing of the first is left, nor that its key was text
	if r.delta.Len() != 1 || Duplicate(r.total("1").Append(nil)) {
		t.Errorf("%d keys", r.delta.Len())
	}
	set(`{"userId":2,"x":1}`)
	if r.delta.Len() != 2 {
		t.Errorf("%d keys", r.delta.Len())
	}
}

func TestDocumentKeysAndGuard(t *testing.T) {
	r := newRows(t, "SELECT shop.id AS shop, userId, count(*) AS n FROM sales GROUP BY shop.id, userId", Options{})
	d, err := r.program.NewDocuments(Mapping{Keys: []event.Path{{"key", "shop"}, {"key", "user"}}, Guard: event.Path{"latest"}})
	if err != nil {
		t.Fatal(err)
	}
	doc := d.Read([]byte(`{"key":{"shop":"a/b","user":7},"latest":"2015-07-29T09:17:12.5Z"}`))
	if string(doc.Key) != "a%2Fb/7" || doc.Guard == nil || *doc.Guard != (event.Time{Sec: 1438161432, Nsec: 5e8}) || doc.Reason != event.OK || doc.Missing != nil {
		t.Errorf("key is %q, guard %v, %v", doc.Key, doc.Guard, doc.Reason)
	}
	if doc = d.Read([]byte(`{"key":{"shop":1,"user":7}}`)); doc.Guard != nil || doc.Reason != event.OK {
		t.Errorf("a document without guard has %v, %v", doc.Guard, doc.Reason)
	}
	for source, want := range map[string]Document{
		`{"key":{"shop":1}}`:                             {Reason: event.MissingField, Field: "key.user"},
		`{"key":{"shop":1,"user":null}}`:                 {Reason: event.NullField, Field: "key.user"},
		`{"key":{"shop":1,"user":2},"latest":"soon"}`:    {Reason: event.BadTimestamp, Field: "latest"},
		`{"key":{"shop":1,"user":2},"n":-1}`:             {Reason: event.BadNumber, Field: "n"},
		`{"key":`:                                        {Reason: event.NotJSON},
		`{"key":{"shop":1,"user":2},"n":1,"n":2}`:        {Reason: event.DuplicateField, Field: "n"},
		`{"key":{"shop":1,"user":2},"latest":[1]}`:       {Reason: event.WrongType, Field: "latest"},
		`{"key":{"shop":1,"user":2},"latest":1,"n":"x"}`: {Reason: event.BadTimestamp, Field: "latest"},
	} {
		doc := d.Read([]byte(source))
		if doc.Reason != want.Reason || doc.Field != want.Field || doc.Key != nil {
			t.Errorf("%s is %v in %q, want %v in %q", source, doc.Reason, doc.Field, want.Reason, want.Field)
		}
		d.AddTo(r.delta)
	}
	if r.delta.Len() != 0 {
		t.Error("bad documents were added")
	}
}

func TestDocumentsCastAsEvents(t *testing.T) {
	r, d := documents(t, `max(CAST(ts AS timestamp)) AS a, min(CAST(x AS string)) AS b, last(CAST(x AS bigint)) AS c,
		collect_set(CAST(x AS decimal(5,1))) AS d, max(CASE WHEN x > 1 THEN CAST(ts AS timestamp) ELSE CAST(x AS timestamp) END) AS e`, Mapping{})
	add(t, r, d, `"a":1438161432,"b":5,"c":"7.9","d":["1.25",2],"e":"2015-07-29T09:17:12Z"`)
	r.expect(`"a":"2015-07-29T09:17:12.000Z","b":"5","c":7,"d":[1.3,2.0],"e":"2015-07-29T09:17:12.000Z"`)
}

func TestMappingErrors(t *testing.T) {
	refused := func(columns string, m Mapping, want ...string) {
		t.Helper()
		_, err := selects(t, columns).program.NewDocuments(m)
		if err == nil {
			t.Errorf("%s with %v is taken", columns, m)
			return
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("the error is %q, want %q in it", err, w)
			}
		}
	}
	fields := func(names ...string) Mapping {
		m := Mapping{Fields: map[string]event.Path{}}
		for _, n := range names {
			m.Fields[n] = event.Path{"x"}
		}
		return m
	}
	refused("avg(x) AS mean", Mapping{}, `"mean.sum"`, `"mean.count"`)
	refused("avg(x) AS mean", fields("mean.sum"), `"mean.count"`)
	refused("avg(x) AS mean", fields("mean", "mean.sum", "mean.count"), `"mean" is an average`)
	refused("min_by(x, y) AS best", Mapping{}, `"best.by"`)
	refused("sum(x) AS total", fields("totl"), `"totl"`, `did you mean "total"?`)
	refused("sum(x) AS total, count(*) AS n", fields("revenue"), `"revenue"`, "total, n")
	refused("sum(x) AS total", fields("userId"), `"userId" is a key column`)
	refused("sum(x) AS total", Mapping{Keys: []event.Path{{"a"}, {"b"}}}, "1 path,", "not 2")
}

func TestReadAllocatesNothing(t *testing.T) {
	r, d := documents(t, "max(CAST(ts AS timestamp)) AS ts, sum(x) AS x, collect_set(p) AS p, last(s) AS s, count(*) AS n",
		Mapping{Guard: event.Path{"ts"}})
	source := []byte(`{"userId":"a user of some length","ts":"2015-07-29T09:17:12Z","x":1.5,"p":[1,2,"a"],"s":"text","other":{"a":[1,2]}}`)
	read := func() {
		if doc := d.Read(source); doc.Reason != event.OK || doc.Guard == nil {
			t.Fatal(doc.Reason, doc.Field)
		}
		d.AddTo(r.delta)
	}
	read()
	if n := testing.AllocsPerRun(100, read); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Documents and events of any order, batches and tree of merges give the same
// bytes; the history is what came first, wherever it lies.
func TestHistoryAndEventsCommute(t *testing.T) {
	r := newRows(t, everything, Options{SetLimit: 3})
	d, err := r.program.NewDocuments(Mapping{Fields: map[string]event.Path{
		"avg.sum": {"sum"}, "avg.count": {"rows"}, "min_by.by": {"a"}, "max_by.by": {"min"}, "min_by": {"s"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	pools := map[string][]string{
		"userId": {"1", `"1"`, "2"}, "shop": {"1", `"a long name of a shop"`},
		"a": {"1", "-0.5", "99999999999999999999999999999999999999"}, "s": {`"x"`, "true", "7", `"a text"`},
		"sum": {"1.5", "null", `"2"`}, "rows": {"0", "3", "null"}, "count": {"2"}, "min": {`"x"`, "0", "null"}, "max": {`"2015-07-29T09:17:12Z"`, "1438161433"},
		"first": {`"f"`, "1"}, "last": {`"l"`, "null"}, "max_by": {`"m"`}, "tags": {"[1,2]", `["a",3,0.5]`, "9", "null"}, "ts": {"1438161432"},
	}
	names := slices.Sorted(maps.Keys(pools))
	draw := func(t *rapid.T) string {
		var fields []string
		for _, name := range names {
			if v := rapid.SampledFrom(append(pools[name], "")).Draw(t, name); v != "" {
				fields = append(fields, `"`+name+`":`+v)
			}
		}
		return "{" + strings.Join(fields, ",") + "}"
	}
	rapid.Check(t, func(t *rapid.T) {
		sources := rapid.SliceOfN(rapid.Custom(draw), 1, 25).Draw(t, "sources")
		documents := rapid.IntRange(0, len(sources)).Draw(t, "documents")
		fold := func(delta *Delta, i int) {
			if i < documents {
				d.Read([]byte(sources[i]))
				d.AddTo(delta)
				return
			}
			record := Record{Offset: int64(i), Timestamp: int64(i % 3), Value: []byte(sources[i])}
			if _, err := r.decoder.Fold(delta, int32(i%2), &record); err != nil {
				t.Fatal(err)
			}
		}
		whole := r.program.NewDelta(0, 1)
		for i := range sources {
			fold(whole, i)
		}
		rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		var parts []map[string][]byte
		delta := r.program.NewDelta(0, 1)
		for n, i := range rnd.Perm(len(sources)) {
			fold(delta, i)
			if rnd.IntN(4) == 0 || n == len(sources)-1 {
				parts = append(parts, encodings(delta))
				delta.Reset(0)
			}
		}
		want, got := encodings(whole), mergeTree(t, r.program, rnd, parts)
		if len(got) != len(want) {
			t.Fatalf("%d keys, want %d", len(got), len(want))
		}
		for key, total := range want {
			if !bytes.Equal(got[key], total) {
				t.Fatalf("key %s\n got %x\nwant %x", key, got[key], total)
			}
		}
	})
}
