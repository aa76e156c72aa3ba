package decimal

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

func TestBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := New(rapid.Int64().Draw(t, "hi"), rapid.Uint64().Draw(t, "lo"), rapid.Int32Range(0, maxFloatScale).Draw(t, "scale"))
		if rapid.Bool().Draw(t, "small") {
			d = New(0, d.lo, d.scale%8)
		}
		if rapid.Bool().Draw(t, "negative") {
			d = d.Neg()
		}
		low, high := d.Bounds()
		if _, _, _, ok := d.Parts(); !ok { // -2^127, negated
			if !math.IsInf(low, -1) || !math.IsInf(high, 1) {
				t.Fatalf("%v is within %g and %g", d, low, high)
			}
			return
		}
		exact, ok := new(big.Rat).SetString(d.String())
		if !ok {
			t.Fatal(d)
		}
		for _, c := range []struct {
			f    float64
			sign int
		}{{low, 1}, {high, -1}} {
			if math.IsInf(c.f, 0) {
				t.Fatalf("%v is within %g and %g", d, low, high)
			}
			if got := exact.Cmp(new(big.Rat).SetFloat64(c.f)); got != 0 && got != c.sign {
				t.Fatalf("%v is not within %g and %g", d, low, high)
			}
		}
		if off := high - low; off > math.Abs(low)*1e-14 {
			t.Fatalf("%v: %g and %g are far apart", d, low, high)
		}
	})
	beyond := []Decimal{
		New(math.MaxInt64, math.MaxUint64, 0).Mul(FromInt64(10)), New(math.MinInt64, 0, 0).Neg(), New(0, 1, maxFloatScale+1),
	}
	for _, d := range beyond {
		if low, high := d.Bounds(); !math.IsInf(low, -1) || !math.IsInf(high, 1) {
			t.Errorf("%v is within %g and %g", d, low, high)
		}
	}
}
