package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"tidemark/event"
	"tidemark/query"
)

// fieldKind says what a value looks like. A field may have several.
type fieldKind int

const (
	isNull fieldKind = iota
	isBool
	isInteger
	isDecimal     // a number with a fraction or an exponent
	isNumberText  // a text that is a whole number
	isDecimalText // a text that is a number with a fraction or an exponent
	isTimeText
	isText
	isList    // an array of scalars and such arrays: what collect_set takes
	isObjects // an array of objects or deeper arrays
	isObject  // an object without fields
	fieldKinds
)

var kindNames = [fieldKinds]string{
	"null", "boolean", "integer", "decimal", "integer as text", "decimal as text", "time as text", "text", "array", "array of objects", "empty object",
}

// Limits of what is kept of a sample.
const (
	mostFields  = 200 // paths; the rest of a wider event is not looked at
	mostExample = 40  // characters
)

// field is what a sample tells of one path.
type field struct {
	path     event.Path
	kinds    [fieldKinds]int // values that look so
	seen     int             // events that have it, null included
	example  string          // of the first value that is not null, as JSON
	distinct map[string]struct{}
	inKey    int // events whose record has this value as its key
}

// name is the path as the query writes it.
func (f *field) name() string { return query.QuotePath(f.path) }

// last is the last name of the path.
func (f *field) last() string { return f.path[len(f.path)-1] }

// only says whether all values that are not null look like one of kinds, and
// there is one.
func (f *field) only(kinds ...fieldKind) bool {
	n := 0
	for _, k := range kinds {
		n += f.kinds[k]
	}
	return n > 0 && n == f.values()
}

// values is how many events have a value that is not null.
func (f *field) values() int { return f.seen - f.kinds[isNull] }

// looks lists the kinds, for people.
func (f *field) looks() string {
	var names []string
	for k, n := range f.kinds {
		if n > 0 {
			names = append(names, kindNames[k])
		}
	}
	return strings.Join(names, ", ")
}

// sample is what events, or documents, hold.
type sample struct {
	objects int // those that could be read
	fields  []*field
	more    bool // there are fields beyond mostFields
	byPath  map[string]*field

	recordKey string // of a record that has a key, clipped
}

func newSample() *sample { return &sample{byPath: map[string]*field{}} }

// add takes one JSON object; false where text is none. key is that of the
// record, nil without one.
func (s *sample) add(key, text []byte) bool {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if !json.Valid(text) || !bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("{")) {
		return false
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if _, err := dec.Token(); err != nil {
		return false
	}
	s.objects++
	if s.recordKey == "" {
		s.recordKey = clipped(string(key))
	}
	s.object(dec, nil, key, map[string]bool{})
	return true
}

// object reads the members of an object whose brace was read. The text is
// valid, so that no step of it fails.
func (s *sample) object(dec *json.Decoder, at event.Path, key []byte, seen map[string]bool) {
	for dec.More() {
		name, _ := dec.Token()
		text, _ := name.(string)
		path := append(slices.Clone(at), text)
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return
		}
		if raw[0] == '{' && len(path) < mostDepth && !bytes.Equal(bytes.Join(bytes.Fields(raw), nil), []byte("{}")) {
			inner := json.NewDecoder(bytes.NewReader(raw))
			inner.UseNumber()
			if _, err := inner.Token(); err == nil {
				s.object(inner, path, key, seen)
			}
			continue
		}
		id := strings.Join(path, "\x00")
		if f := s.at(id, path); f != nil && !seen[id] {
			seen[id] = true
			f.take(raw, key)
		}
	}
}

// mostDepth is how deep objects are looked into.
const mostDepth = 8

// at is the field of a path, nil beyond the limit.
func (s *sample) at(id string, path event.Path) *field {
	f := s.byPath[id]
	if f == nil {
		if len(s.fields) == mostFields || slices.ContainsFunc(path, odd) {
			s.more = true
			return nil
		}
		f = &field{path: path, distinct: map[string]struct{}{}}
		s.byPath[id] = f
		s.fields = append(s.fields, f)
	}
	return f
}

// odd names are not proposed: empty ones, and those that no line can show.
func odd(name string) bool {
	return name == "" || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) })
}

// take notes a value.
func (f *field) take(raw json.RawMessage, key []byte) {
	f.seen++
	kind, text := looksLike(raw)
	f.kinds[kind]++
	if kind == isNull {
		return
	}
	if f.example == "" {
		f.example = clipped(string(raw))
	}
	f.distinct[text] = struct{}{}
	if len(key) > 0 && string(key) == text {
		f.inKey++
	}
}

// looksLike is the kind of a JSON value, and its text: of a text what it says,
// of all else its JSON.
func looksLike(raw json.RawMessage) (kind fieldKind, text string) {
	switch raw[0] {
	case 'n':
		return isNull, ""
	case 't', 'f':
		return isBool, string(raw)
	case '{':
		return isObject, string(raw)
	case '[':
		return listKind(raw), string(raw)
	case '"':
		if err := json.Unmarshal(raw, &text); err != nil {
			return isText, string(raw)
		}
		v := event.Value{Kind: event.Text, Bytes: []byte(text)}
		if _, reason := v.Decimal(); reason == event.OK {
			if strings.ContainsAny(text, ".eE") {
				return isDecimalText, text
			}
			return isNumberText, text
		}
		if _, reason := v.Timestamp(nil); reason == event.OK {
			return isTimeText, text
		}
		return isText, text
	}
	if bytes.ContainsAny(raw, ".eE") {
		return isDecimal, string(raw)
	}
	return isInteger, string(raw)
}

// listKind tells arrays that collect_set takes from others.
func listKind(raw json.RawMessage) fieldKind {
	var members []json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return isObjects
	}
	for _, m := range members {
		if m[0] == '{' || m[0] == '[' {
			return isObjects
		}
	}
	return isList
}

// clipped is the beginning of a text for a table: one line of bounded length.
func clipped(text string) string {
	runes := []rune(strings.Join(strings.Fields(text), " "))
	if len(runes) > mostExample {
		return string(runes[:mostExample-1]) + "…"
	}
	return string(runes)
}

// printFields shows the fields as a table.
func printFields(out io.Writer, s *sample, what string) error {
	rows := [][]string{{"FIELD", "LOOKS LIKE", "IN", "DISTINCT", "EXAMPLE"}}
	for _, f := range s.fields {
		rows = append(rows, []string{f.name(), f.looks(), fmt.Sprintf("%d%%", f.seen*100/s.objects), number(int64(len(f.distinct))), f.example})
	}
	if _, err := fmt.Fprintf(out, "\n%s in %s\n\n", counted(len(s.fields), "field"), what); err != nil {
		return err
	}
	err := table(out, rows)
	if s.more {
		_, more := fmt.Fprintf(out, "and others: at most %d are looked at, and none whose name is empty or cannot be printed\n", mostFields)
		err = errors.Join(err, more)
	}
	return err
}
