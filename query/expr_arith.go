package query

import (
	"tidemark/decimal"
	"tidemark/event"
)

// Neg is -X.
type Neg struct{ X Expr }

// Add is a chain of + and -, from left to right.
type Add struct {
	First Expr
	Rest  []Addend
}

// Addend is one term of an Add.
type Addend struct {
	Minus bool
	X     Expr
}

// Mul is a product.
type Mul struct{ Factors []Expr }

// number evaluates x as a number, exactly. Where it is NULL, or no number, ok
// is false and n knows why.
func number(x Expr, env *Env, n *nulls) (d decimal.Decimal, ok bool) {
	var tmp event.Value
	v := operand(x, env, &tmp)
	if v.IsNull() {
		n.add(v)
		return d, false
	}
	d, reason := v.Decimal()
	if reason != event.OK {
		env.note(reason, env.last)
		n.failed = true
		return d, false
	}
	return d, true
}

// computed wraps the outcome of arithmetic, which comes from no single field.
func computed(d decimal.Decimal, n *nulls, env *Env) event.Value {
	env.last = -1
	if n.any() {
		return n.tri().value()
	}
	return event.Value{Kind: event.Decimal, Num: d}
}

// Eval negates exactly. Its operand is one, so a fault is still that field's.
func (a *Neg) Eval(env *Env) event.Value {
	var n nulls
	d, _ := number(a.X, env, &n)
	last := env.last
	v := computed(d.Neg(), &n, env)
	env.last = last
	return v
}

// Eval adds and subtracts exactly.
func (a *Add) Eval(env *Env) event.Value {
	var n nulls
	total, ok := number(a.First, env, &n)
	for i := range a.Rest {
		if !ok && env.quiet {
			break
		}
		d, is := number(a.Rest[i].X, env, &n)
		switch ok = ok && is; {
		case !ok:
		case a.Rest[i].Minus:
			total = total.Sub(d)
		default:
			total = total.Add(d)
		}
	}
	return computed(total, &n, env)
}

// Eval multiplies exactly.
func (a *Mul) Eval(env *Env) event.Value {
	var n nulls
	total, ok := number(a.Factors[0], env, &n)
	for _, x := range a.Factors[1:] {
		if !ok && env.quiet {
			break
		}
		d, is := number(x, env, &n)
		if ok = ok && is; ok {
			total = total.Mul(d)
		}
	}
	return computed(total, &n, env)
}
