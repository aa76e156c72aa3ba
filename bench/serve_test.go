package bench

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tidemark/internal/testkit/servers"
)

// settings are what a measurement says of a configuration. All else has its
// default, but that the service listens on a free port.
type settings struct {
	topic     string
	group     string
	dir       string // state.dir; empty: one of the service's own
	snapshots string // folder of the snapshot store; empty: inside state.dir
	rest      string // more sections
}

// query is the definition that is measured.
const query = `SELECT userId,
         count(*)                              AS sales,
         sum(totalRevenue)                     AS totalRevenue,
         sum(totalPoints)                      AS totalPoints,
         CAST(max(saleTimestamp) AS timestamp) AS latestSaleTimestamp
  FROM "%s"
  GROUP BY userId`

// service is one run after another of `tidemark serve` on one configuration.
type service struct {
	b       *bench
	url     string
	address string // host:port
	file    string // the configuration
	log     string
	dir     string // the state

	cmd     *exec.Cmd
	began   time.Time
	exited  chan struct{}
	highest atomic.Int64 // the most memory of this run, in KiB
}

// newService writes a configuration and starts nothing.
func (b *bench) newService(t testing.TB, set settings) *service {
	t.Helper()
	ports, err := servers.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	home, err := os.MkdirTemp(b.dir, "service-")
	if err != nil {
		t.Fatal(err)
	}
	s := &service{b: b, address: fmt.Sprintf("127.0.0.1:%d", ports[0]), dir: set.dir,
		file: filepath.Join(home, "tidemark.yaml"), log: filepath.Join(home, "log")}
	s.url = "http://" + s.address
	if s.dir == "" {
		s.dir = filepath.Join(home, "state")
	}
	var text strings.Builder
	fmt.Fprintf(&text, "query: |\n  "+query+"\n", set.topic)
	fmt.Fprintf(&text, "kafka: {bootstrap.servers: ['%s'], group.id: '%s'}\n", b.broker.address, set.group)
	fmt.Fprintf(&text, "state: {dir: '%s'}\nhttp: {listen: '%s'}\nlog: {format: json}\n", s.dir, s.address)
	if set.snapshots != "" {
		fmt.Fprintf(&text, "snapshots: {url: 'file://%s'}\n", set.snapshots)
	}
	text.WriteString(set.rest)
	if err := os.WriteFile(s.file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if s.running() {
			s.cmd.Process.Kill() // the measurement failed: it says why
			<-s.exited
		}
		if t.Failed() {
			t.Logf("log of %s:\n%s", s.url, s.tail())
		}
	})
	return s
}

// start starts a run.
func (s *service) start(t testing.TB) {
	t.Helper()
	out, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command(s.b.binary, "serve", "-c", s.file)
	cmd.Stdout, cmd.Stderr = out, out
	s.began = time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		cmd.Wait() // how it ended is in its state
	}()
	s.cmd, s.exited = cmd, exited
	s.highest.Store(0)
	go s.watch(cmd.Process.Pid, exited)
}

// watch keeps the most memory that the run has had: the kernel forgets it with
// the process, and what it hands to the parent counts the parent's own.
func (s *service) watch(pid int, exited <-chan struct{}) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		s.highest.Store(max(s.highest.Load(), int64(peak(pid)*1024)))
		select {
		case <-exited:
			return
		case <-tick.C:
		}
	}
}

// peak is the most memory of the run, in MiB.
func (s *service) peak() float64 { return float64(s.highest.Load()) / 1024 }

func (s *service) running() bool {
	if s.cmd == nil {
		return false
	}
	select {
	case <-s.exited:
		return false
	default:
		return true
	}
}

// cpu is what the run has used so far, in seconds.
func (s *service) cpu() float64 {
	if s.running() {
		return cpu(s.cmd.Process.Pid)
	}
	state := s.cmd.ProcessState
	return (state.UserTime() + state.SystemTime()).Seconds()
}

// terminate asks the run to end.
func (s *service) terminate(t testing.TB) {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
}

// end waits for the end of a run that was asked for; it must be in order.
func (s *service) end(t testing.TB) {
	t.Helper()
	limit := time.NewTimer(60 * time.Second)
	defer limit.Stop()
	select {
	case <-s.exited:
	case <-limit.C:
		t.Fatal("the service did not end within a minute of SIGTERM")
	}
	if code := s.cmd.ProcessState.ExitCode(); code != 0 {
		t.Fatalf("the service ended with %d", code)
	}
}

// stop is terminate and end.
func (s *service) stop(t testing.TB) {
	t.Helper()
	s.terminate(t)
	s.end(t)
}

// until asks cond, each every, until it returns nil.
func (s *service) until(t testing.TB, limit, every time.Duration, what string, cond func() error) {
	t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		err := cond()
		if err == nil {
			return
		}
		select {
		case <-s.exited:
			t.Fatalf("waiting until %s: the service ended with %d", what, s.cmd.ProcessState.ExitCode())
		case <-deadline.C:
			t.Fatalf("not within %s: %s: %v", limit, what, err)
		case <-tick.C:
		}
	}
}

// ready waits until the run answers for all that it owns, which it must do
// within limit, and returns how long it took from its start.
func (s *service) ready(t testing.TB, limit time.Duration) time.Duration {
	t.Helper()
	s.until(t, limit, 2*time.Millisecond, "it is ready", func() error {
		resp, err := quick.Get(s.url + "/readyz")
		if err != nil {
			return err
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("readyz answers %s", resp.Status)
		}
		return nil
	})
	return time.Since(s.began)
}

// status is what of /v1/status is looked at.
type status struct {
	Partitions []struct {
		Partition int32
		State     string
		Position  int64
		Lag       int64
		Keys      int64
		Bytes     int64 `json:"state_bytes"`
		Counts    struct{ Folded, Bad int64 }
		Snapshot  *struct{ Seq int64 }
	}
}

func (s *service) status() (status, error) {
	var st status
	resp, err := quick.Get(s.url + "/v1/status")
	if err != nil {
		return st, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return st, fmt.Errorf("the status answers %s", resp.Status)
	}
	return st, json.NewDecoder(resp.Body).Decode(&st)
}

// folded is the sum of what is folded over all partitions.
func (st status) folded() (n int64) {
	for _, p := range st.Partitions {
		n += p.Counts.Folded
	}
	return n
}

// folds waits until n events are folded in all.
func (s *service) folds(t testing.TB, limit, every time.Duration, n int64) {
	t.Helper()
	s.until(t, limit, every, fmt.Sprintf("%d events are folded", n), func() error {
		st, err := s.status()
		if err == nil && st.folded() < n {
			err = fmt.Errorf("%d are", st.folded())
		}
		return err
	})
}

// publish asks for a snapshot of everything and waits for it.
func (s *service) publish(t testing.TB) time.Duration {
	t.Helper()
	began := time.Now()
	resp, err := patient.Post(s.url+"/v1/snapshots", "application/json", nil)
	if err != nil {
		t.Fatalf("publish: %v", err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("publish: %s", resp.Status)
	}
	return time.Since(began)
}

// command runs another verb of the binary to its end and returns how long it
// took.
func (b *bench) command(t testing.TB, args ...string) time.Duration {
	t.Helper()
	began := time.Now()
	if out, err := exec.Command(b.binary, args...).CombinedOutput(); err != nil {
		t.Fatalf("tidemark %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return time.Since(began)
}

func (s *service) tail() string {
	text, err := os.ReadFile(s.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-6000):])
}
