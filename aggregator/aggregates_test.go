package aggregator

import (
	"fmt"
	"strings"
	"testing"

	"tidemark/event"
)

// The query of the contract, word for word.
func TestSalesQuery(t *testing.T) {
	r := newRows(t, `SELECT userId,
       CAST(max(saleTimestamp) AS timestamp) AS latestSaleTimestamp,
       sum(totalRevenue)                     AS totalRevenue,
       sum(totalPoints)                      AS totalPoints,
       collect_set(productList)              AS productList,
       count(*)                              AS sales
FROM sales
WHERE channel IS NULL OR channel <> 'test'
GROUP BY userId`, Options{})
	r.value(`{"userId":23,"saleTimestamp":"2015-07-29T09:17:12.000Z","totalRevenue":255.59,"totalPoints":293,"productList":[1484,47]}`)
	r.value(`{"userId":23,"saleTimestamp":"2015-07-29T09:16:12.000Z","totalRevenue":12.05,"totalPoints":6,"productList":[47],"channel":"shop"}`)
	if out := r.value(`{"userId":23,"channel":"test"}`); out.Result != Filtered {
		t.Errorf("the test sale is %v", out.Result)
	}
	want := `{"userId":23,"latestSaleTimestamp":"2015-07-29T09:17:12.000Z","totalRevenue":267.64,"totalPoints":299,"productList":[47,1484],"sales":2}`
	if got := r.row("23"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	quoted := `{"userId":"23","latestSaleTimestamp":"2015-07-29T09:17:12.000Z","totalRevenue":"267.64","totalPoints":"299","productList":["47","1484"],"sales":"2"}`
	if got := string(r.total("23").AppendRow(nil, []byte("23"), true)); got != quoted {
		t.Errorf("quoted: got  %s\nwant %s", got, quoted)
	}
}

func TestN01SumsShowNoTails(t *testing.T) {
	selects(t, "sum(r) AS r").fold(`"r":12.33`, `"r":75.10`, `"r":138.66`).expect(`"r":226.09`)
	r := selects(t, "sum(r) AS r")
	for range 100_000 {
		r.fold(`"r":0.01`)
	}
	r.expect(`"r":1000`)
	fixed := selects(t, "CAST(sum(r) AS decimal(12,2)) AS r")
	for range 1_000 {
		fixed.fold(`"r":0.01`)
	}
	fixed.expect(`"r":10.00`)
}

func TestN03NoSinglePrecision(t *testing.T) {
	selects(t, "sum(r) AS r").fold(`"r":48151.62`).expect(`"r":48151.62`).fold(`"r":1186416.27`).expect(`"r":1234567.89`)
}

func TestN04ScalesMix(t *testing.T) {
	selects(t, "sum(r) AS r").fold(`"r":1.5`, `"r":0.125`, `"r":2`).expect(`"r":3.625`)
	selects(t, "sum(r) AS r").fold(`"r":0.123456789012345678901234567891`, `"r":1`).expect(`"r":1.123456789012345678901234567891`)
	selects(t, "sum(r) AS r").fold(`"r":1e37`, `"r":1e-38`, `"r":-1e37`).expect(`"r":0.00000000000000000000000000000000000001`)
}

func TestN06SumsNeverOverflow(t *testing.T) {
	selects(t, "sum(p) AS p").fold(`"p":9223372036854775807`, `"p":1`).expect(`"p":9223372036854775808`)
	selects(t, "sum(p) AS p").fold(`"p":123456789012345678901234567890`).expect(`"p":123456789012345678901234567890`)
	// Past 128 bits, and back.
	nines := strings.Repeat("9", 38)
	r := selects(t, "sum(p) AS p")
	for range 100 {
		r.fold(`"p":` + nines)
	}
	r.expect(`"p":9999999999999999999999999999999999999900`)
	for range 99 {
		r.fold(`"p":-` + nines)
	}
	r.expect(`"p":`+nines).bad(`"p":1`+strings.Repeat("0", 38), event.Overflow, "p").expect(`"p":` + nines)
}

// Several sums that grow past 128 bits and come back, again and again.
func TestN06BigSumsComeAndGo(t *testing.T) {
	r := newRows(t, "SELECT userId, sum(x) AS x, avg(x) AS a FROM sales GROUP BY userId", Options{})
	big := strings.Repeat("9", 38)
	for round := range 3 {
		for _, user := range []string{"1", "2", "3"} {
			for range 10 {
				r.value(`{"userId":` + user + `,"x":` + big + `}`)
			}
			if got, want := r.row(user), `{"userId":`+user+`,"x":`+"9"+big[1:]+`0,"a":`; !strings.HasPrefix(got, want) {
				t.Errorf("round %d: %s, want %s…", round, got, want)
			}
		}
		for _, user := range []string{"2", "1", "3"} {
			for range 10 {
				r.value(`{"userId":` + user + `,"x":"-` + big + `"}`)
			}
			if got := r.row(user); got != `{"userId":`+user+`,"x":0,"a":0}` {
				t.Errorf("round %d: %s", round, got)
			}
		}
	}
	if n := len(r.delta.memory.sums.all); n > 6 {
		t.Errorf("%d places for 6 sums", n)
	}
}

func TestD21NegativeAmounts(t *testing.T) {
	r := selects(t, "sum(r) AS r, CAST(sum(r) AS decimal(9,2)) AS fixed")
	r.fold(`"r":30.00`, `"r":-30.00`, `"r":-5.25`).expect(`"r":-5.25,"fixed":-5.25`)
	r.fold(`"r":5.25`).expect(`"r":0,"fixed":0.00`)
	r.fold(`"r":-0`, `"r":-0.001`).expect(`"r":-0.001,"fixed":0.00`)
}

func TestT01LateEventsCount(t *testing.T) {
	selects(t, "max(CAST(ts AS timestamp)) AS latest, count(*) AS n").
		fold(`"ts":"2025-06-03T10:00:05Z"`, `"ts":"2025-06-03T09:58:00Z"`).
		expect(`"latest":"2025-06-03T10:00:05.000Z","n":2`)
}

func TestD12ScalarOrArray(t *testing.T) {
	r := selects(t, "collect_set(products) AS products, count(*) AS n, sum(COALESCE(revenue, 0)) AS revenue")
	r.fold(`"products":"A"`, `"products":["A","B"]`, `"products":[]`, `"products":null`, ``)
	r.expect(`"products":["A","B"],"n":5,"revenue":0`)
	r.bad(`"revenue":[3]`, event.WrongType, "revenue")
	r.bad(`"products":[["A"]]`, event.WrongType, "products")
	r.bad(`"products":{}`, event.WrongType, "products")
	r.bad(`"products":[{}]`, event.WrongType, "products")
	r.bad(`"products":[1,2,1e39]`, event.Overflow, "products")
	r.expect(`"products":["A","B"],"n":5,"revenue":0`)
}

func TestD13NullNumbers(t *testing.T) {
	r := selects(t, "sum(revenue) AS revenue, sum(points) AS points, first(note) AS note")
	for i := range 10 {
		r.fold(`"revenue":1.5,"points":2,"note":null`)
		switch i {
		case 3:
			r.bad(`"revenue":null,"points":2`, event.NullField, "revenue")
		case 7:
			r.bad(`"revenue":1,"points":null`, event.NullField, "points")
			r.bad(`"revenue":1`, event.MissingField, "points")
		}
	}
	r.expect(`"revenue":15,"points":20,"note":null`)
	if got := r.delta.Counts.Reasons; got[event.NullField] != 2 || got[event.MissingField] != 1 {
		t.Errorf("reasons are %v", got)
	}
}

func TestAggregates(t *testing.T) {
	expect := func(column, want string, events ...string) {
		t.Helper()
		selects(t, column+" AS c").fold(events...).expect(`"c":` + want)
	}
	// Numbers as text are numbers where numbers are wanted, and else texts.
	expect("sum(x)", "44.2", `"x":"41.70"`, `"x":2.5`)
	expect("avg(x)", "1.3333333333", `"x":"1"`, `"x":2`, `"x":1`)
	expect("avg(x)", "0.5", `"x":0`, `"x":1`)
	expect("avg(x)", "-0.6666666667", `"x":-1`, `"x":-1`, `"x":0`)
	expect("CAST(avg(x) AS decimal(9,2))", "0.13", `"x":0.125`)
	expect("CAST(avg(x) AS decimal(9,2))", "0.67", `"x":1`, `"x":0`, `"x":1`)
	expect("CAST(avg(x) AS bigint)", "-1", `"x":-1`, `"x":-2`)
	expect("CAST(avg(x) AS decimal(2,1))", "null", `"x":12`)
	expect("CAST(avg(x) AS string)", `"0.3333333333"`, `"x":1`, `"x":0`, `"x":0`)
	expect("CAST(sum(x) AS bigint)", "-3", `"x":-1.9`, `"x":-2`)
	expect("CAST(sum(x) AS bigint)", "null", `"x":9223372036854775807`, `"x":1`)
	expect("CAST(sum(x) AS string)", `"3"`, `"x":1.50`, `"x":1.50`)
	expect("CAST(sum(x) AS decimal)", "0.3", `"x":0.1`, `"x":0.2`)
	expect("CAST(count(*) AS decimal(5,2))", "2.00", ``, ``)
	expect("sum(CAST(x AS decimal(9,2)))", "0.02", `"x":0.005`, `"x":0.005`)
	expect("sum(CAST(x AS bigint))", "2", `"x":1.9`, `"x":1.9`)
	expect("max(CAST(x AS decimal(9,2)))", "7.50", `"x":7.5`, `"x":3`)
	expect("collect_set(CAST(x AS decimal(9,1)))", "[1.0,2.5]", `"x":2.5`, `"x":1`)
	expect("sum(CASE WHEN k = 'refund' THEN -x ELSE x END)", "6", `"x":10,"k":"refund"`, `"x":16,"k":"sale"`)
	expect("min(x)", "false", `"x":1`, `"x":"0"`, `"x":true`, `"x":false`)
	expect("max(x)", `"9"`, `"x":10`, `"x":"10"`, `"x":"9"`, `"x":true`)
	expect("max(x)", "10", `"x":9`, `"x":10`, `"x":9.99`)
	expect("max(CAST(x AS string))", `"9"`, `"x":9`, `"x":10`)
	expect("min(CAST(x AS timestamp))", `"2025-06-03T10:00:05.000Z"`, `"x":1748944805`, `"x":"2025-06-03T10:00:05.001Z"`)
	expect("count(x)", "2", `"x":1`, `"x":null`, ``, `"x":"a"`)
	expect("first(x)", `"b"`, `"x":null`, `"x":"b"`, `"x":"a"`)
	expect("last(x)", `1.5`, `"x":"a"`, `"x":1.50`, `"x":null`, ``)
	expect("last(x)", `"\"\\\n\u0001<é"`, `"x":"\"\\\n\u0001<é"`)
	expect("min_by(x, y)", `"first"`, `"x":"first","y":1`, `"x":"tie","y":1.0`, `"x":"more","y":2`)
	expect("max_by(x, y)", `"b"`, `"x":"a","y":1`, `"x":"b","y":2`, `"x":"c","y":2`)
	expect("collect_set(x)", `[false,true,-1,0.5,1,47,"47","é"]`, `"x":["é",47,"47",1,1.0,0.5]`, `"x":true`, `"x":[false,-1,null,1e0]`)
}

// Which values are bad, and in which field.
func TestBadValues(t *testing.T) {
	for _, c := range []string{"sum(x)", "avg(x)", "min(x)", "max(x)", "min_by(x, 1)", "max_by(x, 1)", "sum(-x)", "max(CAST(x AS timestamp))"} {
		r := selects(t, c+" AS c")
		r.bad(`"y":1`, event.MissingField, "x")
		r.bad(`"x":null`, event.NullField, "x")
		r.bad(`"x":[1]`, event.WrongType, "x")
		r.bad(`"x":{}`, event.WrongType, "x")
	}
	for _, c := range []string{"count(x)", "first(x)", "last(x)"} {
		r := selects(t, c+" AS c")
		r.fold(`"x":null`, ``)
		r.bad(`"x":[1]`, event.WrongType, "x")
		r.bad(`"x":{}`, event.WrongType, "x")
	}
	for _, x := range []string{`"41,70"`, `"abc"`, `""`, `" 5"`, `"NaN"`, `"Infinity"`} {
		selects(t, "sum(x) AS c").bad(`"x":`+x, event.BadNumber, "x")
	}
	for _, c := range []string{"sum(x)", "min(x)", "first(x)", "collect_set(x)", "max_by(x, 1)", "max_by(1, x)"} {
		selects(t, c+" AS c").bad(`"x":1e38`, event.Overflow, "x").bad(`"x":1e-39`, event.Overflow, "x")
	}
	selects(t, "count(x) AS c").fold(`"x":1e400`).expect(`"c":1`) // nothing is read of it
	selects(t, "sum(true_) AS c").bad(`"true_":true`, event.WrongType, "true_")
	selects(t, "max(CAST(x AS timestamp)) AS c").bad(`"x":"soon"`, event.BadTimestamp, "x").bad(`"x":true`, event.WrongType, "x")
	selects(t, "sum(CAST(x AS decimal(3,1))) AS c").fold(`"x":99.94`).bad(`"x":99.95`, event.Overflow, "x")
	// Column by column; of two faults in one column the first kind.
	selects(t, "sum(a) AS a, sum(b) AS b").bad(`"a":"?"`, event.BadNumber, "a")
	selects(t, "sum(user.points) AS p").bad(`"user":{}`, event.MissingField, "user.points")
}

// Sets of more members than the limit keep the smallest, in every order.
func TestSetLimit(t *testing.T) {
	const limit = 5
	for _, up := range []bool{true, false} {
		r := newRows(t, "SELECT userId, collect_set(x) AS x FROM sales GROUP BY userId", Options{SetLimit: limit})
		for i := range limit {
			r.fold(fmt.Sprintf(`"x":%d`, 1000+i))
		}
		if got := r.total("1").Capped(); got != nil {
			t.Errorf("a set of %d members is capped: %v", limit, got)
		}
		r.fold(`"x":1000`, `"x":1004.0`)
		if got := r.total("1").Capped(); got != nil {
			t.Errorf("a set of %d members that came twice is capped: %v", limit, got)
		}
		for i := range 500 {
			if !up {
				i = 499 - i
			}
			r.fold(fmt.Sprintf(`"x":[%d,"%d",%d.5]`, i+2, i, i))
		}
		r.expect(`"x":[0.5,1.5,2,2.5,3]`)
		if got := r.total("1").Capped(); len(got) != 1 || got[0] != "x" {
			t.Errorf("capped is %v", got)
		}
		v := r.total("1").Value(1, []byte("1"))
		if n, _ := v.Num.Int64(); v.Kind != event.Decimal || n != limit {
			t.Errorf("a set orders as %v %v, want its %d members", v.Kind, n, limit)
		}
	}
}

// What a key has that nothing but a document without fields made.
func TestEmptyTotal(t *testing.T) {
	r := selects(t, `sum(a) AS a, count(*) AS b, count(a) AS c, min(a) AS d, avg(a) AS e, CAST(avg(a) AS bigint) AS f,
		CAST(sum(a) AS decimal(5,2)) AS g, first(a) AS h, max_by(a, b) AS i, collect_set(a) AS j`)
	want := `{"userId":23,"a":null,"b":0,"c":0,"d":null,"e":null,"f":null,"g":null,"h":null,"i":null,"j":[]}`
	if got := string(r.program.NewTotal().AppendRow(nil, []byte("23"), false)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// Value orders rows: it is the answer as a value.
func TestValue(t *testing.T) {
	r := selects(t, "CAST(sum(a) AS decimal(9,1)) AS a, max(CAST(ts AS timestamp)) AS ts, last(s) AS s, avg(n) AS n, last(b) AS b")
	r.fold(`"a":1.25,"ts":"2015-07-29T09:17:12Z","s":"text","n":3,"b":true`)
	total := r.total("1")
	for i, want := range []string{"1", "1.3", "2015-07-29T09:17:12.000Z", "text", "3", ""} {
		v := total.Value(i, []byte("1"))
		got := ""
		switch v.Kind {
		case event.Decimal:
			got = string(v.Num.AppendText(nil))
		case event.Text:
			got = string(v.Bytes)
		case event.Timestamp:
			got = v.Time.String()
		}
		if got != want || i == 5 && v.Kind != event.True {
			t.Errorf("column %d is %v %q, want %q", i, v.Kind, got, want)
		}
	}
	if v := total.Value(0, []byte("1")); v.Kind != event.Decimal {
		t.Errorf("a key of numbers is %v", v.Kind)
	}
	r.value(`{"userId":"1","a":0,"ts":1748944805,"n":1}`)
	if v := r.total("1").Value(0, []byte("1")); v.Kind != event.Text || string(v.Bytes) != "1" {
		t.Errorf("a key that came as text is %v %q", v.Kind, v.Bytes)
	}
}

// With decimal(p,s) inside, the answer has s decimals: also where the cast
// stands in a branch, under a minus, or under a cast to decimal alone.
func TestDecimalsOfComputedArguments(t *testing.T) {
	const money = "CAST(r AS decimal(10,2))"
	for column, want := range map[string]string{
		"sum(" + money + ")":              "-1.00",
		"sum(-" + money + ")":             "1.00",
		"sum(COALESCE(" + money + ", 0))": "-1.00",
		"sum(CASE WHEN r < 0 THEN -" + money + " ELSE " + money + " END)": "5.00",
		"sum(" + money + " * 2)":                   "-2.00",
		"CAST(sum(" + money + ") AS decimal)":      "-1.00",
		"CAST(sum(" + money + ") AS bigint)":       "-1",
		"CAST(sum(" + money + ") AS decimal(9,1))": "-1.0",
		"max(-" + money + ")":                      "3.00",
		"collect_set(COALESCE(" + money + ", 0))":  "[-3.00,2.00]",
		"count(" + money + ")":                     "2",
		"avg(" + money + ")":                       "-0.5",
		"sum(" + money + " + r)":                   "-2",
	} {
		r := selects(t, column+" AS x")
		r.fold(`"r":2`, `"r":-3`).expect(`"x":` + want)
	}
}
