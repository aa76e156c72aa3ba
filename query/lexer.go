package query

import (
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/alecthomas/participle/v2/lexer"
)

// The kinds of token. Comments and white space are none. A token's Value is
// its text as it stands, quotes included, so a quoted name or a text never
// looks like a keyword.
const (
	tokenWord     lexer.TokenType = 1 + iota // a name, a function, or a word that is a keyword in some places only
	tokenReserved                            // a word that is a keyword wherever a name could begin
	tokenQuoted                              // a name in backquotes or double quotes
	tokenText                                // a text in single quotes
	tokenNumber                              // 12, 12.50, .5, 1e3
	tokenOp                                  // an operator or a punctuation mark
)

// operators has the marks of several characters, longest first.
var operators = []string{"<=>", "==", "<>", "!=", "<=", ">=", "||", "&&", "::", "->", ">>", "<<"}

// singles has the marks of one character. Those that the grammar has no use
// for are tokens all the same, so that the parser can say what to write.
const singles = "=<>+-*/%(),.;[]{}?&|^~!:"

// definition tells the grammar library the names of the tokens.
type definition struct{}

func (definition) Symbols() map[string]lexer.TokenType {
	return map[string]lexer.TokenType{
		"EOF": lexer.EOF, "Word": tokenWord, "Reserved": tokenReserved, "Quoted": tokenQuoted,
		"Text": tokenText, "Number": tokenNumber, "Op": tokenOp,
	}
}

func (definition) Lex(_ string, r io.Reader) (lexer.Lexer, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	tokens, err := scan(string(text))
	return &tokenList{tokens}, err
}

// tokenList hands out tokens that were scanned before; the last is EOF.
type tokenList struct{ tokens []lexer.Token }

func (l *tokenList) Next() (lexer.Token, error) {
	t := l.tokens[0]
	if len(l.tokens) > 1 {
		l.tokens = l.tokens[1:]
	}
	return t, nil
}

// scanner cuts a query's text into tokens.
type scanner struct {
	sql    string
	pos    lexer.Position // of the next character
	tokens []lexer.Token
}

// scan returns the tokens of sql, the last one EOF. Its error is an *Error.
func scan(sql string) ([]lexer.Token, error) {
	s := &scanner{sql: sql, pos: lexer.Position{Line: 1, Column: 1}}
	for s.pos.Offset < len(sql) {
		if err := s.next(); err != nil {
			return nil, err
		}
	}
	return append(s.tokens, lexer.EOFToken(s.pos)), nil
}

// next skips white space or a comment, or adds one token.
func (s *scanner) next() error {
	rest := s.sql[s.pos.Offset:]
	r, size := utf8.DecodeRuneInString(rest)
	switch {
	case r == utf8.RuneError && size == 1:
		return fail(s.pos, "the byte 0x%02x is not UTF-8", rest[0])
	case unicode.IsSpace(r) || r == '\uFEFF':
		s.pos.Advance(rest[:size])
		return nil
	case strings.HasPrefix(rest, "--"):
		end := strings.IndexByte(rest, '\n')
		if end < 0 {
			end = len(rest)
		}
		return s.skip(rest[:end])
	case strings.HasPrefix(rest, "/*"):
		return s.comment(rest)
	case r == '\'':
		return s.quoted(rest, '\'', tokenText)
	case r == '`' || r == '"':
		return s.quoted(rest, byte(r), tokenQuoted)
	case r >= '0' && r <= '9', r == '.' && len(rest) > 1 && isDigit(rest[1]) && !s.afterName():
		return s.number(rest)
	case isWordStart(r):
		return s.word(rest)
	}
	for _, op := range operators {
		if strings.HasPrefix(rest, op) {
			return s.add(tokenOp, op)
		}
	}
	if strings.IndexByte(singles, rest[0]) >= 0 {
		return s.add(tokenOp, rest[:1])
	}
	return s.stray(r)
}

// skip passes over text that makes no token.
func (s *scanner) skip(text string) error {
	if !utf8.ValidString(text) {
		return fail(s.pos, "the comment that begins here is not UTF-8")
	}
	s.pos.Advance(text)
	return nil
}

func (s *scanner) add(t lexer.TokenType, text string) error {
	if !utf8.ValidString(text) {
		return fail(s.pos, "the text that begins here is not UTF-8")
	}
	s.tokens = append(s.tokens, lexer.Token{Type: t, Value: text, Pos: s.pos})
	s.pos.Advance(text)
	return nil
}

