package query

import (
	"math/big"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"tidemark/event"
)

// The model is an obvious evaluator: values are Go values, numbers big.Rat,
// nothing is shared with the evaluator that it checks, and an expression is
// made together with its text.

// modelNull is NULL; failed says that something noted stands behind it.
type modelNull struct{ failed bool }

// modelArray is an array or object.
type modelArray struct{}

// modelExpr is an expression: its text, how tightly that binds, what it is.
type modelExpr struct {
	text  string
	level int
	eval  func(m *model) any // modelNull, bool, *big.Rat, string or modelArray
}

// model is one evaluation.
type model struct {
	fields  map[string]any
	missing bool // a missing path was read
	reason  event.Reason
}

func (m *model) fail(r event.Reason) any {
	if m.reason == event.OK || r < m.reason {
		m.reason = r
	}
	return modelNull{true}
}

// The levels of SQL, loosest first.
const (
	levelOr = iota
	levelAnd
	levelNot
	levelCompare
	levelAdd
	levelMul
	levelMinus
	levelAtom
)

var numberText = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)

// number reads a value as a number.
func (m *model) number(v any) any {
	switch v := v.(type) {
	case string:
		if !numberText.MatchString(v) {
			return m.fail(event.BadNumber)
		}
		r, _ := new(big.Rat).SetString(v)
		return r
	case bool, modelArray:
		return m.fail(event.WrongType)
	}
	return v
}

// truth reads a value as a condition.
func (m *model) truth(v any) any {
	switch v.(type) {
	case bool, modelNull:
		return v
	}
	return m.fail(event.WrongType)
}

// strict is NULL where an operand is; a NULL of the event's own wins.
func strict(vs ...any) (modelNull, bool) {
	null, found := modelNull{true}, false
	for _, v := range vs {
		if n, ok := v.(modelNull); ok {
			found = true
			null.failed = null.failed && n.failed
		}
	}
	return null, found
}

func modelCompare(op string, a, b any) any {
	if n, ok := strict(a, b); ok {
		return n
	}
	asNumber := func(v any) (*big.Rat, bool) {
		if s, ok := v.(string); ok && numberText.MatchString(s) {
			return new(big.Rat).SetString(s)
		}
		r, ok := v.(*big.Rat)
		return r, ok
	}
	var c int
	x, isText := a.(string)
	y, both := b.(string)
	p, isBool := a.(bool)
	q, bothBool := b.(bool)
	switch {
	case isText && both:
		c = strings.Compare(x, y)
	case isBool && bothBool:
		c = map[bool]int{true: 1}[p] - map[bool]int{true: 1}[q]
	default:
		r, ok := asNumber(a)
		s, too := asNumber(b)
		if !ok || !too {
			return modelNull{}
		}
		c = r.Cmp(s)
	}
	return map[string]bool{"=": c == 0, "<>": c != 0, "!=": c != 0, "<": c < 0, "<=": c <= 0, ">": c > 0, ">=": c >= 0}[op]
}

func modelNot(v any) any {
	if b, ok := v.(bool); ok {
		return !b
	}
	return v
}

func modelAnd(a, b any) any {
	if a == false || b == false {
		return false
	}
	if n, ok := strict(a, b); ok {
		return n
	}
	return true
}

func modelOr(a, b any) any { return modelNot(modelAnd(modelNot(a), modelNot(b))) }

// maker draws expressions.
type maker struct{ *rapid.T }

// in writes x as an operand, in parentheses where it must be, or at times so.
func (t maker) in(x modelExpr, level int) string {
	if x.level < level || rapid.IntRange(0, 7).Draw(t.T, "parentheses") == 0 {
		return "(" + x.text + ")"
	}
	return x.text
}

func (t maker) path() modelExpr {
	name := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(t.T, "path")
	return modelExpr{name, levelAtom, func(m *model) any {
		v, ok := m.fields[name]
		if !ok {
			m.missing = true
			return modelNull{}
		}
		return v
	}}
}

// num draws an expression that is no text, no timestamp and no condition.
func (t maker) num(depth int) modelExpr {
	if depth == 0 {
		if rapid.Bool().Draw(t.T, "literal") {
			text := rapid.SampledFrom([]string{"0", "1", "2.50", "0.1", "1e3", "3"}).Draw(t.T, "number")
			r, _ := new(big.Rat).SetString(text)
			return modelExpr{text, levelAtom, func(*model) any { return r }}
		}
		return t.path()
	}
	depth--
	switch rapid.IntRange(0, 6).Draw(t.T, "num") {
	case 0:
		return t.path()
	case 1:
		x := t.num(depth)
		return modelExpr{"- " + t.in(x, levelMinus), levelMinus, func(m *model) any {
			v := m.number(x.eval(m))
			if r, ok := v.(*big.Rat); ok {
				return new(big.Rat).Neg(r)
			}
			return v
		}}
	case 2:
		return t.arithmetic("*", levelMul, depth)
	case 3:
		return t.arithmetic(rapid.SampledFrom([]string{"+", "-"}).Draw(t.T, "sign"), levelAdd, depth)
	case 4:
		return t.choice(depth)
	case 5:
		x, y := t.num(depth), t.num(depth)
		return modelExpr{"COALESCE(" + x.text + ", " + y.text + ")", levelAtom, func(m *model) any {
			v := x.eval(m)
			if _, ok := v.(modelNull); !ok {
				return v
			}
			w := y.eval(m)
			if _, ok := w.(modelNull); !ok {
				return w
			}
			n, _ := strict(v, w)
			return n
		}}
	}
	x := t.num(depth)
	return modelExpr{"CAST(" + x.text + " AS decimal)", levelAtom, func(m *model) any { return m.number(x.eval(m)) }}
}

