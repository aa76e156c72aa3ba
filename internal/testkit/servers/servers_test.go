//go:build integration

package servers

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// A record is there after the broker was killed and started again.
func TestKafkaKeepsRecordsOverAKill(t *testing.T) {
	k := NewKafka(t, KafkaOptions{})
	ctx := limit(t)
	cl := client(t, kgo.SeedBrokers(k.Address), kgo.DefaultProduceTopic("sales"), kgo.ConsumeTopics("sales"))
	create(t, cl, "sales")
	if err := cl.ProduceSync(ctx, kgo.StringRecord("first")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	k.Kill()
	if err := k.Restart(); err != nil {
		t.Fatal(err)
	}
	fetches := cl.PollFetches(ctx)
	if err := fetches.Err(); err != nil {
		t.Fatal(err)
	}
	if got := string(fetches.Records()[0].Value); got != "first" {
		t.Fatalf("read %q, want %q", got, "first")
	}
}

// Who logs in over TLS is let in with the right password, and may do nothing
// without an ACL.
func TestKafkaChecksUsers(t *testing.T) {
	k := NewKafka(t, KafkaOptions{Users: map[string]string{"reader": "right", "boss": "secret"}, SuperUser: "boss"})
	ctx := limit(t)
	create(t, client(t, kgo.SeedBrokers(k.Address)), "sales")

	pem, err := os.ReadFile(k.Certificates.CA)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	login := func(user, password string) *kgo.Client {
		return client(t, kgo.SeedBrokers(k.SASLSSL), kgo.DialTLSConfig(&tls.Config{RootCAs: roots}),
			kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha512Mechanism()), kgo.RequestRetries(0))
	}
	if err := login("boss", "secret").Ping(ctx); err != nil {
		t.Errorf("the right password: %v", err)
	}
	if err := login("boss", "wrong").Ping(ctx); err == nil || !strings.Contains(err.Error(), "SASL") {
		t.Errorf("a wrong password: %v, want a refusal", err)
	}
	req := kmsg.NewPtrMetadataRequest()
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = kmsg.StringPtr("sales")
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(ctx, login("reader", "right"))
	if err != nil {
		t.Fatal(err)
	}
	const authorizationFailed = 29
	if code := resp.Topics[0].ErrorCode; code != authorizationFailed {
		t.Errorf("a topic without an ACL: error code %d, want %d", code, authorizationFailed)
	}
}

// Both search servers say who they are.
func TestSearchNodesAnswer(t *testing.T) {
	for name, start := range map[string]func(testing.TB, ...string) *Search{"7.17": NewElasticsearch, "2.19": NewOpenSearch} {
		t.Run(name, func(t *testing.T) {
			resp, err := http.Get(start(t).URL)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			var root struct{ Version struct{ Number string } }
			if err := json.NewDecoder(resp.Body).Decode(&root); err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(root.Version.Number, name) {
				t.Errorf("version %s, want %s", root.Version.Number, name)
			}
		})
	}
}

// A server that cannot start says why, at once.
func TestKafkaThatCannotStartSaysWhy(t *testing.T) {
	_, err := StartKafka(t.TempDir(), KafkaOptions{Properties: map[string]string{"process.roles": "nonsense"}})
	if err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Fatalf("error %v, want one that quotes the bad setting", err)
	}
}

func limit(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func client(t *testing.T, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

func create(t *testing.T, cl *kgo.Client, name string) {
	t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 1, 1
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(t.Context(), cl)
	if err != nil {
		t.Fatal(err)
	}
	if code := resp.Topics[0].ErrorCode; code != 0 {
		t.Fatalf("create topic %s: error code %d", name, code)
	}
}
