package event

import "tidemark/decimal"

// Kind says what a Value holds.
type Kind uint8

const (
	Missing   Kind = iota // the path leads nowhere in this event
	Null                  // JSON null, or an expression's NULL
	False                 // false
	True                  // true
	Number                // a JSON number as text in Bytes, not yet converted
	Decimal               // a number that an expression or a cast made, in Num
	Text                  // a JSON text, unescaped, in Bytes
	Timestamp             // an instant that a cast made, in Time
	Array                 // a JSON array, whole and valid, in Bytes
	Object                // a JSON object, whole and valid, in Bytes
)

// Value is one field of an event, or what an expression made of fields.
//
// Bytes points into the record, or into the scanner's own buffer where a text
// had escapes: it is valid until the next Scan and copied by whoever keeps it.
type Value struct {
	Kind  Kind
	Bytes []byte          // Number, Text, Array, Object
	Num   decimal.Decimal // Decimal
	Time  Time            // Timestamp
}

// IsNull says whether v is NULL in SQL's sense: missing or null.
func (v *Value) IsNull() bool { return v.Kind <= Null }

// Time is an instant in UTC with nanoseconds, of the years 0000 to 9999.
type Time struct {
	Sec  int64 // since 1970-01-01T00:00:00Z
	Nsec int32 // 0 to 999,999,999
}
