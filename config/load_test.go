package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tidemark/aggregator"
	"tidemark/event"
	"tidemark/query"
)

// environment is the environment of a test.
func environment(vars map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		v, ok := vars[name]
		return v, ok
	}
}

// write puts a file into dir and returns its path.
func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// load reads a configuration's text in a folder of its own.
func load(t *testing.T, text string, vars map[string]string, opts Options) (*Config, error) {
	t.Helper()
	return Load(write(t, t.TempDir(), "tidemark.yaml", text), environment(vars), opts)
}

// mustLoad is load for a text that passes.
func mustLoad(t *testing.T, text string, vars map[string]string) *Config {
	t.Helper()
	cfg, err := load(t, text, vars, Options{})
	if err != nil {
		t.Fatalf("%v\nof\n%s", err, text)
	}
	return cfg
}

const (
	sales = "query: SELECT userId, sum(totalRevenue) AS totalRevenue, count(*) AS sales FROM sales GROUP BY userId\n"
	least = sales + "kafka: {bootstrap.servers: [localhost:9092], group.id: g}\n"
)

func TestDefaults(t *testing.T) {
	cfg := mustLoad(t, least, nil)
	dir := filepath.Dir(cfg.File)
	want := &Config{
		File:  cfg.File,
		Query: strings.TrimSuffix(strings.TrimPrefix(sales, "query: "), "\n"),
		Kafka: Kafka{
			BootstrapServers: []string{"localhost:9092"}, GroupID: "g",
			AutoOffsetReset: "earliest", IsolationLevel: "read_committed", SessionTimeout: 45 * time.Second,
			SecurityProtocol: "PLAINTEXT", Partitioner: "auto", LeaveOnShutdown: "auto",
		},
		OnGap: "stop",
		State: State{
			Dir: filepath.Join(dir, "tidemark-data"), Memory: 512 << 20, MinFree: 256 << 20,
			ApplyRecords: 1_000_000, ApplyInterval: 2 * time.Second, SetLimit: 10_000,
		},
		Snapshots:  Snapshots{Interval: 30 * time.Second, Keep: 3},
		Events:     Events{TimestampZone: "UTC", Zone: time.UTC, MaxBytes: 64 << 20, MaxBadShare: 0.5},
		HTTP:       HTTP{Listen: "127.0.0.1:8080"},
		Log:        Log{Level: slog.LevelInfo, Format: "auto"},
		Definition: cfg.Definition, Program: cfg.Program,
	}
	if diff := cmp.Diff(want, cfg, compare); diff != "" {
		t.Errorf("defaults (-want +have):\n%s", diff)
	}
	if cfg.HasHistory() || cfg.Definition == nil || cfg.Definition.Topic != "sales" || cfg.Program == nil {
		t.Errorf("history %v, definition %+v", cfg.HasHistory(), cfg.Definition)
	}
}

// compare compares two Configs but for what is behind the compiled query.
var compare = cmp.Options{
	cmp.Comparer(func(a, b Secret) bool { return a.Reveal() == b.Reveal() }),
	cmp.Comparer(func(a, b *time.Location) bool { return a.String() == b.String() }),
	cmp.Comparer(func(a, b *query.Definition) bool { return a == b }),
	cmp.Comparer(func(a, b *aggregator.Program) bool { return a == b }),
}

