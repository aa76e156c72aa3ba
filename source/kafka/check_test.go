package kafka

import (
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"tidemark/internal/testkit"
	"tidemark/internal/testkit/servers"
)

// checkSteps runs Check, within its time, and returns the last step and the
// names of all.
func checkSteps(t *testing.T, cfg Config) (last Step, names string) {
	t.Helper()
	began := time.Now()
	steps := openClient(t, cfg).Check(t.Context())
	if d := time.Since(began); d > CheckTimeout+time.Second {
		t.Errorf("check took %s", d)
	}
	for _, s := range steps {
		names += s.Name + " "
		if s.Err != nil {
			t.Logf("%s %s %s: %v", s.Name, s.Broker, s.Detail, s.Err)
			if len(cfg.SASL.Password) > 3 && contains(s.Err.Error(), cfg.SASL.Password) {
				t.Errorf("the password is told: %v", s.Err)
			}
		}
	}
	return steps[len(steps)-1], names
}

func secured(t *testing.T) (*servers.Certificates, *tls.Config, *tls.Config) {
	t.Helper()
	certs, err := servers.NewCertificates(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(certs.ServerCert, certs.ServerKey)
	if err != nil {
		t.Fatal(err)
	}
	client, err := TLS{CAFile: certs.CA}.load()
	if err != nil {
		t.Fatal(err)
	}
	return certs, &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, client
}

func TestCheckWalksToTheTopic(t *testing.T) {
	t.Parallel()
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: topic})
	last, names := checkSteps(t, configOf(t, b))
	if last.Err != nil || names != "connect login permission permission permission " {
		t.Errorf("steps are %s, the last %+v", names, last)
	}
}

func TestO08PlainClientOnATLSPort(t *testing.T) {
	t.Parallel()
	_, server, client := secured(t)
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: topic, TLS: server, ClientTLS: client})
	last, names := checkSteps(t, configOf(t, b))
	if last.Name != "TLS" || last.Err == nil || !contains(last.Err.Error(), "security.protocol") {
		t.Errorf("steps are %s, the last %+v", names, last)
	}
}

func TestO08TLSClientOnAPlainPort(t *testing.T) {
	t.Parallel()
	certs, _, _ := secured(t)
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: topic})
	cfg := configOf(t, b)
	cfg.SecurityProtocol, cfg.TLS.CAFile = "SSL", certs.CA
	last, names := checkSteps(t, cfg)
	if last.Name != "TLS" || last.Err == nil {
		t.Errorf("steps are %s, the last %+v", names, last)
	}
}

// A login at a port that takes none, in the check and in the service.
func TestO08LoginOnAPlainPort(t *testing.T) {
	t.Parallel()
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: topic})
	b.ControlKey(kmsg.SASLHandshake.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		resp := req.ResponseKind().(*kmsg.SASLHandshakeResponse)
		resp.ErrorCode = kerr.IllegalSaslState.Code // as a Kafka server answers there
		return resp, nil, true
	})
	cfg := configOf(t, b)
	cfg.SecurityProtocol, cfg.SASL = "SASL_PLAINTEXT", SASL{"PLAIN", "admin", "tiger-4711"}
	if last, names := checkSteps(t, cfg); last.Name != "login" || last.Err == nil || !contains(last.Err.Error(), "security.protocol") {
		t.Errorf("steps are %s, the last %+v", names, last)
	}
	m := joinGroup(t, cfg, newLedger(t), "a")
	testkit.Eventually(t, settle, func() bool { return contains(m.group.Status().Problem, "check --connect") }, "it says where to look")
	if problem := m.group.Status().Problem; contains(problem, "tiger-4711") {
		t.Errorf("the password is told: %s", problem)
	}
}

func TestO08UnknownAuthority(t *testing.T) {
	t.Parallel()
	_, server, client := secured(t)
	other, _, _ := secured(t)
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: topic, TLS: server, ClientTLS: client})
	cfg := configOf(t, b)
	cfg.SecurityProtocol, cfg.TLS.CAFile = "SSL", other.CA
	last, names := checkSteps(t, cfg)
	if last.Name != "TLS" || last.Err == nil || !contains(last.Err.Error(), "ssl.ca.location") || names != "connect TLS " {
		t.Errorf("steps are %s, the last %+v", names, last)
	}
}

