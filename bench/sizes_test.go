package bench

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
)

// sizes say how much is measured.
type sizes struct {
	Events    int // of a drain
	Users     int // whom the events of the plain measurements are of
	Few       int // the lesser end of the comparison by users
	Many      int // its greater end, and the large state
	Documents int // of a history
	Batches   int // of the growth
	Batch     int // events in one of them
	Pace      int // seconds for each point of the growth
	Offered   int // events a second while freshness is measured
	Load      int // events a second while reads are measured
	Seconds   int // of each phase under load
	Rest      int // seconds under load before reads are measured
	Runs      int // of what is repeated
}

// full is what the figures in docs/performance.md are made with.
var full = sizes{
	Events: 10_000_000, Users: 1_000_000, Few: 100_000, Many: 10_000_000, Documents: 1_000_000,
	Batches: 720, Batch: 10_000, Pace: 30, Offered: 20_000, Load: 200_000, Seconds: 10, Rest: 75, Runs: 3,
}

// small takes seconds: it tries the harness.
var small = sizes{
	Events: 20_000, Users: 2_000, Few: 200, Many: 4_000, Documents: 2_000,
	Batches: 8, Batch: 500, Pace: 1, Offered: 1_000, Load: 2_000, Seconds: 1, Rest: 1, Runs: 1,
}

// variables are the names by which the environment changes a size.
func (s *sizes) variables() map[string]*int {
	return map[string]*int{
		"BENCH_EVENTS": &s.Events, "BENCH_USERS": &s.Users, "BENCH_FEW_USERS": &s.Few, "BENCH_MANY_USERS": &s.Many,
		"BENCH_DOCUMENTS": &s.Documents, "BENCH_BATCHES": &s.Batches, "BENCH_BATCH": &s.Batch, "BENCH_PACE": &s.Pace,
		"BENCH_OFFERED": &s.Offered, "BENCH_LOAD": &s.Load, "BENCH_SECONDS": &s.Seconds, "BENCH_REST": &s.Rest,
		"BENCH_RUNS": &s.Runs,
	}
}

// others are the variables that are no sizes.
var others = []string{"BENCH_ONLY", "BENCH_BROKER", "BENCH_DIR", "BENCH_RESULTS", "BENCH_PACKAGES"}

// fromEnvironment is s with what the environment says in its place. A name with the
// same beginning that means nothing is an error: it is a mistyped one.
func (s sizes) fromEnvironment() (sizes, error) {
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		if strings.HasPrefix(name, "BENCH_") && s.variables()[name] == nil && !slices.Contains(others, name) {
			known := append(slices.Collect(maps.Keys(s.variables())), others...)
			slices.Sort(known)
			return s, fmt.Errorf("%s means nothing here: there are %s", name, strings.Join(known, ", "))
		}
	}
	switch which := os.Getenv("BENCH_BROKER"); which {
	case "", "kafka", "memory":
	default:
		return s, fmt.Errorf("BENCH_BROKER=%s: there are kafka and memory", which)
	}
	for name, at := range s.variables() {
		text := os.Getenv(name)
		if text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return s, fmt.Errorf("%s=%s is not a number above 0", name, text)
		}
		*at = n
	}
	if s.Batches < growthPoints {
		return s, fmt.Errorf("BENCH_BATCHES=%d: the growth has %d points, each wants a batch", s.Batches, growthPoints)
	}
	return s, nil
}

// String shows the sizes as the environment would set them, in a fixed order.
func (s sizes) String() string {
	var parts []string
	for name, n := range s.variables() {
		parts = append(parts, fmt.Sprintf("%s=%d", name, *n))
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

// chosen are the measurements that BENCH_ONLY names, all of them without it.
func chosen(only string) ([]measurement, error) {
	if only == "" {
		return measurements, nil
	}
	var names []string
	for _, m := range measurements {
		names = append(names, m.name)
	}
	var out []measurement
	for name := range strings.SplitSeq(only, ",") {
		i := slices.Index(names, strings.TrimSpace(name))
		if i < 0 {
			return nil, fmt.Errorf("BENCH_ONLY names %q: there are %s", name, strings.Join(names, ", "))
		}
		out = append(out, measurements[i])
	}
	return out, nil
}
