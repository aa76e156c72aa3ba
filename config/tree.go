package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// reader walks the nodes of one configuration file and collects what is set
// and what is wrong.
type reader struct {
	file       string
	dir        string // of the file: relative paths begin there
	text       []byte
	veil       veil
	getenv     func(string) (string, bool)
	allowUnset bool

	values   map[string]any    // by path, of what is set
	places   map[string]place  // of what is set, and of the sections that are there
	files    map[string]string // by path: the file of a secret given as file:PATH
	problems Problems
}

// place is where something was set.
type place struct {
	line    int
	literal bool // a text in YAML's literal style, which begins on the next line
	moved   bool // it holds variables, or is in a style that moves its lines
	// assumed: it holds variables that are unset and stands for a text that
	// cannot be known, or it was refused. No rule says more of it.
	assumed bool
}

func (r *reader) problem(line int, format string, args ...any) {
	r.problems = append(r.problems, Problem{File: r.file, Line: line, order: line, Text: fmt.Sprintf(format, args...)})
}

// set says whether a key was given with something in it.
func (r *reader) set(path string) bool {
	_, ok := r.values[path]
	return ok
}

// assumed says whether a key's value stands for one that cannot be known, or it
// or a section above it was refused.
func (r *reader) assumed(path string) bool {
	for ; path != ""; path = parent(path) {
		if r.places[path].assumed {
			return true
		}
	}
	return false
}

// line is where path was set, else where the nearest section above it begins.
func (r *reader) line(path string) int {
	for ; path != ""; path = parent(path) {
		if p, ok := r.places[path]; ok {
			return p.line
		}
	}
	return 1
}

// read parses the text and walks it. It returns false where that gives nothing
// that more could be said of.
func (r *reader) read() bool {
	var masked []byte
	r.veil, masked = draw(r.text)
	d := yaml.NewDecoder(bytes.NewReader(masked))
	var doc, more yaml.Node
	switch err := d.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return true
	case err != nil:
		r.syntax(err)
		return false
	}
	switch top := doc.Content[0]; {
	case isEmpty(top):
	case top.Kind != yaml.MappingNode:
		r.problem(top.Line, "the file is %s: settings are wanted, such as %s", describe(top), "kafka: {group.id: tidemark-sales}")
		return false
	default:
		r.section(top, "")
	}
	switch err := d.Decode(&more); {
	case err == nil:
		r.problem(more.Line, "a second YAML document begins here: one is wanted")
	case !errors.Is(err, io.EOF):
		r.syntax(err)
		return false
	}
	return true
}

var syntaxLine = regexp.MustCompile(`^yaml: (?:line ([0-9]+): )?(.*)`)

// syntax reports what the YAML parser complains of. Its words may quote a name
// after * or &, which may be a secret that should have been in quotes.
func (r *reader) syntax(err error) {
	line, text := 1, err.Error()
	if m := syntaxLine.FindStringSubmatch(strings.ReplaceAll(text, "\n", " ")); m != nil {
		line, _ = strconv.Atoi(m[1])
		text = m[2]
	}
	if strings.HasPrefix(text, "unknown anchor") {
		text = "a text that begins with * is an alias in YAML, and there is no such anchor: put the text in quotes"
		line = max(line, r.firstAlias())
	}
	if hint := syntaxHints[text]; hint != "" {
		text += ": " + hint
	}
	r.problem(max(line, 1), "the YAML cannot be read: %s", text)
}

// syntaxHints say what is behind the parser's commonest complaints, whose line
// is the one where the block begins.
var syntaxHints = map[string]string{
	"did not find expected key":                       "in the block that begins here a line is not indented as the others are, or has no NAME: VALUE",
	"mapping values are not allowed in this context":  "a line is indented too far, or a text that holds a colon is not in quotes",
	"found character that cannot start any token":     "a line is indented with a tab, where YAML wants blanks, or a text that begins with @, % or ` is not in quotes",
	"could not find expected ':'":                     "a line is not NAME: VALUE, or is not indented as the others are",
	"found a tab character that violates indentation": "YAML wants blanks",
}

var alias = regexp.MustCompile(`(?m)[:\[,-]\s*\*[^\s]`)

func (r *reader) firstAlias() int {
	at := alias.FindIndex(r.text)
	if at == nil {
		return 1
	}
	return 1 + bytes.Count(r.text[:at[0]], []byte("\n"))
}

