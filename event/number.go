package event

import "tidemark/decimal"

// Decimal reads v as an exact number: a JSON number, a text that is exactly a
// JSON number, or a number that an expression made. Other text is BadNumber,
// more than decimal.MaxDigits digits before or after the point Overflow,
// anything else WrongType; MissingField and NullField for what is not there.
func (v *Value) Decimal() (decimal.Decimal, Reason) {
	switch v.Kind {
	case Number, Text:
		d, err := decimal.Parse(v.Bytes)
		switch err {
		case nil:
			return d, OK
		case decimal.ErrRange:
			return decimal.Decimal{}, Overflow
		}
		return decimal.Decimal{}, BadNumber
	case Decimal:
		return v.Num, OK
	}
	return decimal.Decimal{}, v.unread()
}

// DecimalInto is Decimal into d, which is undefined where the Reason is not OK.
// Loops that make many numbers copy less with it.
func (v *Value) DecimalInto(d *decimal.Decimal) (reason Reason) {
	if v.Kind == Number && d.SetShort(v.Bytes) {
		return OK
	}
	*d, reason = v.Decimal()
	return reason
}

// unread is the reason of a value that is not of a wanted kind.
func (v *Value) unread() Reason {
	switch v.Kind {
	case Missing:
		return MissingField
	case Null:
		return NullField
	}
	return WrongType
}
