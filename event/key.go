package event

import "tidemark/decimal"

// AppendKey appends the text of a key: the plain digits of a number (23 for
// 23, 23.0 and 2.3e1), a text as it is. number says which of the two it was.
// Empty text is MissingField like no field at all, a null NullField, a number
// out of range Overflow, anything else WrongType; out is dst then. The length
// is the caller's to bound.
func AppendKey(dst []byte, v *Value) (out []byte, number bool, reason Reason) {
	switch v.Kind {
	case Text:
		if len(v.Bytes) == 0 {
			return dst, false, MissingField
		}
		return append(dst, v.Bytes...), false, OK
	case Number:
		if plainInteger(v.Bytes) {
			return append(dst, v.Bytes...), true, OK
		}
		fallthrough
	case Decimal:
		d, reason := v.Decimal()
		if reason != OK {
			return dst, false, reason
		}
		return d.AppendText(dst), true, OK
	case Timestamp:
		return v.Time.AppendText(dst), false, OK
	}
	return dst, false, v.unread()
}

// PlainKey is the key of v where the record holds it as it is: v's own Bytes,
// which are what AppendKey would append. ok is false for all else.
func PlainKey(v *Value) (key []byte, ok bool) {
	switch v.Kind {
	case Text:
		return v.Bytes, len(v.Bytes) > 0
	case Number:
		return v.Bytes, plainInteger(v.Bytes)
	}
	return nil, false
}

// plainInteger says whether a JSON number is written as its key is: digits
// within the range and, of those below 0, not -0.
func plainInteger(number []byte) bool {
	digits := number
	if digits[0] == '-' {
		digits = digits[1:]
		if digits[0] == '0' {
			return false
		}
	}
	if len(digits) > decimal.MaxDigits {
		return false
	}
	for _, c := range digits {
		if c-'0' > 9 {
			return false
		}
	}
	return true
}
