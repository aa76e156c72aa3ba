//go:build integration

package integration

import (
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tidemark/internal/crashpoint"
)

// crashing is the program built so that it can be killed at a name.
var crashing = sync.OnceValues(func() (string, error) {
	path := filepath.Join(filepath.Dir(binary), "tidemark-crashing")
	out, err := exec.Command("go", "build", "-race", "-tags", "crashpoints", "-o", path, "../cmd/tidemark").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("build the binary that crashes: %w\n%s", err, out)
	}
	return path, err
})

// death is the end of one run: at the n-th time that it comes by the point.
type death struct {
	crashpoint.Point
	n    int
	lost bool // its disk is lost before
}

func (d death) String() string {
	if d.lost {
		return fmt.Sprintf("%s:%d after its disk was lost", d.Name, d.n)
	}
	return fmt.Sprintf("%s:%d", d.Name, d.n)
}

// lives is a service that is killed at one point after another, goes on each
// time on the disk that it left, or on an empty one, and at the end has every
// total right.
type lives struct {
	*service
	topic   string
	letters string
	oracle  *oracle
	feed    func(records int)
}

const documents = 1500

func newLives(t *testing.T, seed uint64, withHistory bool) *lives {
	path, err := crashing()
	if err != nil {
		t.Fatal(err)
	}
	l := &lives{topic: newTopic(t, 4), letters: filepath.Join(t.TempDir(), "letters"), oracle: newOracle(seed, 400)}
	rest := sharedSnapshots(t, "250ms, keep: 1") + "\nevents: {dead_letter: {file: " + l.letters + "}}\n"
	if withHistory {
		file := filepath.Join(t.TempDir(), "history.ndjson")
		if err := os.WriteFile(file, []byte(l.oracle.history(documents)), 0o600); err != nil {
			t.Fatal(err)
		}
		rest += history(file)
	}
	l.service = newService(t, settings{
		query: salesQuery(l.topic), binary: path, rest: rest,
		// A static member comes back to its partitions without a wait.
		kafka: "group.instance.id: " + unique(t, "member") + "\nsession.timeout.ms: 10000",
		state: "apply_records: 500\napply_interval: 60ms\nmemory: 16MiB",
	})
	cl := kafka(t, smallBatches)
	l.feed = func(records int) { l.oracle.feed(t, cl, l.topic, records) }
	return l
}

// history makes documents and takes them into account.
func (o *oracle) history(n int) string {
	var out strings.Builder
	for user := range n {
		t := &total{products: map[int]bool{user % 40: true}, latest: firstSale - o.rnd.Int64N(1e9), sales: o.rnd.Int64N(50)}
		t.revenue.Set(big.NewInt(o.rnd.Int64N(1e15)))
		t.points.Set(big.NewInt(o.rnd.Int64N(1e6)))
		o.totals[user] = t
		fmt.Fprintf(&out, `{"userId":%d,"latestSaleTimestamp":"%s","totalRevenue":%s,"totalPoints":%d,"productList":[%d],"sales":%d}`+"\n",
			user, timestamp(t.latest), decimal(&t.revenue, false), &t.points, user%40, t.sales)
	}
	return out.String()
}

// deathLimit is how long a run that comes by its point is given.
const deathLimit = 45 * time.Second

// die is one run to its death. It returns whether it came by its point so often.
func (l *lives) die(d death) bool {
	t := l.t
	t.Helper()
	if d.lost {
		if err := os.RemoveAll(l.dir); err != nil {
			t.Fatal(err)
		}
	}
	l.env = []string{fmt.Sprintf("TIDEMARK_CRASH=%s:%d", d.Name, d.n)}
	l.feed(300)
	l.start()
	limit, tick := time.NewTimer(deathLimit), time.NewTicker(80*time.Millisecond)
	defer limit.Stop()
	defer tick.Stop()
	leaving := false
	for fed := 0; ; fed++ {
		select {
		case <-l.exited:
			return l.ended(d)
		case <-limit.C:
			l.kill()
			return false
		case <-tick.C:
		}
		if leaving {
			continue
		}
		if fed < 20 {
			l.feed(100)
		} else {
			l.feed(5) // it goes on, and whoever is slow catches up
		}
		if d.Stage == crashpoint.HandingOver {
			if live, err := l.live(); err == nil && len(live) == 4 {
				l.signal(syscall.SIGTERM)
				leaving = true
			}
		}
	}
}

