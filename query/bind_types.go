package query

import (
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/participle/v2/lexer"

	"tidemark/event"
)

// static is what shows of an expression's type before any event is seen.
// Fields may hold anything.
type static uint8

const (
	staticAny    static = iota
	staticNull          // NULL alone
	staticNumber        // a number, or NULL
	staticText          // a text that a cast made, or NULL
	staticWords         // a text of the query itself
	staticBool          // true, false or NULL
	staticTime          // an instant, or NULL
)

var staticNames = [...]string{"a field", "NULL", "a number", "a text", "a text", "a condition", "a timestamp"}

// typed is a bound expression with what shows of its type, and its place.
type typed struct {
	x   Expr
	t   static
	pos lexer.Position
}

// staticOf is the static type of a bound expression.
func staticOf(x Expr) static {
	switch x := x.(type) {
	case *Literal:
		switch x.Value.Kind {
		case event.Null:
			return staticNull
		case event.Decimal:
			return staticNumber
		case event.Text:
			return staticWords
		case event.Timestamp:
			return staticTime
		}
		return staticBool
	case *Cast:
		switch x.Type.Name {
		case TypeTimestamp:
			return staticTime
		case TypeString:
			return staticText
		}
		return staticNumber
	case *Neg, *Add, *Mul:
		return staticNumber
	case *Case:
		return staticOfAll(x.results())
	case *Coalesce:
		return staticOfAll(x.Args)
	case condition:
		return staticBool
	}
	return staticAny
}

// results are what a Case may be.
func (x *Case) results() []Expr {
	var out []Expr
	for _, w := range x.Whens {
		out = append(out, w.Then)
	}
	if x.Else != nil {
		out = append(out, x.Else)
	}
	return out
}

// staticOfAll is the type of a value that is one of several.
func staticOfAll(xs []Expr) static {
	result := staticNull
	for _, x := range xs {
		switch t := staticOf(x); {
		case t == staticNull || t == result:
		case result == staticNull:
			result = t
		case t+result == staticText+staticWords:
			result = staticText
		default:
			return staticAny
		}
	}
	return result
}

// ResultType is the type that every value of x has which is not NULL, as far
// as casts make it sure: the cast's, where x is one, or where all branches of a
// CASE or COALESCE are the same.
func ResultType(x Expr) (Type, bool) {
	var branches []Expr
	switch x := x.(type) {
	case *Cast:
		return x.Type, true
	case *Literal:
		return Type{Name: TypeTimestamp}, x.Value.Kind == event.Timestamp
	case *Case:
		branches = x.results()
	case *Coalesce:
		branches = x.Args
	}
	var result Type
	found := false
	for _, b := range branches {
		if staticOf(b) == staticNull {
			continue
		}
		t, ok := ResultType(b)
		if !ok || found && t != result {
			return Type{}, false
		}
		result, found = t, true
	}
	return result, found
}

// wantNumber refuses what is never a number; in is what wants it.
func wantNumber(x typed, in string) error {
	switch x.t {
	case staticWords:
		if l, ok := isText(x.x); ok {
			return fail(x.pos, "found the text %s in %s, which wants numbers: a field is written without quotes or in backquotes", l, in)
		}
		return fail(x.pos, "found a text in %s, which wants numbers", in)
	case staticBool, staticTime:
		return fail(x.pos, "found %s in %s, which wants numbers", staticNames[x.t], in)
	}
	return nil
}

// wantCondition refuses what is never true or false.
func wantCondition(x typed, in string) error {
	switch x.t {
	case staticNumber, staticText, staticWords, staticTime:
		return fail(x.pos, "found %s in %s, which wants a condition, such as x = 1 or x IS NULL", staticNames[x.t], in)
	}
	return nil
}

// comparable makes two operands fit to be compared with each other: a constant
// beside a timestamp becomes one. It refuses pairs that are NULL for every
// event.
func comparable(a, b *typed) error {
	if a.t == staticTime && b.t != staticTime {
		return asTime(b)
	}
	if b.t == staticTime && a.t != staticTime {
		return asTime(a)
	}
	if a.t == staticBool || b.t == staticBool {
		x, other := a, b
		if a.t != staticBool {
			x, other = b, a
		}
		switch other.t {
		case staticNumber, staticText, staticWords:
			return fail(x.pos, "found %s compared with %s, which is always NULL", staticNames[x.t], staticNames[other.t])
		}
	}
	return nil
}

