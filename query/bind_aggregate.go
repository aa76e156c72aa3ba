package query

import (
	"strings"

	"github.com/alecthomas/participle/v2/lexer"

	"tidemark/event"
)

var funcNames = [...]string{
	Sum: "sum", CountAll: "count", Count: "count", Min: "min", Max: "max", Avg: "avg",
	First: "first", Last: "last", MinBy: "min_by", MaxBy: "max_by", CollectSet: "collect_set",
}

// String is the function's name in SQL.
func (f Func) String() string { return funcNames[f] }

// funcs has the aggregates by name; count is Count until its argument is seen.
var funcs = map[string]Func{
	"sum": Sum, "count": Count, "min": Min, "max": Max, "avg": Avg, "first": First, "last": Last,
	"min_by": MinBy, "max_by": MaxBy, "collect_set": CollectSet,
}

const (
	aggregateNames = "sum, count, min, max, avg, first, last, min_by, max_by, collect_set"
	scalarNames    = "CASE, COALESCE and CAST"
)

// elsewhere has functions of SQL that a definition does without, and what to
// write instead.
var elsewhere = map[string]string{
	"collect_list":          "duplicates are not kept: write collect_set(x)",
	"array_agg":             "duplicates are not kept: write collect_set(x)",
	"approx_count_distinct": "distinct values are kept exactly: write collect_set(x)",
	"count_if":              "write sum(CASE WHEN condition THEN 1 ELSE 0 END)",
	"mean":                  "write avg(x)",
	"average":               "write avg(x)",
	"first_value":           "write first(x)",
	"earliest_by_offset":    "write first(x)",
	"latest_by_offset":      "write last(x)",
	"count_distinct":        "distinct values are kept exactly: write collect_set(x)",
	"stringtotimestamp":     "write CAST(x AS timestamp)",
	"any_value":             "write first(x)",
	"last_value":            "write last(x)",
	"ifnull":                "write COALESCE(x, y)",
	"nvl":                   "write COALESCE(x, y)",
	"isnull":                "write x IS NULL",
	"isnotnull":             "write x IS NOT NULL",
	"if":                    "write CASE WHEN condition THEN x ELSE y END",
	"iff":                   "write CASE WHEN condition THEN x ELSE y END",
	"nullif":                "write CASE WHEN x = y THEN NULL ELSE x END",
	"abs":                   "write CASE WHEN x < 0 THEN -x ELSE x END",
	"negative":              "write -x",
	"try_cast":              "write CAST(x AS type)",
	"to_timestamp":          "write CAST(x AS timestamp)",
	"timestamp":             "write CAST(x AS timestamp)",
	"from_unixtime":         "write CAST(x AS timestamp)",
	"to_date":               "write CAST(x AS timestamp)",
	"bigint":                "write CAST(x AS bigint)",
	"int":                   "write CAST(x AS bigint)",
	"decimal":               "write CAST(x AS decimal)",
	"double":                "write CAST(x AS decimal)",
	"float":                 "write CAST(x AS decimal)",
	"string":                "write CAST(x AS string)",
	"round":                 "write CAST(x AS decimal(38,2)), which rounds HALF_UP",
	"floor":                 "write CAST(x AS bigint), which truncates toward zero",
	"ceil":                  "write CAST(x AS bigint), which truncates toward zero",
	"window":                noWindow,
	"tumble":                noWindow,
	"session_window":        noWindow,
	"row_number":            noWindow,
	"rank":                  noWindow,
	"lag":                   noWindow,
	"lead":                  noWindow,
	"explode":               "arrays are not exploded: collect_set(x) flattens them",
	"exists":                noSubquery,
	"current_timestamp":     "totals do not depend on the clock",
	"now":                   "totals do not depend on the clock",
	"rand":                  "totals do not depend on chance",
}

func isAggregate(fn string) bool {
	_, ok := funcs[fn]
	return ok
}

// aggregate binds an aggregate, alone or in casts, and returns it with the
// name that Spark gives the column.
func (b *binder) aggregate(e *orExpr) (a Aggregate, spark string, err error) {
	p := sole(e)
	if p == nil || p.Name == nil || p.Name.Call == nil {
		return a, "", b.noAggregate(e)
	}
	fn, c := strings.ToLower(unquoteName(p.Name.First)), p.Name.Call
	if fn == "cast" && len(c.Args) == 1 && c.Args[0].Type != nil && c.Distinct == nil {
		if inner := sole(c.Args[0].Expr); inner == nil || inner.Name == nil || inner.Name.Call == nil {
			return a, "", b.noAggregate(e)
		}
		if a, spark, err = b.aggregate(c.Args[0].Expr); err != nil {
			return a, "", err
		}
		t, err := bindType(c.Args[0].Type)
		if err != nil {
			return a, "", err
		}
		return a, "CAST(" + spark + " AS " + t.String() + ")", roundAggregate(&a, t, p.Pos)
	}
	f, ok := funcs[fn]
	if !ok {
		return a, "", b.noAggregate(e)
	}
	return b.call(f, fn, p)
}

