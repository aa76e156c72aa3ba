package event

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"pgregory.net/rapid"
)

var salePaths = pathsOf("userId", "saleTimestamp", "totalRevenue", "totalPoints")

// deepPaths has paths through paths, one given twice, and one through a scalar.
var deepPaths = pathsOf("a", "user", "user.id", "user.address.city", "user.id", "list.x", "a.b.c", "é", "", "tab\t")

// records are whole and broken, one of each kind that we could think of.
var records = []string{
	`{}`, ` { } `, `{"a":1}`, `{"a":-0.5e+10,"b":[1,2,{"a":3}],"user":{"id":"x","address":{"city":null}}}`,
	`{"user":{"id":1,"name":"n"},"user2":{"id":2}}`, `{"user":{"id":1,"id":2}}`, `{"user":{"id":1},"user":{"id":2}}`,
	`{"user":5,"user":{"id":2}}`, `{"x":1,"x":2,"a":3}`, `{"a":1,"\u0061":2}`, `{"us\u0065r":{"\u0069d":"\u00e9\ud83d\ude00\n"}}`,
	`{"a":{"b":{"c":true}}}`, `{"a":[{"b":{"c":true}}],"list":[{"x":1}]}`, `{"a":"b","list":null}`, `{"":0,"é":"ü","tab\t":"\t\/"}`,
	`{"a":"\ud800"}`, `{"a":"\udc00"}`, `{"a":"\ud800\ud800"}`, `{"a":"\udc00\udc00"}`, `{"a":"\udbff\udfff\ud800\udc00"}`, `{"a":"\ud7ff\ue000\uffff\u0000"}`, `{"a":"\ud800\u0041"}`, `{"a":"\ud83d\ude00"}`, `{"a":"\uD83D\uDE0"}`,
	`{"z":"\ud800"}`, `{"\ud800":1}`, `{"a":"\x41"}`, `{"a":"\"}`, `{"a":"\u00zz"}`, `{"a":"\u123"}`, `{"a":"\`, `{"a":"\u`,
	"{\"a\":\"\x00\"}", "{\"a\":\"\x1f\"}", "{\"a\":\"\x7f\"}", "{\"a\":\"a\nb\"}", "{\"\t\":1}", `{"a":"` + "\u2028" + `"}`,
	"{\"a\":\"\xff\"}", "{\"a\":\"\xc0\x80\"}", "{\"a\":\"\xed\xa0\x80\"}", "{\"a\":\"\xf4\x90\x80\x80\"}", "{\"a\":\"\xe2\x82\"}",
	"{\"\xff\":1}", "{\"z\":\"\xc3\"}", "{\"z\":\"0123456\xc3\x28\"}", "{\"z\":\"\xe0\x80\x80\"}", "{\"z\":\"\xf0\x9f\x98\x80\xe1\x80\x80\xee\x80\x80\"}",
	"{\"a\":1}\xff", "\xff", "{\"a\":\xa0}", "{\"a\" \xc2\xa0:1}",
	"\xef\xbb\xbf{\"a\":1}", "\xef\xbb\xbf\xef\xbb\xbf{}", "\xef\xbb\xbf", "\xef\xbb", "{}\xef\xbb\xbf",
	"", " ", "\r\n\t ", "\v", "\u00a0", "null", "42", "[]", `"x"`, "true", " false ", "[1,", "tru", "nul", "nulll", "-", "01", "1.", "1e", `"x`,
	"{\x00}\x00", "\x00{\x00}", "\x00\x00\x00{\x00\x00\x00}", "{\x00\x00\x00}\x00\x00\x00", "\x00\x00\x00\x00", "\xff\xfe{\x00}\x00", "\xfe\xff\x00{\x00}",
	`{`, `}`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{,}`, `{"a":1 "b":2}`, `{"a" 1}`, `{a:1}`, `{'a':1}`, `{"a":1}}`, `{"a":1}{}`,
	`{"a":1};`, `{"a":01}`, `{"a":+1}`, `{"a":.5}`, `{"a":5.}`, `{"a":1e}`, `{"a":1e+}`, `{"a":-}`, `{"a":--1}`, `{"a":1-2}`, `{"a":1_0}`, `{"a":0x1}`,
	`{"a":NaN}`, `{"a":Infinity}`, `{"a":-Infinity}`, `{"a":nan}`, `{"a":True}`, `{"a":nulL}`, `{"a":tru}`, `{"a":truex}`, `{"a":1true}`,
	`{"a":[1 2]}`, `{"a":[1,]}`, `{"a":[,1]}`, `{"a":[}`, `{"a":{]}`, `{"a":[1}}`, `{"a":{"b":1]}`, `{"a":[[[]]],"b":{"c":{}}}`, `{"a":["]"]}`,
	`{"a" : 1 , "b" : [ 1 , 2 ] , "user" : { "id" : 3 } }`, "{\n\t\"a\"\r\n:\n1\n}\n", `{"a":/*x*/1}`, `{"a":1//x` + "\n}",
	`{"a":327000000000000000000000001,"b":1e999999}`, `{"A":1,"User":{"Id":1}}`,
}

func TestScanAgainstReference(t *testing.T) {
	for _, paths := range [][]Path{deepPaths, salePaths, nil, pathsOf("a", "b", "c", "d", "e", "f", "g", "h", "i", "user.id", "é", "", "tab\t")} {
		warm := NewScanner(paths, 0) // has seen the records before
		for _, r := range records {
			checkScan(t, NewScanner(paths, 0), paths, []byte(r))
			checkScan(t, warm, paths, []byte(r))
		}
		// Again, and every prefix: a cut-off record is never whole.
		for _, r := range records {
			for i := range len(r) + 1 {
				checkScan(t, warm, paths, []byte(r[:i]))
			}
		}
	}
}

// Every single byte of a record, in each place of an eight-byte stride.
func TestScanByteByByte(t *testing.T) {
	s := NewScanner(deepPaths, 0)
	for pad := range 9 {
		for c := range 256 {
			for _, form := range []string{
				`{"a":"PAD?PAD"}`, `{"z":"PAD?PAD","a":1}`, `{"PAD?PAD":1}`, `{"a":PAD?PAD}`, `{"a":?}`, `{"a":1?}`, `{"a":1}?`,
				`{"a":1PAD?,"padding":"padding"}`, `{"z":1?1,"padding":"padding"}`, `{"a":-1.?5,"padding":"padding"}`, `?{"a":1}`,
			} {
				form = strings.ReplaceAll(form, "PAD", strings.Repeat("0", pad))
				checkScan(t, s, deepPaths, bytes.ReplaceAll([]byte(form), []byte("?"), []byte{byte(c)}))
			}
		}
	}
}

func TestScanDepth(t *testing.T) {
	s := NewScanner(deepPaths, 0)
	for _, d := range []int{1, 63, 64, 65, 9_999, 10_000, 10_001} {
		for _, form := range [][3]string{
			{`[`, ``, `]`}, {`{"a":`, `1`, `}`}, {`{"user":`, `[]`, `}`}, {`{"z":`, `null`, `}`},
		} {
			deep := strings.Repeat(form[0], d) + form[1] + strings.Repeat(form[2], d)
			checkScan(t, s, deepPaths, []byte(deep))
			checkScan(t, s, deepPaths, []byte(`{"z":`+deep+`}`))
			checkScan(t, s, deepPaths, []byte(`{"user":{"address":{"city":`+deep+`}}}`))
			checkScan(t, s, deepPaths, []byte(strings.Repeat(form[0], d)))
		}
		both := strings.Repeat(`{"z":[`, d) + strings.Repeat(`]}`, d)
		checkScan(t, s, deepPaths, []byte(both))
	}
}

// No depth takes more stack: a hundred thousand brackets are refused like any other.
func TestScanEndlessDepth(t *testing.T) {
	s := NewScanner(deepPaths, 0)
	for _, open := range []string{`[`, `{"a":`, `{"user":`, `{"z":[`} {
		for _, start := range []string{"", `{"a":`, `{"z":`, `{"user":{"address":{"city":`} {
			if got, _ := s.Scan([]byte(start + strings.Repeat(open, 1<<17))); got != NotJSON {
				t.Errorf("%s%s…: %v", start, open, got)
			}
		}
	}
}

// The limit also counts where the query leads the way down.
func TestScanDepthOfPaths(t *testing.T) {
	for _, d := range []int{maxDepth, maxDepth + 1} {
		path := make(Path, d)
		for i := range path {
			path[i] = "a"
		}
		want := OK
		if d > maxDepth {
			want = NotJSON
		}
		s := NewScanner([]Path{path}, 0)
		record := strings.Repeat(`{"a":`, d) + "1" + strings.Repeat("}", d)
		if got, _ := s.Scan([]byte(record)); got != want {
			t.Errorf("%d deep: %v, want %v", d, got, want)
		}
	}
}

// Names that differ in one place, of every length about the words that they
// are compared by.
func TestScanNamesThatAreAlike(t *testing.T) {
	for n := 1; n < 40; n++ {
		wanted := strings.Repeat("n", n)
		paths := []Path{{wanted}}
		s := NewScanner(paths, 0)
		record := func(name string) []byte { return fmt.Appendf(nil, `{%q:1,"padding":"padding, padding"}`, name) }
		checkScan(t, s, paths, record(wanted))
		for at := range n {
			other := wanted[:at] + "m" + wanted[at+1:]
			checkScan(t, s, paths, record(other))
			checkScan(t, s, paths, record(wanted[:at]))
			checkScan(t, s, paths, record(wanted+wanted[:at]+"n"))
			checkScan(t, s, paths, record(wanted))
		}
	}
}

// object draws an object of names that are likely to be wanted, doubled,
// escaped or in another order than the last.
func object(t *rapid.T, level int) string {
	var b strings.Builder
	space := func() { b.WriteString(rapid.SampledFrom([]string{"", "", "", " ", "\n\t "}).Draw(t, "space")) }
	b.WriteByte('{')
	for i := range rapid.IntRange(0, 6).Draw(t, "fields") {
		if i > 0 {
			b.WriteByte(',')
		}
		space()
		b.WriteString(rapid.SampledFrom([]string{
			`"a"`, `"b"`, `"c"`, `"x"`, `"user"`, `"id"`, `"address"`, `"city"`, `"list"`, `"é"`, `""`, `"z"`, `"zz"`, `"\u0061"`, `"us\u0065r"`, `"tab\t"`,
		}).Draw(t, "name"))
		space()
		b.WriteByte(':')
		space()
		if level < 4 && rapid.IntRange(0, 2).Draw(t, "nest") == 0 {
			b.WriteString(object(t, level+1))
		} else {
			b.WriteString(rapid.SampledFrom([]string{
				`1`, `-0`, `1.50`, `1e3`, `null`, `true`, `false`, `""`, `"text"`, `"long text with more than eight bytes, é"`, `"\n\u00e9\ud83d\ude00"`,
				`[]`, `[1,"a",{"a":1}]`, `{}`, `[[],{"user":{"id":1}}]`,
			}).Draw(t, "value"))
		}
		space()
	}
	b.WriteByte('}')
	return b.String()
}

func TestScanRandomObjects(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := NewScanner(deepPaths, 0)
		for range rapid.IntRange(1, 25).Draw(t, "records") {
			record := []byte(object(t, 0))
			if rapid.IntRange(0, 9).Draw(t, "break") == 0 {
				at := rapid.IntRange(0, len(record)-1).Draw(t, "at")
				record[at] = rapid.Byte().Draw(t, "byte")
			}
			checkScan(t, s, deepPaths, record)
		}
	})
}

