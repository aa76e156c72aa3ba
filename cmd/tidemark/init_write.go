package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tidemark/query"
)

// wanted is what a configuration is made for: what flags and answers say.
type wanted struct {
	brokers      []string
	topic, group string

	protocol, mechanism, username, password string
	ca, certificate, key                    string // files

	search                     []string // addresses
	index                      string
	searchUser, searchPassword string
	searchAPIKey, searchCA     string
	historyFile                string
	cut                        string   // a mode, or the instant of mode timestamp
	keys, historyKeys          []string // paths
	output                     string
}

// hasHistory says whether there is a history to begin with.
func (w *wanted) hasHistory() bool { return len(w.search) > 0 || w.historyFile != "" }

// file is the whole configuration, with comments. sql is its query.
func (w *wanted) file(about, sql string, fit historyFit, p *proposal) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	set := func(indent, key, value, comment string) {
		if value != "" {
			if comment != "" {
				comment = "  # " + comment
			}
			line("%s%s: %s%s", indent, key, quoteYAML(value), comment)
		}
	}
	line("# %s", about)
	line("# What is not set here has its default: docs/configuration.md has every setting.\n")
	line("# The definition. A line that begins with -- is left out: take the dashes away to have it.")
	line("query: |")
	for text := range strings.Lines(strings.ReplaceAll(sql, "${", "$${")) {
		b.WriteString("  " + text)
	}
	line("\nkafka:")
	line("  bootstrap.servers: [%s]", quotedList(w.brokers))
	set("  ", "group.id", w.group, "members with one group share the partitions of the topic")
	set("  ", "security.protocol", w.protocol, "")
	set("  ", "sasl.mechanism", w.mechanism, "")
	set("  ", "sasl.username", w.username, "")
	set("  ", "sasl.password", w.password, "")
	set("  ", "ssl.ca.location", w.path(w.ca), "")
	set("  ", "ssl.certificate.location", w.path(w.certificate), "")
	set("  ", "ssl.key.location", w.path(w.key), "")
	if w.hasHistory() {
		w.history(line, set, fit, p)
	} else {
		line("  auto.offset.reset: earliest  # or latest: count from now on")
		line("\n# history: ...  where totals begin with what a job has added up before: docs/history.md")
	}
	line("\nstate:")
	line("  dir: ./tidemark-data  # one directory in it for each partition")
	line("\nsnapshots:")
	line("  url: \"\"  # empty: inside state.dir, for one member; file, s3, gs or azblob: docs/snapshots.md")
	line("\nevents:")
	line("  dead_letter: {file: dead-letters.ndjson}  # bad records are kept there; topic: sends them to Kafka")
	line("\nhttp:")
	line("  listen: 127.0.0.1:8080")
	return b.String()
}

// history is the section of that name.
func (w *wanted) history(line func(string, ...any), set func(indent, key, value, comment string), fit historyFit, p *proposal) {
	line("\n# Where the totals begin: one document a key, in the shape of a result row.")
	line("history:")
	if w.historyFile != "" {
		set("  ", "file", w.path(w.historyFile), "")
	} else {
		line("  elasticsearch:")
		line("    addresses: [%s]", quotedList(w.search))
		set("    ", "index", w.index, "a name, an alias or a pattern")
		set("    ", "username", w.searchUser, "")
		set("    ", "password", w.searchPassword, "")
		set("    ", "api_key", w.searchAPIKey, "")
		set("    ", "ca_file", w.path(w.searchCA), "")
	}
	if len(fit.keys) > 0 {
		line("  key: %s  # where a document holds the key", paths(fit.keys))
	}
	if len(fit.fields) > 0 {
		line("  fields:  # where a document holds a result")
		for _, name := range slices.Sorted(maps.Keys(fit.fields)) {
			line("    %s: %s", quoteYAML(name), quoteYAML(query.QuotePath(fit.fields[name])))
		}
	}
	line("  # Where the stream takes over from the history. No event may be in both, and none in neither.")
	line("  cut:")
	switch w.cut {
	case "earliest":
		line("    mode: earliest  # the history holds none of the events that are in the topic")
	case "latest":
		line("    mode: latest  # the history holds all events that are in the topic when the cut is made")
	case "guard":
		line("    mode: guard  # for each key, events at or before the document's time are in it already")
		set("    ", "event_time", p.time.name(), "")
		set("    ", "guard_field", query.QuotePath(fit.guard), "")
	default:
		line("    mode: timestamp  # the history holds all before this instant, the stream all from it on")
		set("    ", "timestamp", w.cut, "")
		if p.time != nil {
			set("    ", "event_time", p.time.name(), "")
		}
	}
}

// path is a path as the file has it: relative ones are relative to its folder.
func (w *wanted) path(name string) string {
	if name == "" || filepath.IsAbs(name) || filepath.Dir(w.output) == "." {
		return name
	}
	if whole, err := filepath.Abs(name); err == nil {
		return whole
	}
	return name
}

// quoteYAML writes a text in double quotes, as JSON and YAML both have it.
func quoteYAML(text string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(text); err != nil { // texts always encode
		return `""`
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func quotedList(texts []string) string {
	quoted := make([]string, len(texts))
	for i, t := range texts {
		quoted[i] = quoteYAML(t)
	}
	return strings.Join(quoted, ", ")
}

// refuseExisting says so where there is something at path already.
func refuseExisting(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("%s is there already and is not overwritten: choose another --output, or move it away", path)
	}
	return nil
}

// writeNew writes a file that is not there yet, durably; what could not be
// written whole is removed.
func writeNew(path, text string) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return refuseExisting(path)
	}
	if err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	_, err = f.WriteString(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return fmt.Errorf("write the configuration %s: %w", path, errors.Join(err, os.Remove(path)))
	}
	return nil
}
