//go:build integration

package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Whichever way in the broker offers, init takes it and writes it down, the
// password as the file that it was given in; and its configuration serves.
func TestO08InitLogsIn(t *testing.T) {
	topic := newTopic(t, 2)
	produce(t, topic, 0, lines(example(t, "events.ndjson"))...)
	dir := t.TempDir()
	secret := filepath.Join(dir, "password")
	if err := os.WriteFile(secret, []byte(ownerPassword+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("INIT_PASSWORD", ownerPassword)
	t.Setenv("WRONG_PASSWORD", "wrong-secret")
	certs := broker.Certificates
	scram := []string{"--security-protocol", "SASL_SSL", "--sasl-mechanism", "SCRAM-SHA-512", "--sasl-username", "owner", "--ssl-ca-location", certs.CA}
	for name, c := range map[string]struct {
		address string
		flags   []string
		says    string // where it fails
	}{
		"mutual TLS":     {broker.SSL, []string{"--security-protocol", "SSL", "--ssl-ca-location", certs.CA, "--ssl-certificate-location", certs.ClientCert, "--ssl-key-location", certs.ClientKey}, ""},
		"SCRAM, file":    {broker.SASLSSL, append([]string{"--sasl-password", "file:" + secret}, scram...), ""},
		"SCRAM, name":    {broker.SASLSSL, append([]string{"--sasl-password", "${INIT_PASSWORD}"}, scram...), ""},
		"wrong password": {broker.SASLSSL, append([]string{"--sasl-password", "${WRONG_PASSWORD}"}, scram...), "login"},
		"plain on TLS":   {broker.SSL, nil, "speaks TLS"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "tidemark.yaml")
			code, out, errs := command(t, append([]string{"init", "-o", file, "--bootstrap-servers", c.address, "--topic", topic}, c.flags...)...)
			text, err := os.ReadFile(file)
			if all := out + errs + string(text); strings.Contains(all, ownerPassword) || strings.Contains(all, "wrong-secret") {
				t.Errorf("the password is shown:\n%s%s%s", out, errs, text)
			}
			if c.says != "" {
				if code != 1 || !strings.Contains(errs, c.says) || err == nil {
					t.Errorf("exit %d: %s%s", code, errs, text)
				}
				return
			}
			if code != 0 {
				t.Fatalf("exit %d: %s%s", code, out, errs)
			}
			if code, out, errs := command(t, "check", "-c", file, "--connect"); code != 0 && !strings.Contains(out, "another process listens") {
				t.Errorf("check: exit %d: %s%s\n%s", code, out, errs, text)
			}
		})
	}
}
