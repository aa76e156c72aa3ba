package bootstrap

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/elastic/elastic-transport-go/v8/elastictransport"
	"github.com/elastic/go-elasticsearch/v8"
)

const (
	// maxAnswer is the longest answer that is read, in bytes.
	maxAnswer = 1 << 30
	// maxRefusal is how much of an answer is read that is an error, in bytes.
	maxRefusal = 1 << 20
	// The waits before a request is repeated grow from the first to the longest.
	defaultFirstWait   = 100 * time.Millisecond
	defaultLongestWait = 2500 * time.Millisecond
)

// client sends requests to the nodes, in turn.
type client struct {
	addresses string // for messages, without passwords
	plain     *http.Transport
	// nodes is the transport of go-elasticsearch, below its client: the client
	// turns servers away that do not send the vendor's product header, after
	// they have done what was asked, and the environment could make it send a
	// media type that OpenSearch refuses.
	nodes elastictransport.Interface
}

// newClient takes authorities in PEM, none for the system's.
func newClient(o ElasticOptions, authorities []byte) (*client, error) {
	c := &client{}
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if authorities != nil {
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(authorities) {
			return nil, fmt.Errorf("the file %s of ca_file holds no certificate: PEM is wanted", o.CAFile)
		}
	}
	c.plain = &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSClientConfig:     conf,
		TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConnsPerHost: o.Slices + 1,
		IdleConnTimeout:     time.Minute,
		DisableCompression:  true, // it costs more than it saves
	}
	addresses := make([]string, len(o.Addresses))
	shown := make([]string, len(o.Addresses))
	for i, address := range o.Addresses {
		u, err := url.Parse(address)
		if err != nil {
			return nil, fmt.Errorf("the address %q is no URL", address)
		}
		addresses[i] = strings.TrimRight(address, "/")
		shown[i] = u.Redacted()
	}
	c.addresses = strings.Join(shown, ", ")
	base, err := elasticsearch.NewBaseClient(elasticsearch.Config{
		Addresses: addresses, Username: o.Username, Password: o.Password, APIKey: o.APIKey,
		Transport: c.plain, ConnectionPoolFunc: newNodes,
		DisableRetry: true, // it would repeat pages of a scroll, each of which is sent once
	})
	if err != nil {
		return nil, err
	}
	c.nodes = base.Transport
	return c, nil
}

// rest closes the connections that are not in use.
func (c *client) rest() { c.plain.CloseIdleConnections() }

// answer is the head of an answer, and its body in the slice given to ask.
type answer struct {
	status int
	header http.Header
}

// ask sends one request and reads the answer into body, which it returns. Its
// errors are a *passing where the request may succeed later, and a *refusal, in
// it or alone, where the server says why not.
func (c *client) ask(ctx context.Context, method, path string, request, body []byte) (answer, []byte, error) {
	return c.askFor(ctx, method, path, request, body, maxAnswer)
}

