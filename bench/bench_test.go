package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"testing"
	"time"
)

// measurement is one part of the table.
type measurement struct {
	name string
	run  func(t *testing.T, b *bench, s *section)
}

// measurements are all of them, in the order in which they are made: those that
// leave a state as it was come before those that go on from it.
var measurements = []measurement{
	{"drain", measureDrain},
	{"users", measureUsers},
	{"growth", measureGrowth},
	{"start", measureStart},
	{"snapshots", measureSnapshots},
	{"top", measureTop},
	{"reads", measureReads},
	{"freshness", measureFreshness},
	{"handover", measureHandover},
	{"history", measureHistory},
	{"search", measureSearch},
}

// bench is one run of the harness.
type bench struct {
	dir    string // for everything that is made on the way
	binary string
	size   sizes
	broker *broker
	filled map[int]*filled
	names  int

	searching int // process of the search node, 0 without one
}

// TestMain builds the program that is measured, or is one of the yardsticks
// that run in a process of their own.
func TestMain(m *testing.M) {
	if name := os.Getenv(yardstickVariable); name != "" {
		if err := yardsticks[name](os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// newBench builds the program and starts the broker; both end with the test.
// The folder dir, "" for one of its own, takes states, logs and the broker's
// data.
func newBench(t *testing.T, size sizes, dir, which string) *bench {
	t.Helper()
	dir, err := os.MkdirTemp(dir, "tidemark-bench-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	// The harness makes millions of records; its garbage would be collected at
	// the cost of what is measured.
	gc := debug.SetGCPercent(400)
	t.Cleanup(func() { debug.SetGCPercent(gc) })
	b := &bench{dir: dir, binary: filepath.Join(dir, "tidemark"), size: size, filled: map[int]*filled{}}
	args := append([]string{"build"}, buildFlags...)
	if out, err := exec.Command("go", append(args, "-o", b.binary, "../cmd/tidemark")...).CombinedOutput(); err != nil {
		t.Fatalf("build the program: %v\n%s", err, out)
	}
	b.broker = startBroker(t, filepath.Join(dir, "kafka"), which)
	return b
}

// measure makes one measurement; what fails in it fails the test, and the
// section says so.
func (b *bench) measure(t *testing.T, m measurement) section {
	s := section{Name: m.name, Machine: machine(), Broker: b.broker.kind, Sizes: b.size.String(), Full: b.size == full, When: time.Now()}
	s.Failed = !t.Run(m.name, func(t *testing.T) {
		began := time.Now()
		m.run(t, b, &s)
		b.say("%s: done in %s", m.name, time.Since(began).Round(time.Second))
	})
	return s
}

// say prints a line of progress.
func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}

// name is one that nothing else has in this run.
func (b *bench) name(kind string) string {
	b.names++
	return fmt.Sprintf("%s-%d", kind, b.names)
}

// span is that of a phase under load.
func (b *bench) span() time.Duration { return time.Duration(b.size.Seconds) * time.Second }

// pace is the time that a point of the growth takes.
func (b *bench) pace() time.Duration { return time.Duration(b.size.Pace) * time.Second }

// filled is a topic that holds an event of each of so many users, and a state
// with a snapshot of it.
type filled struct {
	users int
	set   settings
	sales *sales
}

// fillUp returns the topic and state of so many users; the first call makes
// them.
func (b *bench) fillUp(t *testing.T, users int) *filled {
	t.Helper()
	if f := b.filled[users]; f != nil {
		return f
	}
	topic := b.name("each")
	f := &filled{users: users, sales: newSales(users, each, 3), set: settings{
		topic: topic, group: topic, dir: filepath.Join(b.dir, topic, "state"), snapshots: filepath.Join(b.dir, topic, "snapshots"),
	}}
	if err := os.MkdirAll(f.set.snapshots, 0o755); err != nil {
		t.Fatal(err)
	}
	b.say("making a state of %d users", users)
	b.broker.createTopic(t, topic, partitions)
	b.fill(t, topic, f.sales, users)
	s := b.newService(t, f.set)
	s.start(t)
	s.folds(t, 10*time.Minute, 50*time.Millisecond, int64(users))
	s.publish(t)
	s.stop(t)
	b.filled[users] = f
	return f
}
