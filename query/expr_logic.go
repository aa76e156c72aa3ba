package query

import "tidemark/event"

// And is true where all of Args are.
type And struct{ Args []Expr }

// Or is true where one of Args is.
type Or struct{ Args []Expr }

// Not is NOT X.
type Not struct{ X Expr }

// IsNull is X IS NULL, or with Not X IS NOT NULL.
type IsNull struct {
	Not bool
	X   Expr
}

// and is SQL's AND: false wins, then NULL.
func and(a, b tri) tri {
	switch {
	case a == isFalse || b == isFalse:
		return isFalse
	case a == isNull || b == isNull:
		return isNull
	case a == isFailed || b == isFailed:
		return isFailed
	}
	return isTrue
}

// or is SQL's OR: true wins, then NULL.
func or(a, b tri) tri { return and(a.not(), b.not()).not() }

// AND and OR stop early only under WHERE, where nothing is noted. Elsewhere all
// operands are evaluated, so that what is noted of an event does not depend on
// the values of the others.

func (x *And) truth(env *Env) tri {
	result := isTrue
	for _, a := range x.Args {
		result = and(result, truthOf(a, env))
		if result == isFalse && env.quiet {
			break
		}
	}
	env.last = -1
	return result
}

// Eval is false where one argument is, else NULL where one is, else true.
func (x *And) Eval(env *Env) event.Value { return x.truth(env).value() }

func (x *Or) truth(env *Env) tri {
	result := isFalse
	for _, a := range x.Args {
		result = or(result, truthOf(a, env))
		if result == isTrue && env.quiet {
			break
		}
	}
	env.last = -1
	return result
}

// Eval is true where one argument is, else NULL where one is, else false.
func (x *Or) Eval(env *Env) event.Value { return x.truth(env).value() }

func (x *Not) truth(env *Env) tri { return truthOf(x.X, env).not() }

// Eval negates; NULL stays NULL.
func (x *Not) Eval(env *Env) event.Value { return x.truth(env).value() }

func (x *IsNull) truth(env *Env) tri {
	v := direct(x.X, env)
	if v == nil {
		is := x.X.Eval(env)
		v = &is
	}
	env.last = -1
	return boolean(v.IsNull() != x.Not)
}

// Eval is never NULL.
func (x *IsNull) Eval(env *Env) event.Value { return x.truth(env).value() }