// noAggregate says why an expression of the SELECT list is no column.
func (b *binder) noAggregate(e *orExpr) error {
	b.place = "column"
	if _, err := b.expr(e); err != nil {
		return err
	}
	return fail(e.Pos, "found an expression that is no aggregate; a column is a path of GROUP BY, or one of %s", aggregateNames)
}

// call binds the arguments of an aggregate.
func (b *binder) call(f Func, fn string, p *primary) (a Aggregate, spark string, err error) {
	c := p.Name.Call
	want := 1
	if f == MinBy || f == MaxBy {
		want = 2
	}
	switch {
	case c.Distinct != nil:
		return a, "", fail(c.Distinct.Pos, "found DISTINCT in %s(…); distinct values are kept by collect_set(x)", fn)
	case c.Star && f == Count:
		return Aggregate{Func: CountAll}, "count(1)", nil
	case c.Star:
		return a, "", fail(p.Pos, "found %s(*); only count takes *, expected an expression", fn)
	case (f == First || f == Last) && len(c.Args) == 2:
		return a, "", fail(c.Args[1].Pos, "found a second argument of %s; it takes null as absent by itself: write %s(x)", fn, fn)
	case len(c.Args) != want:
		return a, "", fail(p.Pos, "found %s with %s; expected %s", fn, arguments(len(c.Args)), signature(f))
	}
	b.place = fn
	args := make([]typed, want)
	for i, arg := range c.Args {
		if arg.Type != nil {
			return a, "", fail(arg.Type.Pos, "found AS in %s(…); a type belongs into CAST(x AS type)", fn)
		}
		if args[i], err = b.expr(arg.Expr); err != nil {
			return a, "", err
		}
		if err := checkArgument(f, fn, args[i]); err != nil {
			return a, "", err
		}
	}
	a = Aggregate{Func: f, Arg: args[0].x}
	spark = fn + "(" + sparkName(args[0].x, b.def) + ")"
	if want == 2 {
		a.By = args[1].x
		spark = fn + "(" + sparkName(args[0].x, b.def) + ", " + sparkName(args[1].x, b.def) + ")"
	}
	if l, ok := a.Arg.(*Literal); ok && f == Count && !l.Value.IsNull() {
		a = Aggregate{Func: CountAll} // count(1)
	}
	return a, spark, nil
}

// checkArgument refuses arguments that can be none for any event.
func checkArgument(f Func, fn string, arg typed) error {
	switch f {
	case Sum, Avg:
		if err := wantNumber(arg, fn); err != nil {
			return err
		}
	case Count, First, Last, CollectSet:
		return nil
	}
	if arg.t == staticNull {
		return fail(arg.pos, "found NULL in %s, which wants a value", fn)
	}
	return nil
}

// roundAggregate puts a cast to t round a.
func roundAggregate(a *Aggregate, t Type, pos lexer.Position) error {
	fn := a.Func.String()
	if a.Func == CollectSet {
		return fail(pos, "found a CAST round collect_set; cast its members: collect_set(CAST(x AS %s))", t)
	}
	if a.Round != nil {
		return fail(pos, "found a second CAST round %s; one is applied to an answer", fn)
	}
	if t.Name != TypeTimestamp {
		a.Round = &t
		return nil
	}
	switch a.Func {
	case Min, Max, First, Last:
		if c, ok := a.Arg.(*Cast); ok && c.Type == t {
			return nil
		}
		if l, ok := a.Arg.(*Literal); ok && l.Value.Kind != event.Null {
			return fail(pos, "found a CAST to timestamp of a constant in %s", fn)
		}
		if s := staticOf(a.Arg); s == staticBool {
			return fail(pos, "found a CAST of true and false to timestamp, which they never are")
		}
		a.Arg = &Cast{X: a.Arg, Type: t}
	case MinBy, MaxBy:
		a.Round = &t
	default:
		return fail(pos, "found a CAST of %s to timestamp; it is a number, expected decimal, bigint or string", fn)
	}
	return nil
}

// arguments counts arguments in words.
func arguments(n int) string {
	switch n {
	case 0:
		return "no argument"
	case 1:
		return "one argument"
	case 2:
		return "two arguments"
	}
	return "more than two arguments"
}

// signature shows how f is written.
func signature(f Func) string {
	switch f {
	case Count:
		return "count(*) or count(x)"
	case MinBy, MaxBy:
		return f.String() + "(x, y)"
	}
	return f.String() + "(x)"
}
