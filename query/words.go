package query

import (
	"strings"

	"github.com/agnivade/levenshtein"
)

// reserved has the words that are keywords wherever a name could begin: a
// field of such a name is written in quotes, except after a point. All others,
// the names of functions among them, are keywords only where the grammar looks
// for them.
var reserved = map[string]bool{
	"SELECT": true, "DISTINCT": true, "FROM": true, "WHERE": true, "GROUP": true, "AS": true,
	"AND": true, "OR": true, "NOT": true, "IN": true, "BETWEEN": true, "IS": true, "LIKE": true,
	"CASE": true, "WHEN": true, "THEN": true, "ELSE": true, "END": true,
	"NULL": true, "TRUE": true, "FALSE": true,
}

// isReserved says so of a word in any case; no other letters fold to these.
func isReserved(word string) bool { return isPlain(word) && reserved[strings.ToUpper(word)] }

// unquoteName returns the name that a word or a quoted token stands for.
func unquoteName(token string) string {
	if q := token[0]; q == '`' || q == '"' {
		return strings.ReplaceAll(token[1:len(token)-1], token[:1]+token[:1], token[:1])
	}
	return token
}

// unquoteText returns the text that a text token stands for.
func unquoteText(token string) string {
	return strings.ReplaceAll(token[1:len(token)-1], "''", "'")
}

// QuoteName writes a name: as it is where it is a plain word, else in
// backquotes.
func QuoteName(name string) string {
	if isPlain(name) && !isReserved(name) {
		return name
	}
	return "`" + strings.ReplaceAll(name, "`", "``") + "`"
}

// isPlain says whether name is a word of ASCII letters, digits and _.
func isPlain(name string) bool {
	for i := 0; i < len(name); i++ {
		b := name[i]
		if b != '_' && (b|0x20 < 'a' || b|0x20 > 'z') && (i == 0 || !isDigit(b)) {
			return false
		}
	}
	return name != ""
}

// quoteText writes a text literal.
func quoteText(text string) string {
	return "'" + strings.ReplaceAll(text, "'", "''") + "'"
}

// QuotePath writes a path, each name quoted where it needs to be.
func QuotePath(path []string) string {
	var b strings.Builder
	for i, name := range path {
		if i > 0 {
			b.WriteByte('.')
		}
		b.WriteString(QuoteName(name))
	}
	return b.String()
}

// nearest returns the known word closest to word, "" where none is close.
func nearest(word string, known []string) string {
	best, least := "", 1+min(2, len(word)/3)
	for _, k := range known {
		if d := levenshtein.ComputeDistance(strings.ToLower(word), strings.ToLower(k)); d < least {
			best, least = k, d
		}
	}
	return best
}
