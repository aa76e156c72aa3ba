package bootstrap

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Step is one step of a check.
type Step struct {
	Name   string // name, connect, TLS, login, index, permission, documents
	Object string // an address, or the indices
	Detail string // what was tried, or found
	Err    error  // a sentence that says what to do; nil where it went well
}

const (
	// checkTimeout bounds Check, and stepTimeout one step, so that the one that
	// hangs is known.
	checkTimeout = 20 * time.Second
	stepTimeout  = 5 * time.Second
)

// Check tries to do what Read will do, step by step: each address by itself,
// then the indices, a snapshot that is closed again, and its documents. The
// steps of an address end at the first that fails. It writes nothing.
func (e *Elastic) Check(ctx context.Context) []Step {
	defer e.client.rest()
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	walks := make([]walk, len(e.o.Addresses))
	var wg sync.WaitGroup
	for i, address := range e.o.Addresses {
		wg.Go(func() { walks[i].address(ctx, e, address) })
	}
	wg.Wait()
	var k walk
	reached := false
	for _, w := range walks {
		k.steps = append(k.steps, w.steps...)
		reached = reached || w.steps[len(w.steps)-1].Err == nil
	}
	if reached {
		k.indices(ctx, e)
	}
	return k.steps
}

// walk is the steps of a check, in order.
type walk struct{ steps []Step }

// step runs one step and notes it; true where it went well. do may say more
// of what it found.
func (k *walk) step(ctx context.Context, name, object, detail string, do func(context.Context) (string, error)) bool {
	within, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	found, err := do(within)
	if err != nil && within.Err() != nil {
		err = fmt.Errorf("no answer in time: %w", err)
	}
	if found != "" {
		detail = found
	}
	k.steps = append(k.steps, Step{name, object, detail, err})
	return err == nil
}

// once is e for one address, asked once.
func (e *Elastic) once(address ...string) (*Elastic, error) {
	o := e.o
	o.Addresses, o.Patience, o.Timeout, o.Logger, o.Observer = address, time.Nanosecond, stepTimeout, nil, nil
	return NewElastic(o)
}

// address walks to one server.
func (k *walk) address(ctx context.Context, e *Elastic, address string) {
	u, err := url.Parse(address)
	if err != nil { // NewElastic has read it
		return
	}
	shown, host, port := u.Redacted(), u.Hostname(), u.Port()
	if port == "" {
		if port = "80"; u.Scheme == "https" {
			port = "443"
		}
	}
	at := net.JoinHostPort(host, port)
	if net.ParseIP(host) == nil && !k.step(ctx, "name", shown, "resolve "+host, func(ctx context.Context) (string, error) {
		if _, err := net.DefaultResolver.LookupHost(ctx, host); err != nil {
			return "", fmt.Errorf("%s does not resolve; see history.elasticsearch.addresses: %w", host, err)
		}
		return "", nil
	}) {
		return
	}
	if !k.step(ctx, "connect", shown, "open a connection", func(ctx context.Context) (string, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", at)
		if err != nil {
			if errors.Is(err, syscall.ECONNREFUSED) {
				return "", fmt.Errorf("nothing listens there: %w", err)
			}
			return "", err
		}
		return "", conn.Close()
	}) {
		return
	}
	if u.Scheme == "https" && !k.step(ctx, "TLS", shown, "agree on TLS", func(ctx context.Context) (string, error) {
		return "", e.handshake(ctx, host, at)
	}) {
		return
	}
	k.step(ctx, "login", shown, "ask who answers", func(ctx context.Context) (string, error) {
		one, err := e.once(address)
		if err != nil {
			return "", err
		}
		defer one.client.rest()
		return one.login(ctx, u.Scheme)
	})
}

// handshake tries TLS as the reader does it.
func (e *Elastic) handshake(ctx context.Context, host, at string) error {
	conf := e.client.plain.TLSClientConfig.Clone()
	conf.ServerName = host
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", at)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // nothing was written
	err = tls.Client(conn, conf).HandshakeContext(ctx)
	var record tls.RecordHeaderError
	var untrusted *tls.CertificateVerificationError
	var name x509.HostnameError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &name):
		return fmt.Errorf("the server's certificate is of another name; see history.elasticsearch.addresses: %w", err)
	case errors.As(err, &untrusted):
		return fmt.Errorf("the server's certificate is not trusted; see history.elasticsearch.ca_file: %w", err)
	case errors.As(err, &record), errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return fmt.Errorf("the server does not speak TLS; see the https of history.elasticsearch.addresses: %w", err)
	}
	return err
}

// login asks who answers, and whether it takes the login. A server that hides
// who it is alone may let the indices be read all the same.
func (e *Elastic) login(ctx context.Context, scheme string) (string, error) {
	how := "without a login"
	switch {
	case e.o.APIKey != "":
		how = "by an API key"
	case e.o.Username != "":
		how = "as " + e.o.Username
	}
	var f found
	err := e.identify(ctx, &f)
	if err != nil {
		if scheme == "http" && strings.Contains(err.Error(), "HTTPS") {
			err = fmt.Errorf("the server speaks TLS; https is wanted in history.elasticsearch.addresses: %w", err)
		}
		return how, err
	}
	if f.server != unnamed {
		return f.server + " answers, " + how, nil
	}
	// Not even who it is: the indices tell whether the login is good.
	a, _, err := e.client.ask(ctx, http.MethodGet, e.target+"/_settings?flat_settings=true", nil, nil)
	if err != nil && a.status == http.StatusUnauthorized {
		return how, fmt.Errorf("the server refuses the login; see history.elasticsearch.username and password, or api_key: %w", err)
	}
	return "it does not say what it is, " + how, nil
}

// indices walks to the documents.
func (k *walk) indices(ctx context.Context, e *Elastic) {
	name := e.Name()
	one, err := e.once(e.o.Addresses...)
	if err != nil { // it was made with the same options before
		return
	}
	defer one.client.rest()
	f := &found{}
	_ = one.identify(ctx, f) // told above
	if !k.step(ctx, "index", name, "find the indices", func(ctx context.Context) (string, error) {
		if err := one.settings(ctx, f); err != nil {
			return "", err
		}
		if len(f.indices) == 0 {
			return "the login may not see settings: page_size and synthetic sources are not checked (grant view_index_metadata)", nil
		}
		return fmt.Sprintf("%s with %d primary shards", strings.Join(f.indices, ", "), f.shards), nil
	}) {
		return
	}
	if !k.step(ctx, "index", name, "documents are kept as they came", func(ctx context.Context) (string, error) { return "", one.mappings(ctx) }) {
		return
	}
	k.step(ctx, "permission", name, "read a snapshot", func(ctx context.Context) (string, error) {
		r := &reading{Elastic: one, found: f, counted: map[string]*int64{}}
		defer r.end(ctx)
		err := r.begin(ctx)
		if err == nil {
			_, err = r.firstPages(ctx)
		}
		switch {
		case forbidden(err):
			return "", fmt.Errorf("not allowed; the login needs read on %s: %w", name, err)
		case err != nil:
			return "", err
		}
		return fmt.Sprintf("a snapshot of %d documents was opened and closed", r.total), nil
	})
}
