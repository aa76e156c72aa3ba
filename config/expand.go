package config

import (
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// variable is ${NAME} or ${NAME:default}, on one line; a leading $ makes it a
// plain text.
var variable = regexp.MustCompile(`\$?\$\{[A-Za-z_][A-Za-z0-9_]*(:[^}\n]*)?\}`)

var variableHere = regexp.MustCompile(`^\$\{[A-Za-z_][A-Za-z0-9_]*(:[^}\n]*)?\}`)

// veil hides variables from the YAML parser, to which the braces and colons in
// them mean something within [ ] and { }.
type veil struct {
	mark   string
	hidden []string
}

// draw puts marks in the place of the variables of text, on the same lines.
func draw(text []byte) (veil, []byte) {
	v := veil{mark: unusedRune(text)}
	return v, variable.ReplaceAllFunc(text, func(m []byte) []byte {
		v.hidden = append(v.hidden, string(m))
		return []byte(v.mark + strconv.Itoa(len(v.hidden)-1) + v.mark)
	})
}

// lift puts the variables back into a text of the parser's.
func (v veil) lift(text string) string {
	if len(v.hidden) == 0 || !strings.Contains(text, v.mark) {
		return text
	}
	parts := strings.Split(text, v.mark)
	for i := 1; i < len(parts); i += 2 {
		if n, err := strconv.Atoi(parts[i]); err == nil && n < len(v.hidden) {
			parts[i] = v.hidden[n]
		}
	}
	return strings.Join(parts, "")
}

// unusedRune is a character of Unicode's private use that text does not hold.
func unusedRune(text []byte) string {
	for r := rune(0xE000); r < 0xF8FF; r++ {
		mark := string(utf8.AppendRune(nil, r))
		if !strings.Contains(string(text), mark) {
			return mark
		}
	}
	return "\uF8FF"
}

// expansion is what became of a text with variables.
type expansion struct {
	text     string
	expanded bool  // something came from the environment, or from a default
	unset    []use // variables with neither
	bad      int   // byte offset of a ${ that is no variable, else -1
	nested   int   // byte offset of a variable whose default holds ${, else -1
}

// use is a variable in a text.
type use struct {
	name   string
	offset int // bytes, in the text as written
}

// expand replaces ${NAME} by the environment's value and ${NAME:default} by
// the default where the environment has none; a variable that is set to
// nothing gives nothing. $${ becomes ${. What comes in is not expanded again.
// For unset variables it puts placeholder in.
func expand(text string, getenv func(string) (string, bool), placeholder string) expansion {
	e := expansion{bad: -1, nested: -1}
	var out strings.Builder
	for at := 0; ; {
		i := strings.Index(text[at:], "${")
		if i < 0 {
			out.WriteString(text[at:])
			break
		}
		i += at
		if i > at && text[i-1] == '$' {
			out.WriteString(text[at : i-1])
			out.WriteString("${")
			at = i + 2
			continue
		}
		out.WriteString(text[at:i])
		m := variableHere.FindString(text[i:])
		if m == "" {
			if e.bad < 0 {
				e.bad = i
			}
			out.WriteString("${")
			at = i + 2
			continue
		}
		name, fallback, hasDefault := strings.Cut(m[2:len(m)-1], ":")
		if e.nested < 0 && strings.Contains(fallback, "${") {
			e.nested = i // it would end at the inner }
		}
		value, ok := getenv(name)
		switch {
		case ok:
			e.expanded = true
		case hasDefault:
			value, e.expanded = fallback, true
		default:
			e.unset = append(e.unset, use{name: name, offset: i})
			value = placeholder
		}
		out.WriteString(value)
		at = i + len(m)
	}
	e.text = out.String()
	return e
}
