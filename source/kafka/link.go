package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/IBM/sarama"
)

// dialer dials for sarama and keeps hold of what it dialed: sarama holds a
// broker's lock for a whole round trip, so closing the connection underneath is
// the only way to end a request before its answer.
type dialer struct {
	silence time.Duration // without a byte, after which a read fails

	// sarama's Dial is given no context. This one ends with sever.
	ctx    context.Context
	cancel context.CancelFunc

	secure *tls.Config // nil where a connection is plain

	heard  atomic.Int64 // when a byte last came, nanoseconds since the epoch
	broken atomic.Bool  // a read or write failed

	mu     sync.Mutex
	conns  map[*conn]struct{}
	newest net.Conn // as it was handed out
}

// newDialer takes the values of ctx, not its end: connections outlive the
// request that they were made for.
func newDialer(ctx context.Context, silence time.Duration) *dialer {
	d := &dialer{silence: silence, conns: make(map[*conn]struct{})}
	d.ctx, d.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return d
}

var errSevered = errors.New("connection was given up")

// Dial is what sarama calls.
func (d *dialer) Dial(network, addr string) (net.Conn, error) {
	nd := net.Dialer{Timeout: dialTimeout}
	nc, err := nd.DialContext(d.ctx, network, addr)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx.Err() != nil {
		return nil, errors.Join(errSevered, nc.Close())
	}
	c := &conn{Conn: nc, d: d}
	d.conns[c] = struct{}{}
	d.newest = c
	if d.secure != nil {
		t := d.secure.Clone()
		if t.ServerName == "" {
			t.ServerName, _, _ = net.SplitHostPort(addr)
		}
		d.newest = tls.Client(c, t)
	}
	return d.newest, nil
}

// last is the connection that was dialed last, nil where there is none.
func (d *dialer) last() net.Conn {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.newest
}

// sever closes all connections, ends dials under way and refuses new ones.
func (d *dialer) sever() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cancel()
	for c := range d.conns {
		_ = c.Conn.Close() // sarama closes c itself and is told there
	}
}

// conn gives up after silence instead of at sarama's deadline for the whole
// response, which a large one over a slow line would never meet.
type conn struct {
	net.Conn
	d *dialer
}

func (c *conn) SetReadDeadline(time.Time) error { return nil }
func (c *conn) SetDeadline(t time.Time) error   { return c.SetWriteDeadline(t) }

func (c *conn) Close() error {
	c.d.mu.Lock()
	delete(c.d.conns, c)
	c.d.mu.Unlock()
	return c.Conn.Close()
}

func (c *conn) Read(b []byte) (int, error) {
	if err := c.Conn.SetReadDeadline(time.Now().Add(c.d.silence)); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.d.heard.Store(time.Now().UnixNano())
	}
	if err != nil {
		c.d.broken.Store(true)
	}
	return n, err
}

func (c *conn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if err != nil {
		c.d.broken.Store(true)
	}
	return n, err
}

// link is a connection to one broker, made when it is first needed and again
// after an error. One request at a time.
type link struct {
	cfg  Config
	addr string
	busy chan struct{} // holds one token while a request is out

	wire *wire // of the one who asks; nil before the first fetch of a connection

	mu     sync.Mutex
	dial   *dialer
	broker *sarama.Broker
}

func newLink(cfg Config, addr string) *link {
	return &link{cfg: cfg, addr: addr, busy: make(chan struct{}, 1)}
}

// ask runs one or more requests on the connection. ctx ends them at once. After
// any error the connection is closed: what sarama returns as such, rather than
// in a response, leaves the stream in doubt.
func (l *link) ask(ctx context.Context, do func(*sarama.Broker) error) error {
	select {
	case l.busy <- struct{}{}:
		defer func() { <-l.busy }()
	case <-ctx.Done():
		return ctx.Err()
	}
	broker, dial, err := l.open(ctx)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, dial.sever)
	err = do(broker)
	if err != nil && l.garbled(err, dial) { // which closing would hide
		err = fmt.Errorf("%w: %w", errGarbled, err)
	}
	if !stop() || err != nil {
		l.drop()
	}
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// fetch sends one fetch request, as ask does. The records of its answer lie in
// buffers of the pool, which the caller gives back.
func (l *link) fetch(ctx context.Context, req *fetchRequest, pool *buffers) (list []answered, err error) {
	err = l.ask(ctx, func(b *sarama.Broker) (err error) {
		if l.wire == nil {
			if _, err = b.Connected(); err != nil {
				return err
			}
			if l.wire, err = newWire(l.cfg, b, l.dial.last()); err != nil {
				return err
			}
		}
		list, err = l.wire.fetch(ctx, req, pool)
		return err
	})
	return list, err
}

// errGarbled: the whole response came, and cannot be read.
var errGarbled = errors.New("response cannot be read")

// garbled tells a response that cannot be decoded from trouble with the
// connection, its TLS or its login. Each codec has errors of its own, so it is
// what is left.
func (l *link) garbled(err error, d *dialer) bool {
	if d.broken.Load() || d.ctx.Err() != nil || d.heard.Load() == 0 {
		return false
	}
	var login sarama.KError
	var cert *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	if errors.Is(err, io.EOF) && l.cfg.tls() {
		return false // the end of a TLS stream is no end of the connection yet
	}
	return !errors.As(err, &login) && !errors.Is(err, sarama.ErrSASLAuthenticationFailed) && !errors.As(err, &cert) && !errors.As(err, &record) && !errors.As(err, &alert) &&
		!errors.Is(err, sarama.ErrNotConnected)
}

// lastHeard is when the last byte of an answer came.
func (l *link) lastHeard() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dial == nil {
		return time.Time{}
	}
	return time.Unix(0, l.dial.heard.Load())
}

func (l *link) open(ctx context.Context) (*sarama.Broker, *dialer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broker != nil {
		return l.broker, l.dial, nil
	}
	dial := newDialer(ctx, answerTimeout)
	conf, err := l.cfg.sarama(dial)
	if err != nil {
		return nil, nil, err
	}
	// TLS is the dialer's, so that what it dials can be read without sarama.
	dial.secure = conf.Net.TLS.Config
	conf.Net.TLS.Enable, conf.Net.TLS.Config = false, nil
	broker := sarama.NewBroker(l.addr)
	if err := broker.Open(conf); err != nil {
		return nil, nil, err
	}
	l.broker, l.dial = broker, dial
	return broker, dial, nil
}

// drop closes the connection. The one who asks calls it.
func (l *link) drop() {
	l.mu.Lock()
	broker, dial := l.broker, l.dial
	l.broker, l.dial, l.wire = nil, nil, nil
	l.mu.Unlock()
	if broker != nil {
		_ = broker.Close() // not connected is as good
		dial.sever()       // frees its context
	}
}

// interrupt fails the request that is out, from another goroutine.
func (l *link) interrupt() {
	l.mu.Lock()
	dial := l.dial
	l.mu.Unlock()
	if dial != nil {
		dial.sever()
	}
}

// close waits for the request that is out, which interrupt ends, and closes.
func (l *link) close() {
	l.interrupt()
	l.busy <- struct{}{}
	l.drop()
	<-l.busy
}
