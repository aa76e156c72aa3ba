package config

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"unicode/utf8"

	"tidemark/aggregator"
	"tidemark/query"
)

// definition parses and compiles the query, and checks against it what the
// other settings say of its columns and its topic.
func (r *reader) definition(cfg *Config) {
	sql, at, ok := r.sql(cfg)
	if !ok {
		return
	}
	def, err := query.Parse(sql)
	if err != nil {
		if !r.assumed(at) {
			r.queryProblem(cfg, at, err)
		}
		return
	}
	cfg.Query, cfg.Definition = sql, def
	program, err := aggregator.Compile(def, aggregator.Options{
		Zone: cfg.Events.Zone, SetLimit: cfg.State.SetLimit, MaxBytes: int(cfg.Events.MaxBytes),
	})
	if err != nil {
		r.problem(r.line(at), "%s cannot be compiled: %v", shown(at), err)
		return
	}
	cfg.Program = program
	if r.assumed(at) {
		return
	}
	r.deadLetter(cfg)
	r.mapping(cfg)
}

// sql is the text of the query, with the key that brought it.
func (r *reader) sql(cfg *Config) (sql, at string, ok bool) {
	if r.set("query") {
		return cfg.Query, "query", true
	}
	if !r.set("query_file") || r.assumed("query_file") {
		return "", "", false
	}
	text, err := os.ReadFile(cfg.QueryFile)
	switch {
	case err != nil:
		r.problem(r.line("query_file"), "query_file: the file %s cannot be read: %v", cfg.QueryFile, reason(err))
		return "", "", false
	case !utf8.Valid(text):
		r.problem(r.line("query_file"), "query_file: the file %s is not UTF-8: a query as plain text is wanted", cfg.QueryFile)
		return "", "", false
	}
	return strings.TrimPrefix(string(text), "\uFEFF"), "query_file", true
}

// queryProblem places an error of the query's text: in the file that holds it,
// at the line there, followed by its place in the query.
func (r *reader) queryProblem(cfg *Config, at string, err error) {
	line := r.line(at)
	p := Problem{File: r.file, Line: line, order: line, Text: err.Error()}
	if !strings.HasPrefix(p.Text, "query:") {
		p.Text = fmt.Sprintf("%s: %s", shown(at), p.Text)
	}
	var place *query.Error
	if errors.As(err, &place) && place.Line > 0 {
		switch where := r.places[at]; {
		case at == "query_file":
			p.File, p.Line = cfg.QueryFile, place.Line
		case where.literal && !where.moved:
			p.Line = line + place.Line
		}
	}
	r.problems = append(r.problems, p)
}

// deadLetter refuses to send bad records to where they come from.
func (r *reader) deadLetter(cfg *Config) {
	const path = "events/dead_letter/topic"
	if r.set(path) && !r.assumed(path) && cfg.Events.DeadLetter.Topic == cfg.Definition.Topic {
		r.problem(r.line(path), "%s is the topic of the query, %s: bad records would be read again; another topic is wanted", shown(path), cfg.Definition.Topic)
	}
}

// mapping checks history.key and history.fields by the definition.
func (r *reader) mapping(cfg *Config) {
	if !cfg.HasHistory() {
		return
	}
	for _, path := range []string{"history/key", "history/fields", "history/cut/guard_field"} {
		if r.assumed(path) {
			return
		}
	}
	m := cfg.Mapping()
	if have, want := len(m.Keys), len(cfg.Definition.Keys); have != want {
		r.problem(r.line("history/key"), "history.key: %d given and %d wanted, one path for each GROUP BY column", have, want)
		return
	}
	if _, err := cfg.Program.NewDocuments(m); err != nil {
		r.problem(r.line("history/fields"), "history.fields: %v", err)
	}
}
