package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"sync"
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
	steps, reached := c.checkBrokers(ctx, c.cfg.Brokers)
	if !reached {
		return steps
	}
	k := &check{c: c}
	k.permissions(ctx)
	return append(steps, k.steps...)
}

// checkBrokers walks to several brokers at once; true where one was reached.
func (c *Client) checkBrokers(ctx context.Context, addrs []string) (steps []Step, reached bool) {
	walks := make([]check, len(addrs))
	ok := make([]bool, len(addrs))
	var wg sync.WaitGroup
	for i, addr := range addrs {
		walks[i].c = c
		wg.Go(func() { ok[i] = walks[i].broker(ctx, addr) })
	}
	wg.Wait()
	for _, w := range walks {
		steps = append(steps, w.steps...)
	}
	return steps, slices.Contains(ok, true)
}

// check is one walk.

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
	what := "without a login"
	if cfg.sasl() {
		what = fmt.Sprintf("as %s by %s", cfg.SASL.Username, cfg.SASL.Mechanism)
		if cfg.SASL.Mechanism == sarama.SASLTypeOAuth {
			what = "by " + cfg.SASL.Mechanism
		}
	}
	if k.step(ctx, "login", addr, what, func(ctx context.Context) error { return k.login(ctx, addr) }) {
		return true
	}
	if last := &k.steps[len(k.steps)-1]; !cfg.tls() && speaksTLS(ctx, addr) {
		*last = Step{"TLS", addr, "talk without TLS",
			fmt.Errorf("the broker speaks TLS, and security.protocol is %s: it is to be SSL or SASL_SSL", cfg.protocol())}
	}
	return false
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

// speaksTLS says whether a broker that could not be talked to answers in TLS.
// That is all that is asked: nothing is sent over it, so nothing is verified.
func speaksTLS(ctx context.Context, addr string) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := dial(ctx, addr)
	if err != nil {
		return false
	}
	defer conn.Close()
	err = tls.Client(conn, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(ctx)
	var remote *net.OpError
	return err == nil || errors.As(err, &remote) && remote.Op == "remote error" // an alert, in TLS
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
	case cfg.sasl() && errors.Is(err, sarama.ErrIllegalSASLState):
		return fmt.Errorf("the broker takes no login at this port; see the port and security.protocol: %w", err)
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
	first := make(map[string]int32) // a partition of each leader
	for p, lead := range slices.Backward(l.leaders) {
		if lead.addr != "" {
			first[lead.addr] = int32(p)
		}
	}
	var advertised []string // of which the bootstrap servers say nothing
	for addr := range first {
		if !slices.Contains(c.cfg.Brokers, addr) {
			advertised = append(advertised, addr)
		}
	}
	slices.Sort(advertised)
	steps, _ := c.checkBrokers(ctx, advertised)
	k.steps = append(k.steps, steps...)
	for _, addr := range slices.Sorted(maps.Keys(first)) {
		if slices.ContainsFunc(steps, func(s Step) bool { return s.Broker == addr && s.Err != nil }) {
			continue
		}
		partition := first[addr]
		k.step(ctx, "permission", addr, fmt.Sprintf("read partition %d of topic %s", partition, c.cfg.Topic), func(ctx context.Context) error {
			return denied(k.read(ctx, addr, partition), "Read on topic "+c.cfg.Topic)
		})
	}
}

// read fetches from the start of a partition.
func (k *check) read(ctx context.Context, addr string, partition int32) error {
	c := k.c
	var start int64
	err := c.cluster.ask(ctx, addr, func(b *sarama.Broker) (err error) {
		start, err = c.listOffset(b, partition, sarama.OffsetOldest)
		return err
	})
	if err == nil {
		_, err = c.cluster.fetch(ctx, addr, asked{partition, start, 1, -1}, new(buffers))
	}
	return err
}

// denied says which right is missing, where that is it.
func denied(err error, right string) error {
	if errors.Is(err, sarama.ErrTopicAuthorizationFailed) || errors.Is(err, sarama.ErrGroupAuthorizationFailed) || errors.Is(err, sarama.ErrClusterAuthorizationFailed) {
		return fmt.Errorf("not allowed: it needs %s: %w", right, err)
	}
	return err
}
