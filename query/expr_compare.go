package query

import (
	"bytes"
	"time"

	"tidemark/event"
)

// Op is a comparison.
type Op uint8

const (
	Equal Op = iota
	NotEqual
	Less
	LessEqual
	Greater
	GreaterEqual
)

var opTexts = [...]string{"=", "<>", "<", "<=", ">", ">="}

// String is the operator in SQL.
func (o Op) String() string { return opTexts[o] }

// opNamed returns the operator that is written so; != is <>.
func opNamed(text string) Op {
	for o, t := range opTexts {
		if t == text {
			return Op(o)
		}
	}
	return NotEqual
}

// opposite is the operator that holds where o does not.
func (o Op) opposite() Op {
	return [...]Op{NotEqual, Equal, GreaterEqual, Greater, LessEqual, Less}[o]
}

// holds says whether the operator holds for operands that compare as c.
func (o Op) holds(c int) bool {
	switch o {
	case Equal:
		return c == 0
	case NotEqual:
		return c != 0
	case Less:
		return c < 0
	case LessEqual:
		return c <= 0
	case Greater:
		return c > 0
	}
	return c >= 0
}

// Compare is L Op R.
type Compare struct {
	Op   Op
	L, R Expr
}

// Between is X BETWEEN Low AND High, both included.
type Between struct {
	Not          bool
	X, Low, High Expr
}

// In is X IN (Items).
type In struct {
	Not   bool
	X     Expr
	Items []Expr
}

// compare compares two values that are not NULL. ok is false where they have
// no order, which SQL calls NULL: an array or object; a boolean and anything
// else; a number or an instant and a text that is none.
func compare(a, b *event.Value, zone *time.Location) (c int, ok bool) {
	switch a.Kind {
	case event.Number, event.Decimal:
		switch b.Kind {
		case event.Number, event.Decimal, event.Text:
			return compareNumbers(a, b)
		case event.Timestamp:
			return compareTimes(a, b, zone)
		}
	case event.Text:
		switch b.Kind {
		case event.Text:
			return bytes.Compare(a.Bytes, b.Bytes), true
		case event.Number, event.Decimal:
			return compareNumbers(a, b)
		case event.Timestamp:
			return compareTimes(a, b, zone)
		}
	case event.Timestamp:
		switch b.Kind {
		case event.Timestamp, event.Number, event.Decimal, event.Text:
			return compareTimes(a, b, zone)
		}
	case event.False, event.True:
		if b.Kind == event.False || b.Kind == event.True {
			return int(a.Kind) - int(b.Kind), true
		}
	}
	return 0, false
}

func compareNumbers(a, b *event.Value) (int, bool) {
	x, reason := a.Decimal()
	if reason != event.OK {
		return 0, false
	}
	y, reason := b.Decimal()
	if reason != event.OK {
		return 0, false
	}
	return x.Cmp(y), true
}

func compareTimes(a, b *event.Value, zone *time.Location) (int, bool) {
	x, reason := a.Timestamp(zone)
	if reason != event.OK {
		return 0, false
	}
	y, reason := b.Timestamp(zone)
	if reason != event.OK {
		return 0, false
	}
	return x.Compare(y), true
}

// test compares a and b, of which either may be NULL.
func (o Op) test(a, b *event.Value, env *Env) tri {
	env.last = -1
	if a.IsNull() || b.IsNull() {
		var n nulls
		for _, v := range [...]*event.Value{a, b} {
			if v.IsNull() {
				n.add(v)
			}
		}
		return n.tri()
	}
	c, ok := compare(a, b, env.Zone)
	if !ok {
		return isNull
	}
	return boolean(o.holds(c))
}

func (x *Compare) truth(env *Env) tri {
	if l := direct(x.L, env); l != nil {
		if r := direct(x.R, env); r != nil {
			return x.Op.test(l, r, env)
		}
	}
	var t, u event.Value
	l := operand(x.L, env, &t)
	return x.Op.test(l, operand(x.R, env, &u), env)
}

// Eval compares; operands without an order are NULL.
func (x *Compare) Eval(env *Env) event.Value { return x.truth(env).value() }

func (x *Between) truth(env *Env) tri {
	var t, u event.Value
	v := operand(x.X, env, &t)
	result := and(
		GreaterEqual.test(v, operand(x.Low, env, &u), env),
		LessEqual.test(v, operand(x.High, env, &u), env))
	if x.Not {
		result = result.not()
	}
	return result
}

// Eval compares with both bounds.
func (x *Between) Eval(env *Env) event.Value { return x.truth(env).value() }

func (x *In) truth(env *Env) tri {
	var t, u event.Value
	v := operand(x.X, env, &t)
	if v.Kind == event.Number && len(x.Items) > 1 {
		// Converted once for all items.
		if d, reason := v.Decimal(); reason == event.OK {
			t = event.Value{Kind: event.Decimal, Num: d}
			v = &t
		}
	}
	result := isFalse
	for _, item := range x.Items {
		result = or(result, Equal.test(v, operand(item, env, &u), env))
		if result == isTrue && env.quiet {
			break
		}
	}
	if x.Not {
		result = result.not()
	}
	return result
}

// Eval looks for an equal item; with none it is NULL where an item is.
func (x *In) Eval(env *Env) event.Value { return x.truth(env).value() }
