package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// Options of a Client. The zero value works.
type Options struct {
	// Token is the bearer token, "" where the service wants none.
	Token string
	// Patience is for how long a request is repeated while no member can answer
	// it: members that cannot be reached, and 503. A member says when to ask
	// again. 0: each address is asked once.
	Patience time.Duration
	// HTTP sends the requests; nil is a client of its own with the system's
	// settings. Its Timeout would end a Watch.
	HTTP *http.Client
}

const (
	// requestTimeout bounds one request to one member, where the context does
	// not: a member answers or refuses within ten seconds, and may wait ten
	// more for an offset.
	requestTimeout = 30 * time.Second
	// publishTimeout bounds a publish: it may copy large states.
	publishTimeout = 11 * time.Minute
	// shortestWait is between two rounds over the addresses where no member
	// says when to ask again.
	shortestWait = 500 * time.Millisecond
	// defaultSilence is how long a watch may be silent: members send a comment
	// every 15 s.
	defaultSilence = 45 * time.Second
)

// Client asks a service. Its methods may be called from any goroutine; each
// returns when its context ends.
type Client struct {
	addresses []string // without a slash at the end
	opts      Options
	http      *http.Client
	own       bool // http is the client's own
	silence   time.Duration
	next      atomic.Uint32 // index of the address that answered last
}

// New makes a client of the members at some addresses, each of the form
// http://host:port; a path before the service's own may follow. It connects
// nowhere.
func New(addresses []string, opts Options) (*Client, error) {
	c := &Client{opts: opts, http: opts.HTTP, silence: defaultSilence}
	if len(addresses) == 0 {
		return nil, errors.New("no address of a member is given")
	}
	for _, a := range addresses {
		u, err := url.Parse(a)
		if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") || u.RawQuery != "" || u.Fragment != "" {
			return nil, fmt.Errorf("the address %q is not of the form http://host:port", a)
		}
		c.addresses = append(c.addresses, strings.TrimSuffix(u.String(), "/"))
	}
	if c.http == nil {
		c.own = true
		c.http = &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()}
	}
	return c, nil
}

// Close closes connections that nothing uses. An HTTP client that was handed in
// is left alone.
func (c *Client) Close() {
	if c.own {
		c.http.CloseIdleConnections()
	}
}

// request is what is asked of any member.
type request struct {
	method string
	path   string // escaped
	query  url.Values
	body   []byte        // JSON, nil for none
	limit  time.Duration // of one try, 0 is requestTimeout
}

// ask sends a request and decodes the answer into v.
func (c *Client) ask(ctx context.Context, r request, v any) error {
	return c.anywhere(ctx, func(address string) error {
		ctx, cancel := context.WithTimeout(ctx, cmp.Or(r.limit, requestTimeout))
		defer cancel()
		resp, err := c.send(ctx, address, r)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return unreachable(address, err)
		}
		if err := json.Unmarshal(body, v); err != nil {
			return fmt.Errorf("read the answer of %s to %s %s: %w", address, r.method, r.path, err)
		}
		return nil
	})
}

// anywhere tries the addresses, the one that answered last first, until one
// gives an answer that no other would better. It goes round again for as long
// as there is patience.
func (c *Client) anywhere(ctx context.Context, try func(address string) error) error {
	end := time.Now().Add(c.opts.Patience)
	for {
		first := c.next.Load()
		var failed error
		wait := shortestWait
		for i := range uint32(len(c.addresses)) {
			at := (first + i) % uint32(len(c.addresses))
			err := try(c.addresses[at])
			if !passes(err) {
				c.next.Store(at)
				return err
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			failed = worse(failed, err)
			if e := (*Error)(nil); errors.As(err, &e) {
				wait = max(wait, e.RetryAfter)
			}
		}
		if time.Now().Add(wait).After(end) {
			return failed
		}
		if err := pause(ctx, wait); err != nil {
			return err
		}
	}
}

// passes says whether another member, or the same one later, may answer better.
func passes(err error) bool {
	var e *Error
	if errors.As(err, &e) {
		return e.Status == http.StatusServiceUnavailable || e.Status == http.StatusBadGateway
	}
	var gone *unreachableError
	return errors.As(err, &gone)
}

// worse is the error that tells more: what a member says, rather than that
// another cannot be reached.
func worse(was, is error) error {
	var e *Error
	if was != nil && (errors.As(was, &e) || !errors.As(is, &e)) {
		return was
	}
	return is
}

// send sends a request to one member and returns an answer whose status is
// 200; else the error that it tells of.
func (c *Client) send(ctx context.Context, address string, r request) (*http.Response, error) {
	target := address + r.path
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	var body io.Reader
	if r.body != nil {
		body = bytes.NewReader(r.body)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target, body)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", address, err)
	}
	if c.opts.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.opts.Token)
	}
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, unreachable(address, err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, readError(address, resp)
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