// ended says whether the run ended by the death it was to die.
func (l *lives) ended(d death) bool {
	l.t.Helper()
	status, ok := l.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() && status.Signal() == syscall.SIGKILL {
		return true
	}
	if d.Stage != crashpoint.HandingOver || l.cmd.ProcessState.ExitCode() != 0 {
		l.t.Fatalf("%s: it ended with %s:\n%s", d, l.cmd.ProcessState, l.tail())
	}
	return false
}

// settle is one more run, without a death, after which everything is compared.
func (l *lives) settle() {
	l.t.Helper()
	l.env = nil
	l.feed(300)
	l.start()
	l.ready()
	l.caughtUp(l.topic)
	l.oracle.check(l.t, l.service)
	l.stop()
	l.checkLetters()
}

// checkLetters looks for every bad record in the dead letter: once or, where a
// crash took the count back and not the letter, more often.
func (l *lives) checkLetters() {
	l.t.Helper()
	text, err := os.ReadFile(l.letters)
	if err != nil {
		l.t.Fatal(err)
	}
	type place struct {
		Partition int32
		Offset    int64
	}
	seen := map[place]bool{}
	for line := range strings.Lines(string(text)) {
		var at place
		if err := json.Unmarshal([]byte(line), &at); err != nil {
			l.t.Errorf("a line of the dead letter is %q: %v", line, err)
		}
		seen[at] = true
	}
	if int64(len(seen)) != l.oracle.bad {
		l.t.Errorf("%d bad records in the dead letter, want %d", len(seen), l.oracle.bad)
	}
}

// The process dies at every name of the table of crash points, each time under
// load, and goes on; at the end every total and count is right. A run that does
// not come by its name fails: then the table says what is not so.
//
// With SOAK_POINTS=all, as in `make soak`, each death is also tried by itself,
// at the first, the second and a later time.
func TestS16CrashAtEveryPoint(t *testing.T) {
	seed := uint64(fromEnv(t, "SOAK_SEED", 1))
	var withHistory, without []death
	rnd := rand.New(rand.NewPCG(seed, 4))
	for _, p := range crashpoint.Points {
		d := death{Point: p, n: 1}
		switch p.Stage {
		case crashpoint.Seeding:
			withHistory = append(withHistory, d)
		case crashpoint.Restoring:
			d.lost = true
			withHistory = append(withHistory, d)
		default:
			d.lost = p.Stage == crashpoint.Working && rnd.IntN(3) == 0
			without = append(without, d)
		}
	}
	for name, deaths := range map[string][]death{"history": withHistory, "stream": without} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLives(t, seed, name == "history")
			for _, d := range deaths {
				began := time.Now()
				if !l.die(d) {
					t.Errorf("it never came by %q:\n%s", d.Name, l.tail())
				}
				t.Logf("died at %s after %s", d, time.Since(began).Round(10*time.Millisecond))
			}
			l.settle()
		})
	}
	switch all := os.Getenv("SOAK_POINTS"); all {
	case "":
	case "all":
		for _, d := range append(withHistory, without...) {
			for _, n := range []int{1, 2, 3 + rnd.IntN(8)} {
				d := d
				if d.n = n; n == 1 || !d.Once {
					t.Run(d.String(), func(t *testing.T) {
						t.Parallel()
						dieAlone(t, seed, d)
					})
				}
			}
		}
	default:
		t.Fatalf("SOAK_POINTS is %q, want all or nothing", all)
	}
}

// dieAlone lets a service live, where it is to have lived before, then die
// once, and go on.
func dieAlone(t *testing.T, seed uint64, d death) {
	l := newLives(t, seed, d.Stage <= crashpoint.Restoring)
	if d.lost {
		l.feed(1000)
		l.start()
		l.ready()
		l.caughtUp(l.topic)
		l.stop()
	}
	if !l.die(d) {
		if d.n == 1 {
			t.Errorf("it never came by %q:\n%s", d.Name, l.tail())
		}
		t.Logf("it came by %q less than %d times", d.Name, d.n)
	}
	l.settle()
}
