package config

import (
	"encoding/json"
	"math"
	"strings"
	"time"

	"tidemark/event"
)

// sep stands between the names of a key's path. It is not a dot because
// Kafka's names have dots in them.
const sep = "/"

// key is one setting.
type key struct {
	path    string // names from the top, with sep between them
	kind    kind
	def     string // the default as a user would write it, "" for none
	unit    string // of the value, for the documentation
	meaning string // for the documentation: sentences in Markdown
}

// shown is the key as messages and documentation name it.
func (k *key) shown() string { return shown(k.path) }

func shown(path string) string { return strings.ReplaceAll(path, sep, ".") }

// keys are all settings, in the order of the documentation.
var keys = []key{
	{"query", kind{name: "SQL", want: "a query", sample: sampleQuery, parse: textKind().parse}, "", "",
		"The definition: the SQL of the totals. This or `query_file` is required."},
	{"query_file", fileKind(), "", "",
		"A file that holds the query. `${…}` is not expanded in it."},

	{"kafka/bootstrap.servers", listOf[string](hostPort(false), true), "", "",
		"The brokers that are asked first, as `host:port`. Required."},
	{"kafka/group.id", groupKind(), "", "",
		"The consumer group. Members with one group share the partitions of the topic. Required."},
	{"kafka/auto.offset.reset", words("earliest", "latest", "error"), "earliest", "",
		"Where a partition begins for which there is neither state nor a history cut: at its beginning, at its end, or not at all (`serve` ends with an error). It is resolved to a number once and kept with the state. A partition that appears later begins at its beginning."},
	{"kafka/isolation.level", words("read_committed", "read_uncommitted"), "read_committed", "",
		"Whether the records of transactions count only once they are committed, or at once."},
	{"kafka/group.instance.id", kafkaNameKind(), "", "",
		"The name of this member for static membership: it keeps its partitions over a restart shorter than the session timeout. Each member needs its own."},
	{"kafka/session.timeout.ms", millis(100, math.MaxInt32), "45000", "ms",
		"After this long without a heartbeat the group gives this member's partitions to others. The brokers have limits of their own for it (`group.min.session.timeout.ms`, `group.max.session.timeout.ms`)."},
	{"kafka/leave_on_shutdown", words("auto", "true", "false"), "auto", "",
		"Whether the member leaves the group when it ends, so that its partitions go to others at once (`true`), or stays, so that they wait for it up to the session timeout (`false`). `auto`: a member with a `group.instance.id` stays, one without leaves."},
	{"kafka/security.protocol", words("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"), "PLAINTEXT", "",
		"How the brokers are spoken to: `SSL` encrypts, `SASL` logs in."},
	{"kafka/sasl.mechanism", words("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"), "", "",
		"How to log in. Required with `SASL_PLAINTEXT` and `SASL_SSL`."},
	{"kafka/sasl.username", textKind(), "", "",
		"The user for `PLAIN` and `SCRAM`."},
	{"kafka/sasl.password", secretKind(), "", "",
		"The password, or with `OAUTHBEARER` the token. A token given as `file:PATH` is read again for each login, so that it can be replaced."},
	{"kafka/ssl.ca.location", fileKind(), "", "",
		"A PEM file with the authorities that sign the brokers' certificates. Without one the system's are taken."},
	{"kafka/ssl.certificate.location", fileKind(), "", "",
		"A PEM file with this client's certificate, for mutual TLS. With `ssl.key.location`."},
	{"kafka/ssl.key.location", fileKind(), "", "",
		"A PEM file with the key of that certificate, not encrypted."},
	{"kafka/partitioner", words("auto", "murmur2", "fnv1a", "crc32"), "auto", "",
		"How the producers place keys: `murmur2` is Java's way, `fnv1a` sarama's, `crc32` librdkafka's. It says into which partition's state a history document goes; `auto` finds out from the topic's newest records and takes `murmur2` where they do not tell. It is checked on every key and never decides an answer."},

	{"history/file", fileKind(), "", "",
		"A file with the history, one JSON document a line, bare or as elasticdump writes it (`{\"_source\": {…}}`); with gzip or zstd as `.gz` or `.zst`."},
	{"history/elasticsearch/addresses", listOf[string](webURL(true, "http://localhost:9200"), true), "", "",
		"The nodes to read the history from: Elasticsearch 7, 8 or OpenSearch. Required with `history.elasticsearch`."},
	{"history/elasticsearch/index", listOf[string](textKind(), true), "", "",
		"A name, an alias, a pattern, or a list of them. Required with `history.elasticsearch`."},
	{"history/elasticsearch/query", queryKind(), "{match_all: {}}", "",
		"Which documents are the history, in Elasticsearch's query language."},
	{"history/elasticsearch/username", textKind(), "", "",
		"The user for basic authentication, with `password`."},
	{"history/elasticsearch/password", secretKind(), "", "",
		"The password for basic authentication."},
	{"history/elasticsearch/api_key", secretKind(), "", "",
		"An API key, in the encoded form, in place of user and password."},
	{"history/elasticsearch/ca_file", fileKind(), "", "",
		"A PEM file with the authorities that sign the nodes' certificates. Without one the system's are taken."},
	{"history/elasticsearch/slices", whole(1, 1024), "4", "slices",
		"How many parts of the history are read at once, at most one for each primary shard."},
	{"history/elasticsearch/page_size", whole(1, math.MaxInt32), "", "documents",
		"How many documents are asked for at once. The index's `max_result_window` bounds it. Without one, as many as make about 4 MiB, at most 5000."},
	{"history/key", listOf[event.Path](pathKind(), false), "", "",
		"Where a document holds the key: a path, or a list of paths for a key of several columns, in the order of GROUP BY. Without it, the result names of the GROUP BY columns."},
	{"history/fields", fieldsKind(), "", "",
		"Where a document holds a result, as result name to path, for those that are not found under their own name. `avg` needs `NAME.sum` and `NAME.count`, `min_by` and `max_by` need `NAME.by`."},
	{"history/max_missing_share", share(), "0.01", "share",
		"The history is refused where more than this share of the documents lack one field, or have no key or a bad value."},
	{"history/duplicates", words("error", "sum", "last"), "error", "",
		"What becomes of one key in two documents: the history is refused, they are added up, or the later line counts (with `history.file` only)."},
	{"history/cut/mode", words("earliest", "latest", "offsets", "timestamp", "guard"), "", "",
		"Where the stream takes over from the history. `earliest` and `latest`: each partition's beginning, or its end when the cut is made. `offsets`: those of `cut.offsets`. `timestamp`: the history holds all before `cut.timestamp`, the stream all from it on. `guard`: the stream is read from its beginning, and of each key the events at or before the document's `cut.guard_field` are in the history already. Required with a history. The cut is made once and kept with the state and the group; to begin anew takes another `state.dir` and `group.id`."},
	{"history/cut/offsets", offsetsKind(), "", "offsets",
		"Mode `offsets`: for every partition of the topic, the first offset that is not in the history, such as `{\"0\": 1234, \"1\": 987}`."},
	{"history/cut/timestamp", instant(), "", "RFC 3339",
		"Mode `timestamp`: the instant."},
	{"history/cut/slack", duration(0), "24h", "duration",
		"Mode `timestamp`: each partition is read from the first record whose own timestamp is not more than this before the cut. It covers records that arrive late or out of order."},
	{"history/cut/event_time", pathKind(), "", "",
		"Modes `timestamp` and `guard`: the event's field with its time. Required for `guard`; for `timestamp`, the record's timestamp is taken without it."},
	{"history/cut/guard_field", pathKind(), "", "",
		"Mode `guard`: the document's field with the time of the last event that it holds."},

	{"on_gap", words("stop", "accept"), "stop", "",
		"What becomes of a partition when the log has removed records before they were folded: it stops and says how many are missing, or it counts them and goes on."},

	{"state/dir", fileKind(), "./tidemark-data", "",
		"The folder of the state, one directory in it for each partition."},
	{"state/memory", size(16<<20, math.MaxInt64), "512MiB", "bytes",
		"What the process may take, about: three sixteenths are for the caches and write buffers of all partitions, seven for totals that are folded and wait for their apply, the rest for what the network and the collector hold."},
	{"state/min_free", size(0, math.MaxInt64), "256MiB", "bytes",
		"Below this much free disk folding stops, and no restore begins that would end below it; reads go on, and both resume by themselves."},
	{"state/apply_records", whole(1, math.MaxInt32), "1000000", "records",
		"The most records that a partition folds in memory, where they are already visible, before one batch goes to disk. It goes earlier where the totals of all partitions that wait for theirs have filled their part of the memory."},
	{"state/apply_interval", duration(time.Millisecond), "2s", "duration",
		"The longest that folded records wait for their apply; while the partition catches up or its stream is heavy (2,000 records an interval), until the next flush, so that a key which comes again is written once. A flush, behind which a crash takes nothing back, comes each fifteen intervals, or each `snapshots.interval` where that is shorter: 1 to 30 s."},
	{"state/set_limit", whole(1, math.MaxInt32), "10000", "members",
		"The most members that a `collect_set` keeps for a key. Over it the smallest are kept and the answer says so."},

	{"snapshots/url", storeURL(), "", "",
		"Where snapshots are published: `file`, `s3`, `gs` or `azblob`. Empty: inside `state.dir`, for one member only."},
	{"snapshots/interval", duration(100 * time.Millisecond), "30s", "duration",
		"How often a partition with something new is published."},
	{"snapshots/keep", whole(1, 1_000_000), "3", "snapshots",
		"How many snapshots of a partition are kept."},

	{"events/timestamp_zone", zone(), "UTC", "",
		"The zone of timestamps that carry none. It is never the host's."},
	{"events/max_bytes", size(1, 1<<30), "64MiB", "bytes",
		"A larger record is a bad record."},
	{"events/dead_letter/topic", kafkaNameKind(), "", "",
		"A topic that bad records are sent to."},
	{"events/dead_letter/file", fileKind(), "", "",
		"A file that bad records are appended to, one JSON line each. Both may be set."},
	{"events/max_bad_share", share(), "0.5", "share",
		"Above this share of bad records, over the last 1000, `/readyz` says `degraded`."},

	{"http/listen", hostPort(true), "127.0.0.1:8080", "",
		"Where the HTTP interface listens. Port 0 takes a free one, which the log names."},
	{"http/advertise", webURL(false, "http://tidemark-1.example:8080"), "", "",
		"The address at which other members reach this one. Without it, the listen address where that names one host, and with a wildcard the local address from which this member reaches Kafka. A loopback address is refused while the brokers are not on loopback."},
	{"http/tls/cert_file", fileKind(), "", "",
		"A PEM file with the server's certificate and its chain, for HTTPS. With `key_file`."},
	{"http/tls/key_file", fileKind(), "", "",
		"A PEM file with the key of that certificate, not encrypted."},
	{"http/tokens", listOf[Secret](tokenKind(), false), "", "",
		"Bearer tokens, any of which opens the interface. Empty: no authentication. Members use the first among themselves."},
	{"http/cors_origins", listOf[string](origin(), true), "", "",
		"The origins whose pages may ask from a browser, or `*`. Empty: none."},

	{"log/level", levelKind(), "info", "",
		"The least severe level that is logged."},
	{"log/format", words("auto", "text", "json"), "auto", "",
		"The form of log lines. `auto` is text on a terminal and JSON elsewhere."},
}

