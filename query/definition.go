package query

import "tidemark/event"

// Definition is a parsed and bound query. It is immutable.
type Definition struct {
	SQL        string       // as the user wrote it
	Topic      string       // the FROM name
	Paths      []event.Path // every path that is read; expressions name them by slot
	Where      Expr         // nil without WHERE
	Keys       []Key        // in GROUP BY order
	Aggregates []Aggregate  // in SELECT order
	Columns    []Column     // in SELECT order: what an answer's row holds
}

// Key is one GROUP BY column.
type Key struct {
	Name string // the result name
	Slot int    // into Paths
}

// Column is one column of a row: a key column, or an aggregate.
type Column struct {
	Name      string
	Key       int // into Keys, or -1
	Aggregate int // into Aggregates, or -1
}

// Func names an aggregate function.
type Func uint8

const (
	Sum Func = iota
	CountAll
	Count
	Min
	Max
	Avg
	First
	Last
	MinBy
	MaxBy
	CollectSet
)

// Aggregate is one aggregate of the SELECT list.
type Aggregate struct {
	Func  Func
	Name  string // the result name
	Arg   Expr   // nil for CountAll
	By    Expr   // the y of MinBy and MaxBy, else nil
	Round *Type  // a cast round the aggregate, applied to the answer; nil without.
	// CAST(max(x) AS timestamp), and so for min, first and last, means
	// max(CAST(x AS timestamp)): there Arg is a Cast and Round is nil.
}

// TypeName names the target of a cast.
type TypeName uint8

const (
	TypeTimestamp TypeName = iota
	TypeDecimal            // exact, or (Precision, Scale) rounding HALF_UP
	TypeBigint             // truncates toward zero; 64 bits
	TypeString
)

// Type is the target of a cast.
type Type struct {
	Name             TypeName
	Precision, Scale int32 // TypeDecimal with Precision 0 is exact
}

// Expr is a bound expression over one event: *Path, *Literal, *Cast and the
// operators. Aggregators look for the first three to keep plain columns off
// the evaluator.
type Expr interface {
	// Eval returns the value for the event in env. A NULL result has Kind
	// Null or Missing. What went wrong on the way is noted in env.
	Eval(env *Env) event.Value
	// String is the canonical SQL text, the same for every spelling that
	// means the same expression.
	String() string
}

// Path reads one field.
type Path struct {
	Slot int // into Definition.Paths
	Name string
}

// Cast converts X to Type.
type Cast struct {
	X    Expr
	Type Type
}

// ReadsTimestamps says whether the query casts anything to a timestamp: then
// its totals depend on the zone of timestamps that carry none.
func (d *Definition) ReadsTimestamps() bool {
	found := false
	note := func(x Expr) {
		if c, ok := x.(*Cast); ok && c.Type.Name == TypeTimestamp {
			found = true
		}
	}
	Walk(d.Where, note)
	for _, a := range d.Aggregates {
		Walk(a.Arg, note)
		Walk(a.By, note)
		found = found || a.Round != nil && a.Round.Name == TypeTimestamp
	}
	return found
}

// Walk calls visit for x and everything in it, outermost first. x may be nil.
func Walk(x Expr, visit func(Expr)) {
	if x == nil {
		return
	}
	visit(x)
	for _, operand := range operands(x) {
		Walk(operand, visit)
	}
}

// operands are the expressions right below x.
func operands(x Expr) []Expr {
	switch x := x.(type) {
	case *Cast:
		return []Expr{x.X}
	case *Neg:
		return []Expr{x.X}
	case *Not:
		return []Expr{x.X}
	case *IsNull:
		return []Expr{x.X}
	case *Like:
		return []Expr{x.X}
	case *Compare:
		return []Expr{x.L, x.R}
	case *Between:
		return []Expr{x.X, x.Low, x.High}
	case *In:
		return append([]Expr{x.X}, x.Items...)
	case *And:
		return x.Args
	case *Or:
		return x.Args
	case *Coalesce:
		return x.Args
	case *Mul:
		return x.Factors
	case *Add:
		all := []Expr{x.First}
		for _, t := range x.Rest {
			all = append(all, t.X)
		}
		return all
	case *Case:
		var all []Expr
		if x.Of != nil {
			all = append(all, x.Of)
		}
		for _, w := range x.Whens {
			all = append(all, w.If)
		}
		return append(all, x.results()...)
	}
	return nil
}
