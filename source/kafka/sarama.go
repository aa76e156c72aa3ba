package kafka

import (
	"crypto/sha256"
	"crypto/sha512"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"
)

// limits sets the bounds that sarama keeps for the whole process: what one
// response may hold, and what one compressed batch may become. The first stays
// below what the head of a TLS record or of an HTTP answer reads as a length,
// so that a client at the wrong port is told rather than out of memory.
var limits = sync.OnceFunc(func() {
	sarama.MaxResponseSize = maxAnswer
	sarama.MaxDecompressedBatchSize = maxInflated
})

// LogLibrary sends what sarama itself says to log at level debug. It concerns
// the whole process: call it before anything of this package runs.
func LogLibrary(log *slog.Logger) { sarama.Logger = libraryLog{log} }

type libraryLog struct{ log *slog.Logger }

func (l libraryLog) Print(v ...any)            { l.log.Debug(strings.TrimSpace(fmt.Sprint(v...))) }
func (l libraryLog) Printf(f string, v ...any) { l.log.Debug(strings.TrimSpace(fmt.Sprintf(f, v...))) }
func (l libraryLog) Println(v ...any)          { l.log.Debug(strings.TrimSpace(fmt.Sprintln(v...))) }

// sarama is the base of all clients: security, names and times. It reads the
// files of secrets and certificates.
func (c Config) sarama(d *dialer) (*sarama.Config, error) {
	limits()
	conf := sarama.NewConfig()
	conf.Version = version
	conf.ClientID = c.clientID()
	conf.Net.DialTimeout = dialTimeout
	conf.Net.ReadTimeout = answerTimeout
	conf.Net.WriteTimeout = answerTimeout
	conf.Net.MaxOpenRequests = 1
	conf.Net.Proxy.Enable = true
	conf.Net.Proxy.Dialer = d
	conf.Metadata.Full = false
	conf.Metadata.AllowAutoTopicCreation = false
	conf.Metadata.RefreshFrequency = metadataInterval
	if c.tls() {
		t, err := c.TLS.load()
		if err != nil {
			return nil, err
		}
		conf.Net.TLS.Enable, conf.Net.TLS.Config = true, t
	}
	if !c.sasl() {
		return conf, nil
	}
	secret, err := c.SASL.secret()
	if err != nil {
		return nil, err
	}
	s := &conf.Net.SASL
	s.Enable = true
	s.Version = sarama.SASLHandshakeV1
	s.Mechanism = sarama.SASLMechanism(c.SASL.Mechanism)
	s.User, s.Password = c.SASL.Username, secret
	switch c.SASL.Mechanism {
	case sarama.SASLTypeSCRAMSHA256:
		s.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &scramClient{hash: sha256.New} }
	case sarama.SASLTypeSCRAMSHA512:
		s.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &scramClient{hash: sha512.New} }
	case sarama.SASLTypeOAuth:
		s.TokenProvider = token(c.SASL)
	}
	return conf, nil
}

// scramClient is one login by SCRAM.
type scramClient struct {
	hash scram.HashGeneratorFcn
	talk *scram.ClientConversation
}

func (s *scramClient) Begin(user, password, authz string) error {
	client, err := s.hash.NewClient(user, password, authz)
	if err != nil {
		return err
	}
	s.talk = client.NewConversation()
	return nil
}

func (s *scramClient) Step(challenge string) (string, error) { return s.talk.Step(challenge) }
func (s *scramClient) Done() bool                            { return s.talk.Done() }

// token provides the OAUTHBEARER token, which is the password.
type token SASL

func (t token) Token() (*sarama.AccessToken, error) {
	secret, err := SASL(t).secret()
	if err != nil {
		return nil, err
	}
	return &sarama.AccessToken{Token: secret}, nil
}