// sampleQuery stands in for a query that cannot be known.
const sampleQuery = "SELECT k, count(*) FROM unset GROUP BY k"

// keyAt finds a key by its path.
var keyAt = func() map[string]*key {
	m := make(map[string]*key, len(keys))
	for i := range keys {
		m[keys[i].path] = &keys[i]
	}
	return m
}()

// names lists what a section may hold, by the section's path ("" is the top),
// in the order of the table. What is itself in names is a section.
var names = func() map[string][]string {
	m := map[string][]string{}
	for _, k := range keys {
		at, rest := "", k.path
		for {
			name, below, deeper := strings.Cut(rest, sep)
			if siblings := m[at]; len(siblings) == 0 || siblings[len(siblings)-1] != name {
				m[at] = append(siblings, name)
			}
			if !deeper {
				break
			}
			at, rest = join(at, name), below
		}
	}
	return m
}()

// join is the path of name below path.
func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + sep + name
}

// parent is the path of the section that holds path.
func parent(path string) string {
	if i := strings.LastIndex(path, sep); i >= 0 {
		return path[:i]
	}
	return ""
}

// defaultValue reads k's default by k's kind; false where it has none.
func (k *key) defaultValue() (any, bool) {
	switch {
	case k.def == "":
		return nil, false
	case k.kind.shape == object:
		return json.RawMessage(`{"match_all":{}}`), true
	}
	return k.kind.parse(k.def)
}
