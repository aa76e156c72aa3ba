//go:build integration

package integration

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tidemark/internal/testkit/servers"
)

// settings are what a test says of a configuration; the rest is filled in.
type settings struct {
	brokers string // default: the shared broker
	group   string // default: one of the test's own
	query   string
	kafka   string // more lines of section kafka, without indent
	state   string // more lines of section state, without indent
	tokens  string // http.tokens, default none: a list in brackets
	rest    string // more sections
	dir     string // state.dir; default: one of the test's own
	env     []string
	binary  string // default: the binary that all tests share
}

// service is one run after another of `tidemark serve` on one configuration.
type service struct {
	t    testing.TB
	url  string
	file string // the configuration
	dir  string // the state
	env  []string
	bin  string

	brokers, group string

	cmd    *exec.Cmd
	log    string
	exited chan struct{}
}

// newService writes the configuration and starts nothing.
func newService(t testing.TB, set settings) *service {
	t.Helper()
	ports, err := servers.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	if set.brokers == "" {
		set.brokers = broker.Address
	}
	if set.group == "" {
		set.group = unique(t, "group")
	}
	if set.dir == "" {
		set.dir = filepath.Join(home, "state")
	}
	if !strings.Contains(set.kafka, "session.timeout.ms") {
		set.kafka += "\nsession.timeout.ms: 6000"
	}
	if !strings.Contains(set.state, "apply_interval") {
		set.state += "\napply_interval: 200ms"
	}
	var text strings.Builder
	fmt.Fprintf(&text, "query: |\n%s", indent(set.query))
	fmt.Fprintf(&text, "kafka:\n%s", indent("bootstrap.servers: ["+set.brokers+"]\ngroup.id: "+set.group+"\n"+set.kafka))
	fmt.Fprintf(&text, "state:\n%s", indent("dir: "+set.dir+"\n"+set.state))
	fmt.Fprintf(&text, "http: {listen: '127.0.0.1:%d', tokens: %s}\n", ports[0], cmp.Or(set.tokens, "[]"))
	fmt.Fprintf(&text, "log: {format: json, level: debug}\n%s\n", set.rest)
	s := &service{
		t:    t,
		url:  fmt.Sprintf("http://127.0.0.1:%d", ports[0]),
		file: filepath.Join(home, "tidemark.yaml"),
		log:  filepath.Join(home, "log"),
		dir:  set.dir,
		env:  set.env,
		bin:  cmp.Or(set.binary, binary),

		brokers: set.brokers, group: set.group,
	}
	if err := os.WriteFile(s.file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if s.running() {
			s.kill()
		}
		if t.Failed() {
			t.Logf("%s\nlog of %s:\n%s", text.String(), s.url, s.tail())
		}
		if race := s.find("WARNING: DATA RACE"); race != "" {
			t.Errorf("the race detector spoke:\n%s", race)
		}
		if panicked := s.find("panic: "); panicked != "" {
			t.Errorf("the program panicked:\n%s", panicked)
		}
	})
	return s
}

// serve is newService, started and ready.
func serve(t testing.TB, set settings) *service {
	t.Helper()
	s := newService(t, set)
	s.start()
	s.ready()
	return s
}

// start starts a run; its output is appended to the log.
func (s *service) start() {
	s.t.Helper()
	out, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command(s.bin, "serve", "-c", s.file)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env = append(os.Environ(), s.env...)
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		cmd.Wait() // the state says how it ended
	}()
	s.cmd, s.exited = cmd, exited
}

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

// alive waits until /healthz says so: from then on it answers, and signals have
// their meaning.
func (s *service) alive() {
	s.t.Helper()
	s.until(30*time.Second, "alive", func() error {
		code, body, err := s.get("/healthz")
		if err == nil && code != 200 {
			err = fmt.Errorf("%d %s", code, body)
		}
		return err
	})
}

// ready waits until /readyz says so.
func (s *service) ready() {
	s.t.Helper()
	s.until(60*time.Second, "ready", func() error {
		code, body, err := s.get("/readyz")
		if err == nil && code != 200 {
			err = fmt.Errorf("%d %s", code, body)
		}
		return err
	})
}

// kill is kill -9.
func (s *service) kill() {
	s.cmd.Process.Kill()
	<-s.exited
}

func (s *service) signal(sig os.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// exit waits for the end of the run and returns its exit status.
func (s *service) exit(limit time.Duration) int {
	s.t.Helper()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-s.exited:
		return s.cmd.ProcessState.ExitCode()
	case <-timer.C:
		s.signal(syscall.SIGQUIT) // its goroutines go to the log
		<-s.exited
		s.t.Fatalf("it did not end within %s", limit)
		return -1
	}
}

// stop is SIGTERM; the contract says exit 0 within 25 s.
func (s *service) stop() {
	s.t.Helper()
	s.signal(syscall.SIGTERM)
	if code := s.exit(25 * time.Second); code != 0 {
		s.t.Fatalf("exit %d after SIGTERM, want 0", code)
	}
}

// until waits for cond while the service runs.
func (s *service) until(limit time.Duration, what string, cond func() error) {
	s.t.Helper()
	eventually(s.t, limit, s.url+" "+what, func() error {
		if !s.running() {
			s.t.Fatalf("waiting for %s: the service ended with %d:\n%s", what, s.cmd.ProcessState.ExitCode(), s.tail())
		}
		return cond()
	})
}

// eventually asks cond until it returns nil.
func eventually(t testing.TB, limit time.Duration, what string, cond func() error) {
	t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := cond()
		if err == nil {
			return
		}
		select {
		case <-deadline.C:
			t.Fatalf("%s: not within %s: %v", what, limit, err)
		case <-tick.C:
		}
	}
}

func (s *service) tail() string {
	text, err := os.ReadFile(s.log)
	if err != nil {
		return err.Error()
	}
	const most = 12000
	if len(text) > most {
		text = text[len(text)-most:]
	}
	return string(text)
}

// logs waits until the log says what, in any case.
func (s *service) logs(what string) {
	s.t.Helper()
	s.until(60*time.Second, "log of "+what, func() error {
		if !strings.Contains(strings.ToLower(s.tail()), what) {
			return fmt.Errorf("the log says\n%s", s.tail())
		}
		return nil
	})
}

// find returns what the log says from the mark on, "" where it is not there.
func (s *service) find(mark string) string {
	text, err := os.ReadFile(s.log)
	if err != nil {
		return ""
	}
	i := bytes.Index(text, []byte(mark))
	if i < 0 {
		return ""
	}
	return string(text[i:min(len(text), i+6000)])
}

// command runs another verb of the binary to its end.
func command(t testing.TB, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := exec.Command(binary, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

func indent(text string) string {
	var out strings.Builder
	for line := range strings.Lines(strings.TrimSpace(text)) {
		out.WriteString("  " + strings.TrimRight(line, "\n") + "\n")
	}
	return out.String()
}

// unique names a topic or group of the test's own.
func unique(t testing.TB, kind string) string {
	name := strings.NewReplacer("/", "-", " ", "-").Replace(t.Name())
	return fmt.Sprintf("%s-%s-%d", kind, name, time.Now().UnixNano())
}
