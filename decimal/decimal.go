// Package decimal holds exact decimal numbers: a 128-bit coefficient with a
// scale, and math/big beyond. Nothing here rounds unless it is asked to, and
// nothing allocates while a coefficient fits in 128 bits.
package decimal

import (
	"errors"
	"math/big"
)

// MaxDigits is the most digits that a number in an event or a document may
// have before and after the decimal point.
const MaxDigits = 38

var (
	// ErrSyntax is returned for text that is not a JSON number.
	ErrSyntax = errors.New("not a number")
	// ErrRange is returned for a number with more than MaxDigits digits before
	// or after the point, written out, zeros at the ends not counted.
	ErrRange = errors.New("more than 38 digits before or after the decimal point")
)

// Decimal is the exact number coefficient × 10^-scale. The zero value is 0.
// A Decimal is a value: operations return new ones and share nothing that
// changes.
type Decimal struct {
	hi    int64    // two's complement 128-bit coefficient, where big is nil
	lo    uint64   // its low half
	scale int32    // decimals, 0 or more
	big   *big.Int // the coefficient where it needs more than 128 bits, else nil
}
