package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// TestSecretsAreNeverPrinted formats, logs and encodes a whole configuration
// with a secret at each place that takes one.
func TestSecretsAreNeverPrinted(t *testing.T) {
	const word = "hunter2"
	cfg := mustLoad(t, sales+`
kafka: {bootstrap.servers: a:1, group.id: g, security.protocol: SASL_PLAINTEXT, sasl.mechanism: PLAIN, sasl.username: u, sasl.password: "${PW}"}
history:
  elasticsearch: {addresses: http://a:9200, index: a, username: u, password: hunter2}
  cut: {mode: latest}
http: {tokens: [hunter2, "${PW}"]}
`, map[string]string{"PW": word})
	keyed := *cfg
	keyed.History.Elasticsearch.APIKey = NewSecret(word)
	keyed.Definition, keyed.Program = nil, nil
	if cfg.Kafka.SASLPassword.Reveal() != word || cfg.HTTP.Tokens[1].Reveal() != word {
		t.Fatal("the secrets are not the ones given")
	}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%X", "%10.3v", "%t", "%e", "%U", "%c", "%p", "%z", "%T"} {
		fmt.Fprintf(&out, verb+"\n", keyed)
		fmt.Fprintf(&out, verb+"\n", keyed.HTTP.Tokens)
		fmt.Fprintf(&out, verb+"\n", keyed.Kafka.SASLPassword)
	}
	fmt.Fprintln(&out, keyed, &keyed, keyed.Kafka.SASLPassword, fmt.Errorf("log in with %v", keyed.Kafka.SASLPassword))
	for _, h := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(h).Info("configuration", "config", keyed, "kafka", keyed.Kafka, "password", keyed.Kafka.SASLPassword, "tokens", keyed.HTTP.Tokens)
	}
	text, err := json.Marshal(keyed)
	if err != nil {
		t.Fatal(err)
	}
	out.Write(text)
	hex := fmt.Sprintf("%x", word)
	for _, leak := range []string{word, hex, strings.ToUpper(hex), "104 117 110"} {
		if strings.Contains(out.String(), leak) {
			t.Errorf("a secret is printed, as %q, in\n%s", leak, out.String())
		}
	}
	if !strings.Contains(out.String(), "***") {
		t.Error("nothing stands in the place of a secret")
	}
}