// section walks a mapping whose keys are of the table.
func (r *reader) section(n *yaml.Node, at string) {
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		nameNode, value := n.Content[i], follow(n.Content[i+1])
		if nameNode.Kind != yaml.ScalarNode {
			r.problem(nameNode.Line, "a key is %s: a name is wanted", describe(nameNode))
			continue
		}
		name := r.veil.lift(nameNode.Value)
		path := join(at, name)
		if strings.Contains(name, sep) {
			path = "" // it would pass for a key below
		}
		_, isSection := names[path]
		k := keyAt[path]
		if path == "" || k == nil && !isSection {
			r.unknown(nameNode.Line, at, name, value)
			continue
		}
		if first, twice := seen[name]; twice {
			r.problem(nameNode.Line, "%s is given twice, first in line %d: once is wanted", shown(path), first)
			continue
		}
		seen[name] = nameNode.Line
		if k != nil {
			r.setting(k, nameNode.Line, value)
			continue
		}
		r.places[path] = place{line: nameNode.Line}
		switch {
		case isEmpty(value):
		case value.Kind == yaml.MappingNode:
			r.section(value, path)
		default:
			r.problem(value.Line, "%s is %s: a mapping is wanted, with %s", shown(path), describe(value), strings.Join(names[path], ", "))
			r.places[path] = place{line: nameNode.Line, assumed: true}
		}
	}
}

// setting reads the value of one key.
func (r *reader) setting(k *key, line int, n *yaml.Node) {
	if isEmpty(n) {
		return
	}
	p := place{line: line, literal: n.Style&yaml.LiteralStyle != 0,
		moved: n.Style&yaml.FoldedStyle != 0 || n.Style&yaml.DoubleQuotedStyle != 0}
	var v any
	var ok bool
	switch k.kind.shape {
	case one:
		v, ok = r.scalar(k, n, &p)
	case list:
		v, ok = r.list(k, n, &p)
	case pairs:
		v, ok = r.pairs(k, n, &p)
	case object:
		v, ok = r.object(k, n, &p)
	}
	if ok {
		r.values[k.path] = v
		r.places[k.path] = p
	} else {
		r.places[k.path] = place{line: line, assumed: v == failedValue}
	}
}

// failedValue says that a value was there and was refused, so that no rule
// complains of its absence too.
var failedValue any = struct{ failed bool }{true}

// scalar reads a node that must be one text; false where it is empty or, with
// failedValue, refused.
func (r *reader) scalar(k *key, n *yaml.Node, p *place) (any, bool) {
	if n.Kind != yaml.ScalarNode {
		r.problem(n.Line, "%s is %s: %s is wanted", k.shown(), describe(n), k.kind.want)
		return failedValue, false
	}
	e, ok := r.expand(n, p)
	if !ok {
		return failedValue, false
	}
	if e.text == "" || n.Tag == "!!null" && !e.expanded {
		return nil, false
	}
	return r.parse(k, n, e, e.text, p)
}

// parse reads a text by k's kind.
func (r *reader) parse(k *key, n *yaml.Node, e expansion, text string, p *place) (any, bool) {
	given := text
	if k.kind.secret {
		var ok bool
		if text, ok = r.secret(k, n, e, text); !ok {
			return failedValue, false
		}
	}
	v, ok := k.kind.parse(text)
	if !ok && len(e.unset) > 0 {
		v, ok = k.kind.parse(k.kind.sample)
	}
	if !ok {
		r.problem(n.Line, "%s", k.refusal(r.quote(k, n, e, given)))
		return failedValue, false
	}
	if k.kind.file && len(e.unset) == 0 {
		v = r.resolve(text)
	}
	return v, true
}

// quote is a text as messages show it: as the file has it, not what the
// environment made of it, and of a secret nothing.
func (r *reader) quote(k *key, n *yaml.Node, e expansion, text string) string {
	switch {
	case k.kind.secret, strings.Contains(text, "@") && strings.Contains(text, "://"):
		return "the value"
	case e.expanded:
		return fmt.Sprintf("what %q stands for", clip(r.veil.lift(n.Value)))
	}
	return fmt.Sprintf("%q", clip(text))
}

// clip keeps a quoted text short.
func clip(s string) string {
	if len(s) > 60 {
		return strings.ToValidUTF8(s[:60], "") + "…"
	}
	return s
}

// resolve makes a path relative to the folder of the configuration file.
func (r *reader) resolve(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(r.dir, path)
}

// secret reads the file of a secret that is given as file:PATH.
func (r *reader) secret(k *key, n *yaml.Node, e expansion, text string) (string, bool) {
	path, isFile := strings.CutPrefix(text, "file:")
	if !isFile {
		return text, true
	}
	if len(e.unset) > 0 {
		return k.kind.sample, true
	}
	path = r.resolve(path)
	content, err := os.ReadFile(path)
	if err != nil {
		r.problem(n.Line, "%s: the file %s cannot be read: %v", k.shown(), path, reason(err))
		return "", false
	}
	content = bytes.TrimSuffix(bytes.TrimSuffix(content, []byte("\n")), []byte("\r"))
	if len(content) == 0 {
		r.problem(n.Line, "%s: the file %s is empty: one line of text is wanted", k.shown(), path)
		return "", false
	}
	r.files[k.path] = path
	return string(content), true
}