func (t maker) arithmetic(op string, level, depth int) modelExpr {
	x, y := t.num(depth), t.num(depth)
	return modelExpr{t.in(x, level) + " " + op + " " + t.in(y, level+1), level, func(m *model) any {
		v, w := m.number(x.eval(m)), m.number(y.eval(m))
		if n, ok := strict(v, w); ok {
			return n
		}
		r, s := v.(*big.Rat), w.(*big.Rat)
		switch op {
		case "*":
			return new(big.Rat).Mul(r, s)
		case "+":
			return new(big.Rat).Add(r, s)
		}
		return new(big.Rat).Sub(r, s)
	}}
}

// choice draws a CASE of either form.
func (t maker) choice(depth int) modelExpr {
	then, other := t.num(depth), t.num(depth)
	hasElse := rapid.Bool().Draw(t.T, "else")
	var head string
	var test func(m *model) any
	if rapid.Bool().Draw(t.T, "simple") {
		x, y := t.num(depth), t.num(depth)
		head = "CASE " + x.text + " WHEN " + y.text
		test = func(m *model) any { return modelCompare("=", x.eval(m), y.eval(m)) }
	} else {
		x := t.cond(depth)
		head = "CASE WHEN " + x.text
		test = func(m *model) any { return m.truth(x.eval(m)) }
	}
	text := head + " THEN " + then.text
	if hasElse {
		text += " ELSE " + other.text
	}
	return modelExpr{text + " END", levelAtom, func(m *model) any {
		is := test(m)
		switch {
		case is == true:
			return then.eval(m)
		case hasElse:
			return other.eval(m)
		}
		n, null := is.(modelNull)
		return modelNull{null && n.failed}
	}}
}

// side draws an operand of a comparison.
func (t maker) side(depth int) modelExpr {
	if rapid.IntRange(0, 3).Draw(t.T, "text") == 0 {
		text := rapid.SampledFrom([]string{"x", "it's", "2.5", "", "-1"}).Draw(t.T, "literal")
		return modelExpr{"'" + strings.ReplaceAll(text, "'", "''") + "'", levelAtom, func(*model) any { return text }}
	}
	return t.num(depth)
}

// cond draws a condition.
func (t maker) cond(depth int) modelExpr {
	if depth == 0 {
		return t.path()
	}
	depth--
	negated := rapid.Bool().Draw(t.T, "negated")
	word, not := "", func(v any) any { return v }
	if negated {
		word, not = "NOT ", modelNot
	}
	switch rapid.IntRange(0, 6).Draw(t.T, "cond") {
	case 0:
		x := t.cond(depth)
		return modelExpr{"NOT " + t.in(x, levelNot), levelNot, func(m *model) any { return modelNot(m.truth(x.eval(m))) }}
	case 1:
		x, y := t.cond(depth), t.cond(depth)
		return modelExpr{t.in(x, levelAnd) + " AND " + t.in(y, levelNot), levelAnd, func(m *model) any { return modelAnd(m.truth(x.eval(m)), m.truth(y.eval(m))) }}
	case 2:
		x, y := t.cond(depth), t.cond(depth)
		return modelExpr{t.in(x, levelOr) + " OR " + t.in(y, levelAnd), levelOr, func(m *model) any { return modelOr(m.truth(x.eval(m)), m.truth(y.eval(m))) }}
	case 3:
		x := t.side(depth)
		return modelExpr{t.in(x, levelAdd) + " IS " + word + "NULL", levelCompare, func(m *model) any {
			_, null := x.eval(m).(modelNull)
			return null != negated
		}}
	case 4:
		x, y, z := t.side(depth), t.side(depth), t.side(depth)
		return modelExpr{t.in(x, levelAdd) + " " + word + "BETWEEN " + t.in(y, levelAdd) + " AND " + t.in(z, levelAdd), levelCompare, func(m *model) any {
			v, low, high := x.eval(m), y.eval(m), z.eval(m)
			return not(modelAnd(modelCompare(">=", v, low), modelCompare("<=", v, high)))
		}}
	case 5:
		x, y, z := t.side(depth), t.side(depth), t.side(depth)
		return modelExpr{t.in(x, levelAdd) + " " + word + "IN (" + y.text + ", " + z.text + ")", levelCompare, func(m *model) any {
			v, p, q := x.eval(m), y.eval(m), z.eval(m)
			return not(modelOr(modelCompare("=", v, p), modelCompare("=", v, q)))
		}}
	}
	op := rapid.SampledFrom([]string{"=", "<>", "!=", "<", "<=", ">", ">="}).Draw(t.T, "op")
	x, y := t.side(depth), t.side(depth)
	return modelExpr{t.in(x, levelAdd) + " " + op + " " + t.in(y, levelAdd), levelCompare, func(m *model) any {
		return modelCompare(op, x.eval(m), y.eval(m))
	}}
}

