package query

import (
	"strings"

	"tidemark/event"
)

// sparkName writes an expression as Spark names the column of it: operators in
// parentheses, names and texts without quotes, "count(1)" for count(*) being
// the caller's.
func sparkName(x Expr, d *Definition) string {
	name := func(x Expr) string { return sparkName(x, d) }
	names := func(xs []Expr, sep string) string {
		texts := make([]string, len(xs))
		for i, x := range xs {
			texts[i] = name(x)
		}
		return strings.Join(texts, sep)
	}
	// Spark joins chains of one operator from the left.
	chain := func(xs []Expr, op string) string {
		return strings.Repeat("(", len(xs)-1) + names(xs[:1], "") + op + names(xs[1:], ")"+op) + ")"
	}
	negated := func(is bool, text string) string {
		if is {
			return "(NOT " + text + ")"
		}
		return text
	}
	switch x := x.(type) {
	case *Path:
		return strings.Join(d.Paths[x.Slot], ".")
	case *Literal:
		switch x.Value.Kind {
		case event.Text:
			return string(x.Value.Bytes)
		case event.False, event.True:
			return strings.ToLower(x.String())
		}
	case *Cast:
		return "CAST(" + name(x.X) + " AS " + x.Type.String() + ")"
	case *Neg:
		return "(- " + name(x.X) + ")"
	case *Add:
		var b strings.Builder
		b.WriteString(strings.Repeat("(", len(x.Rest)) + name(x.First))
		for _, t := range x.Rest {
			b.WriteString(map[bool]string{false: " + ", true: " - "}[t.Minus] + name(t.X) + ")")
		}
		return b.String()
	case *Mul:
		return chain(x.Factors, " * ")
	case *And:
		return chain(x.Args, " AND ")
	case *Or:
		return chain(x.Args, " OR ")
	case *Not:
		return "(NOT " + name(x.X) + ")"
	case *Compare:
		op := x.Op
		if op == NotEqual {
			op = Equal
		}
		return negated(x.Op == NotEqual, "("+name(x.L)+" "+op.String()+" "+name(x.R)+")")
	case *Between:
		return negated(x.Not, "between("+names([]Expr{x.X, x.Low, x.High}, ", ")+")")
	case *In:
		return negated(x.Not, "("+name(x.X)+" IN ("+names(x.Items, ", ")+"))")
	case *Like:
		return negated(x.Not, name(x.X)+" LIKE "+x.Pattern)
	case *IsNull:
		return "(" + name(x.X) + " IS" + not(x.Not) + " NULL)"
	case *Coalesce:
		return "coalesce(" + names(x.Args, ", ") + ")"
	case *Case:
		var b strings.Builder
		b.WriteString("CASE")
		for _, w := range x.Whens {
			cond := name(w.If)
			if x.Of != nil {
				cond = "(" + name(x.Of) + " = " + cond + ")"
			}
			b.WriteString(" WHEN " + cond + " THEN " + name(w.Then))
		}
		if x.Else != nil {
			b.WriteString(" ELSE " + name(x.Else))
		}
		b.WriteString(" END")
		return b.String()
	}
	return x.String()
}
