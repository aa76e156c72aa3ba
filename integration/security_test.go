//go:build integration

package integration

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// login is the section kafka for a user who logs in over TLS.
func login(mechanism, user, password string) string {
	return fmt.Sprintf("security.protocol: SASL_SSL\nsasl.mechanism: %s\nsasl.username: %s\nsasl.password: %s\nssl.ca.location: %s",
		mechanism, user, password, broker.Certificates.CA)
}

// Every way in that the broker offers works, for reading and for the group.
func TestLoginsAndTLS(t *testing.T) {
	certs := broker.Certificates
	for name, c := range map[string]struct{ address, kafka string }{
		"TLS":        {broker.SSL, "security.protocol: SSL\nssl.ca.location: " + certs.CA},
		"mutual TLS": {broker.SSL, "security.protocol: SSL\nssl.ca.location: " + certs.CA + "\nssl.certificate.location: " + certs.ClientCert + "\nssl.key.location: " + certs.ClientKey},
		"PLAIN":      {broker.SASLPlaintext, "security.protocol: SASL_PLAINTEXT\nsasl.mechanism: PLAIN\nsasl.username: owner\nsasl.password: " + ownerPassword},
		"SCRAM-256":  {broker.SASLSSL, login("SCRAM-SHA-256", "owner", ownerPassword)},
		"SCRAM-512":  {broker.SASLSSL, login("SCRAM-SHA-512", "owner", ownerPassword)},
	} {
		t.Run(name, func(t *testing.T) {
			topic := newTopic(t, 1)
			s := newService(t, settings{brokers: c.address, query: fmt.Sprintf(revenueQuery, topic), kafka: c.kafka})
			code, out, errs := command(t, "check", "-c", s.file, "--connect")
			if code != 0 {
				t.Errorf("check --connect: exit %d\n%s%s", code, out, errs)
			}
			s.start()
			s.ready()
			produce(t, topic, 0, sale("U-8", "1.25"))
			s.caughtUp(topic)
			s.want("U-8", `{"revenue":1.25}`)
			s.stop()
		})
	}
}

// A mistake shows within 10 s as the step that failed, and no secret is printed.
func TestO08MistakesNameTheStep(t *testing.T) {
	other, err := os.ReadFile(broker.Certificates.ClientCert) // a certificate that signed nothing
	if err != nil {
		t.Fatal(err)
	}
	stranger := t.TempDir() + "/stranger.pem"
	if err := os.WriteFile(stranger, other, 0o600); err != nil {
		t.Fatal(err)
	}
	topic := newTopic(t, 1)
	for name, c := range map[string]struct {
		address, kafka string
		says           []string // one of them, in any case
	}{
		"wrong password":  {broker.SASLSSL, login("SCRAM-SHA-512", "owner", "wrong-secret"), []string{"login"}},
		"unknown CA":      {broker.SSL, "security.protocol: SSL\nssl.ca.location: " + stranger, []string{"tls"}},
		"plain on TLS":    {broker.SSL, "", []string{"tls"}},
		"TLS on plain":    {broker.Address, "security.protocol: SSL\nssl.ca.location: " + broker.Certificates.CA, []string{"tls"}},
		"no such name":    {"no-such-host.invalid:9092", "", []string{"name"}},
		"nobody there":    {"127.0.0.1:1", "", []string{"connect"}},
		"not allowed":     {broker.SASLSSL, login("SCRAM-SHA-512", "guest", guestPassword), []string{"permission", "authoriz"}},
		"wrong mechanism": {broker.SASLSSL, login("PLAIN", "owner", "wrong-secret"), []string{"login"}},
		"plain on SASL":   {broker.SASLPlaintext, "", []string{"login", "connect", "tls"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newService(t, settings{brokers: c.address, query: fmt.Sprintf(revenueQuery, topic), kafka: c.kafka})
			began := time.Now()
			code, out, errs := command(t, "check", "-c", s.file, "--connect")
			if took := time.Since(began); took > 12*time.Second {
				t.Errorf("it took %s", took)
			}
			all := out + errs
			if code != 1 {
				t.Errorf("exit %d, want 1\n%s", code, all)
			}
			said := false
			for _, word := range c.says {
				said = said || strings.Contains(strings.ToLower(all), word)
			}
			if !said {
				t.Errorf("it says none of %q:\n%s", c.says, all)
			}
			host, _, _ := strings.Cut(c.address, ",")
			if !strings.Contains(all, host) {
				t.Errorf("it does not name the broker %s:\n%s", host, all)
			}
			for _, secret := range []string{"wrong-secret", ownerPassword, guestPassword} {
				if strings.Contains(all, secret) {
					t.Errorf("a secret is printed:\n%s", all)
				}
			}
		})
	}
}

// The service with a wrong password is alive, not ready, and says why without
// the secret.
func TestO08ServiceWithAWrongPasswordWaits(t *testing.T) {
	topic := newTopic(t, 1)
	s := newService(t, settings{brokers: broker.SASLSSL, query: fmt.Sprintf(revenueQuery, topic), kafka: login("SCRAM-SHA-256", "owner", "wrong-secret")})
	s.start()
	s.logs("authentication failed")
	if code, _, err := s.get("/healthz"); err != nil || code != http.StatusOK {
		t.Errorf("GET /healthz: %d %v, want 200", code, err)
	}
	if code, _, err := s.get("/readyz"); err != nil || code != http.StatusServiceUnavailable {
		t.Errorf("GET /readyz: %d %v, want 503", code, err)
	}
	if strings.Contains(s.tail(), "wrong-secret") {
		t.Error("the password is in the log")
	}
	s.stop()
}
