package servers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"time"
)

// Proxy is a way to a server that can be made slow, cut and closed: toxiproxy,
// as a process of its own.
type Proxy struct {
	Address string // host:port that it listens on

	admin   string
	process *process
}

// Toxic is a fault of a Proxy; the names and attributes are toxiproxy's.
type Toxic struct {
	Type   string // latency, bandwidth, reset_peer, timeout, limit_data, slow_close, slicer
	Stream string // upstream: what the client sends; downstream: the answers
	// Attributes in milliseconds, bytes, or kilobytes a second.
	Attributes map[string]int
}

// startProxy starts a proxy of the server at upstream, which need not listen
// yet. Its log goes below dir.
func startProxy(dir, upstream string) (*Proxy, error) {
	folder, err := toxiproxy.folder()
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		ports, err := FreePorts(1)
		if err != nil {
			return nil, err
		}
		port := strconv.Itoa(ports[0])
		p := &Proxy{admin: "http://127.0.0.1:" + port}
		if p.process, err = start(filepath.Join(dir, "toxiproxy.log"), nil, filepath.Join(folder, "server"), "-host", "127.0.0.1", "-port", port); err != nil {
			return nil, err
		}
		err = p.process.await(func(ctx context.Context) error { return p.ask(ctx, http.MethodGet, "/version", nil, nil) })
		if err == nil {
			var made struct{ Listen string }
			err = p.do(http.MethodPost, "/proxies", map[string]any{"name": "store", "listen": "127.0.0.1:0", "upstream": upstream, "enabled": true}, &made)
			p.Address = made.Listen
		}
		if err == nil {
			return p, nil
		}
		p.process.kill()
		if try == 3 || !errors.Is(err, errEnded) {
			return nil, fmt.Errorf("start toxiproxy: %w", err)
		}
	}
}

// Add puts faults into the way, for connections that there are and new ones.
func (p *Proxy) Add(toxics ...Toxic) error {
	for i, t := range toxics {
		err := p.do(http.MethodPost, "/proxies/store/toxics", map[string]any{
			"name": fmt.Sprint(t.Type, "-", t.Stream, "-", i), "type": t.Type, "stream": t.Stream, "attributes": t.Attributes,
		}, nil)
		if err != nil {
			return err
		}
	}
	return nil
}

// Close refuses connections and ends those that there are, until Mend.
func (p *Proxy) Close() error {
	return p.do(http.MethodPost, "/proxies/store", map[string]any{"enabled": false}, nil)
}

// Mend takes all faults away.
func (p *Proxy) Mend() error { return p.do(http.MethodPost, "/reset", nil, nil) }

// Cut ends the connections that there are.
func (p *Proxy) Cut() error { return errors.Join(p.Close(), p.Mend()) }

func (p *Proxy) do(method, path string, body, answer any) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return p.ask(ctx, method, path, body, answer)
}

func (p *Proxy) ask(ctx context.Context, method, path string, body, answer any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, p.admin+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	return exchange(req, answer)
}

// exchange sends a request, on a connection of its own, and reads the JSON of
// its answer where answer is not nil.
func exchange(req *http.Request, answer any) error {
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %s: %s", req.Method, req.URL, resp.Status, text)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(text, answer)
}
