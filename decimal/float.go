package decimal

import "math"

// maxFloatScale keeps 10^-scale well within the range of a float.
const maxFloatScale = 250

// Bounds returns two floats with d between them, some ulps apart: for sieving,
// never for an answer. Beyond 128 bits or maxFloatScale they are infinite.
func (d Decimal) Bounds() (low, high float64) {
	if d.big != nil || d.scale > maxFloatScale {
		return math.Inf(-1), math.Inf(1)
	}
	f := float64(d.hi)*(1<<64) + float64(d.lo)
	if d.hi == int64(d.lo)>>63 {
		f = float64(int64(d.lo))
	}
	f /= math.Pow10(int(d.scale))
	// Four roundings of half an ulp each.
	off := math.Abs(f) * 0x1p-50
	return f - off, f + off
}
