package query

import (
	"strings"

	"tidemark/event"
)

// Literal is a constant of the query: Null, False, True, Decimal or Text, or a
// Timestamp that was read from a text beside a timestamp.
type Literal struct{ Value event.Value }

// tri is a truth value of SQL. NULL comes in two kinds, as values do: one that
// the event's own nulls led to, and one that stands for something that failed
// and was noted in the Env.
type tri int8

const (
	isFalse tri = iota
	isTrue
	isNull
	isFailed
)

// condition is an expression that is true, false or NULL. Conditions ask each
// other for truth and make no Values on the way.
type condition interface {
	Expr
	truth(env *Env) tri
}

// failed is the NULL that stands for something noted in the Env. Values from
// outside never look so.
var failed = event.Value{Kind: event.Null, Time: event.Time{Nsec: -1}}

// hasFailed says whether v, a NULL, is failed.
func hasFailed(v *event.Value) bool { return v.Time.Nsec < 0 }

var (
	null    = event.Value{Kind: event.Null}
	missing = event.Value{Kind: event.Missing}
)

// value is t as a Value.
func (t tri) value() event.Value {
	switch t {
	case isFalse:
		return event.Value{Kind: event.False}
	case isTrue:
		return event.Value{Kind: event.True}
	case isFailed:
		return failed
	}
	return null
}

// not is SQL's NOT.
func (t tri) not() tri {
	if t <= isTrue {
		return isTrue - t
	}
	return t
}

// boolean is the truth value of b.
func boolean(b bool) tri {
	if b {
		return isTrue
	}
	return isFalse
}

// nullTri is the truth value of v, which is NULL.
func nullTri(v *event.Value) tri {
	if hasFailed(v) {
		return isFailed
	}
	return isNull
}

// nulls collects the NULLs among the operands of a strict operator. A NULL of
// the event's own counts more than a failed one.
type nulls struct{ plain, failed bool }

func (n *nulls) add(v *event.Value) {
	if hasFailed(v) {
		n.failed = true
	} else {
		n.plain = true
	}
}

func (n *nulls) any() bool { return n.plain || n.failed }

func (n *nulls) tri() tri {
	if n.plain {
		return isNull
	}
	return isFailed
}

// direct returns where the value of x is, in the event or in the query; nil
// where it must be computed. It spares the usual operands a copy.
func direct(x Expr, env *Env) *event.Value {
	switch x := x.(type) {
	case *Path:
		return x.read(env)
	case *Literal:
		env.last = -1
		return &x.Value
	}
	return nil
}

// operand is direct with tmp for a value that is computed.
func operand(x Expr, env *Env, tmp *event.Value) *event.Value {
	if v := direct(x, env); v != nil {
		return v
	}
	*tmp = x.Eval(env)
	return tmp
}

// truthOf evaluates x as a condition. What is neither true, false nor NULL is
// a wrong type.
func truthOf(x Expr, env *Env) tri {
	if c, ok := x.(condition); ok {
		return c.truth(env)
	}
	return truthOfValue(x, env)
}

func truthOfValue(x Expr, env *Env) tri {
	var tmp event.Value
	switch v := operand(x, env, &tmp); v.Kind {
	case event.False:
		return isFalse
	case event.True:
		return isTrue
	case event.Missing, event.Null:
		return nullTri(v)
	}
	env.note(event.WrongType, env.last)
	return isFailed
}

// read returns the field, or a NULL that it noted.
func (p *Path) read(env *Env) *event.Value {
	env.last = p.Slot
	v := &env.Values[p.Slot]
	switch v.Kind {
	case event.Missing:
		if env.Missing < 0 {
			env.Missing = p.Slot
		}
		return &missing
	case event.Null:
		if env.null < 0 {
			env.null = p.Slot
		}
		return &null
	}
	return v
}

// Eval returns the field as the event has it.
func (p *Path) Eval(env *Env) event.Value { return *p.read(env) }

// String is the path, odd names quoted.
func (p *Path) String() string { return p.Name }

// Eval returns the constant.
func (l *Literal) Eval(env *Env) event.Value {
	env.last = -1
	return l.Value
}

// String is the constant as SQL.
func (l *Literal) String() string {
	switch l.Value.Kind {
	case event.False:
		return "FALSE"
	case event.True:
		return "TRUE"
	case event.Decimal:
		return string(l.Value.Num.AppendText(nil))
	case event.Text:
		return quoteText(string(l.Value.Bytes))
	case event.Timestamp:
		return "CAST(" + quoteText(string(l.Value.Time.AppendText(nil))) + " AS TIMESTAMP)"
	}
	return "NULL"
}

// isNegative says whether l is printed with a minus.
func (l *Literal) isNegative() bool {
	return l.Value.Kind == event.Decimal && l.Value.Num.Sign() < 0
}

// isText says whether x is a text of the query.
func isText(x Expr) (*Literal, bool) {
	l, ok := x.(*Literal)
	return l, ok && l.Value.Kind == event.Text
}

// list joins expressions as arguments.
func list(args []Expr) string {
	texts := make([]string, len(args))
	for i, a := range args {
		texts[i] = a.String()
	}
	return strings.Join(texts, ", ")
}
