package bench

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// profiler is laid over the program's source in a build of its own: it writes a
// CPU profile to the file that the environment names, and ends it on SIGUSR1.
// What is measured otherwise is built without it.
const profiler = `package main

import (
	"os"
	"os/signal"
	"runtime/pprof"
	"syscall"
)

func init() {
	path := os.Getenv("BENCH_CPU_PROFILE")
	if path == "" {
		return
	}
	f, err := os.Create(path)
	if err == nil {
		err = pprof.StartCPUProfile(f)
	}
	if err != nil {
		panic(err)
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGUSR1)
	go func() {
		<-end
		pprof.StopCPUProfile()
		if err := f.Close(); err != nil {
			panic(err)
		}
		if err := os.Rename(path, path+".done"); err != nil {
			panic(err)
		}
	}()
}
`

// buildProfiled builds the program with the profiler, once.
func (b *bench) buildProfiled(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(b.dir, "tidemark-profiled")
	if _, err := os.Stat(binary); err == nil {
		return binary
	}
	source, overlay := filepath.Join(b.dir, "profiler.go"), filepath.Join(b.dir, "overlay.json")
	at, err := filepath.Abs(filepath.Join("..", "cmd", "tidemark", "profiler.go"))
	if err != nil {
		t.Fatal(err)
	}
	over, err := json.Marshal(map[string]map[string]string{"Replace": {at: source}})
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string][]byte{source: []byte(profiler), overlay: over} {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	args := append([]string{"build", "-overlay", overlay, "-o", binary}, buildFlags...)
	if out, err := exec.Command("go", append(args, "../cmd/tidemark")...).CombinedOutput(); err != nil {
		t.Fatalf("build the program with a profiler: %v\n%s", err, out)
	}
	return binary
}

// profile drains the n events of a topic and returns the share of the CPU that
// each part took, in percent.
func (b *bench) profile(t *testing.T, topic string, n int) map[string]float64 {
	t.Helper()
	profiled := *b
	profiled.binary = b.buildProfiled(t)
	path := filepath.Join(b.dir, b.name("cpu"))
	t.Setenv("BENCH_CPU_PROFILE", path)
	svc := profiled.newService(t, settings{topic: topic, group: b.name("profile")})
	svc.start(t)
	svc.folds(t, 20*time.Minute, 50*time.Millisecond, int64(n))
	svc.publish(t)
	if err := svc.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	svc.until(t, time.Minute, 10*time.Millisecond, "the profile is written", func() error {
		_, err := os.Stat(path + ".done")
		return err
	})
	svc.stop(t)
	out, err := exec.Command("go", "tool", "pprof", "-traces", profiled.binary, path+".done").Output()
	if err != nil {
		t.Fatalf("read the profile: %v", err)
	}
	shares, err := sharesOf(out)
	if err != nil {
		t.Fatalf("read the profile: %v", err)
	}
	return shares
}

// part is a row of where the time goes. A stack is of the first part of which
// it holds a mark; marks of the own parts are looked for from the innermost
// frame outward, so that what a part has done elsewhere is its own.
type part struct {
	name  string
	marks []string
}

// wholes take a stack wherever in it their mark is.
var wholes = []part{
	{"Go's collector", []string{"runtime.gcBgMarkWorker", "runtime.gcAssistAlloc", "runtime.bgsweep", "runtime.bgscavenge", "runtime.gcStart"}},
	{"snapshots", []string{"tidemark/snapshot.", ").Checkpoint"}},
	{"flushes and compactions", []string{"pebble/v2.(*DB).compact", "pebble/v2.(*DB).flush", "pebble/v2.(*DB).runCompaction"}},
	{"answers", []string{"tidemark/api.", "net/http."}},
}

// Sorting hands each total over to writing: a frame of the one is around those of
// the other.
var (
	sorting = part{"sorting and encoding a delta", []string{"tidemark/aggregator.(*Delta).Sorted", "tidemark/aggregator.(*Delta).sort",
		"tidemark/aggregator.(*Delta).yield", "tidemark/aggregator.(*Delta).warm", "tidemark/aggregator.radixSort"}}
	writing = part{"writing batches", []string{"cockroachdb/pebble", "tidemark/store."}}
)

// inners take a stack whose innermost frame with a mark is theirs.
var inners = []part{
	{"numbers and instants", []string{"tidemark/decimal.", "tidemark/event.ParseTime", "tidemark/event.(*Value).Timestamp", "tidemark/event.(*Value).Decimal", "tidemark/event.days"}},
	{"scanning JSON", []string{"tidemark/event."}},
	sorting,
	{"finding and adding", []string{"tidemark/aggregator.", "tidemark/query."}},
	writing,
	{"fetching", []string{"tidemark/source/kafka.", "IBM/sarama"}},
}

