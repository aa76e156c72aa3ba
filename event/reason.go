package event

// Reason says why a record is bad. The reasons are in the order in which they
// are looked for: of several that fit, the first counts.
type Reason uint8

const (
	OK             Reason = iota
	Empty                 // no bytes, or blanks only
	TooLarge              // above the limit for a record, or a key above 1 KiB
	NotUTF8               // also UTF-16
	NotJSON               // not one whole, valid JSON value
	NotObject             // valid JSON, but not an object
	DuplicateField        // a name that the query reads is there twice
	MissingField          // a required path is not there; also an empty key text
	NullField             // a required path is null
	WrongType             // an array or object where a scalar is wanted, and the like
	BadNumber             // text that is no number where a number is wanted
	Overflow              // a number out of range
	BadTimestamp          // no instant of the documented forms
	reasons
)

var reasonNames = [reasons]string{
	"", "empty", "too_large", "not_utf8", "not_json", "not_object", "duplicate_field",
	"missing_field", "null_field", "wrong_type", "bad_number", "overflow", "bad_timestamp",
}

// NumReasons is one more than the largest Reason.
const NumReasons = int(reasons)

// String is the reason's name in metrics, logs, dead letters and answers.
func (r Reason) String() string { return reasonNames[r] }

// ReasonNamed returns the reason with the name, false where there is none.
func ReasonNamed(name string) (Reason, bool) {
	for r, n := range reasonNames {
		if n == name && r != 0 {
			return Reason(r), true
		}
	}
	return OK, false
}
