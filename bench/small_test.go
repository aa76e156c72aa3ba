package bench

import (
	"math"
	"os"
	"strings"
	"testing"
)

// TestSmall makes every measurement at a small size on the broker in memory.
// What they check on the way is checked here too: that totals are exact, that
// there are snapshots, that nothing unchanged is written. The figures say
// nothing; that there are some is what is wanted.
func TestSmall(t *testing.T) {
	b := newBench(t, small, "", "memory")
	var sections []section
	for _, m := range measurements {
		s := b.measure(t, m)
		if s.Failed {
			continue // its own test says why
		}
		if len(s.Figures) == 0 {
			t.Errorf("%s gives no figure", m.name)
		}
		for _, f := range s.Figures {
			v := median(f.Values)
			if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
				t.Errorf("%s: %s is %v", m.name, f.What, f.Values)
			}
			if strings.Contains(f.What, "objects written") && v > 0 {
				t.Errorf("%s is %v", f.What, v)
			}
		}
		sections = append(sections, s)
	}
	text := table(sections)
	for _, want := range []string{"no real Kafka", "do not quote", "CPU-s/M", "union and reduce"} {
		if !strings.Contains(text, want) {
			t.Errorf("the table does not say %q:\n%s", want, text)
		}
	}
	t.Logf("\n%s", text)
}

func TestChosen(t *testing.T) {
	some, err := chosen("reads, drain")
	if err != nil || len(some) != 2 || some[0].name != "reads" || some[1].name != "drain" {
		t.Errorf("chosen: %v %v", some, err)
	}
	if _, err := chosen("reeds"); err == nil || !strings.Contains(err.Error(), "handover") {
		t.Errorf("an unknown name gives %v", err)
	}
}

func TestSizesFromTheEnvironment(t *testing.T) {
	t.Setenv("BENCH_EVENTS", "1234")
	if s, err := full.fromEnvironment(); err != nil || s.Events != 1234 || s.Users != full.Users {
		t.Errorf("%v %v", s, err)
	}
	t.Setenv("BENCH_USERS", "-1")
	if _, err := full.fromEnvironment(); err == nil {
		t.Error("a negative number of users was taken")
	}
	t.Setenv("BENCH_USERS", "")
	t.Setenv("BENCH_EVENT", "1234")
	if _, err := full.fromEnvironment(); err == nil || !strings.Contains(err.Error(), "BENCH_EVENT ") || !strings.Contains(err.Error(), "BENCH_EVENTS") {
		t.Errorf("a mistyped name gives %v", err)
	}
	if err := os.Unsetenv("BENCH_EVENT"); err != nil { // the test's end sets it as it was
		t.Fatal(err)
	}
	t.Setenv("BENCH_BROKER", "kafak")
	if _, err := full.fromEnvironment(); err == nil || !strings.Contains(err.Error(), "kafak") {
		t.Errorf("a mistyped broker gives %v", err)
	}
}
