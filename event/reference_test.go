package event

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// reference is Scan written out with a strict JSON library that is not ours.
// For DuplicateField it says whether each path would do.
func reference(t failer, record []byte, paths []Path) (Reason, []Value, []bool) {
	b := bytes.TrimPrefix(record, []byte("\xEF\xBB\xBF"))
	values := make([]Value, len(paths))
	doubles := make([]bool, len(paths))
	if len(bytes.Trim(b, " \t\r\n")) == 0 {
		return Empty, values, doubles
	}
	if !jsontext.Value(b).IsValid(jsontext.AllowDuplicateNames(true)) {
		utf16 := len(b) >= 2 && (b[0] == 0) != (b[1] == 0)
		utf32 := len(b) >= 4 && bytes.HasPrefix(b, []byte{0, 0, 0}) && b[3] != 0
		if !utf8.Valid(b) || utf16 || utf32 {
			return NotUTF8, values, doubles
		}
		return NotJSON, values, doubles
	}
	b = bytes.Trim(b, " \t\r\n")
	if b[0] != '{' {
		return NotObject, values, doubles
	}
	walk(t, b, nil, paths, values, doubles)
	if slices.Contains(doubles, true) {
		return DuplicateField, values, doubles
	}
	return OK, values, doubles
}

// walk reads one object that lies at prefix.
func walk(t failer, object []byte, prefix Path, paths []Path, values []Value, doubles []bool) {
	dec := jsontext.NewDecoder(bytes.NewReader(object), jsontext.AllowDuplicateNames(true))
	must := func(err error) {
		if err != nil {
			t.Fatalf("the reference fails on %q: %v", object, err)
		}
	}
	_, err := dec.ReadToken()
	must(err)
	seen := map[string]bool{}
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		must(err)
		here := append(slices.Clone(prefix), name.String())
		raw, err := dec.ReadValue()
		must(err)
		inner := false
		for i, p := range paths {
			if len(p) < len(here) || !slices.Equal(p[:len(here)], here) {
				continue
			}
			doubles[i] = doubles[i] || seen[here[len(here)-1]]
			inner = inner || len(p) > len(here)
			if len(p) == len(here) {
				values[i] = valueOf(t, raw)
			}
		}
		seen[here[len(here)-1]] = true
		if inner && raw[0] == '{' {
			walk(t, bytes.Clone(raw), here, paths, values, doubles)
		}
	}
}

func valueOf(t failer, raw jsontext.Value) Value {
	v := Value{Bytes: bytes.Clone(raw)}
	switch raw.Kind() {
	case 'n':
		v.Kind = Null
	case 'f':
		v.Kind = False
	case 't':
		v.Kind = True
	case '0':
		v.Kind = Number
	case '"':
		text, err := jsontext.AppendUnquote(nil, raw)
		if err != nil {
			t.Fatalf("the reference fails on %q: %v", raw, err)
		}
		v.Kind, v.Bytes = Text, text
	case '[':
		v.Kind = Array
	case '{':
		v.Kind = Object
	}
	return v
}

func sameValue(v, w *Value) bool {
	return v.Kind == w.Kind && (v.Kind <= True || bytes.Equal(v.Bytes, w.Bytes))
}

// checkScan compares a Scan with the reference.
func checkScan(t failer, s *Scanner, paths []Path, record []byte) {
	t.Helper()
	before := bytes.Clone(record)
	reason, path := s.Scan(record)
	want, values, doubles := reference(t, record, paths)
	if !bytes.Equal(record, before) {
		t.Fatalf("Scan(%q) wrote to the record", before)
	}
	if reason != want {
		t.Fatalf("Scan(%.300q) = %v, want %v", record, reason, want)
	}
	if (path >= 0) != (reason == DuplicateField) || path >= 0 && !doubles[path] {
		t.Fatalf("Scan(%.300q) = %v, path %d; doubles %v", record, reason, path, doubles)
	}
	if reason != OK {
		return
	}
	for i := range values {
		if !sameValue(&s.Values[i], &values[i]) {
			t.Fatalf("Scan(%.300q): %v is %s, want %s", record, paths[i], show(&s.Values[i]), show(&values[i]))
		}
	}
}

func show(v *Value) string { return fmt.Sprintf("%d %q", v.Kind, v.Bytes) }

// paths splits dotted paths.
func pathsOf(dotted ...string) (paths []Path) {
	for _, d := range dotted {
		paths = append(paths, strings.Split(d, "."))
	}
	return paths
}

// failer is a test of testing or of rapid.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}
