package query

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"tidemark/event"
)

// Like is X LIKE Pattern: % stands for any text, _ for one character, and a
// backslash takes away the meaning of the %, _ or backslash after it. A number
// is compared as its plain digits; anything else but a text is NULL.
type Like struct {
	Not     bool
	X       Expr
	Pattern string // as in the query
	parts   []likePart
}

// likePart is one step of a pattern.
type likePart struct {
	kind likeKind
	text string // for likeText
}

type likeKind uint8

const (
	likeText likeKind = iota // exactly text
	likeOne                  // one character
	likeAny                  // any text
)

// compileLike reads a pattern.
func compileLike(pattern string) ([]likePart, error) {
	var parts []likePart
	var text []byte
	flush := func() {
		if len(text) > 0 {
			parts = append(parts, likePart{likeText, string(text)})
			text = text[:0]
		}
	}
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; c {
		case '%':
			flush()
			if n := len(parts); n == 0 || parts[n-1].kind != likeAny {
				parts = append(parts, likePart{kind: likeAny})
			}
		case '_':
			flush()
			parts = append(parts, likePart{kind: likeOne})
		case '\\':
			i++
			if i == len(pattern) {
				return nil, errors.New(`a pattern does not end with a lone backslash: write \\`)
			}
			if c = pattern[i]; c != '%' && c != '_' && c != '\\' {
				r, _ := utf8.DecodeRuneInString(pattern[i:])
				return nil, fmt.Errorf(`in a pattern a backslash stands before %%, _ or a backslash, not before %q`, string(r))
			}
			text = append(text, c)
		default:
			text = append(text, c)
		}
	}
	flush()
	return parts, nil
}

// likeMatches says whether s matches parts: greedily, going back to the last
// % alone, so in time of at most len(s) times the length of the pattern.
func likeMatches(s []byte, parts []likePart) bool {
	i, p := 0, 0
	backI, backP := -1, 0
	for {
		if p < len(parts) && parts[p].kind == likeAny {
			p++
			if p == len(parts) {
				return true
			}
			backI, backP = i, p
			continue
		}
		if p == len(parts) && i == len(s) {
			return true
		}
		if p < len(parts) {
			if n, ok := parts[p].match(s[i:]); ok {
				i, p = i+n, p+1
				continue
			}
		}
		if backI < 0 || backI >= len(s) {
			return false
		}
		_, n := utf8.DecodeRune(s[backI:])
		backI += n
		i, p = backI, backP
	}
}

// match matches one step at the beginning of s and returns its length there.
func (p *likePart) match(s []byte) (int, bool) {
	if p.kind == likeOne {
		_, n := utf8.DecodeRune(s)
		return n, n > 0
	}
	n := len(p.text)
	return n, len(s) >= n && string(s[:n]) == p.text
}

func (x *Like) truth(env *Env) tri {
	var tmp event.Value
	v := operand(x.X, env, &tmp)
	env.last = -1
	var result tri
	switch v.Kind {
	case event.Missing, event.Null:
		return nullTri(v)
	case event.Text:
		result = boolean(likeMatches(v.Bytes, x.parts))
	case event.Number, event.Decimal:
		d, reason := v.Decimal()
		if reason != event.OK {
			return isNull
		}
		var digits [96]byte
		result = boolean(likeMatches(d.AppendText(digits[:0]), x.parts))
	default:
		return isNull
	}
	if x.Not {
		result = result.not()
	}
	return result
}

// Eval matches the pattern.
func (x *Like) Eval(env *Env) event.Value { return x.truth(env).value() }
