package aggregator

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"testing"

	"tidemark/query"
)

// everything has a column of every aggregate.
const everything = `SELECT userId, shop, sum(a) AS sum, count(*) AS rows, count(s) AS count, min(s) AS min, max(CAST(ts AS timestamp)) AS max,
	avg(a) AS avg, first(s) AS first, last(s) AS last, min_by(s, a) AS min_by, max_by(a, s) AS max_by, collect_set(tags) AS tags
	FROM sales GROUP BY userId, shop`

// everythingTotals are encoded totals of everything, of one event or more.
func everythingTotals(t testing.TB) (p *Program, totals [][]byte) {
	t.Helper()
	r := newRows(t, everything, Options{SetLimit: 4})
	for i, e := range []string{
		`{"userId":1,"shop":1,"a":1.5,"s":"x","ts":"2015-07-29T09:17:12Z","tags":[3,1,2]}`,
		`{"userId":1,"shop":1,"a":-12345678901234567890,"s":true,"ts":"2015-07-29T09:17:12.123456789Z","tags":["a","b",1.5,false,1]}`,
		`{"userId":"1","shop":1,"a":99999999999999999999999999999999999999.5,"s":2e-20,"ts":1438161432,"tags":null}`,
	} {
		r.value(e)
		totals = append(totals, r.total("1/1").Append(nil))
		if i == 1 {
			r.delta.Reset(0)
		}
	}
	return r.program, totals
}

func TestMergeRefusesWhatItDoesNotKnow(t *testing.T) {
	p, totals := everythingTotals(t)
	for _, encoded := range totals {
		for n := range encoded {
			if err := p.NewTotal().Merge(encoded[:n]); err == nil {
				t.Errorf("the first %d bytes of %x are merged", n, encoded)
			}
		}
		if err := p.NewTotal().Merge(append(bytes.Clone(encoded), 0)); err == nil {
			t.Errorf("%x is merged with a byte more", encoded)
		}
	}
}

// TestOnlyIsTheMergedValue: what is read of one column alone, past sets and all
// else, is the value of the whole total, and of one that is cut short it is that
// value or an error.
func TestOnlyIsTheMergedValue(t *testing.T) {
	first := strings.Replace(everything, "SELECT userId, shop,", "SELECT userId, shop, collect_set(tags) AS early,", 1)
	r := newRows(t, first, Options{SetLimit: 4})
	p, key := r.program, []byte("1/1")
	for _, tags := range []string{`null`, `[]`, `7`, `[3,1,2]`, `["a","b",1.5,false,1]`, `[1,2,3,4,5,6,7]`, `["a","b","c","d","e",-1]`} {
		r.delta.Reset(0)
		if out := r.value(`{"userId":1,"shop":1,"a":-1.5,"s":"x","ts":1438161432,"tags":` + tags + `}`); out.Result != Folded {
			t.Fatal(tags, out)
		}
		encoded := r.total(string(key)).Append(nil)
		whole, one := p.NewTotal(), p.NewTotal()
		if err := whole.Merge(encoded); err != nil {
			t.Fatal(err)
		}
		for column := range p.def.Columns {
			want := fmt.Sprint(whole.Value(column, key))
			if err := one.only(encoded, column); err != nil || fmt.Sprint(one.Value(column, key)) != want {
				t.Errorf("tags %s, column %d: %v and %v, want %s", tags, column, one.Value(column, key), err, want)
			}
			for n := range encoded {
				if err := one.only(encoded[:n], column); err == nil && fmt.Sprint(one.Value(column, key)) != want {
					t.Errorf("tags %s, column %d, the first %d bytes: %v, want %s", tags, column, n, one.Value(column, key), want)
				}
			}
		}
	}
}

func TestS14NewerTotalNamesBothVersions(t *testing.T) {
	p, totals := everythingTotals(t)
	newer := bytes.Clone(totals[0])
	newer[0] = FormatVersion + 1
	err := p.NewTotal().Merge(newer)
	if err == nil || !strings.Contains(err.Error(), "format 2") || !strings.Contains(err.Error(), "formats up to 1") {
		t.Errorf("the error is %v", err)
	}
	newer[0] = 0
	if err := p.NewTotal().Merge(newer); err == nil {
		t.Error("format 0 is merged")
	}
}

// The zero total is the identity, on both sides, and encodes.
func TestZeroTotal(t *testing.T) {
	p, totals := everythingTotals(t)
	zero := p.NewTotal().Append(nil)
	for _, encoded := range totals {
		for _, order := range [][][]byte{{zero, encoded}, {encoded, zero}, {zero, encoded, zero}} {
			total := p.NewTotal()
			for _, o := range order {
				if err := total.Merge(o); err != nil {
					t.Fatal(err)
				}
			}
			if got := total.Append(nil); !bytes.Equal(got, encoded) {
				t.Errorf("%x becomes %x", encoded, got)
			}
			total.Reset()
			if got := total.Append(nil); !bytes.Equal(got, zero) {
				t.Errorf("after a reset it is %x, not %x", got, zero)
			}
		}
	}
}

