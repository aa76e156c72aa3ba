package query

import (
	"strings"

	"github.com/alecthomas/participle/v2/lexer"

	"tidemark/decimal"
	"tidemark/event"
)

// expr binds an expression: OR, the operator that binds least.
func (b *binder) expr(e *orExpr) (typed, error) {
	var args []Expr
	for _, a := range e.Args {
		x, err := b.and(a)
		if err != nil {
			return x, err
		}
		if len(e.Args) == 1 {
			x.pos = e.Pos
			return x, nil
		}
		if err := wantCondition(x, "OR"); err != nil {
			return x, err
		}
		if or, ok := x.x.(*Or); ok {
			args = append(args, or.Args...)
		} else {
			args = append(args, x.x)
		}
	}
	return typed{&Or{args}, staticBool, e.Pos}, nil
}

func (b *binder) and(e *andExpr) (typed, error) {
	var args []Expr
	for _, a := range e.Args {
		x, err := b.not(a)
		if err != nil || len(e.Args) == 1 {
			return x, err
		}
		if err := wantCondition(x, "AND"); err != nil {
			return x, err
		}
		if and, ok := x.x.(*And); ok {
			args = append(args, and.Args...)
		} else {
			args = append(args, x.x)
		}
	}
	return typed{&And{args}, staticBool, e.Pos}, nil
}

func (b *binder) not(e *notExpr) (typed, error) {
	x, err := b.predicate(e.Arg)
	if err != nil || len(e.Nots) == 0 {
		return x, err
	}
	if err := wantCondition(x, "NOT"); err != nil {
		return x, err
	}
	for range e.Nots {
		x.x = negate(x.x)
	}
	return typed{x.x, staticBool, e.Pos}, nil
}

// negate returns NOT x, written the shortest way. Two NOTs cancel but round a
// field, where they make sure that it is true or false.
func negate(x Expr) Expr {
	switch x := x.(type) {
	case *Not:
		if staticOf(x.X) == staticBool {
			return x.X
		}
	case *Compare:
		return &Compare{x.Op.opposite(), x.L, x.R}
	case *Between:
		return &Between{!x.Not, x.X, x.Low, x.High}
	case *In:
		return &In{!x.Not, x.X, x.Items}
	case *Like:
		return &Like{!x.Not, x.X, x.Pattern, x.parts}
	case *IsNull:
		return &IsNull{!x.Not, x.X}
	}
	return &Not{x}
}

func (b *binder) predicate(e *predicate) (typed, error) {
	x, err := b.sum(e.Left)
	if err != nil {
		return x, err
	}
	switch {
	case e.Compare != nil:
		return b.compare(e, x)
	case e.Is != nil:
		return typed{&IsNull{Not: e.Is.Not, X: x.x}, staticBool, e.Pos}, nil
	case e.Not != nil:
		return b.tail(e.Not, true, x)
	case e.In != nil:
		return b.tail(e.In, false, x)
	}
	return x, nil
}

func (b *binder) compare(e *predicate, l typed) (typed, error) {
	r, err := b.sum(e.Compare.Right)
	if err != nil {
		return r, err
	}
	if err := comparable(&l, &r); err != nil {
		return r, err
	}
	return typed{&Compare{opNamed(e.Compare.Op), l.x, r.x}, staticBool, e.Pos}, nil
}

// tail binds IN, BETWEEN and LIKE after x.
func (b *binder) tail(e *inTail, not bool, x typed) (typed, error) {
	switch {
	case e.In != nil:
		return b.in(e, not, x)
	case e.Low != nil:
		low, err := b.sum(e.Low)
		if err != nil {
			return low, err
		}
		high, err := b.sum(e.High)
		if err != nil {
			return high, err
		}
		if err := comparable(&x, &low); err != nil {
			return x, err
		}
		if err := comparable(&x, &high); err != nil {
			return x, err
		}
		return typed{&Between{not, x.x, low.x, high.x}, staticBool, x.pos}, nil
	}
	return b.like(e, not, x)
}

func (b *binder) in(e *inTail, not bool, x typed) (typed, error) {
	items := make([]Expr, len(e.In))
	for i, it := range e.In {
		item, err := b.expr(it)
		if err != nil {
			return item, err
		}
		if err := comparable(&x, &item); err != nil {
			return item, err
		}
		items[i] = item.x
	}
	return typed{&In{not, x.x, items}, staticBool, x.pos}, nil
}

func (b *binder) like(e *inTail, not bool, x typed) (typed, error) {
	switch x.t {
	case staticBool, staticTime:
		return x, fail(x.pos, "found %s before LIKE, which wants a text", staticNames[x.t])
	}
	p, err := b.sum(e.Pattern)
	if err != nil {
		return p, err
	}
	pattern, ok := isText(p.x)
	if !ok {
		return p, fail(p.pos, "found an expression after LIKE; expected a text such as 'A%%'")
	}
	parts, err := compileLike(string(pattern.Value.Bytes))
	if err != nil {
		return p, fail(p.pos, "found the pattern %s; %s", pattern, err)
	}
	return typed{&Like{not, x.x, string(pattern.Value.Bytes), parts}, staticBool, x.pos}, nil
}

