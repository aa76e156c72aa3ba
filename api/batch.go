package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// serveBatch answers POST /v1/aggregates:batchGet.
func (s *Server) serveBatch(w http.ResponseWriter, r *http.Request) error {
	p := newParams(r, "numbers", "partial", "local", "min_offset", "timeout")
	opts := p.readOptions()
	p.minOffset(&opts, s.group)
	if p.err != nil {
		return p.err
	}
	body, err := s.readBody(w, r, maxBody)
	if err != nil {
		return err
	}
	keys, err := s.batchKeys(body)
	if err != nil {
		return err
	}
	g, err := s.readKeys(r.Context(), keys, &opts)
	if err != nil {
		return err
	}
	total := s.scratch()
	defer s.totals.Put(total)
	out, complete := append(make([]byte, 0, rowSize*len(keys)+64), `{"rows":[`...), true
	for i, key := range keys {
		row, err := s.row(g, i, key, opts.partial, total)
		if err != nil {
			return err
		}
		if err := s.check(&row, &opts); err != nil {
			return err
		}
		if i > 0 {
			out = append(out, ',')
		}
		whole := len(row.blocked) == 0
		complete = complete && whole
		if row.total == nil && whole {
			out = append(out, "null"...)
		} else {
			out = s.appendRow(out, row.key, row.total, row.marks, whole, opts.quoted)
		}
	}
	out = strconv.AppendBool(append(out, `],"complete":`...), complete)
	respond(w, http.StatusOK, "application/json", append(out, "}\n"...))
	return nil
}

// maxKeys is the most keys that one request may ask for.
const maxKeys = 1000

// batchKeys reads the body of a batchGet.
func (s *Server) batchKeys(body []byte) ([][]byte, error) {
	if !utf8.Valid(body) {
		return nil, badRequest("the body is not UTF-8")
	}
	raw, err := listed(body)
	switch {
	case err != nil:
		return nil, err
	case raw == nil:
		return nil, badRequest(`the body has no keys: it is {"keys":[…]}`)
	case len(raw) > maxKeys:
		return nil, badRequest("%d keys are more than %d", len(raw), maxKeys)
	}
	keys := make([][]byte, len(raw))
	for i, value := range raw {
		texts, err := keyTexts(value)
		if err != nil {
			return nil, badRequest("keys[%d] %v", i, err)
		}
		if keys[i], err = s.key(texts); err != nil {
			return nil, badRequest("keys[%d]: %s", i, problemOf(err).Detail)
		}
	}
	return keys, nil
}

// listed are the keys in a body {"keys":[…]}, nil where there are none. A name
// that is there twice is refused: one of the two would be dropped.
func listed(body []byte) (raw []json.RawMessage, err error) {
	var whole json.RawMessage
	if err := json.Unmarshal(body, &whole); err != nil {
		return nil, badRequest(`the body is not a JSON object such as {"keys":["23"]}: %v`, err)
	}
	d := json.NewDecoder(bytes.NewReader(body)) // whose errors are ruled out
	if begin, err := d.Token(); err != nil || begin != json.Delim('{') {
		return nil, badRequest(`the body is not a JSON object such as {"keys":["23"]}, but another value`)
	}
	for d.More() {
		name, err := d.Token()
		switch {
		case err != nil:
			return nil, err
		case name != "keys":
			return nil, badRequest(`unknown member %q: the body is {"keys":[…]}`, name)
		case raw != nil:
			return nil, badRequest("keys is given twice")
		}
		if err := d.Decode(&raw); err != nil || raw == nil {
			return nil, badRequest("keys is not an array")
		}
	}
	return raw, nil
}

// keyTexts reads one key of a batch: a text, or an array of texts. A text that
// JSON can write but UTF-8 cannot hold is refused, as decoding would turn it
// into another key.
func keyTexts(raw json.RawMessage) (texts []string, err error) {
	var list []json.RawMessage
	if raw[0] == '"' {
		list = []json.RawMessage{raw}
	} else if err := json.Unmarshal(raw, &list); err != nil || list == nil {
		return nil, errors.New("is neither a text nor an array of texts")
	}
	for _, one := range list {
		var text string
		if one[0] != '"' || json.Unmarshal(one, &text) != nil {
			return nil, errors.New("is neither a text nor an array of texts")
		}
		if strings.ContainsRune(text, utf8.RuneError) && loneSurrogate(one) {
			return nil, errors.New("has half of a surrogate pair, which is no text")
		}
		texts = append(texts, text)
	}
	return texts, nil
}

// loneSurrogate says whether a valid JSON text has an escaped surrogate
// without its other half.
func loneSurrogate(raw []byte) bool {
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		i++
		if raw[i] != 'u' {
			continue
		}
		r := escaped(raw[i:])
		i += 4
		if !utf16.IsSurrogate(r) {
			continue
		}
		if i+2 >= len(raw) || raw[i+1] != '\\' || raw[i+2] != 'u' || utf16.DecodeRune(r, escaped(raw[i+2:])) == utf8.RuneError {
			return true
		}
		i += 6
	}
	return false
}

// escaped is the code unit of uXXXX at the start of raw, which is valid.
func escaped(raw []byte) rune {
	n, err := strconv.ParseUint(string(raw[1:5]), 16, 16)
	if err != nil {
		return utf8.RuneError
	}
	return rune(n)
}