// Merging in a Total that is used again allocates nothing, but for texts and
// sets that outgrow its memory.
func TestMergeAllocatesNothing(t *testing.T) {
	r := selects(t, "sum(a) AS a, avg(a) AS b, max(s) AS s, last(s) AS l, min_by(s, a) AS m, collect_set(tags) AS tags, count(*) AS n")
	r.fold(`"a":1.5,"s":"x","tags":[1,2,"a",1.5]`, `"a":2,"s":"yy","tags":[2,3,"b"]`)
	one := r.total("1").Append(nil)
	r.fold(`"a":-100,"s":"a longer one","tags":[7,8,9,10]`)
	two := r.total("1").Append(nil)
	total := r.program.NewTotal()
	var out []byte
	if n := testing.AllocsPerRun(100, func() {
		total.Reset()
		if total.Merge(one) != nil || total.Merge(two) != nil {
			t.Fatal("not merged")
		}
		out = total.Append(out[:0])
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzMerge merges arbitrary bytes: an error or a total, never a panic, and a
// total's own encoding is merged again as the same total.
func FuzzMerge(f *testing.F) {
	p, totals := everythingTotals(f)
	for _, encoded := range totals {
		f.Add(encoded, totals[0])
	}
	f.Add([]byte{FormatVersion}, []byte{})
	f.Fuzz(func(t *testing.T, a, b []byte) {
		total := p.NewTotal()
		if total.Merge(a) != nil {
			return
		}
		one := total.Append(nil)
		again := p.NewTotal()
		if err := again.Merge(one); err != nil {
			t.Fatalf("%x becomes %x, and that is refused: %v", a, one, err)
		}
		if two := again.Append(nil); !bytes.Equal(one, two) {
			t.Fatalf("%x becomes %x, and that %x", a, one, two)
		}
		if total.Merge(b) != nil {
			return
		}
		total.AppendRow(nil, []byte("1/1"), true)
		other := p.NewTotal()
		if err := other.Merge(b); err != nil {
			t.Fatal(err)
		}
		if err := other.Merge(a); err != nil {
			t.Fatal(err)
		}
		if ab, ba := total.Append(nil), other.Append(nil); !bytes.Equal(ab, ba) {
			t.Fatalf("a+b is %x, b+a is %x", ab, ba)
		}
		Duplicate(a)
	})
}

// The example of ENCODING.md is what this program writes.
func TestEncodingDocument(t *testing.T) {
	r := newRows(t, `SELECT userId, max(CAST(saleTimestamp AS timestamp)) AS latest, sum(totalRevenue) AS revenue,
		count(*) AS sales, collect_set(productList) AS products, last(channel) AS channel FROM sales GROUP BY userId`, Options{})
	r.record(Record{Offset: 1042, Timestamp: 1438161432000, Value: []byte(
		`{"userId":23,"saleTimestamp":"2015-07-29T09:17:12.000Z","totalRevenue":255.59,"productList":[1484,47,"A"],"channel":"shop"}`)})
	text, err := os.ReadFile("ENCODING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(text), "has for key `23` the total")
	want := ""
	for line := range strings.Lines(example) {
		digits, _, _ := strings.Cut(strings.TrimSpace(line), "  ")
		want += strings.ReplaceAll(digits, " ", "")
	}
	if got := hex.EncodeToString(r.total("23").Append(nil)); got != want {
		t.Errorf("the total is %s\n ENCODING.md has %s", got, want)
	}
}

func TestDefinitionOfProgram(t *testing.T) {
	definition := func(sql string, opts Options) Definition {
		t.Helper()
		def, err := query.Parse(sql)
		if err != nil {
			t.Fatal(err)
		}
		p, err := Compile(def, opts)
		if err != nil {
			t.Fatal(err)
		}
		if p.Query() != def {
			t.Error("Query is another one")
		}
		return p.Definition()
	}
	plain := "SELECT userId, sum(x) AS x FROM sales GROUP BY userId"
	timed := "SELECT userId, max(CAST(ts AS timestamp)) AS ts FROM sales GROUP BY userId"
	madrid := Options{Zone: mustZone(t, "Europe/Madrid")}
	if a, b := definition(plain, Options{}), definition(plain, madrid); !a.Equal(b) || Differs(a, b) != "" {
		t.Errorf("the zone matters to a query without timestamps: %s", Differs(a, b))
	}
	a, b := definition(timed, Options{}), definition(timed, madrid)
	if a.Equal(b) || a.Fingerprint == b.Fingerprint {
		t.Error("the zone does not matter to a query with timestamps")
	}
	if got := Differs(a, b); !strings.Contains(got, "events.timestamp_zone") || !strings.Contains(got, "UTC") || !strings.Contains(got, "Europe/Madrid") {
		t.Errorf("they differ in %q", got)
	}
	if got := Differs(definition(plain, Options{}), definition(strings.Replace(plain, "sum(x)", "sum(y)", 1), Options{})); !strings.Contains(got, "x") {
		t.Errorf("they differ in %q", got)
	}
}

func TestCompileRefuses(t *testing.T) {
	refused := func(sql string, opts Options, want string) {
		t.Helper()
		def, err := query.Parse(sql)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Compile(def, opts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q in it", err, want)
		}
	}
	plain := "SELECT userId, sum(x) AS x FROM sales GROUP BY userId"
	refused(plain, Options{SetLimit: -1}, "set limit of -1")
	refused(plain, Options{SetLimit: MaxSetLimit + 1}, "set limit")
	refused(plain, Options{MaxBytes: -1}, "-1 bytes")
	var keys []string
	for i := range MaxKeyColumns + 1 {
		keys = append(keys, fmt.Sprintf("k%d", i))
	}
	list := strings.Join(keys, ", ")
	refused("SELECT "+list+", count(*) AS n FROM sales GROUP BY "+list, Options{}, "25 columns")
}