// The order of names changes under way: optional fields, other producers.
func TestScanOrders(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	names := strings.Fields("userId saleTimestamp totalRevenue totalPoints channel productList p q r s t u v w x y z")
	s := NewScanner(salePaths, 0)
	for round := range 400 {
		if round%50 == 0 {
			r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		}
		var b bytes.Buffer
		b.WriteByte('{')
		for _, n := range names {
			if r.IntN(4) == 0 {
				continue
			}
			if b.Len() > 1 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, "%q:%d", n, r.IntN(1000))
		}
		b.WriteByte('}')
		checkScan(t, s, salePaths, b.Bytes())
	}
}

// A name that ends with the record is expected as any other.
func TestScanFollowsTheOrderToTheEnd(t *testing.T) {
	paths := pathsOf("a", "b")
	s := NewScanner(paths, 0)
	for range 3 * relearnAfter {
		checkScan(t, s, paths, []byte(`{"a":1,"b":2}`))
		if s.root.strange != 0 {
			t.Fatal("a name was looked up that the order has")
		}
	}
}

// Objects with more names, and longer ones, than an order remembers.
func TestScanWideObjects(t *testing.T) {
	s := NewScanner(salePaths, 0)
	for round := range 20 {
		var b bytes.Buffer
		b.WriteString(`{"userId":1`)
		for i := range 400 {
			fmt.Fprintf(&b, `,"name%d%s":%d`, i*(round%3+1), strings.Repeat("x", i), i)
		}
		b.WriteString(`,"totalPoints":7}`)
		checkScan(t, s, salePaths, b.Bytes())
		if len(s.root.order) > maxOrder || len(s.root.names) > maxNames {
			t.Fatalf("%d names of %d bytes are remembered", len(s.root.order), len(s.root.names))
		}
	}
	var b bytes.Buffer
	b.WriteString(`{"userId":1`)
	for i := range 2 * maxOrder {
		fmt.Fprintf(&b, `,"%d":0`, i)
	}
	b.WriteString(`}`)
	s = NewScanner(salePaths, 0)
	checkScan(t, s, salePaths, b.Bytes())
	if len(s.root.order) > maxOrder {
		t.Fatalf("%d names are remembered", len(s.root.order))
	}
}

