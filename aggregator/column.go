package aggregator

import (
	"tidemark/event"
	"tidemark/query"
)

// column is one aggregate of the definition, compiled.
type column struct {
	name   string
	fn     query.Func
	word   int // where its words are in a row
	words  int
	acc    accumulator
	arg    argument
	by     argument    // of min_by and max_by
	round  *query.Type // a cast round the aggregate
	placed bool        // its operands need their position
	fixed  int32       // decimals that the answer has exactly; -1: as few as it needs

	plainSum     bool // it sums a path as it stands
	plainInstant bool // it is the least or the greatest of a path cast to timestamp
}

// argument says how an aggregate takes a value from an event.
type argument struct {
	expr     query.Expr
	slot     int  // of a plain path, or of one cast to timestamp; else -1
	zoned    bool // slot is cast to timestamp
	required bool // null makes the record bad
	want     want
}

// want is what an aggregate does with a value.
type want uint8

const (
	wantNothing  want = iota // count(*)
	wantNumber               // text is read as a number
	wantScalar               // kept and compared as it is
	wantPresence             // whether it is there
	wantMembers              // a scalar, or an array of them
)

func newColumn(a *query.Aggregate, opts Options) column {
	c := column{name: a.Name, fn: a.Func, round: a.Round, fixed: -1}
	c.arg = newArgument(a.Arg)
	switch a.Func {
	case query.Sum:
		c.acc, c.arg.want, c.arg.required = sum{}, wantNumber, true
	case query.CountAll:
		c.acc, c.arg.want = count{}, wantNothing
	case query.Count:
		c.acc, c.arg.want = count{}, wantPresence
	case query.Min:
		c.acc, c.arg.want, c.arg.required = extreme{-1}, wantScalar, true
	case query.Max:
		c.acc, c.arg.want, c.arg.required = extreme{1}, wantScalar, true
	case query.Avg:
		c.acc, c.arg.want, c.arg.required = avg{}, wantNumber, true
	case query.First:
		c.placed = true
		c.acc, c.arg.want = ordered{-1}, wantScalar
	case query.Last:
		c.placed = true
		c.acc, c.arg.want = ordered{1}, wantScalar
	case query.MinBy, query.MaxBy:
		c.placed = true
		sign := 1
		if a.Func == query.MinBy {
			sign = -1
		}
		c.acc, c.arg.want, c.arg.required = extremeBy{sign}, wantScalar, true
		c.by = newArgument(a.By)
		c.by.want, c.by.required = wantScalar, true
	case query.CollectSet:
		c.acc, c.arg.want = collectSet{opts.SetLimit}, wantMembers
	}
	c.words = c.acc.words()
	c.plainSum = c.arg.want == wantNumber && c.arg.slot >= 0 && !c.arg.zoned
	c.plainInstant = (a.Func == query.Min || a.Func == query.Max) && c.arg.zoned
	exact := a.Round == nil || *a.Round == query.Type{Name: query.TypeDecimal}
	switch {
	case a.Round != nil && a.Round.Precision > 0:
		c.fixed = a.Round.Scale
	case exact && a.Func != query.Avg && a.Func != query.Count && a.Arg != nil:
		if scale, ok := query.Decimals(a.Arg); ok {
			c.fixed = scale
		}
	}
	return c
}

func newArgument(x query.Expr) argument {
	arg := argument{expr: x, slot: -1}
	if p, ok := x.(*query.Path); ok {
		arg.slot = p.Slot
	}
	if c, ok := x.(*query.Cast); ok && c.Type.Name == query.TypeTimestamp {
		if p, ok := c.X.(*query.Path); ok {
			arg.slot, arg.zoned = p.Slot, true
		}
	}
	return arg
}

// resultType is the type that all values of an argument have, nil where none
// is sure.
func resultType(x query.Expr) *query.Type {
	if t, ok := query.ResultType(x); ok {
		return &t
	}
	return nil
}

// read takes the argument's value from the event in env, into v: absent,
// False, True, Decimal, Text or Timestamp; for members and presence also what
// stands there unconverted. slot is the path at fault, -1 where no single one
// is.
func (a *argument) read(env *query.Env, v *event.Value) (reason event.Reason, slot int) {
	if a.slot < 0 {
		return a.evaluate(env, v)
	}
	src := &env.Values[a.slot]
	if src.Kind <= event.Null {
		v.Kind = event.Null
		switch {
		case !a.required:
			return event.OK, -1
		case src.Kind == event.Missing:
			return event.MissingField, a.slot
		}
		return event.NullField, a.slot
	}
	if a.zoned {
		v.Time, reason = src.Timestamp(env.Zone)
		v.Kind = event.Timestamp
	} else {
		reason = convert(a.want, src, v)
	}
	return reason, a.slot
}

// evaluate is read for an expression.
func (a *argument) evaluate(env *query.Env, v *event.Value) (reason event.Reason, slot int) {
	env.Reset()
	var is event.Value
	if a.required {
		is, reason, slot = query.Required(a.expr, env)
	} else {
		is, reason, slot = query.Optional(a.expr, env)
	}
	if reason != event.OK {
		return reason, slot
	}
	if is.IsNull() {
		v.Kind = event.Null
		return event.OK, -1
	}
	return convert(a.want, &is, v), slot
}

// convert makes v of src, which is not absent, what is wanted of it.
func convert(w want, src, v *event.Value) (reason event.Reason) {
	switch w {
	case wantNumber:
		v.Kind = event.Decimal
		v.Num, reason = src.Decimal()
		return reason
	case wantScalar:
		return convertScalar(src, v)
	case wantPresence:
		if src.Kind >= event.Array {
			return event.WrongType
		}
		v.Kind = src.Kind
		return event.OK
	}
	*v = *src
	return event.OK
}

// convertScalar makes v a scalar to be kept: its numbers are Decimal.
func convertScalar(src, v *event.Value) (reason event.Reason) {
	v.Kind = src.Kind
	switch src.Kind {
	case event.Number:
		v.Kind = event.Decimal
		v.Num, reason = src.Decimal()
		return reason
	case event.Decimal:
		v.Num = src.Num
	case event.Text:
		v.Bytes = src.Bytes
	case event.Timestamp:
		v.Time = src.Time
	case event.Array, event.Object:
		return event.WrongType
	}
	return event.OK
}