// TestEverySetting gives each key of the table a value that is not its default
// and finds it in the Config.
func TestEverySetting(t *testing.T) {
	dir := t.TempDir()
	cert, key := certificate(t, dir)
	write(t, dir, "password", "from a file\n")
	text := strings.ReplaceAll(`
kafka:
  bootstrap.servers: [kafka-1.example:9093, "[::1]:9093"]
  group.id: 2024
  auto.offset.reset: LATEST
  isolation.level: read_uncommitted
  group.instance.id: member-1
  session.timeout.ms: 6000
  leave_on_shutdown: True
  security.protocol: sasl_ssl
  sasl.mechanism: scram-sha-512
  sasl.username: me
  sasl.password: file:password
  ssl.ca.location: CERT
  ssl.certificate.location: CERT
  ssl.key.location: KEY
  partitioner: fnv1a
history:
  elasticsearch:
    addresses: https://es-1:9200, https://es-2:9200/search/
    index: sales-*
    query: {range: {day: {gte: 2015-07-29, lt: 1e3, boost: 1.50}}, any: [true, null, "1", 0x10]}
    username: u
    password: p
    ca_file: CERT
    slices: 2
    page_size: 20000
  key: user.id
  fields: {totalRevenue: "sums.`+"`total.revenue`"+`"}
  max_missing_share: 0
  duplicates: sum
  cut:
    mode: timestamp
    timestamp: 2015-07-29T00:00:00+02:00
    slack: 7d
    event_time: saleTimestamp
on_gap: accept
state:
  dir: /var/lib/tidemark
  memory: 64MB
  min_free: 0
  apply_records: 1
  apply_interval: 10ms
  set_limit: 5
snapshots: {url: "s3://bucket?region=eu-west-1", interval: 1m, keep: 1}
events:
  timestamp_zone: Europe/Madrid
  max_bytes: 1 KiB
  dead_letter: {topic: bad.sales, file: bad.ndjson}
  max_bad_share: 1
http:
  listen: :0
  advertise: https://tidemark-1.example:8443/
  tls: {cert_file: CERT, key_file: KEY}
  tokens: [one, file:password2]
  cors_origins: [https://dash.example, "*"]
log: {level: DEBUG, format: json}
`, "CERT", cert)
	text = sales + strings.ReplaceAll(text, "KEY", key)
	write(t, dir, "password2", "two\r\n")
	cfg, err := Load(write(t, dir, "tidemark.yaml", text), environment(nil), Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := &Config{
		File: cfg.File, Query: cfg.Query, Definition: cfg.Definition, Program: cfg.Program,
		Kafka: Kafka{
			BootstrapServers: []string{"kafka-1.example:9093", "[::1]:9093"}, GroupID: "2024", GroupInstanceID: "member-1", LeaveOnShutdown: "true",
			AutoOffsetReset: "latest", IsolationLevel: "read_uncommitted", SessionTimeout: 6 * time.Second,
			SecurityProtocol: "SASL_SSL", SASLMechanism: "SCRAM-SHA-512", SASLUsername: "me",
			SASLPassword: NewSecret("from a file"), SASLPasswordFile: filepath.Join(dir, "password"),
			SSLCA: cert, SSLCertificate: cert, SSLKey: key, Partitioner: "fnv1a",
		},
		History: History{
			Elasticsearch: Elasticsearch{
				Addresses: []string{"https://es-1:9200", "https://es-2:9200/search"}, Index: []string{"sales-*"},
				Query:    json.RawMessage(`{"any":[true,null,"1",16],"range":{"day":{"boost":1.50,"gte":"2015-07-29","lt":1e3}}}`),
				Username: "u", Password: NewSecret("p"), CAFile: cert, Slices: 2, PageSize: 20000,
			},
			Key: []event.Path{{"user", "id"}}, Fields: map[string]event.Path{"totalRevenue": {"sums", "total.revenue"}},
			Duplicates: "sum",
			Cut: Cut{
				Mode: "timestamp", Timestamp: time.Date(2015, 7, 28, 22, 0, 0, 0, time.UTC), Slack: 7 * 24 * time.Hour,
				EventTime: event.Path{"saleTimestamp"},
			},
		},
		OnGap:     "accept",
		State:     State{Dir: "/var/lib/tidemark", Memory: 64e6, ApplyRecords: 1, ApplyInterval: 10 * time.Millisecond, SetLimit: 5},
		Snapshots: Snapshots{URL: "s3://bucket?region=eu-west-1", Interval: time.Minute, Keep: 1},
		Events: Events{
			TimestampZone: "Europe/Madrid", Zone: time.FixedZone("Europe/Madrid", 0), MaxBytes: 1024, MaxBadShare: 1,
			DeadLetter: DeadLetter{Topic: "bad.sales", File: filepath.Join(dir, "bad.ndjson")},
		},
		HTTP: HTTP{
			Listen: ":0", Advertise: "https://tidemark-1.example:8443", TLS: TLS{CertFile: cert, KeyFile: key},
			Tokens: []Secret{NewSecret("one"), NewSecret("two")}, CORSOrigins: []string{"https://dash.example", "*"},
		},
		Log: Log{Level: slog.LevelDebug, Format: "json"},
	}
	if diff := cmp.Diff(want, cfg, compare); diff != "" {
		t.Errorf("settings (-want +have):\n%s", diff)
	}
	mentioned := text + "query_file history.file api_key offsets guard_field"
	for _, k := range keys {
		if !strings.Contains(mentioned, last(k.path)) {
			t.Errorf("the test gives no value to %s", k.shown())
		}
	}
}

// TestWaysOfWriting: block and flow style, lists and single texts, quotes and
// numbers come to the same.
func TestWaysOfWriting(t *testing.T) {
	for _, text := range []string{
		"kafka: {bootstrap.servers: ['a:1', 'b:2'], group.id: g}",
		"kafka: {bootstrap.servers: \"a:1, b:2\", group.id: g}",
		"kafka:\n  bootstrap.servers: a:1,b:2\n  group.id: 'g'",
		"kafka:\n  bootstrap.servers:\n    - a:1\n    - b:2\n    -\n  group.id: g",
		"kafka: {bootstrap.servers: [${A}, '${B:b:2}'], group.id: ${G:g}}",
		"kafka: {\"bootstrap.servers\": &x [a:1, b:2], group.id: g}",
	} {
		cfg := mustLoad(t, sales+text+"\n", map[string]string{"A": "a:1"})
		if !slices.Equal(cfg.Kafka.BootstrapServers, []string{"a:1", "b:2"}) || cfg.Kafka.GroupID != "g" {
			t.Errorf("%s\nis read as %v, group %s", text, cfg.Kafka.BootstrapServers, cfg.Kafka.GroupID)
		}
	}
}

// TestEmptyMeansUnset gives each key nothing, in all the ways there are.
func TestEmptyMeansUnset(t *testing.T) {
	want := mustLoad(t, least, nil)
	for _, k := range keys {
		switch k.path {
		case "query", "kafka/bootstrap.servers", "kafka/group.id":
			continue
		}
		for _, nothing := range []string{"", "''", "~", "null", `""`, "[]", "{}", "'${NOTHING}'", "${NOTHING:}", "${NOWHERE:}"} {
			indent := ""
			text := least
			path := k.path
			if below, ok := strings.CutPrefix(path, "kafka/"); ok {
				text = sales + "kafka:\n  bootstrap.servers: [localhost:9092]\n  group.id: g\n"
				indent, path = "  ", below
			}
			for {
				name, rest, deeper := strings.Cut(path, sep)
				text += indent + name + ":"
				if !deeper {
					break
				}
				text += "\n"
				indent += "  "
				path = rest
			}
			if nothing == "[]" && k.kind.shape != list || nothing == "{}" && k.kind.shape < pairs ||
				strings.Contains(nothing, "$") && k.kind.shape == pairs {
				continue
			}
			cfg := mustLoad(t, text+" "+nothing+"\n", map[string]string{"NOTHING": ""})
			cfg.File, cfg.State.Dir, cfg.Definition, cfg.Program = want.File, want.State.Dir, want.Definition, want.Program
			if diff := cmp.Diff(want, cfg, compare); diff != "" {
				t.Errorf("%s: %q changes (-want +have):\n%s", k.shown(), nothing, diff)
			}
		}
	}
}

// TestEmptyToken: a token that comes out empty must not open the interface.
func TestEmptyToken(t *testing.T) {
	_, err := load(t, least+"http: {tokens: ['${TOKEN}']}\n", map[string]string{"TOKEN": ""}, Options{})
	if err == nil || !strings.Contains(err.Error(), "http.tokens: an entry is empty") {
		t.Errorf("an empty token gives %v", err)
	}
}

// TestUnreadable: a file that is not there is no problem of its content.
func TestUnreadable(t *testing.T) {
	_, err := Load(filepath.Join(t.TempDir(), "nowhere.yaml"), environment(nil), Options{})
	var problems Problems
	if !errors.Is(err, os.ErrNotExist) && !strings.Contains(fmt.Sprint(err), "no such file") || errors.As(err, &problems) {
		t.Errorf("a file that is not there gives %v", err)
	}
}

// TestQueryFile: the query in a file of its own, beside the configuration.
func TestQueryFile(t *testing.T) {
	dir := t.TempDir()
	sql := "-- ${NOT_EXPANDED}\nSELECT userId, count(*) AS n\nFROM sales GROUP BY userId\n"
	write(t, dir, "sales.sql", "\uFEFF"+sql)
	cfg, err := Load(write(t, dir, "tidemark.yaml", "query_file: sales.sql\nkafka: {bootstrap.servers: a:1, group.id: g}\n"), environment(nil), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Query != sql || cfg.Definition.Topic != "sales" || cfg.QueryFile != filepath.Join(dir, "sales.sql") {
		t.Errorf("query %q of %s, topic %s", cfg.Query, cfg.QueryFile, cfg.Definition.Topic)
	}
}

// TestTableIsWhole: every default reads by its kind, every kind has a sample
// that does, and every key has a meaning.
func TestTableIsWhole(t *testing.T) {
	seen := map[string]bool{}
	for i := range keys {
		k := &keys[i]
		if seen[k.path] || k.meaning == "" || k.kind.name == "" || k.kind.want == "" {
			t.Errorf("%s is twice in the table, or says too little of itself", k.shown())
		}
		seen[k.path] = true
		if _, ok := k.defaultValue(); !ok && k.def != "" {
			t.Errorf("the default %q of %s is not %s", k.def, k.shown(), k.kind.want)
		}
		if k.kind.shape == object {
			continue
		}
		if _, ok := k.kind.parse(k.kind.sample); !ok {
			t.Errorf("the sample %q of %s is not %s", k.kind.sample, k.shown(), k.kind.want)
		}
	}
	if !slices.Equal(names["http/tls"], []string{"cert_file", "key_file"}) || len(slices.Collect(maps.Keys(names))) != 12 {
		t.Errorf("sections are %v", names)
	}
}
