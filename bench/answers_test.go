package bench

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"tidemark/internal/testkit/servers"
)

// answers starts a yardstick that answers whatever it is asked with size bytes,
// by net/http and nothing behind it: what a service in Go answers in at best,
// beside the same load. It returns where it listens, its CPU so far, and what
// ends it.
func (b *bench) answers(t *testing.T, size int) (address string, used func() float64, end func()) {
	t.Helper()
	ports, err := servers.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	address = fmt.Sprintf("127.0.0.1:%d", ports[0])
	cmd := yardstickCommand(t, "answers", address, strconv.Itoa(size))
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end = sync.OnceFunc(func() {
		cmd.Process.Kill() // it serves until then
		cmd.Wait()
	})
	t.Cleanup(end)
	for late := time.Now().Add(10 * time.Second); ; <-time.After(10 * time.Millisecond) {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
			return address, func() float64 { return cpu(cmd.Process.Pid) }, end
		}
		if time.Now().After(late) {
			t.Fatalf("the yardstick of answers: %v", err)
		}
	}
}

// runAnswers serves until it is killed.
func runAnswers(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("answers wants an address and a size, not %q", args)
	}
	size, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	body := bytes.Repeat([]byte{' '}, size)
	return http.ListenAndServe(args[0], http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return // who asks has gone
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", args[1])
		w.Write(body) // who does not take it has gone
	}))
}