// comment passes over a bracketed comment. They nest, as Spark's do.
func (s *scanner) comment(rest string) error {
	depth := 0
	for i := 0; i+1 < len(rest); {
		switch rest[i : i+2] {
		case "/*":
			depth++
			i += 2
		case "*/":
			depth--
			i += 2
		default:
			i++
		}
		if depth == 0 {
			return s.skip(rest[:i])
		}
	}
	return fail(s.pos, `the comment that begins here has no end: close it with "*/" (comments nest)`)
}

// quoted adds a token in quotes; a doubled quote inside stands for one.
func (s *scanner) quoted(rest string, quote byte, t lexer.TokenType) error {
	for i := 1; i < len(rest); i++ {
		if rest[i] != quote {
			continue
		}
		if i+1 < len(rest) && rest[i+1] == quote {
			i++
			continue
		}
		if i == 1 && t == tokenQuoted {
			return fail(s.pos, "found the empty name %s; a name has at least one character", rest[:2])
		}
		return s.add(t, rest[:i+1])
	}
	if t == tokenText {
		return fail(s.pos, "the text that begins here has no end: close it with ' (a ' inside is written '')")
	}
	return fail(s.pos, "the name that begins here has no end: close it with %c", quote)
}

// number adds digits with an optional fraction and exponent.
func (s *scanner) number(rest string) error {
	i := digits(rest, 0)
	if i < len(rest) && rest[i] == '.' {
		if i+1 == len(rest) || !isDigit(rest[i+1]) {
			return fail(s.pos, "found %q; a number has digits after its point: write %s or %s.0", rest[:i+1], rest[:i], rest[:i])
		}
		i = digits(rest, i+1)
	}
	if i < len(rest) && (rest[i] == 'e' || rest[i] == 'E') {
		j := i + 1
		if j < len(rest) && (rest[j] == '+' || rest[j] == '-') {
			j++
		}
		if j < len(rest) && isDigit(rest[j]) {
			i = digits(rest, j)
		}
	}
	if end := i + wordLen(rest[i:]); end > i {
		return fail(s.pos, "found %q; a number is written as 12, 12.50 or 1e3, and a name that begins with a digit in backquotes: `%s`", rest[:end], rest[:end])
	}
	return s.add(tokenNumber, rest[:i])
}

func (s *scanner) word(rest string) error {
	word := rest[:wordLen(rest)]
	if isReserved(word) {
		return s.add(tokenReserved, word)
	}
	return s.add(tokenWord, word)
}

// afterName says whether the next character touches a name, so that a point
// is one of a path and not of a number.
func (s *scanner) afterName() bool {
	if len(s.tokens) == 0 {
		return false
	}
	t := s.tokens[len(s.tokens)-1]
	return t.Type != tokenNumber && t.Type != tokenText && t.Type != tokenOp &&
		t.Pos.Offset+len(t.Value) == s.pos.Offset
}

// stray explains a character that begins no token.
func (s *scanner) stray(r rune) error {
	switch r {
	case '‘', '’', '“', '”', '´', '«', '»', '‚', '„':
		return fail(s.pos, "found the typographic quote %c; a text is written 'so', and an odd name `so`", r)
	case '–', '—', '−':
		return fail(s.pos, "found the dash %c; a minus is written -, and a comment begins with --", r)
	case '$', '@', '#', '\\':
		return fail(s.pos, "found %q; a name that holds it is written in backquotes, as `@timestamp`", string(r))
	}
	if !unicode.IsPrint(r) {
		return fail(s.pos, "found the character %U; SQL has no use for it outside of quotes", r)
	}
	return fail(s.pos, "found %q; SQL has no use for it outside of quotes", string(r))
}

// digits returns the index of the first byte from i on that is no digit.
func digits(s string, i int) int {
	for i < len(s) && isDigit(s[i]) {
		i++
	}
	return i
}

func isDigit(b byte) bool { return b >= '0' && b <= '9' }

func isWordStart(r rune) bool { return r == '_' || unicode.IsLetter(r) }

// wordLen is the length of the word, or of what would go on with one, at the
// beginning of s.
func wordLen(s string) int {
	for i, r := range s {
		if !isWordStart(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) {
			return i
		}
	}
	return len(s)
}