// record draws an event and what the model knows of it.
func (t maker) record() (string, map[string]any) {
	rat := func(text string) *big.Rat {
		r, _ := new(big.Rat).SetString(text)
		return r
	}
	choices := []struct {
		json string
		v    any
	}{
		{"null", modelNull{}}, {"true", true}, {"false", false}, {"1", rat("1")}, {"2.50", rat("2.5")}, {"-3e2", rat("-300")}, {"0", rat("0")},
		{`"x"`, "x"}, {`"2.5"`, "2.5"}, {`""`, ""}, {`"it's"`, "it's"}, {"[1]", modelArray{}}, {`{"a":1}`, modelArray{}},
	}
	fields := map[string]any{}
	json := `{"k":"K"`
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		if i := rapid.IntRange(-2, len(choices)-1).Draw(t.T, name); i >= 0 {
			fields[name] = choices[i].v
			json += `,"` + name + `":` + choices[i].json
		}
	}
	return json + "}", fields
}

// want is what Required says by the model.
func (m *model) want(v any) string {
	if n, ok := v.(modelNull); ok {
		switch {
		case m.missing:
			return "missing_field"
		case !n.failed:
			return "null_field"
		}
	}
	if m.reason != event.OK {
		return m.reason.String()
	}
	switch v := v.(type) {
	case bool:
		return map[bool]string{true: "true", false: "false"}[v]
	case *big.Rat:
		return v.RatString()
	case string:
		return "'" + v + "'"
	}
	return "array or object"
}

// got is what Required said, in the model's terms.
func got(v event.Value, reason event.Reason) string {
	if reason != event.OK {
		return reason.String()
	}
	switch v.Kind {
	case event.Number, event.Decimal:
		d, _ := v.Decimal()
		r, _ := new(big.Rat).SetString(string(d.AppendText(nil)))
		return r.RatString()
	case event.Array, event.Object:
		return "array or object"
	}
	return shown(v)
}

// TestEvaluatorAgainstModel: values, reasons and WHERE, of random expressions
// over random events, and of what their canonical text reads back as.
func TestEvaluatorAgainstModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		mk := maker{rt}
		depth := rapid.IntRange(0, 4).Draw(rt, "depth")
		var x modelExpr
		condition := rapid.Bool().Draw(rt, "condition")
		if condition {
			x = mk.cond(depth)
		} else {
			x = mk.num(depth)
		}
		d, parsed := inAggregate(t, x.text)
		canonical := parsed.String()
		again, reread := inAggregate(t, canonical)
		if reread.String() != canonical {
			rt.Fatalf("%s is %s, which reads back as %s", x.text, canonical, reread)
		}
		for range 4 {
			record, fields := mk.record()
			m := &model{fields: fields}
			want := m.want(x.eval(m))
			v, reason, _ := Required(parsed, scanned(t, d, record))
			if got := got(v, reason); got != want {
				rt.Fatalf("%s over %s: got %s, want %s", x.text, record, got, want)
			}
			v, reason, _ = Required(reread, scanned(t, again, record))
			if got := got(v, reason); got != want {
				rt.Fatalf("%s over %s: got %s, want %s", canonical, record, got, want)
			}
			if condition {
				where := mustParse(t, "SELECT k, count(*) n FROM t WHERE "+x.text+" GROUP BY k")
				if got, want := True(where.Where, scanned(t, where, record)), x.eval(m) == true; got != want {
					rt.Fatalf("WHERE %s over %s: got %v, want %v", x.text, record, got, want)
				}
			}
		}
	})
}

// TestLikeAgainstRegexp compares LIKE with the regular expression of the same
// meaning.
func TestLikeAgainstRegexp(t *testing.T) {
	letters := []string{"a", "b", "ß", "%", "_", `\`}
	rapid.Check(t, func(rt *rapid.T) {
		var pattern, expr strings.Builder
		for _, part := range rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "ß", "%", "_", `\%`, `\_`, `\\`}), 0, 8).Draw(rt, "pattern") {
			pattern.WriteString(part)
			switch part {
			case "%":
				expr.WriteString("(?s:.*)")
			case "_":
				expr.WriteString("(?s:.)")
			default:
				expr.WriteString(regexp.QuoteMeta(strings.TrimPrefix(part, `\`)))
				if part == `\` {
					expr.WriteString(`\`)
				}
			}
		}
		parts, err := compileLike(pattern.String())
		if err != nil {
			rt.Fatal(err)
		}
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(letters), 0, 12).Draw(rt, "text"), "")
		want := regexp.MustCompile("^" + expr.String() + "$").MatchString(text)
		if got := likeMatches([]byte(text), parts); got != want {
			rt.Fatalf("%q LIKE %q: got %v, want %v", text, pattern.String(), got, want)
		}
	})
}
