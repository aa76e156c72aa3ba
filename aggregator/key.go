package aggregator

import (
	"bytes"
	"fmt"
)

// maxKeyBytes bounds the texts of a key's columns, all together.
const maxKeyBytes = 1 << 10

// Key joins the texts of the key columns to a key: the text itself for one
// column, else each percent-encoded (all but RFC 3986's unreserved) and joined
// by "/". Keys sort by bytes. An error says how many columns are wanted.
func (p *Program) Key(texts []string) ([]byte, error) {
	if len(texts) != len(p.def.Keys) {
		names := ""
		for i, k := range p.def.Keys {
			if i > 0 {
				names += ", "
			}
			names += k.Name
		}
		return nil, fmt.Errorf("the key has %d %s (%s), not %d", len(p.def.Keys), plural(len(p.def.Keys), "column"), names, len(texts))
	}
	if len(texts) == 1 {
		return []byte(texts[0]), nil
	}
	var key []byte
	for i, text := range texts {
		if i > 0 {
			key = append(key, '/')
		}
		key = appendPercent(key, []byte(text))
	}
	return key, nil
}

func plural(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}

// KeyTexts is the inverse of Key.
func (p *Program) KeyTexts(key []byte) []string {
	if len(p.def.Keys) == 1 {
		return []string{string(key)}
	}
	texts := make([]string, 0, len(p.def.Keys))
	for part := range bytes.SplitSeq(key, []byte("/")) {
		texts = append(texts, string(appendUnescaped(nil, part)))
	}
	return texts
}

// AppendKey appends the key as an answer shows it: a JSON text, or an array of
// texts where the key has several columns.
func (p *Program) AppendKey(dst, key []byte) []byte {
	if len(p.def.Keys) == 1 {
		return appendQuoted(dst, key)
	}
	dst = append(dst, '[')
	first := true
	for part := range bytes.SplitSeq(key, []byte("/")) {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = appendQuoted(dst, appendUnescaped(nil, part))
	}
	return append(dst, ']')
}

// keyPart returns the text of one key column: key itself where there is one.
func (p *Program) keyPart(key []byte, column int) []byte {
	if len(p.def.Keys) == 1 {
		return key
	}
	for ; column > 0; column-- {
		_, key, _ = bytes.Cut(key, []byte("/"))
	}
	part, _, _ := bytes.Cut(key, []byte("/"))
	return appendUnescaped(nil, part)
}

const hexDigits = "0123456789ABCDEF"

// unreserved holds the bytes that RFC 3986 calls unreserved.
var unreserved = func() (set [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~") {
		set[c] = true
	}
	return set
}()

// appendPercent appends text percent-encoded.
func appendPercent(dst, text []byte) []byte {
	for _, c := range text {
		if unreserved[c] {
			dst = append(dst, c)
		} else {
			dst = append(dst, '%', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return dst
}

// appendUnescaped is the inverse of appendPercent. What is no escape stays as
// it is.
func appendUnescaped(dst, part []byte) []byte {
	for i := 0; i < len(part); i++ {
		if part[i] == '%' && i+2 < len(part) {
			if hi, lo := unhex(part[i+1]), unhex(part[i+2]); hi < 16 && lo < 16 {
				dst = append(dst, hi<<4|lo)
				i += 2
				continue
			}
		}
		dst = append(dst, part[i])
	}
	return dst
}

// unhex is the value of a hexadecimal digit, 16 and more for what is none.
func unhex(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	}
	return 16
}
