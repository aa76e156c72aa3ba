package bootstrap

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// lexer walks the JSON that a search server sends. It is strict about what
// stands round the documents and looks at those for their ends alone: what
// reads a document judges it, so that a bad one does not spoil its page. After
// a mistake bad is set and nothing more is found.
//
//	for ok := l.open('{'); ok; ok = l.more('}') {
//		switch string(l.name()) {
//		…
//		default:
//			l.value()
type lexer struct {
	b   []byte
	i   int
	bad bool
}

// next is the next byte that is not blank, 0 at the end.
func (l *lexer) next() byte {
	for ; l.i < len(l.b); l.i++ {
		switch c := l.b[l.i]; c {
		case ' ', '\n', '\r', '\t':
		default:
			return c
		}
	}
	return 0
}

// take takes c where it is the next byte.
func (l *lexer) take(c byte) bool {
	if l.next() != c {
		l.bad = true
		return false
	}
	l.i++
	return true
}

// open enters an object or array; false where it is empty or there is none.
func (l *lexer) open(bracket byte) bool {
	if l.bad || !l.take(bracket) {
		return false
	}
	if l.next() == bracket+2 { // } and ] stand two behind { and [
		l.i++
		return false
	}
	return true
}

// more goes to the next member; false where bracket closes them.
func (l *lexer) more(bracket byte) bool {
	if l.bad {
		return false
	}
	switch l.next() {
	case ',':
		l.i++
		return true
	case bracket:
		l.i++
	default:
		l.bad = true
	}
	return false
}

// name is the name of the next member.
func (l *lexer) name() []byte {
	if l.next() != '"' {
		l.bad = true
		return nil
	}
	text := l.text()
	l.take(':')
	if bytes.IndexByte(text, '\\') >= 0 {
		return []byte(unquoted(text))
	}
	return text
}

// text reads the text at the quote before which the lexer stands.
func (l *lexer) text() []byte {
	start := l.i + 1
	for i := start; ; i++ {
		n := bytes.IndexByte(l.b[i:], '"')
		if n < 0 {
			l.bad = true
			return nil
		}
		i += n
		slashes := 0
		for l.b[i-1-slashes] == '\\' { // ends at the opening quote
			slashes++
		}
		if slashes%2 == 0 {
			l.i = i + 1
			return l.b[start:i]
		}
	}
}

// value is the next value as it stands there.
func (l *lexer) value() []byte {
	c := l.next()
	start := l.i
	switch {
	case l.bad || c == 0:
		l.bad = true
		return nil
	case c == '"':
		l.text()
	case c == '{' || c == '[':
		l.nested()
	default:
		for l.i < len(l.b) && !ends(l.b[l.i]) {
			l.i++
		}
		l.bad = l.bad || l.i == start
	}
	if l.bad {
		return nil
	}
	return l.b[start:l.i:l.i]
}

// ends says whether c stands behind a number or a literal.
func ends(c byte) bool {
	switch c {
	case ',', ']', '}', ' ', '\n', '\r', '\t':
		return true
	}
	return false
}

// nested goes behind the object or array before which the lexer stands.
func (l *lexer) nested() {
	depth := 0
	for l.i < len(l.b) {
		switch l.b[l.i] {
		case '"':
			if l.text(); l.bad {
				return
			}
			continue // text is behind the quote
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				l.i++
				return
			}
		}
		l.i++
	}
	l.bad = true
}

// string is the next value, a text.
func (l *lexer) string() string {
	if l.next() != '"' {
		l.bad = true
		return ""
	}
	return unquoted(l.text())
}

// number is the next value, a whole number.
func (l *lexer) number() int64 {
	n, err := strconv.ParseInt(string(l.value()), 10, 64)
	l.bad = l.bad || err != nil
	return n
}

// unquoted resolves the escapes of a text that stood between quotes.
func unquoted(text []byte) string {
	if bytes.IndexByte(text, '\\') < 0 {
		return string(text)
	}
	quoted := append(append([]byte{'"'}, text...), '"')
	var s string
	if json.Unmarshal(quoted, &s) != nil {
		return string(text)
	}
	return s
}
