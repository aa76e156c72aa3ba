package query

import (
	"fmt"
	"strings"

	"github.com/alecthomas/participle/v2/lexer"

	"tidemark/event"
)

// Doubt is a place in a query that is read as it stands, and that people from
// other systems write to mean something else.
type Doubt struct {
	Line, Column int        // as of an Error
	Path         event.Path // the field that is read there
	Message      string
}

// String is "query:LINE:COLUMN: MESSAGE", as of an Error.
func (d Doubt) String() string {
	return (&Error{Line: d.Line, Column: d.Column, Message: d.Message}).Error()
}

// Doubts are the places where a name in double quotes stands for the value that
// a field is compared with, and is written nowhere else, and those where a path
// begins with the topic's name. A record that has the field clears them up.
func (d *Definition) Doubts() []Doubt {
	tokens, err := scan(d.SQL)
	if err != nil {
		return nil // not of Parse
	}
	var found []Doubt
	doubt := func(t lexer.Token, path event.Path, format string, args ...any) {
		found = append(found, Doubt{t.Pos.Line, t.Pos.Column, path, fmt.Sprintf(format, args...)})
	}
	written := make(map[string]int) // how often a name stands in the query
	for _, t := range tokens {
		if t.Type == tokenWord || t.Type == tokenQuoted {
			written[unquoteName(t.Value)]++
		}
	}
	at := place{tokens: tokens}
	var lists []bool // of the parentheses that are open: whether each is that of IN
	for i, t := range tokens {
		at.i = i
		switch {
		case t.Type == tokenOp && t.Value == "(":
			lists = append(lists, at.word(-1) == "IN")
		case t.Type == tokenOp && t.Value == ")" && len(lists) > 0:
			lists = lists[:len(lists)-1]
		case t.Type == tokenQuoted && t.Value[0] == '"' && at.word(1) != "." && at.asValue(lists):
			if name := unquoteName(t.Value); written[name] == 1 {
				doubt(t, event.Path{name}, "found %s as a value; double quotes stand round a field's name here, and a text is written %s", show(t), quoteText(name))
			}
		case (t.Type == tokenWord || t.Type == tokenQuoted) && at.word(1) == "." && at.word(-1) != "." && at.word(-1) != "FROM":
			if name := unquoteName(t.Value); strings.EqualFold(name, d.Topic) {
				path := at.path()
				doubt(t, path, "found %s, the field %s of the object %s; the topic is not named before its fields: write %s",
					QuotePath(path), QuoteName(path[len(path)-1]), QuotePath(path[:len(path)-1]), QuotePath(path[1:]))
			}
		}
	}
	return found
}

// asValue says whether the name here stands where people write a value: behind
// a comparison with something else than a constant, behind BETWEEN, or in the
// list of an IN.
func (p place) asValue(lists []bool) bool {
	switch p.word(-1) {
	case "=", "<>", "!=", "<", "<=", ">", ">=":
		return p.i >= 2 && !isConstant(p.tokens[p.i-2])
	case "BETWEEN":
		return true
	case "(", ",":
		return len(lists) > 0 && lists[len(lists)-1]
	}
	return false
}

// isConstant says whether t is a constant of the query by itself.
func isConstant(t lexer.Token) bool {
	switch strings.ToUpper(t.Value) {
	case "NULL", "TRUE", "FALSE":
		return t.Type == tokenReserved
	}
	return t.Type == tokenText || t.Type == tokenNumber
}

// path are the names that are joined by points from here on.
func (p place) path() event.Path {
	path := event.Path{unquoteName(p.tokens[p.i].Value)}
	for n := 1; p.word(n) == "." && p.i+n+1 < len(p.tokens); n += 2 {
		path = append(path, unquoteName(p.tokens[p.i+n+1].Value))
	}
	return path
}