// asTime makes a constant beside a timestamp one. Fields are read as
// timestamps when they come.
func asTime(x *typed) error {
	switch x.t {
	case staticBool:
		return fail(x.pos, "found %s compared with a timestamp, which is always NULL", staticNames[x.t])
	case staticWords, staticNumber:
		l, ok := x.x.(*Literal)
		if !ok {
			return nil
		}
		constant, err := timeConstant(l, x.pos)
		if err != nil {
			return err
		}
		*x = typed{x: constant, t: staticTime, pos: x.pos}
	}
	return nil
}

// timeConstant reads a constant as a timestamp. One that carries its zone
// becomes a Literal; one without is read in the zone that events have.
func timeConstant(l *Literal, pos lexer.Position) (Expr, error) {
	value := l.Value
	if value.Kind == event.Text && isDate(value.Bytes) {
		value.Bytes = append(value.Bytes[:len(value.Bytes):len(value.Bytes)], "T00:00:00"...)
	}
	at, reason := value.Timestamp(time.UTC)
	if reason != event.OK {
		return nil, fail(pos, "found %s where a timestamp is wanted; expected one such as '2015-07-29T09:17:12Z' or '2015-07-29'", l)
	}
	if east, reason := value.Timestamp(time.FixedZone("", 3600)); reason != event.OK || east != at {
		return &Cast{X: &Literal{value}, Type: Type{Name: TypeTimestamp}}, nil
	}
	return &Literal{event.Value{Kind: event.Timestamp, Time: at}}, nil
}

// isDate says whether text has the form of a day without a time.
func isDate(text []byte) bool {
	if len(text) != len("2015-07-29") {
		return false
	}
	for i, b := range text {
		if (i == 4 || i == 7) != (b == '-') || b != '-' && !isDigit(b) {
			return false
		}
	}
	return true
}

const typeNames = "timestamp, decimal, decimal(p,s), bigint or string"

// types has the names of types that CAST takes, Spark's synonyms among them.
var types = map[string]TypeName{
	"timestamp": TypeTimestamp, "decimal": TypeDecimal, "dec": TypeDecimal, "numeric": TypeDecimal,
	"bigint": TypeBigint, "long": TypeBigint, "string": TypeString,
}

// otherTypes has types that CAST does not take, and which to take instead.
var otherTypes = map[string]string{
	"float": "decimal, which is exact", "double": "decimal, which is exact", "real": "decimal, which is exact",
	"int": "bigint", "integer": "bigint", "smallint": "bigint", "tinyint": "bigint", "short": "bigint", "byte": "bigint",
	"varchar": "string", "char": "string", "text": "string",
	"date": "timestamp", "datetime": "timestamp", "timestamp_ltz": "timestamp", "timestamp_ntz": "timestamp",
	"boolean": "a condition, such as x = 'true'",
}

// bindType reads the type of a cast.
func bindType(t *target) (Type, error) {
	name, ok := types[strings.ToLower(t.Name)]
	switch {
	case !ok && otherTypes[strings.ToLower(t.Name)] != "":
		return Type{}, fail(t.Pos, "found the type %s; write %s", strings.ToLower(t.Name), otherTypes[strings.ToLower(t.Name)])
	case !ok:
		return Type{}, fail(t.Pos, "found %q; expected a type: %s", t.Name, typeNames)
	case t.Precision == "":
		return Type{Name: name}, nil
	case name != TypeDecimal:
		return Type{}, fail(t.Pos, "found %s(%s); only decimal takes a precision", strings.ToLower(t.Name), t.Precision)
	}
	p, err := strconv.ParseUint(t.Precision, 10, 8)
	if err != nil || p < 1 || p > 38 {
		return Type{}, fail(t.Pos, "found the precision %s; expected 1 to 38 digits, as in decimal(10,2)", t.Precision)
	}
	var s uint64
	if t.Scale != "" {
		if s, err = strconv.ParseUint(t.Scale, 10, 8); err != nil || s > p {
			return Type{}, fail(t.Pos, "found the scale %s; expected 0 to %d decimals, no more than the precision", t.Scale, p)
		}
	}
	return Type{Name: name, Precision: int32(p), Scale: int32(s)}, nil
}
