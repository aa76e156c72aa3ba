package bench

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// quick asks for what must be there at once, patient for long work.
var (
	quick   = &http.Client{Timeout: 10 * time.Second}
	patient = &http.Client{Timeout: 5 * time.Minute}
)

// conn is one kept-alive connection, used by one goroutine: cheaper than
// net/http's client, whose costs would be measured with the answers.
type conn struct {
	c    net.Conn
	r    *bufio.Reader
	host string
}

func dial(address string) (*conn, error) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	return &conn{c, bufio.NewReaderSize(c, 256<<10), address}, nil
}

func (c *conn) close() { c.c.Close() }

// get asks for a path and reads the answer to its end; an answer of another
// status than 200 is an error that gives it.
func (c *conn) get(path string) ([]byte, error) {
	return c.ask("GET " + path + " HTTP/1.1\r\nHost: " + c.host + "\r\n\r\n")
}

func (c *conn) post(path, body string) ([]byte, error) {
	return c.ask(fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, c.host, len(body), body))
}

func (c *conn) ask(request string) ([]byte, error) {
	if err := c.c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(c.c, request); err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(c.r, nil)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err == nil && resp.StatusCode != http.StatusOK {
		line, _, _ := strings.Cut(request, "\r\n")
		err = fmt.Errorf("%s: %s: %.300s", line, resp.Status, body)
	}
	return body, err
}

// asker sends one request on its connection.
type asker func(c *conn, worker, n int) error

// press has workers ask for a while, each on a connection of its own, and
// returns how long each answer took. With pause 0 a worker asks again at once,
// else once each pause.
func press(t testing.TB, address string, workers int, pause, span time.Duration, ask asker) []time.Duration {
	t.Helper()
	var mu sync.Mutex
	var all []time.Duration
	var wait sync.WaitGroup
	end := time.Now().Add(span)
	for w := range workers {
		wait.Go(func() {
			c, err := dial(address)
			if err != nil {
				t.Errorf("connect: %v", err)
				return
			}
			defer c.close()
			var mine []time.Duration
			tick := time.NewTicker(max(pause, time.Microsecond))
			defer tick.Stop()
			for n := 0; time.Now().Before(end); n++ {
				if pause > 0 {
					<-tick.C
				}
				began := time.Now()
				if err := ask(c, w, n); err != nil {
					t.Errorf("ask: %v", err)
					return
				}
				mine = append(mine, time.Since(began))
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, mine...)
		})
	}
	wait.Wait()
	if len(all) == 0 {
		t.Fatal("nothing was answered")
	}
	return all
}

// askOnce sends one request on a new connection and returns how long the answer
// took.
func askOnce(t testing.TB, address string, ask asker) time.Duration {
	t.Helper()
	c, err := dial(address)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	defer c.close()
	began := time.Now()
	if err := ask(c, 0, 0); err != nil {
		t.Fatalf("ask: %v", err)
	}
	return time.Since(began)
}
