package query

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/alecthomas/participle/v2"
	"github.com/alecthomas/participle/v2/lexer"
)

// Error is what is wrong with a query, at a place in its text.
// Error() reads "query:LINE:COLUMN: MESSAGE".
type Error struct {
	Line, Column int // from 1; columns count characters
	Message      string
}

func (e *Error) Error() string {
	return fmt.Sprintf("query:%d:%d: %s", e.Line, e.Column, e.Message)
}

// fail returns an *Error at pos.
func fail(pos lexer.Position, format string, args ...any) error {
	return &Error{Line: pos.Line, Column: pos.Column, Message: fmt.Sprintf(format, args...)}
}

// syntaxError puts into words why the grammar refused tokens.
func syntaxError(err error, tokens []lexer.Token) error {
	var unexpected *participle.UnexpectedTokenError
	if !errors.As(err, &unexpected) {
		var other participle.Error
		if errors.As(err, &other) {
			return fail(other.Position(), "%s", other.Message())
		}
		return fail(tokens[0].Pos, "%s", err)
	}
	at := unexpected.Unexpected
	p := place{tokens: tokens}
	for p.i < len(tokens)-1 && tokens[p.i].Pos.Offset < at.Pos.Offset {
		p.i++
	}
	if hint := p.refusal(); hint != "" {
		return fail(at.Pos, "found %s; %s", show(at), hint)
	}
	return fail(at.Pos, "found %s; expected %s", show(at), p.expected(unexpected.Message()))
}

// show quotes a token for people.
func show(t lexer.Token) string {
	const most = 40 // characters
	text := t.Value
	if utf8.RuneCountInString(text) > most {
		text = string([]rune(text)[:most]) + "…"
	}
	switch t.Type {
	case lexer.EOF:
		return "the end of the query"
	case tokenText, tokenQuoted:
		return text
	}
	return strconv.Quote(text)
}

// place is a token among its neighbours.
type place struct {
	tokens []lexer.Token
	i      int
}

// word is the token n after (or before) this one as a keyword, "" where it is
// none or there is no such token.
func (p place) word(n int) string {
	if i := p.i + n; i >= 0 && i < len(p.tokens) {
		switch t := p.tokens[i]; t.Type {
		case tokenWord, tokenReserved, tokenOp:
			return strings.ToUpper(t.Value)
		}
	}
	return ""
}

// depth is the number of parentheses that are open before this token.
func (p place) depth() int {
	depth, _ := p.before()
	return depth
}

// clause is the last keyword that began a clause before this token.
func (p place) clause() string {
	_, clause := p.before()
	return clause
}

// before looks at the tokens before this one.
func (p place) before() (depth int, clause string) {
	for _, t := range p.tokens[:p.i] {
		switch word := strings.ToUpper(t.Value); {
		case word == "(":
			depth++
		case word == ")":
			depth--
		case depth == 0 && t.Type == tokenReserved:
			switch word {
			case "SELECT", "FROM", "WHERE", "GROUP":
				clause = word
			}
		}
	}
	return depth, clause
}

// expected puts what the grammar wanted at this token into words. The message
// of the grammar library ends with the rest of its rule, in EBNF; the first
// element of that names what was wanted.
func (p place) expected(message string) string {
	_, rule, _ := strings.Cut(message, "(expected ")
	rule = strings.TrimLeft(strings.TrimSuffix(rule, ")"), "(")
	first, _, _ := strings.Cut(rule, " ")
	switch strings.Trim(first, "?*+)") {
	case "Primary":
		switch {
		case p.word(-1) == "SELECT", p.word(-1) == "," && p.clause() == "SELECT" && p.depth() == 0:
			return "a column: a path of GROUP BY, or an aggregate such as sum(x)"
		case p.clause() == "GROUP" && p.depth() == 0:
			return "a path, as in GROUP BY userId"
		}
		return "an expression" + p.hintReserved()
	case "When":
		return "WHEN"
	case `"THEN"`:
		return "an operator or THEN"
	case "InTail":
		return "IN, BETWEEN or LIKE"
	case "Target":
		return "a type: " + typeNames
	case "Topic":
		return "the name of a topic" + p.hintReserved()
	case "Segment", "<word>":
		return "a name" + p.hintReserved()
	case "<number>":
		return "a number of digits"
	case `"FROM"`:
		return "a comma or FROM"
	case `"BY"`:
		return "BY"
	case `"AND"`:
		return "AND and the upper bound of BETWEEN"
	case `"NULL"`:
		return "NULL, as in IS NULL or IS NOT NULL"
	case `"END"`:
		return "END, which closes CASE"
	case `"("`:
		return `"(" and the values of IN`
	case `"SELECT"`:
		return "SELECT"
	}
	if strings.HasPrefix(rule, `")"`) {
		if p.word(0) == "," || p.word(-1) == "*" && p.word(-2) == "(" {
			return `")"`
		}
		return `an operator, "," or ")"`
	}
	switch p.clause() {
	case "FROM":
		return "WHERE, GROUP BY or the end of the query"
	case "WHERE":
		return "an operator, GROUP BY or the end of the query"
	case "GROUP":
		return "a comma or the end of the query"
	}
	return "SELECT"
}

// hintReserved says how to write a keyword that was meant as a name.
func (p place) hintReserved() string {
	if t := p.tokens[p.i]; t.Type == tokenReserved {
		return " (a field of that name is written `" + t.Value + "`)"
	}
	return ""
}