const elsewhere = "the runtime and the rest"

// partOf says whose a stack is; its innermost frame comes first.
func partOf(stack []string) string {
	for _, p := range wholes {
		if slices.ContainsFunc(stack, p.has) {
			return p.name
		}
	}
	// What sorting calls is sorting's, up to where it hands over.
	for _, frame := range stack {
		if writing.has(frame) {
			break
		}
		if sorting.has(frame) {
			return sorting.name
		}
	}
	for _, frame := range stack {
		for _, p := range inners {
			if p.has(frame) {
				return p.name
			}
		}
	}
	return elsewhere
}

// has says whether a frame holds a mark of the part.
func (p part) has(frame string) bool {
	return slices.ContainsFunc(p.marks, func(mark string) bool { return strings.Contains(frame, mark) })
}

// sharesOf reads what `go tool pprof -traces` prints: blocks of a time with the
// innermost frame, and the other frames beneath.
func sharesOf(traces []byte) (map[string]float64, error) {
	sums, all := map[string]float64{}, 0.0
	var stack []string
	var took float64
	end := func() {
		if took > 0 {
			sums[partOf(stack)] += took
			all += took
		}
		stack, took = nil, 0
	}
	s := bufio.NewScanner(bytes.NewReader(traces))
	s.Buffer(nil, 1<<20)
	inside := false
	for s.Scan() {
		line := strings.TrimSpace(s.Text())
		if strings.HasPrefix(line, "-----------+") {
			end()
			inside = true
			continue
		}
		if !inside || line == "" {
			continue
		}
		if first, rest, ok := strings.Cut(line, " "); ok && took == 0 && len(stack) == 0 {
			d, err := time.ParseDuration(first)
			if err != nil {
				continue // a label of the sample
			}
			took, line = d.Seconds(), strings.TrimSpace(rest)
		}
		stack = append(stack, line)
	}
	end()
	for name := range sums {
		sums[name] *= 100 / all
	}
	return sums, s.Err()
}

// sharesTable shows the shares of two drains beside each other, with what they
// are of an event's cost.
func sharesTable(shares map[spread]map[string]float64, costs map[spread]float64) string {
	var b strings.Builder
	b.WriteString("Where the CPU of a drain goes, from a profile of a run of its own (its shares, and of the cost above what they make in nanoseconds of an event):\n\n| part | zipf | | uniform | |\n|---|---|---|---|---|\n")
	names := []string{elsewhere}
	for _, p := range wholes {
		names = append([]string{p.name}, names...)
	}
	for i := len(inners) - 1; i >= 0; i-- {
		names = append([]string{inners[i].name}, names...)
	}
	for _, name := range names {
		fmt.Fprintf(&b, "| %s |", name)
		for _, d := range drains {
			share := shares[d.spread][name]
			fmt.Fprintf(&b, " %.0f | %.0f %% |", costs[d.spread]*1000*share/100, share)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestSharesOfAProfile(t *testing.T) {
	traces := `File: tidemark
Type: cpu
-----------+-------------------------------------------------------
      30ms   runtime.memmove
             tidemark/event.(*Scanner).Scan
             tidemark/aggregator.(*Decoder).Fold
-----------+-------------------------------------------------------
      10ms   tidemark/aggregator.(*Total).Merge
             tidemark/store.(*merger).Finish
             github.com/cockroachdb/pebble/v2.(*DB).compact1
-----------+-------------------------------------------------------
     100ms   tidemark/decimal.Decimal.Append
             tidemark/aggregator.sum.append
             tidemark/aggregator.(*Delta).yield
             tidemark/store.(*Partition).Apply
-----------+-------------------------------------------------------
     800ms   github.com/cockroachdb/pebble/v2.(*Batch).Merge
             tidemark/store.(*Partition).Apply-range1
             tidemark/aggregator.(*Delta).yield
             tidemark/store.(*Partition).Apply
-----------+-------------------------------------------------------
      1.06s   runtime.futex
-----------+-------------------------------------------------------
`
	got, err := sharesOf([]byte(traces))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{"scanning JSON": 3. / 2, "flushes and compactions": 1. / 2, "sorting and encoding a delta": 10. / 2,
		"writing batches": 80. / 2, elsewhere: 106. / 2} {
		if d := got[name] - want; d > 1e-6 || d < -1e-6 {
			t.Errorf("%s has %v %%, want %v", name, got[name], want)
		}
	}
}
