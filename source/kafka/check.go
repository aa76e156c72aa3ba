package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/IBM/sarama"

	"tidemark/aggregator"
)

// Step is one step of Check.
type Step struct {
	Name   string // name, connect, TLS, login, permission
	Broker string // host:port, "" for what any broker answers
	Detail string // what was tried
	Err    error  // a sentence that says what to do; nil where it went well
}

// CheckTimeout bounds Check.
const CheckTimeout = 10 * time.Second

// stepTimeout bounds one step, so that the one that hangs is known.
const stepTimeout = 4 * time.Second

// Check tries to do what the service will do, step by step: each bootstrap
// server by itself, then the topic, its leaders and the group. A broker's steps
// end at the first that fails. It writes nothing and joins no group.
func (c *Client) Check(ctx context.Context) []Step {
	ctx, cancel := context.WithTimeout(ctx, CheckTimeout)
	defer cancel()
	k := &check{c: c}
	reached := false
	for _, addr := range c.cfg.Brokers {
		reached = k.broker(ctx, addr) || reached
	}
	if reached {
		k.permissions(ctx)
	}
	return k.steps
}

type check struct {
	c     *Client
	steps []Step
}

// step runs one step and notes it; true where it went well.
func (k *check) step(ctx context.Context, name, broker, detail string, do func(context.Context) error) bool {
	within, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	err := do(within)
	if err != nil && within.Err() != nil {
		err = fmt.Errorf("no answer in time: %w", err)
	}
	k.steps = append(k.steps, Step{name, broker, detail, err})
	return err == nil
}

// broker walks to one broker.
func (k *check) broker(ctx context.Context, addr string) bool {
	cfg := k.c.cfg
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return k.step(ctx, "name", addr, "read the address", func(context.Context) error { return err })
	}
	if net.ParseIP(host) == nil && !k.step(ctx, "name", addr, "resolve "+host, func(ctx context.Context) error {
		if _, err := net.DefaultResolver.LookupHost(ctx, host); err != nil {
			return fmt.Errorf("%s does not resolve; see bootstrap.servers: %w", host, err)
		}
		return nil
	}) {
		return false
	}
	if !k.step(ctx, "connect", addr, "open a connection", func(ctx context.Context) error {
		conn, err := dial(ctx, addr)
		if err != nil {
			return err
		}
		return conn.Close()
	}) {
		return false
	}
	if cfg.tls() && !k.step(ctx, "TLS", addr, "agree on TLS", func(ctx context.Context) error { return k.handshake(ctx, addr) }) {
		return false
	}
	if !cfg.tls() && !k.plain(ctx, addr) {
		return k.step(ctx, "TLS", addr, "talk without TLS", func(context.Context) error {
			return fmt.Errorf("the broker speaks TLS, and security.protocol is %s: it is to be SSL or SASL_SSL", cfg.protocol())
		})
	}
	what := "without a login"
	if cfg.sasl() {
		what = fmt.Sprintf("as %s by %s", cfg.SASL.Username, cfg.SASL.Mechanism)
		if cfg.SASL.Mechanism == sarama.SASLTypeOAuth {
			what = "by " + cfg.SASL.Mechanism
		}
	}
	return k.step(ctx, "login", addr, what, func(ctx context.Context) error { return k.login(ctx, addr) })
}

func dial(ctx context.Context, addr string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil, fmt.Errorf("nothing listens there: %w", err)
	}
	return conn, err
}

// handshake tries TLS as configured.
func (k *check) handshake(ctx context.Context, addr string) error {
	conf, err := k.c.cfg.TLS.load()
	if err != nil {
		return err
	}
	conf.ServerName, _, _ = net.SplitHostPort(addr)
	conn, err := dial(ctx, addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	err = tls.Client(conn, conf).HandshakeContext(ctx)
	var record tls.RecordHeaderError
	var cert *tls.CertificateVerificationError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &cert):
		return fmt.Errorf("the broker's certificate is not trusted; see ssl.ca.location: %w", err)
	case errors.As(err, &record), errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the broker does not answer in TLS here; see the port and security.protocol: %w", err)
	}
	return fmt.Errorf("see ssl.certificate.location, ssl.key.location and ssl.ca.location: %w", err)
}