// reason is what the system says of a file, without its name.
func reason(err error) error {
	var pathErr *os.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}

// expand replaces the variables in a scalar and reports those that are unset.
func (r *reader) expand(n *yaml.Node, p *place) (expansion, bool) {
	if n.Style&yaml.TaggedStyle != 0 && (!strings.HasPrefix(n.Tag, "!!") || n.Tag == "!!binary") {
		r.problem(n.Line, "the value has the tag %s, which is not read: write it out, or as ${NAME} or, of a secret, file:PATH", n.Tag)
		return expansion{}, false
	}
	text := r.veil.lift(n.Value)
	e := expand(text, r.getenv, "unset")
	line := func(offset int) int {
		if n.Style&yaml.LiteralStyle != 0 {
			return n.Line + 1 + strings.Count(text[:offset], "\n")
		}
		return n.Line
	}
	if e.bad >= 0 {
		r.problem(line(e.bad), "${ is not followed by a variable: ${NAME} or ${NAME:default} is wanted, or $${ for a plain ${")
		return e, false
	}
	if e.nested >= 0 {
		r.problem(line(e.nested), "a default holds ${: variables do not stand within each other, and a default ends at the first }")
		return e, false
	}
	if len(e.unset) > 0 && !r.allowUnset {
		for _, u := range e.unset {
			r.problem(line(u.offset), "the environment variable %s is not set: set it, or give a default as ${%s:default}", u.name, u.name)
		}
		return e, false
	}
	p.assumed = p.assumed || len(e.unset) > 0
	p.moved = p.moved || e.expanded
	return e, true
}

// list reads a sequence, or one text alone.
func (r *reader) list(k *key, n *yaml.Node, p *place) (any, bool) {
	var items []any
	failed := false
	take := func(v any, ok bool) {
		if ok {
			items = append(items, v)
		}
		failed = failed || v == failedValue
	}
	switch n.Kind {
	case yaml.SequenceNode:
		for _, item := range n.Content {
			item = follow(item)
			v, ok := r.scalar(k, item, p)
			if !ok && v != failedValue && k.kind.secret {
				// Dropping it could open what it was to close.
				r.problem(item.Line, "%s: an entry is empty: %s is wanted, or no list", k.shown(), k.kind.want)
				v = failedValue
			}
			take(v, ok)
		}
	case yaml.ScalarNode:
		e, ok := r.expand(n, p)
		switch {
		case !ok:
			return failedValue, false
		case !k.kind.split:
			take(r.parseText(k, n, e, e.text, p))
		default:
			for text := range strings.SplitSeq(e.text, ",") {
				take(r.parseText(k, n, e, strings.TrimSpace(text), p))
			}
		}
	default:
		r.problem(n.Line, "%s is %s: a list is wanted, each %s", k.shown(), describe(n), k.kind.want)
		return failedValue, false
	}
	switch {
	case failed:
		return failedValue, false
	case len(items) == 0:
		return nil, false
	}
	return k.kind.join(items), true
}

// parseText is parse for a text that may be empty.
func (r *reader) parseText(k *key, n *yaml.Node, e expansion, text string, p *place) (any, bool) {
	if text == "" {
		return nil, false
	}
	return r.parse(k, n, e, text, p)
}

// pairs reads a mapping of names to texts.
func (r *reader) pairs(k *key, n *yaml.Node, p *place) (any, bool) {
	if n.Kind != yaml.MappingNode {
		r.problem(n.Line, "%s is %s: a mapping is wanted, of %s to %s", k.shown(), describe(n), k.kind.names, k.kind.want)
		return failedValue, false
	}
	var all any
	failed := false
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		nameNode := n.Content[i]
		name := r.veil.lift(nameNode.Value)
		if first, twice := seen[name]; twice {
			r.problem(nameNode.Line, "%s: %s is given twice, first in line %d: once is wanted", k.shown(), tidy(name), first)
			failed = true
			continue
		}
		seen[name] = nameNode.Line
		v, ok := r.scalar(k, follow(n.Content[i+1]), p)
		if !ok {
			failed = failed || v == failedValue
			continue
		}
		if all, ok = k.kind.pair(all, name, v); !ok {
			r.problem(nameNode.Line, "%s: %q is not %s", k.shown(), clip(name), k.kind.names)
			failed = true
		}
	}
	if failed {
		return failedValue, false
	}
	return all, all != nil
}

// follow is the node that an alias stands for.
func follow(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// isEmpty says whether a node holds nothing at all: that is as if its key were
// not there.
func isEmpty(n *yaml.Node) bool {
	switch n.Kind {
	case yaml.ScalarNode:
		return n.ShortTag() == "!!null" || n.Value == ""
	case yaml.MappingNode, yaml.SequenceNode:
		return len(n.Content) == 0
	}
	return n.Kind == 0
}

// describe names the form of a node, without its content.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	return "a text"
}