func TestO08UnresolvableName(t *testing.T) {
	t.Parallel()
	last, names := checkSteps(t, Config{Brokers: []string{"no-such-host.invalid:9092"}, Topic: topic, GroupID: "g"})
	if names != "name " || last.Err == nil || !contains(last.Err.Error(), "no-such-host.invalid") {
		t.Errorf("steps are %s, the last %+v", names, last)
	}
}

func TestO08NothingListens(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	last, names := checkSteps(t, Config{Brokers: []string{addr}, Topic: topic, GroupID: "g"})
	if names != "connect " || last.Err == nil {
		t.Errorf("steps are %s, the last %+v", names, last)
	}
}

// A port that takes connections and says nothing.
func TestO08ASilentPort(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	last, names := checkSteps(t, Config{Brokers: []string{l.Addr().String()}, Topic: topic, GroupID: "g"})
	if last.Name != "login" && last.Name != "TLS" || last.Err == nil {
		t.Errorf("steps are %s, the last %+v", names, last)
	}
}

func TestO08Logins(t *testing.T) {
	t.Parallel()
	certs, server, client := secured(t)
	const password = "tiger-4711"
	b := testkit.NewBroker(t, testkit.BrokerOptions{
		Topic: topic, TLS: server, ClientTLS: client, ClientSASL: plain.Auth{User: "admin", Pass: password}.AsMechanism(),
		More: []kfake.Opt{kfake.EnableSASL(), kfake.Superuser("PLAIN", "admin", password),
			kfake.Superuser("SCRAM-SHA-256", "admin", password), kfake.Superuser("SCRAM-SHA-512", "admin", password)},
	})
	b.Produce(topic, 0, testkit.Text("", "x"))
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, mechanism := range []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} {
		cfg := configOf(t, b)
		cfg.SecurityProtocol, cfg.TLS.CAFile = "SASL_SSL", certs.CA
		cfg.SASL = SASL{mechanism, "admin", "wrong-" + password}
		if last, names := checkSteps(t, cfg); last.Name != "login" || last.Err == nil || names != "connect TLS login " {
			t.Errorf("%s: steps are %s, the last %+v", mechanism, names, last)
		}
		for _, right := range []string{password, "file:" + file} {
			cfg.SASL.Password = right
			if last, names := checkSteps(t, cfg); last.Err != nil {
				t.Errorf("%s: steps are %s, the last %+v", mechanism, names, last)
			}
		}
		r := read(t, startFetcher(t, cfg, FetchOptions{}), 0, 0).until(1)
		r.feed.Close()
	}
	none := configOf(t, b)
	none.SecurityProtocol, none.TLS.CAFile = "SSL", certs.CA
	if last, names := checkSteps(t, none); last.Name != "login" || last.Err == nil || !contains(last.Err.Error(), "SASL") {
		t.Errorf("without a login: steps are %s, the last %+v", names, last)
	}
}

func TestO08Permissions(t *testing.T) {
	t.Parallel()
	mech := scram.Auth{User: "admin", Pass: "a"}.AsSha256Mechanism()
	allow := func(r kmsg.ACLResourceType, name string, op kmsg.ACLOperation) kfake.ACL {
		return kfake.ACL{Resource: r, Name: name, Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: op, Allow: true}
	}
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: topic, ClientSASL: mech, More: []kfake.Opt{
		kfake.EnableSASL(), kfake.EnableACLs(), kfake.Superuser("SCRAM-SHA-256", "admin", "a"),
		kfake.User("PLAIN", "reader", "r",
			allow(kmsg.ACLResourceTypeTopic, topic, kmsg.ACLOperationRead),
			allow(kmsg.ACLResourceTypeGroup, "totals", kmsg.ACLOperationRead)),
		kfake.User("PLAIN", "looker", "l", allow(kmsg.ACLResourceTypeTopic, topic, kmsg.ACLOperationDescribe)),
	}})
	cfg := configOf(t, b)
	cfg.SecurityProtocol = "SASL_PLAINTEXT"
	cfg.SASL = SASL{"PLAIN", "reader", "r"}
	if last, names := checkSteps(t, cfg); last.Err != nil {
		t.Errorf("reader: steps are %s, the last %+v", names, last)
	}
	cfg.SASL = SASL{"PLAIN", "looker", "l"}
	failed := map[string]bool{}
	for _, s := range openClient(t, cfg).Check(t.Context()) {
		if s.Err != nil {
			failed[s.Name+": "+s.Detail] = true
		}
	}
	if len(failed) != 2 || !failed["permission: see the offsets of group totals"] || !failed["permission: read partition 0 of topic sales"] {
		t.Errorf("looker fails in %v", failed)
	}
}