func TestScanLimit(t *testing.T) {
	whole := `{"userId":1}`
	for _, c := range []struct {
		record string
		max    int
		want   Reason
	}{
		{whole, len(whole), OK}, {whole, len(whole) - 1, TooLarge}, {whole, 0, OK},
		{strings.Repeat(" ", 100), 10, Empty}, {"\xef\xbb\xbf" + strings.Repeat("\n", 100), 10, Empty}, {"", 10, Empty},
		{strings.Repeat("\xff", 100), 10, TooLarge}, {strings.Repeat("x", 100), 10, TooLarge}, {strings.Repeat("x", 10), 10, NotJSON},
	} {
		if got, path := NewScanner(salePaths, c.max).Scan([]byte(c.record)); got != c.want || path != -1 {
			t.Errorf("Scan(%.40q) with %d bytes allowed = %v, %d, want %v", c.record, c.max, got, path, c.want)
		}
	}
}

func TestScanNamesTheDoublePath(t *testing.T) {
	paths := pathsOf("x", "user.id", "user.name", "user")
	s := NewScanner(paths, 0)
	for record, want := range map[string]int{
		`{"x":1,"user":{"name":"a","name":"b"}}`:           2,
		`{"x":1,"user":{"name":"a"},"user":{}}`:            1,
		`{"x":1,"x":2,"user":{"name":"a"},"user":{}}`:      0,
		`{"user":{"id":{"y":1,"y":2},"zip":1,"zip":2}}`:    -1,
		`{"user":{"id":1,"i\u0064":2}}`:                    1,
		`{"y":{"user":1,"user":2},"list":[{"x":1,"x":2}]}`: -1,
		`{"x":1,"x":2`: -1, // not JSON comes first
	} {
		if _, got := s.Scan([]byte(record)); got != want {
			t.Errorf("Scan(%s): path %d, want %d", record, got, want)
		}
	}
}

