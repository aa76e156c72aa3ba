package bench

import (
	"math"
	"slices"
	"time"
)

// median is the middle one of values, of an even number the mean of the two.
func median(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	if len(s) == 0 {
		return math.NaN()
	}
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// quantile is the least of times that a share of them does not exceed, in
// milliseconds.
func quantile(times []time.Duration, share float64) float64 {
	s := slices.Sorted(slices.Values(times))
	if len(s) == 0 {
		return math.NaN()
	}
	i := int(math.Ceil(share*float64(len(s)))) - 1
	return milliseconds(s[min(max(i, 0), len(s)-1)])
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
