package query

import "tidemark/event"

// Case is CASE WHEN … END, or with Of the simple form CASE Of WHEN … END.
type Case struct {
	Of    Expr // nil for conditions
	Whens []When
	Else  Expr // nil is NULL
}

// When is one branch of a Case: a condition, or a value that Of may equal.
type When struct{ If, Then Expr }

// Coalesce is its first argument that is not NULL.
type Coalesce struct{ Args []Expr }

// Eval evaluates the conditions up to the first true one, and that branch
// alone.
func (x *Case) Eval(env *Env) event.Value {
	var t, u event.Value
	var of *event.Value
	if x.Of != nil {
		of = operand(x.Of, env, &t)
	}
	lost := false
	for i := range x.Whens {
		w := &x.Whens[i]
		var is tri
		if of != nil {
			is = Equal.test(of, operand(w.If, env, &u), env)
		} else {
			is = truthOf(w.If, env)
		}
		if is == isTrue {
			return w.Then.Eval(env)
		}
		lost = lost || is == isFailed
	}
	if x.Else != nil {
		return x.Else.Eval(env)
	}
	env.last = -1
	if lost {
		return failed // a condition that failed left the value out
	}
	return null
}

// Eval evaluates the arguments up to the first that is not NULL.
func (x *Coalesce) Eval(env *Env) event.Value {
	var n nulls
	for _, a := range x.Args {
		v := a.Eval(env)
		if !v.IsNull() {
			return v
		}
		n.add(&v)
	}
	return n.tri().value()
}