func TestD01BrokenRecordsAreNamed(t *testing.T) {
	s := NewScanner(salePaths, 0)
	for _, c := range []struct {
		record string
		want   Reason
	}{
		{`{"userId":"U-1","totalRevenue":5.00}`, OK}, {"", Empty}, {`{"userId":"U-1"`, NotJSON}, {`{"userId":"U-1","totalRevenue":7.00}`, OK},
	} {
		if got, _ := s.Scan([]byte(c.record)); got != c.want {
			t.Errorf("Scan(%s) = %v, want %v", c.record, got, c.want)
		}
	}
}

func TestD03ValuesThatAreNoObjects(t *testing.T) {
	s := NewScanner(salePaths, 0)
	for _, record := range []string{"null", "42", "[]", `"x"`, "true", "[{}]"} {
		if got, _ := s.Scan([]byte(record)); got != NotObject {
			t.Errorf("Scan(%s) = %v", record, got)
		}
	}
	if got, _ := s.Scan([]byte("{}")); got != OK {
		t.Errorf("Scan({}) = %v", got)
	}
	if _, _, got := AppendKey(nil, &s.Values[0]); got != MissingField {
		t.Errorf("the key of {} = %v", got)
	}
}

func TestD06UnusedNumbersAreNotConverted(t *testing.T) {
	s := NewScanner(salePaths, 0)
	record := `{"userId":"U-6","totalRevenue":2.50,"totalPoints":1,"trace":327000000000000000000000001,"x":1e999999999,"y":[-1E-99999]}`
	if got, _ := s.Scan([]byte(record)); got != OK {
		t.Errorf("Scan = %v", got)
	}
}

func TestD09MarksAndUTF16(t *testing.T) {
	s := NewScanner(salePaths, 0)
	good := `{"userId":"U-9","totalRevenue":1.00}`
	if got, _ := s.Scan([]byte("\xef\xbb\xbf" + good)); got != OK || string(s.Values[0].Bytes) != "U-9" {
		t.Errorf("with a mark: %v, %q", got, s.Values[0].Bytes)
	}
	units := utf16.Encode([]rune(good))
	for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
		for _, mark := range []bool{false, true} {
			var b []byte
			if mark {
				b = order.AppendUint16(b, 0xFEFF)
			}
			for _, u := range units {
				b = order.AppendUint16(b, u)
			}
			if got, _ := s.Scan(b); got != NotUTF8 {
				t.Errorf("UTF-16, %v, mark %v: %v", order, mark, got)
			}
		}
	}
}