// askFor is ask for an answer of at most so many bytes: errLongAnswer where it
// is longer.
func (c *client) askFor(ctx context.Context, method, path string, request, body []byte, most int64) (answer, []byte, error) {
	var content io.Reader
	if request != nil {
		content = bytes.NewReader(request)
	}
	req, err := http.NewRequestWithContext(ctx, method, path, content)
	if err != nil {
		return answer{}, body, err
	}
	if request != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.nodes.Perform(req)
	if err != nil {
		return answer{}, body, unreached(err)
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	a := answer{resp.StatusCode, resp.Header}
	if resp.StatusCode/100 == 2 {
		body, err = readBody(body[:0], resp.Body, resp.ContentLength, most)
	} else {
		body, err = readBody(body[:0], io.LimitReader(resp.Body, maxRefusal), 0, maxRefusal)
	}
	switch {
	case errors.Is(err, errLongAnswer):
		return a, body, hopeless("%w than %d MiB: set history.elasticsearch.page_size lower", err, most>>20)
	case err != nil:
		return a, body, unreached(fmt.Errorf("read the answer: %w", err))
	case resp.StatusCode/100 != 2:
		return a, body, refused(a, body)
	}
	return a, body, nil
}

var errLongAnswer = errors.New("an answer is longer")

// readBody appends what r holds to dst; size is the number of bytes to come, -1
// where it is not known. errLongAnswer where they are more than most.
func readBody(dst []byte, r io.Reader, size, most int64) ([]byte, error) {
	if size > most {
		return dst, errLongAnswer
	}
	if need := int(size) + bytes.MinRead; size > 0 && cap(dst) < need {
		dst = make([]byte, 0, need)
	}
	if cap(dst) == 0 {
		dst = make([]byte, 0, 4096)
	}
	for {
		n, err := r.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		switch {
		case errors.Is(err, io.EOF):
			return dst, nil
		case err != nil:
			return dst, err
		case int64(len(dst)) > most:
			return dst, errLongAnswer
		case len(dst) == cap(dst):
			grown := make([]byte, len(dst), 2*cap(dst))
			copy(grown, dst)
			dst = grown
		}
	}
}

// searchBody is what a search asks for.
type searchBody struct {
	Size           *int            `json:"size,omitempty"`
	Query          json.RawMessage `json:"query,omitempty"`
	Sort           []string        `json:"sort,omitempty"`
	TrackTotalHits *bool           `json:"track_total_hits,omitempty"`
	PIT            *pointInTime    `json:"pit,omitempty"`
	Slice          *slice          `json:"slice,omitempty"`
	SearchAfter    json.RawMessage `json:"search_after,omitempty"`
	Aggs           json.RawMessage `json:"aggs,omitempty"`
}

type pointInTime struct {
	ID        string `json:"id"`
	KeepAlive string `json:"keep_alive,omitempty"`
}

type slice struct {
	ID  int `json:"id"`
	Max int `json:"max"`
}

// searchPage sends one search and takes its answer where it is whole.
func (e *Elastic) searchPage(ctx context.Context, path string, body any, p *page) error {
	return e.searchFor(ctx, path, body, p, maxAnswer)
}

// searchFor is searchPage for an answer of at most so many bytes.
func (e *Elastic) searchFor(ctx context.Context, path string, body any, p *page, most int64) error {
	request, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("write a search: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, e.o.Timeout)
	defer cancel()
	if _, p.body, err = e.client.askFor(ctx, http.MethodPost, path, request, p.body, most); err != nil {
		return err
	}
	if err := p.scan(); err != nil {
		return err
	}
	return p.whole()
}

// get reads the answer of a GET into v.
func (e *Elastic) get(ctx context.Context, path string, v any) (a answer, err error) {
	err = e.patiently(ctx, openPatience, func() error {
		ctx, cancel := context.WithTimeout(ctx, e.o.Timeout)
		defer cancel()
		var body []byte
		if a, body, err = e.client.ask(ctx, http.MethodGet, path, nil, nil); err != nil {
			return err
		}
		if err := json.Unmarshal(body, v); err != nil {
			return &passing{err: fmt.Errorf("GET %s: the answer is not what a search server gives: %w: %s", path, err, excerpt(body))}
		}
		return nil
	})
	return a, err
}

// patiently repeats do while its error is a *passing and patience lasts, with
// growing waits, and no sooner than the server says. do must be such that to
// repeat it changes nothing.
func (e *Elastic) patiently(ctx context.Context, patience time.Duration, do func() error) error {
	patience = min(patience, e.o.Patience)
	waits := backoff.NewExponentialBackOff()
	waits.InitialInterval, waits.MaxInterval, waits.Multiplier = e.firstWait, e.longestWait, 2
	waits.Reset()
	began := time.Now()
	for {
		err := do()
		var again *passing
		if err == nil || !errors.As(err, &again) {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		wait := max(waits.NextBackOff(), again.after)
		if time.Since(began)+wait > patience {
			return err
		}
		e.o.Observer.Retried()
		e.log.Warn("the history's server is asked again", "history", e.Name(), "err", err, "again_in", wait.Round(time.Millisecond))
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
	}
}

// retryAfter reads the header of that name: seconds, or a date.
func retryAfter(h http.Header) time.Duration {
	text := h.Get("Retry-After")
	if text == "" {
		return 0
	}
	if seconds, err := strconv.Atoi(text); err == nil {
		return max(0, time.Duration(min(seconds, 86400))*time.Second)
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}
