package store_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"tidemark/store"
)

// The estimate is exact for a handful of keys and within a few per cent for
// many, whatever the keys look like.
func TestKeyCountIsClose(t *testing.T) {
	shapes := map[string]func(i int) string{
		"numbers":  func(i int) string { return fmt.Sprint(i) },
		"prefixed": func(i int) string { return fmt.Sprintf("customer/%08d", i) },
		"spaced":   func(i int) string { return fmt.Sprint(i * 1000) },
		"binary":   func(i int) string { return string([]byte{byte(i), byte(i >> 8), byte(i >> 16), 0}) },
	}
	for name, key := range shapes {
		c := store.NewKeyCount()
		n := 0
		for _, upTo := range []int{0, 1, 2, 10, 100, 1000, 5000, 10_000, 20_000, 100_000} {
			for ; n < upTo; n++ {
				c.Add([]byte(key(n)))
			}
			// Three standard errors and a half; few keys hardly ever share a register.
			allowed := math.Max(1, 0.056*float64(n))
			if n <= 10 {
				allowed = 0
			}
			if got := c.Estimate(); math.Abs(float64(got-int64(n))) > allowed {
				t.Errorf("%s: %d keys are estimated as %d", name, n, got)
			}
		}
	}
}

// What is stored depends on the set of keys alone, not on their order or how
// often they come.
func TestKeyCountDependsOnTheSetAlone(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	keys := make([]int, 5000)
	for i := range keys {
		keys[i] = i
	}
	first := store.NewKeyCount()
	for _, k := range keys {
		first.Add(fmt.Append(nil, k))
	}
	second := store.NewKeyCount()
	for range 3 {
		rng.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		for _, k := range keys {
			second.Add(fmt.Append(nil, k))
		}
	}
	if first.Registers() != second.Registers() {
		t.Error("the registers differ")
	}
}
