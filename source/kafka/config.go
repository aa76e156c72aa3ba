package kafka

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

// Config says how to reach the brokers, and as whom. Values are Kafka's own.
type Config struct {
	Brokers         []string // host:port
	Topic           string
	GroupID         string
	GroupInstanceID string        // static membership where not empty
	SessionTimeout  time.Duration // 0 is DefaultSessionTimeout
	LeaveOnShutdown string        // LeaveAuto where empty, LeaveTrue, LeaveFalse

	SecurityProtocol string // PLAINTEXT where empty, SSL, SASL_PLAINTEXT, SASL_SSL
	SASL             SASL
	TLS              TLS
	IsolationLevel   string // read_committed where empty, read_uncommitted

	ClientID string // "tidemark" where empty
	Address  string // the member's HTTP address, told to the other members
	Logger   *slog.Logger
}

// SASL is who logs in. Password may be "file:PATH": the file is read anew at
// each login. For OAUTHBEARER the password is the token itself, so a token that
// is rotated in its file is taken up with the next connection.
type SASL struct {
	Mechanism string // PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER
	Username  string
	Password  string
}

// TLS names PEM files. They are read anew for each connection.
type TLS struct {
	CAFile, CertFile, KeyFile string
}

// Limits and times that are not settings of a user.
const (
	DefaultSessionTimeout = 45 * time.Second
	defaultClientID       = "tidemark"

	rebalanceTimeout  = 60 * time.Second // a member that has not rejoined by then is out
	revokeTimeout     = 45 * time.Second // what Revoke may take of it
	shutdownTimeout   = 15 * time.Second // what Revoke may take when the process ends
	leaveTimeout      = 3 * time.Second
	heartbeatInterval = time.Second     // after which a member hears of a rebalance: most of a hand-over
	leastSession      = 6 * time.Second // a broker's group.min.session.timeout.ms, unless it is changed
	metadataInterval  = 5 * time.Second // after twice of which a new partition is seen
	dialTimeout       = 5 * time.Second
	answerTimeout     = 30 * time.Second // silence after which a connection is given up
	maxAnswer         = 256 << 20        // bytes of one response
	maxInflated       = 1 << 30          // bytes that one compressed batch may become
)

// version is the newest protocol that is spoken; brokers say what of it they
// know.
var version = sarama.V3_6_0_0

var protocols = []string{"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"}

var mechanisms = []string{
	sarama.SASLTypePlaintext, sarama.SASLTypeSCRAMSHA256, sarama.SASLTypeSCRAMSHA512, sarama.SASLTypeOAuth,
}

var validTopic = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

// Validate returns all that is wrong with c. It reads the TLS files and asks
// nobody.
func (c Config) Validate() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if len(c.Brokers) == 0 {
		wrong("bootstrap.servers is empty: name at least one broker as host:port")
	}
	for _, b := range c.Brokers {
		if host, port, err := net.SplitHostPort(b); err != nil || host == "" || port == "" {
			wrong("bootstrap.servers: %q is not host:port", b)
		}
	}
	if !validTopic.MatchString(c.Topic) || c.Topic == "." || c.Topic == ".." {
		wrong("topic %q: a topic's name has 1 to 249 letters, digits, '.', '_' and '-'", c.Topic)
	}
	if c.GroupID == "" {
		wrong("group.id is empty")
	}
	if c.GroupInstanceID != "" && !validTopic.MatchString(c.GroupInstanceID) {
		wrong("group.instance.id %q: an id has 1 to 249 letters, digits, '.', '_' and '-'", c.GroupInstanceID)
	}
	if t := c.sessionTimeout(); t < leastSession {
		wrong("session.timeout.ms is %d: at least %d is needed", t.Milliseconds(), leastSession.Milliseconds())
	}
	if !slices.Contains([]string{"", LeaveAuto, LeaveTrue, LeaveFalse}, c.LeaveOnShutdown) {
		wrong("leave_on_shutdown %q: one of auto, true, false is wanted", c.LeaveOnShutdown)
	}
	if c.SecurityProtocol != "" && !slices.Contains(protocols, c.SecurityProtocol) {
		wrong("security.protocol %q: one of %s is wanted", c.SecurityProtocol, strings.Join(protocols, ", "))
	}
	if c.IsolationLevel != "" && c.IsolationLevel != "read_committed" && c.IsolationLevel != "read_uncommitted" {
		wrong("isolation.level %q: read_committed or read_uncommitted is wanted", c.IsolationLevel)
	}
	errs = append(errs, c.validateSASL(), c.validateTLS())
	return errors.Join(errs...)
}

func (c Config) validateSASL() error {
	var errs []error
	if !c.sasl() {
		if c.SASL != (SASL{}) {
			errs = append(errs, fmt.Errorf("sasl.* is set, but security.protocol is %s: SASL_PLAINTEXT or SASL_SSL would log in", c.protocol()))
		}
		return errors.Join(errs...)
	}
	if !slices.Contains(mechanisms, c.SASL.Mechanism) {
		errs = append(errs, fmt.Errorf("sasl.mechanism %q: one of %s is wanted", c.SASL.Mechanism, strings.Join(mechanisms, ", ")))
	}
	if c.SASL.Username == "" && c.SASL.Mechanism != sarama.SASLTypeOAuth {
		errs = append(errs, errors.New("sasl.username is empty"))
	}
	if _, err := c.SASL.secret(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (c Config) validateTLS() error {
	if !c.tls() {
		if c.TLS != (TLS{}) {
			return fmt.Errorf("ssl.* is set, but security.protocol is %s: SSL or SASL_SSL would use it", c.protocol())
		}
		return nil
	}
	_, err := c.TLS.load()
	return err
}

func (c Config) protocol() string {
	if c.SecurityProtocol == "" {
		return "PLAINTEXT"
	}
	return c.SecurityProtocol
}

func (c Config) sasl() bool { return strings.HasPrefix(c.SecurityProtocol, "SASL_") }
func (c Config) tls() bool  { return strings.HasSuffix(c.SecurityProtocol, "SSL") }

func (c Config) readCommitted() bool { return c.IsolationLevel != "read_uncommitted" }

func (c Config) isolation() sarama.IsolationLevel {
	if c.readCommitted() {
		return sarama.ReadCommitted
	}
	return sarama.ReadUncommitted
}

func (c Config) sessionTimeout() time.Duration {
	if c.SessionTimeout == 0 {
		return DefaultSessionTimeout
	}
	return c.SessionTimeout
}

func (c Config) clientID() string {
	if c.ClientID == "" {
		return defaultClientID
	}
	return c.ClientID
}

func (c Config) logger() *slog.Logger {
	if c.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return c.Logger
}

// secret is the password, read from its file where it is one.
func (s SASL) secret() (string, error) {
	path, ok := strings.CutPrefix(s.Password, "file:")
	if !ok {
		return s.Password, nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read sasl.password: %w", err)
	}
	return strings.TrimRight(string(b), "\r\n"), nil
}

// load reads the files.
func (t TLS) load() (*tls.Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read ssl.ca.location: %w", err)
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ssl.ca.location %s holds no certificate in PEM form", t.CAFile)
		}
	}
	if (t.CertFile == "") != (t.KeyFile == "") {
		return nil, errors.New("ssl.certificate.location and ssl.key.location belong together: one of them is empty")
	}
	if t.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("read ssl.certificate.location and ssl.key.location: %w", err)
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	return conf, nil
}
