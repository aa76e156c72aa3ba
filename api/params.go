package api

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	defaultLimit   = 100
	maxLimit       = 1000
	defaultTimeout = 2 * time.Second
	maxTimeout     = 10 * time.Second
)

// readOptions are what a client may choose about an answer.
type readOptions struct {
	quoted  bool   // numbers=string
	partial bool   // partial=ok, or local=true
	local   bool   // local=true
	min     []mark // min_offset
	wait    time.Duration
}

// params reads the query parameters of a request, each at most once and none
// but those named.
type params struct {
	values url.Values
	err    error // the first
}

func newParams(r *http.Request, names ...string) *params {
	values, err := url.ParseQuery(r.URL.RawQuery)
	p := &params{values: values}
	if err != nil {
		p.err = badRequest("the query string cannot be read: %v", err)
		return p
	}
	for name, v := range values {
		switch {
		case !slices.Contains(names, name):
			if len(names) == 0 {
				p.fail("unknown query parameter %q: this request takes none", name)
			} else {
				p.fail("unknown query parameter %q: this request takes %s", name, strings.Join(names, ", "))
			}
		case len(v) > 1:
			p.fail("the query parameter %q is given %d times", name, len(v))
		case !utf8.ValidString(v[0]):
			p.fail("the query parameter %q is not UTF-8", name)
		}
	}
	return p
}

func (p *params) fail(format string, args ...any) {
	if p.err == nil {
		p.err = badRequest(format, args...)
	}
}

// readOptions reads numbers, partial and local.
func (p *params) readOptions() (o readOptions) {
	for _, name := range []string{"numbers", "partial", "local", "timeout"} {
		if p.values.Has(name) && p.values.Get(name) == "" {
			p.fail("%s is empty: leave it out, or give it a value", name)
		}
	}
	switch v := p.values.Get("numbers"); v {
	case "":
	case "string":
		o.quoted = true
	default:
		p.fail("numbers=%s: only numbers=string is known", v)
	}
	switch v := p.values.Get("partial"); v {
	case "":
	case "ok":
		o.partial = true
	default:
		p.fail("partial=%s: only partial=ok is known", v)
	}
	switch v := p.values.Get("local"); v {
	case "", "false":
	case "true":
		o.local, o.partial = true, true
	default:
		p.fail("local=%s: local is true or false", v)
	}
	return o
}

// minOffset reads min_offset and timeout. A partition that the group does not
// have is wrong, once it knows how many there are.
func (p *params) minOffset(o *readOptions, group Group) {
	o.wait = defaultTimeout
	if v := p.values.Get("timeout"); v != "" {
		d, err := time.ParseDuration(v)
		switch {
		case err != nil:
			p.fail("timeout=%s is not a duration such as 500ms or 2s", v)
		case d < 0 || d > maxTimeout:
			p.fail("timeout=%s: it is at least 0s and at most %v", v, maxTimeout)
		}
		o.wait = d
	}
	text := p.values.Get("min_offset")
	if text == "" {
		if p.values.Has("min_offset") {
			p.fail("min_offset is empty: it is PARTITION:OFFSET, several with commas")
		}
		return
	}
	view := group.View()
	partitions := view.partitions()
	for _, part := range strings.Split(text, ",") {
		number, offset, ok := strings.Cut(part, ":")
		n, err1 := strconv.ParseInt(number, 10, 32)
		at, err2 := strconv.ParseInt(offset, 10, 64)
		switch {
		case !ok || err1 != nil || err2 != nil || n < 0 || at < 0:
			p.fail("min_offset=%s: %q is not PARTITION:OFFSET, such as 3:1042", text, part)
			return
		case partitions > 0 && n >= int64(partitions):
			p.fail("min_offset=%s: there is no partition %d, the topic has %d", text, n, partitions)
			return
		}
		m := mark{int32(n), at}
		if slices.ContainsFunc(o.min, func(x mark) bool { return x.Partition == m.Partition }) {
			p.fail("min_offset=%s names partition %d twice", text, n)
			return
		}
		o.min = append(o.min, m)
	}
}

// limit reads limit.
func (p *params) limit() int {
	if !p.values.Has("limit") {
		return defaultLimit
	}
	v := p.values.Get("limit")
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 || n > maxLimit {
		p.fail("limit=%s: it is a number from 1 to %d", v, maxLimit)
	}
	return n
}

// A cursor is the last key of a page, behind a version and a checksum, in
// unpadded base64url.
const cursorVersion = 1

func encodeCursor(key []byte) string {
	b := make([]byte, 5, 5+len(key))
	b[0] = cursorVersion
	binary.BigEndian.PutUint32(b[1:], crc32.ChecksumIEEE(key))
	return base64.RawURLEncoding.EncodeToString(append(b, key...))
}

// cursor reads cursor and returns the first key that may follow it, nil
// without one.
func (p *params) cursor(prefix []byte) (from []byte) {
	v := p.values.Get("cursor")
	if v == "" {
		return nil
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(v)
	if err != nil || len(b) < 5 || b[0] != cursorVersion || binary.BigEndian.Uint32(b[1:]) != crc32.ChecksumIEEE(b[5:]) {
		p.fail("unknown cursor: give next_cursor of the page before, as it is")
		return nil
	}
	key := b[5:]
	if !bytes.HasPrefix(key, prefix) {
		p.fail("the cursor belongs to a listing with another prefix")
	}
	return after(key)
}

// after is the first key that may follow key.
func after(key []byte) []byte { return append(slices.Clone(key), 0) }

// pathKey reads the texts of a key from the escaped path below
// /v1/aggregates/, and says whether /watch follows. The number of the key's
// columns tells a last text "watch" from the route.
func (s *Server) pathKey(escaped string) (key []byte, watch bool, err error) {
	segments := strings.Split(escaped, "/")
	if len(segments) == len(s.columns)+1 && segments[len(segments)-1] == "watch" {
		watch = true
		segments = segments[:len(segments)-1]
	}
	texts := make([]string, len(segments))
	for i, seg := range segments {
		if texts[i], err = url.PathUnescape(seg); err != nil {
			return nil, false, badRequest("the key cannot be read: %v", err)
		}
	}
	key, err = s.key(texts)
	return key, watch, err
}

// key makes the key of the texts of its columns.
func (s *Server) key(texts []string) ([]byte, error) {
	if len(texts) != len(s.columns) {
		return nil, badRequest("a key has %s, here are %s", columnsText(s.columns), countText(len(texts), "text"))
	}
	for i, t := range texts {
		switch {
		case !utf8.ValidString(t):
			return nil, badRequest("the text of key column %q is not UTF-8", s.columns[i])
		case t == "":
			return nil, badRequest("the text of key column %q is empty", s.columns[i])
		}
	}
	key, err := s.program.Key(texts)
	if err != nil {
		return nil, badRequest("%v", err)
	}
	return key, nil
}

func columnsText(names []string) string {
	return countText(len(names), "column") + " (" + strings.Join(names, ", ") + ")"
}

func countText(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// appendJSON appends v as JSON without escaping for HTML.
func appendJSON(dst []byte, v any) ([]byte, error) {
	buf := bytes.NewBuffer(dst)
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), err
}