func (b *binder) sum(e *sum) (typed, error) {
	x, err := b.product(e.Left)
	if err != nil || len(e.Terms) == 0 {
		return x, err
	}
	if err := wantNumber(x, "an addition"); err != nil {
		return x, err
	}
	add := &Add{First: x.x}
	if inner, ok := x.x.(*Add); ok {
		add.First, add.Rest = inner.First, append(add.Rest, inner.Rest...)
	}
	for _, t := range e.Terms {
		y, err := b.product(t.Arg)
		if err != nil {
			return y, err
		}
		minus := t.Op == "-"
		if err := wantNumber(y, map[bool]string{false: "an addition", true: "a subtraction"}[minus]); err != nil {
			return y, err
		}
		if inner, ok := y.x.(*Add); ok && !minus {
			add.Rest = append(append(add.Rest, Addend{X: inner.First}), inner.Rest...)
		} else {
			add.Rest = append(add.Rest, Addend{minus, y.x})
		}
	}
	return typed{add, staticNumber, x.pos}, nil
}

func (b *binder) product(e *product) (typed, error) {
	var factors []Expr
	for _, a := range e.Args {
		x, err := b.unary(a)
		if err != nil || len(e.Args) == 1 {
			return x, err
		}
		if err := wantNumber(x, "a multiplication"); err != nil {
			return x, err
		}
		if inner, ok := x.x.(*Mul); ok {
			factors = append(factors, inner.Factors...)
		} else {
			factors = append(factors, x.x)
		}
	}
	return typed{&Mul{factors}, staticNumber, e.Pos}, nil
}

func (b *binder) unary(e *unary) (typed, error) {
	x, err := b.primary(e.Arg)
	if err != nil || len(e.Minus) == 0 {
		return x, err
	}
	if err := wantNumber(x, "a negation"); err != nil {
		return x, err
	}
	for range e.Minus {
		x.x = negative(x.x)
	}
	return typed{x.x, staticNumber, e.Pos}, nil
}

// negative returns -x. Two of them cancel but round a field, where they make
// sure that it is a number.
func negative(x Expr) Expr {
	switch x := x.(type) {
	case *Literal:
		if x.Value.Kind == event.Decimal {
			return numberLiteral(x.Value.Num.Neg())
		}
	case *Neg:
		if staticOf(x.X) == staticNumber {
			return x.X
		}
	}
	return &Neg{x}
}

// numberLiteral is a number of the query.
func numberLiteral(d decimal.Decimal) *Literal {
	return &Literal{event.Value{Kind: event.Decimal, Num: d}}
}

func (b *binder) primary(e *primary) (typed, error) {
	switch {
	case e.Case != nil:
		return b.caseExpr(e.Case)
	case e.Name != nil && e.Name.Call != nil:
		return b.function(e)
	case e.Name != nil:
		path := e.Name.path()
		if err := checkPath(path, e.Pos); err != nil {
			return typed{}, err
		}
		return typed{&Path{Slot: b.slot(path), Name: QuotePath(path)}, staticAny, e.Pos}, nil
	case e.Number != "":
		d, err := parseNumber(e.Number)
		if err != nil {
			return typed{}, fail(e.Pos, "found the number %s; %s", e.Number, err)
		}
		return typed{numberLiteral(d), staticNumber, e.Pos}, nil
	case e.Text != "":
		text := unquoteText(e.Text)
		return typed{&Literal{event.Value{Kind: event.Text, Bytes: []byte(text)}}, staticWords, e.Pos}, nil
	case e.Paren != nil:
		x, err := b.expr(e.Paren)
		x.pos = e.Pos
		return x, err
	}
	kind, t := event.Null, staticNull
	switch strings.ToUpper(e.Const) {
	case "TRUE":
		kind, t = event.True, staticBool
	case "FALSE":
		kind, t = event.False, staticBool
	}
	return typed{&Literal{event.Value{Kind: kind}}, t, e.Pos}, nil
}

// parseNumber reads a number of the query, which unlike one of JSON may begin
// with its point or with zeros.
func parseNumber(text string) (decimal.Decimal, error) {
	text = strings.TrimLeft(text, "0")
	if text == "" || !isDigit(text[0]) {
		text = "0" + text
	}
	return decimal.Parse([]byte(text))
}

// function binds a function inside an expression.
func (b *binder) function(e *primary) (typed, error) {
	fn, c := strings.ToLower(unquoteName(e.Name.First)), e.Name.Call
	switch {
	case isAggregate(fn):
		return typed{}, b.misplaced(fn, e.Pos)
	case fn != "cast" && fn != "coalesce":
		return typed{}, unknownFunction(e.Name)
	case c.Distinct != nil || c.Star || len(c.Args) == 0 || fn == "cast" && (len(c.Args) != 1 || c.Args[0].Type == nil):
		if fn == "cast" {
			return typed{}, fail(e.Pos, "found cast; expected CAST(x AS type), type being %s", typeNames)
		}
		return typed{}, fail(e.Pos, "found coalesce; expected COALESCE(x, y, …)")
	}
	args := make([]typed, len(c.Args))
	for i, a := range c.Args {
		if a.Type != nil && fn != "cast" {
			return typed{}, fail(a.Type.Pos, "found AS in %s(…); a type belongs into CAST(x AS type)", fn)
		}
		var err error
		if args[i], err = b.expr(a.Expr); err != nil {
			return typed{}, err
		}
	}
	if fn == "cast" {
		return b.cast(e, args[0])
	}
	if len(args) == 1 {
		args[0].pos = e.Pos
		return args[0], nil
	}
	if err := alike(args, "COALESCE"); err != nil {
		return typed{}, err
	}
	x := &Coalesce{exprs(args)}
	return typed{x, staticOf(x), e.Pos}, nil
}

