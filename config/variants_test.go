package config

import (
	"strings"
	"testing"
)

// TestO04O05OddFiles: files that editors, other tools and habits make; each is
// read as it is meant, or refused with a line and a word that says why.
func TestO04O05OddFiles(t *testing.T) {
	const file = least + "history: {file: a, cut: {mode: earliest}, max_missing_share: 0.1}\n"
	for text, want := range map[string]string{
		strings.ReplaceAll(least, "\n", "\r\n"):                               "",
		"\xef\xbb\xbf" + least:                                                "",
		"---\n" + least + "...\n":                                             "",
		least + "# ${NOPE}\nstate: {dir: a} # ${NOPE}\n":                      "",
		least + "http: {listen: '${L:127.0.0.1:9}'}\n":                        "",
		sales + "kafka: {bootstrap.servers: 'a:1, b:2', group.id: !!str 7}\n": "",
		"":                                  "query is missing",
		"# nothing\n":                       "query is missing",
		"null\n":                            "query is missing",
		"- a\n":                             "the file is a list",
		"\xff\xfeq\x00u\x00e\x00r\x00y\x00": "the file is a text",
		least + "---\n" + least:             "tidemark.yaml:3: a second YAML document",
		sales + "kafka:\n\tgroup.id: g\n":   "tidemark.yaml:3: ",
		sales + "kafka: &k {bootstrap.servers: [a:1], group.id: g}\nstate: *k\n":             "unknown key state.group.id",
		sales + "kafka: {group.id: a, 'group.id': b, bootstrap.servers: a:1}\n":              "is given twice",
		sales + "kafka: {group.id: a}\nkafka: {bootstrap.servers: a:1}\n":                    "kafka is given twice, first in line 2",
		sales + "Kafka: {group.id: a, bootstrap.servers: a:1}\n":                             "the nearest known key is kafka",
		sales + "kafka:\nbootstrap.servers: a:1\ngroup.id: g\n":                              "which is group.id under kafka",
		least + "state:\n  dir: a\n   memory: 1GiB\n":                                        "indented too far",
		least + "snapshots: {snapshot_intervall: 30s}\n":                                     "unknown key snapshots.snapshot_intervall",
		least + "<<: {state: {dir: a}}\n":                                                    "merge keys are not read",
		least + "${A}: x\n":                                                                  "unknown key ${A}",
		least + "state: {apply_records: 1e3}\n":                                              "not a whole number",
		least + "state: {apply_records: 0o17}\n":                                             "not a whole number",
		least + "state: {apply_records: 1_000}\n":                                            "not a whole number",
		least + "snapshots: {interval: 30}\n":                                                "a duration with its unit",
		least + "snapshots: {interval: -30s}\n":                                              "a duration with its unit",
		least + "http: {listen: yes}\n":                                                      "not host:port",
		sales + "kafka: {bootstrap.servers: 'kafka://a:9092', group.id: g}\n":                "not host:port",
		sales + "kafka: {bootstrap.servers: 'a:99999', group.id: g}\n":                       "not host:port",
		sales + "kafka: {bootstrap.servers: a:1, group.id: '  '}\n":                          "more than blanks",
		sales + "kafka: {bootstrap.servers: a:1, group.id: \"a\\nb\"}\n":                     "on one line",
		least + "state: {dir: \"a\\0b\"}\n":                                                  "is not a path",
		least + "state: {dir: '${A:${B}}'}\n":                                                "a default holds ${",
		least + "state: {dir: '${}'}\n":                                                      "${ is not followed by a variable",
		least + "http: {tokens: [!secret kafka_password]}\n":                                 "the tag !secret",
		least + "http: {tokens: !vault abc}\n":                                               "the tag !vault",
		least + "state: {dir: !!binary aGk=}\n":                                              "the tag !!binary",
		strings.Replace(file, "0.1", "1%", 1):                                                "a share from 0 to 1",
		strings.Replace(file, "0.1", ".nan", 1):                                              "a share from 0 to 1",
		strings.Replace(file, "mode: earliest", "mode: offsets, offsets: {0: -1}", 1):        "0 or more",
		strings.Replace(file, "mode: earliest", "mode: offsets, offsets: {0: 1, '0': 2}", 1): "given twice",
		strings.Replace(file, "mode: earliest", "mode: timestamp, timestamp: 2015-07-29", 1): "RFC 3339 with its zone",
	} {
		_, err := load(t, text, map[string]string{"A": "1"}, Options{})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q gives %v, want %q", text, err, want)
		}
	}
}