// plain says whether the broker can be talked to without TLS. It is not where
// it answers to nothing but TLS.
func (k *check) plain(ctx context.Context, addr string) bool {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	bare := k.c.cfg
	bare.SecurityProtocol, bare.SASL = "PLAINTEXT", SASL{}
	l := newLink(bare, addr)
	defer l.close()
	err := l.ask(ctx, func(b *sarama.Broker) error {
		_, err := b.ApiVersions(&sarama.ApiVersionsRequest{Version: 0})
		return err
	})
	if err == nil {
		return true
	}
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	conn, err := dial(within, addr)
	if err != nil {
		return true // login will tell
	}
	defer conn.Close()
	// Only whether TLS is spoken is asked; nothing is sent over it.
	err = tls.Client(conn, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(within)
	var alert tls.AlertError
	return err != nil && !errors.As(err, &alert) && !strings.Contains(err.Error(), "remote error: tls")
}

// login sends a request that a broker answers to those alone who are logged in.
func (k *check) login(ctx context.Context, addr string) error {
	cfg := k.c.cfg
	l := newLink(cfg, addr)
	defer l.close()
	err := l.ask(ctx, func(b *sarama.Broker) error {
		_, err := b.GetMetadata(sarama.NewMetadataRequest(version, []string{cfg.Topic}))
		return err
	})
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sarama.ErrUnsupportedSASLMechanism):
		return fmt.Errorf("the broker does not know %s; see sasl.mechanism: %w", cfg.SASL.Mechanism, err)
	case errors.Is(err, sarama.ErrSASLAuthenticationFailed):
		return fmt.Errorf("the broker refused; see sasl.username and sasl.password: %w", err)
	case cfg.sasl() && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET)):
		return fmt.Errorf("the broker closed the connection, as some do where user name or password are wrong; see sasl.username, sasl.password and sasl.mechanism: %w", err)
	case !cfg.sasl() && (errors.Is(err, io.EOF) || errors.Is(err, sarama.ErrIllegalSASLState)):
		return fmt.Errorf("the broker closed the connection; it may want a login (security.protocol SASL_PLAINTEXT or SASL_SSL): %w", err)
	}
	return err
}

// permissions asks for what the service needs of topic and group.
func (k *check) permissions(ctx context.Context) {
	c := k.c
	k.step(ctx, "permission", "", "describe topic "+c.cfg.Topic, func(ctx context.Context) error {
		_, err := c.Topic(ctx)
		if errors.Is(err, aggregator.ErrNoTopic) {
			return fmt.Errorf("topic %s does not exist, or may not be seen; the service would wait for it: %w", c.cfg.Topic, err)
		}
		return denied(err, "Describe on topic "+c.cfg.Topic)
	})
	k.step(ctx, "permission", "", "see the offsets of group "+c.cfg.GroupID, func(ctx context.Context) error {
		if _, err := c.describeGroup(ctx); err != nil {
			return denied(err, "Read on group "+c.cfg.GroupID)
		}
		_, err := c.Committed(ctx)
		if errors.Is(err, aggregator.ErrNoTopic) {
			return nil // told above
		}
		return denied(err, "Read on group "+c.cfg.GroupID)
	})
	c.cluster.mu.Lock()
	l := c.cluster.layout
	c.cluster.mu.Unlock()
	if l == nil {
		return
	}
	var seen []string // one partition of each leader
	for p, lead := range l.leaders {
		if lead.addr == "" || slices.Contains(seen, lead.addr) {
			continue
		}
		seen = append(seen, lead.addr)
		if !slices.Contains(c.cfg.Brokers, lead.addr) && !k.broker(ctx, lead.addr) {
			continue
		}
		partition := int32(p)
		k.step(ctx, "permission", lead.addr, fmt.Sprintf("read partition %d of topic %s", partition, c.cfg.Topic), func(ctx context.Context) error {
			return denied(k.read(ctx, lead.addr, partition), "Read on topic "+c.cfg.Topic)
		})
	}
}

// read fetches from the start of a partition.
func (k *check) read(ctx context.Context, addr string, partition int32) error {
	c := k.c
	return c.cluster.ask(ctx, addr, func(b *sarama.Broker) error {
		start, err := c.listOffset(b, partition, sarama.OffsetOldest)
		if err != nil {
			return err
		}
		resp, err := b.Fetch(fetchRequest(c.cfg, 0, 1, asked{partition, start, 1, -1}))
		if err != nil {
			return err
		}
		if block := resp.GetBlock(c.cfg.Topic, partition); block != nil && block.Err != sarama.ErrNoError {
			return block.Err
		}
		return nil
	})
}

// denied says which right is missing, where that is it.
func denied(err error, right string) error {
	if errors.Is(err, sarama.ErrTopicAuthorizationFailed) || errors.Is(err, sarama.ErrGroupAuthorizationFailed) || errors.Is(err, sarama.ErrClusterAuthorizationFailed) {
		return fmt.Errorf("not allowed: it needs %s: %w", right, err)
	}
	return err
}