func TestD10BrokenIdsAreNotMerged(t *testing.T) {
	s := NewScanner(salePaths, 0)
	for _, record := range []string{
		"{\"userId\":\"U-\xff\",\"totalRevenue\":1.00}", "{\"userId\":\"U-\xfe\",\"totalRevenue\":2.00}",
		"{\"userId\":\"U-1\",\"other\":\"\xff\"}", "{\"userId\":\"U-1\",\"\xc3\":1}", "{\"userId\":\"\xff", // cut off as well: the encoding comes first
	} {
		if got, _ := s.Scan([]byte(record)); got != NotUTF8 {
			t.Errorf("Scan(%q) = %v", record, got)
		}
	}
	for _, record := range []string{`{"userId":"U-\ud800"}`, `{"userId":"U-\udfff"}`, `{"x":"\ud800"}`} {
		if got, _ := s.Scan([]byte(record)); got != NotJSON {
			t.Errorf("Scan(%s) = %v", record, got)
		}
	}
}

// Texts with escapes stay valid until the next Scan, however many there are.
func TestScanTextsWithEscapes(t *testing.T) {
	s := NewScanner(pathsOf("a", "b", "c"), 0)
	long := strings.Repeat(`\u00e9`, 3000)
	for range 3 {
		if got, _ := s.Scan([]byte(`{"a":"1\n","b":"` + long + `","c":"3\t"}`)); got != OK {
			t.Fatal(got)
		}
		for i, want := range []string{"1\n", strings.Repeat("é", 3000), "3\t"} {
			if string(s.Values[i].Bytes) != want {
				t.Fatalf("value %d is %.40q", i, s.Values[i].Bytes)
			}
		}
		// What holds one value cannot write into the next.
		_ = append(s.Values[0].Bytes, "xxxxxxxxxx"...)
		if string(s.Values[1].Bytes[:2]) != "é" {
			t.Fatal("a value grew into its neighbour")
		}
	}
}

func TestScanAllocatesNothing(t *testing.T) {
	s := NewScanner(append(salePaths, pathsOf("user.id", "note")...), 0)
	events := [][]byte{
		saleEvent(1), saleEvent(2),
		[]byte(`{"note":"a \"quoted\" \u00e9 text","userId":7,"user":{"name":"x","id":[1,{"a":"b"}]}}`),
		[]byte(`{"us\u0065r":{"id":"\n"},"userId":8}`), []byte("{\"userId\":\"\xff\"}"), []byte(`{"userId":1,"userId":2}`), []byte("  "), []byte("[1,2"),
	}
	var key, enc []byte
	run := func() {
		for _, e := range events {
			if reason, _ := s.Scan(e); reason != OK {
				continue
			}
			key, _, _ = AppendKey(key[:0], &s.Values[0])
			if at, reason := s.Values[1].Timestamp(time.UTC); reason == OK {
				enc = at.Append(enc[:0])
				enc = at.AppendText(enc)
			}
			_, _ = s.Values[2].Decimal()
			_, _ = s.Values[3].Decimal()
			_ = Compare(&s.Values[2], &s.Values[3])
		}
	}
	for range 100 {
		run()
	}
	if n := testing.AllocsPerRun(100, run); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzScan(f *testing.F) {
	for _, r := range records {
		f.Add([]byte(r))
	}
	f.Add(saleEvent(1))
	f.Fuzz(func(t *testing.T, record []byte) {
		s := NewScanner(deepPaths, 0)
		checkScan(t, s, deepPaths, record)
		checkScan(t, s, deepPaths, record) // by the order just learned
	})
}

// FuzzScanAfter: what a record is read as does not depend on the records whose
// order of names the scanner has learned.
func FuzzScanAfter(f *testing.F) {
	for i, r := range records {
		f.Add([]byte(records[(i+1)%len(records)]), []byte(r))
	}
	f.Add(saleEvent(1), saleEvent(2))
	f.Fuzz(func(t *testing.T, before, record []byte) {
		s := NewScanner(deepPaths, 0)
		checkScan(t, s, deepPaths, before)
		for cut := range record {
			if cut%5 == 0 || len(record)-cut < 20 {
				checkScan(t, s, deepPaths, record[:cut:cut])
			}
		}
		checkScan(t, s, deepPaths, record)
		checkScan(t, s, deepPaths, before)
	})
}
