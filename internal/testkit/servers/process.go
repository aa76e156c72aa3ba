package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

const (
	startLimit = 2 * time.Minute // a cold JVM on a busy machine
	stopLimit  = 10 * time.Second
	askEvery   = 50 * time.Millisecond
)

// process is that of a server. It ends with the process that started it.
type process struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed when it has ended
}

// startJava starts a JVM whose output is appended to log.
func startJava(log string, args ...string) (*process, error) {
	java, err := tool("java")
	if err != nil {
		return nil, err
	}
	return start(log, nil, java, args...)
}

// start starts a program whose output is appended to log. env is added to the
// environment.
func start(log string, env []string, program string, args ...string) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p := &process{cmd: exec.Command(program, args...), log: log, done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = child()
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	go func() {
		defer close(p.done)
		p.cmd.Wait() // how it ended is in its log
	}()
	return p, nil
}

// await asks ready until it returns nil. It fails when the process ends first
// or the limit is over, with the end of the log.
func (p *process) await(ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("it ended: %s\n%w", p.tail(), errEnded)
		case <-ctx.Done():
			return fmt.Errorf("it was not ready within %s: %w\n%s", startLimit, err, p.tail())
		case <-tick.C:
		}
	}
}

var errEnded = errors.New("the process ended before it was ready")

// kill ends it at once and waits for the end.
func (p *process) kill() {
	p.cmd.Process.Kill() // fails where it has ended, which is what is wanted
	<-p.done
}

// stop asks it to end, and kills it after a while.
func (p *process) stop() {
	p.cmd.Process.Signal(syscall.SIGTERM)
	limit := time.NewTimer(stopLimit)
	defer limit.Stop()
	select {
	case <-p.done:
	case <-limit.C:
		p.kill()
	}
}

func (p *process) tail() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return tail(strings.TrimSpace(string(text)))
}

// FreePorts returns n ports of the loopback interface on which nothing listens.
func FreePorts(n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer l.Close()
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}

// portTaken says whether a server ended because another process took the port
// between FreePorts and its own start.
func portTaken(err error) bool {
	return errors.Is(err, errEnded) && strings.Contains(err.Error(), "Address already in use")
}