// misplaced says what is wrong with an aggregate inside an expression.
func (b *binder) misplaced(fn string, pos lexer.Position) error {
	switch b.place {
	case "WHERE":
		return fail(pos, "found the aggregate %s(…) in WHERE, which chooses events before they are counted; choose answers where they are read", fn)
	case "column":
		return fail(pos, "found the aggregate %s(…) inside an expression; it stands alone or in one CAST, and the expression goes inside: %s(…)", fn, fn)
	}
	return fail(pos, "found the aggregate %s(…) inside %s(…); aggregates do not nest", fn, b.place)
}

// unknownFunction says what is there instead of a function.
func unknownFunction(n *name) error {
	written := unquoteName(n.First)
	fn := strings.ToLower(written)
	if instead := elsewhere[fn]; instead != "" {
		return fail(n.Pos, "found %s(…); %s", fn, instead)
	}
	known := append(strings.Split(aggregateNames, ", "), "coalesce", "cast")
	if near := nearest(fn, known); near != "" {
		return fail(n.Pos, "found the function %q, which is not known; did you mean %s?", written, near)
	}
	return fail(n.Pos, "found the function %q, which is not known; there are %s, and %s", written, aggregateNames, scalarNames)
}

// cast binds CAST. A constant is converted once, to see that it can be.
func (b *binder) cast(e *primary, x typed) (typed, error) {
	t, err := bindType(e.Name.Call.Args[0].Type)
	if err != nil {
		return typed{}, err
	}
	if x.t == staticBool && t.Name != TypeString {
		return typed{}, fail(x.pos, "found a condition in a CAST to %s; true and false are cast to string only", t)
	}
	if l, ok := x.x.(*Literal); ok {
		if t.Name == TypeTimestamp && !l.Value.IsNull() && l.Value.Kind != event.Timestamp {
			constant, err := timeConstant(l, x.pos)
			if err != nil {
				return typed{}, err
			}
			return typed{constant, staticTime, e.Pos}, nil
		}
		if _, reason := ConvertTo(l.Value, t, nil); reason != event.OK {
			return typed{}, fail(x.pos, "found %s, which is no %s (%s)", l, t, reason)
		}
	}
	out := &Cast{X: x.x, Type: t}
	return typed{out, staticOf(out), e.Pos}, nil
}

func (b *binder) caseExpr(e *caseExpr) (typed, error) {
	x := &Case{}
	var of typed
	var err error
	if e.Of != nil {
		if of, err = b.expr(e.Of); err != nil {
			return of, err
		}
	}
	var results []typed
	for _, w := range e.Whens {
		cond, err := b.expr(w.If)
		if err != nil {
			return cond, err
		}
		if e.Of != nil {
			err = comparable(&of, &cond)
		} else {
			err = wantCondition(cond, "WHEN")
		}
		if err != nil {
			return cond, err
		}
		then, err := b.expr(w.Then)
		if err != nil {
			return then, err
		}
		x.Whens = append(x.Whens, When{If: cond.x})
		results = append(results, then)
	}
	if e.Else != nil {
		other, err := b.expr(e.Else)
		if err != nil {
			return other, err
		}
		results = append(results, other)
	}
	if err := alike(results, "CASE"); err != nil {
		return typed{}, err
	}
	x.Of = of.x
	for i := range x.Whens {
		x.Whens[i].Then = results[i].x
	}
	if n := len(x.Whens); len(results) > n && results[n].t != staticNull {
		x.Else = results[n].x
	}
	return typed{x, staticOf(x), e.Pos}, nil
}

// alike makes sure that of several results either all are timestamps or none
// is. A constant among timestamps becomes one.
func alike(results []typed, in string) error {
	times := false
	for _, r := range results {
		times = times || r.t == staticTime
	}
	for i := range results {
		r := &results[i]
		if !times || r.t == staticTime || r.t == staticNull {
			continue
		}
		if l, ok := r.x.(*Literal); ok && r.t != staticBool {
			constant, err := timeConstant(l, r.pos)
			if err != nil {
				return err
			}
			r.x, r.t = constant, staticTime
			continue
		}
		return fail(r.pos, "found %s beside a timestamp in %s; write CAST(… AS timestamp) here too", staticNames[r.t], in)
	}
	return nil
}

// exprs drops the types.
func exprs(xs []typed) []Expr {
	out := make([]Expr, len(xs))
	for i, x := range xs {
		out[i] = x.x
	}
	return out
}
