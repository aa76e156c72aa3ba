package query

import "tidemark/event"

// Decimals is the number of decimals that decimal(p,s) inside x gives to every
// value of it: s itself, of a sum the most and of a product the sum of what its
// operands have, as in Spark. ok is false where no such cast is in x, or where
// something in it may have any number of decimals.
func Decimals(x Expr) (scale int32, ok bool) {
	scale, fixed, known := decimals(x)
	return scale, fixed && known
}

// decimals is Decimals; fixed says whether a decimal(p,s) is in x, and known
// whether no value of x has more than scale decimals.
func decimals(x Expr) (scale int32, fixed, known bool) {
	var operands []Expr
	sum := false
	switch x := x.(type) {
	case *Cast:
		switch {
		case x.Type.Name == TypeBigint:
			return 0, false, true
		case x.Type.Name == TypeDecimal && x.Type.Precision > 0:
			return x.Type.Scale, true, true
		case x.Type.Name == TypeDecimal: // exact: it changes nothing
			return decimals(x.X)
		}
		return 0, false, false
	case *Literal:
		switch x.Value.Kind {
		case event.Decimal:
			return x.Value.Num.Scale(), false, true
		case event.Null:
			return 0, false, true
		}
		return 0, false, false
	case *Neg:
		return decimals(x.X)
	case *Add:
		operands = append(operands, x.First)
		for _, t := range x.Rest {
			operands = append(operands, t.X)
		}
	case *Mul:
		operands, sum = x.Factors, true
	case *Case:
		operands = x.results()
	case *Coalesce:
		operands = x.Args
	default:
		return 0, false, false
	}
	known = true
	for _, o := range operands {
		s, f, k := decimals(o)
		if sum {
			scale += s
		} else {
			scale = max(scale, s)
		}
		fixed, known = fixed || f, known && k
	}
	return scale, fixed, known
}
