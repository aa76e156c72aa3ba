package config

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestExpand(t *testing.T) {
	getenv := environment(map[string]string{"A": "1", "EMPTY": "", "NESTED": "${A}", "_a1": "x"})
	for _, c := range []struct{ text, want, unset string }{
		{"plain", "plain", ""},
		{"${A}", "1", ""},
		{"x${A}${A}y", "x11y", ""},
		{"${A:2}", "1", ""},
		{"${B:2}", "2", ""},
		{"${B:}", "", ""},
		{"${B:a:b c#d}", "a:b c#d", ""},
		{"${EMPTY}", "", ""},
		{"${EMPTY:2}", "", ""}, // it is set, to nothing
		{"${NESTED}", "${A}", ""},
		{"${_a1}", "x", ""},
		{"$${A}", "${A}", ""},
		{"$$${A}", "$${A}", ""},
		{"$A $ {A} $", "$A $ {A} $", ""},
		{"${B} ${C} ${A}", "? ? 1", "B C"},
	} {
		e := expand(c.text, getenv, "?")
		var unset []string
		for _, u := range e.unset {
			unset = append(unset, u.name)
			if !strings.HasPrefix(c.text[u.offset:], "${"+u.name) {
				t.Errorf("%q: %s is said to be at %d", c.text, u.name, u.offset)
			}
		}
		if e.text != c.want || strings.Join(unset, " ") != c.unset || e.bad >= 0 {
			t.Errorf("%q gives %q, unset %q, bad %d; want %q, unset %q", c.text, e.text, unset, e.bad, c.want, c.unset)
		}
	}
	for _, text := range []string{"${", "${}", "x${1}", "${A", "${A-b}", "${ A}", "${A\n}"} {
		if e := expand(text, getenv, "?"); e.bad != strings.Index(text, "${") {
			t.Errorf("%q: bad at %d", text, e.bad)
		}
	}
}

// TestVeil: what the parser does not see comes back as it was, wherever it stood.
func TestVeil(t *testing.T) {
	text := "a: [${A}, $${B}, \uE000${C:x: # y}]"
	v, masked := draw([]byte(text))
	if strings.ContainsAny(string(masked), "${}") {
		t.Errorf("the parser sees %q", masked)
	}
	if back := v.lift(string(masked)); back != text {
		t.Errorf("%q comes back as %q", text, back)
	}
}

// TestO05Variables: an unset variable is never an empty value; a default and a
// variable set to nothing are as they say.
func TestO05Variables(t *testing.T) {
	text := sales + "kafka: {bootstrap.servers: ['${ONE}'], group.id: '${TWO:g}', group.instance.id: '${THREE}'}\nstate: {dir: '${FOUR}'}\n"
	_, err := load(t, text, map[string]string{"THREE": ""}, Options{})
	var problems Problems
	if !errors.As(err, &problems) {
		t.Fatalf("two unset variables give %v", err)
	}
	var lines []int
	for _, p := range problems {
		lines = append(lines, p.Line)
	}
	if !slices.Equal(lines, []int{2, 3}) || !strings.Contains(err.Error(), "ONE") || !strings.Contains(err.Error(), "FOUR") ||
		strings.Contains(err.Error(), "TWO") || strings.Contains(err.Error(), "THREE") {
		t.Errorf("unset are ONE and FOUR; reported is\n%v", err)
	}
	cfg := mustLoad(t, text, map[string]string{"ONE": "a:1", "THREE": "", "FOUR": "/d"})
	if cfg.Kafka.GroupID != "g" || cfg.Kafka.GroupInstanceID != "" || cfg.State.Dir != "/d" {
		t.Errorf("read as %+v", cfg)
	}
}

// TestO05AllowUnset gives every key an unset variable: with AllowUnset the file
// passes, and what is wrong without a variable in it still is.
func TestO05AllowUnset(t *testing.T) {
	text := "query: SELECT userId, count(*) AS n FROM ${TOPIC} WHERE x = '${TEXT}' GROUP BY userId\n" + `
kafka:
  bootstrap.servers: ${BROKERS}
  group.id: tidemark-${NAME}
  auto.offset.reset: ${RESET}
  session.timeout.ms: ${TIMEOUT}
  security.protocol: ${PROTOCOL}
  sasl.mechanism: ${MECHANISM}
  sasl.password: file:${DIR}/password
  ssl.ca.location: ${DIR}/ca.pem
history:
  elasticsearch: {addresses: ["https://${ES}:9200"], index: "${INDEX}", query: {term: {a: ${TERM}}}, username: "${U}", password: "${P}", ca_file: "${CA}"}
  key: ${KEY}
  fields: {n: "${N}"}
  max_missing_share: ${SHARE}
  cut: {mode: "${MODE}", timestamp: "${CUT}", slack: ${SLACK}}
state: {memory: ${MEMORY}, apply_interval: "${SECONDS_}s"}
snapshots: {url: "s3://${BUCKET}"}
events: {timestamp_zone: ${ZONE}, dead_letter: {topic: "${DEAD}"}}
http: {listen: "${LISTEN}", advertise: "http://${HOST}:8080", tls: {cert_file: "${CERT}", key_file: "${CERT}.key"}, tokens: ["${TOKEN}"], cors_origins: ${ORIGIN}}
log: {level: ${LEVEL}}
`
	if _, err := load(t, text, nil, Options{AllowUnset: true}); err != nil {
		t.Errorf("with unset variables allowed:\n%v", err)
	}
	_, err := load(t, text, nil, Options{})
	var problems Problems
	if !errors.As(err, &problems) || len(problems) != strings.Count(text, "${") {
		t.Errorf("%d variables are unset; reported are %d:\n%v", strings.Count(text, "${"), len(problems), err)
	}
	_, err = load(t, text+"on_gap: never\nhttp2: ${X}\n", nil, Options{AllowUnset: true})
	if !errors.As(err, &problems) || len(problems) != 2 {
		t.Errorf("two problems that no variable excuses are reported as %v", err)
	}
	// A query that cannot be known is not judged, one that can be is.
	if cfg, err := load(t, "query: ${SQL}\nkafka: {bootstrap.servers: a:1, group.id: g}\n", nil, Options{AllowUnset: true}); err != nil || cfg.Definition != nil {
		t.Errorf("an unknown query gives %v", err)
	}
	if _, err := load(t, "query: SELECT\nkafka: {bootstrap.servers: '${B}', group.id: g}\n", nil, Options{AllowUnset: true}); err == nil {
		t.Error("a wrong query passes beside unset variables")
	}
}
