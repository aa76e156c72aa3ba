package event

// Path is a path to a field: the names from the outermost object inward. It
// never leads through an array.
type Path []string

// Scanner reads records. It belongs to one goroutine.
type Scanner struct {
	// Values holds, after a Scan that returned OK, the value of each path in
	// the order given to NewScanner; Missing where the path leads nowhere.
	Values []Value

	into     []Value // of this Scan
	maxBytes int
	root     *node
	copies   []copied // paths that were given more than once
	scan     uint64   // number of the Scan, which tells fields seen in it
	double   int      // path of the first field seen twice in this Scan, else -1
	texts    []byte   // unescaped texts of this Scan, then unescaped names
	nested   nesting
}

// copied is a path that was given before.
type copied struct{ from, to int }

// keptTexts is the capacity beyond which texts is not kept for the next Scan,
// so that one huge record does not hold its memory for ever.
const keptTexts = 1 << 20

// NewScanner compiles a scanner for paths. One path may lead through another
// (user and user.id). maxBytes bounds a record; 0 is no bound. A path without
// names leads nowhere.
func NewScanner(paths []Path, maxBytes int) *Scanner {
	s := &Scanner{Values: make([]Value, len(paths)), maxBytes: maxBytes, root: newNode()}
	for i, path := range paths {
		if len(path) == 0 {
			continue
		}
		if first := s.root.add(path, i); first != i {
			s.copies = append(s.copies, copied{first, i})
		}
	}
	s.root.seal()
	return s
}

// Scan reads one record: a whole JSON object in UTF-8, a leading byte order
// mark allowed. It returns OK, or the first of Empty, TooLarge, NotUTF8,
// NotJSON, NotObject and DuplicateField that fits; for DuplicateField, path is
// the index of the path whose name was there twice, else -1. Nothing is
// allocated once the scanner has warmed up, and record is not kept beyond the
// Values that point into it.
//
// The record is read once. Only where that fails is it looked at again, for
// the reason.
func (s *Scanner) Scan(record []byte) (reason Reason, path int) {
	s.Forget()
	return s.ScanInto(s.Values, record)
}

// Forget says that no Value of ScanInto is used any more.
func (s *Scanner) Forget() {
	if cap(s.texts) > keptTexts {
		s.texts = nil
	}
	s.texts = s.texts[:0]
}

// ScanInto is Scan into values, one for each path, in place of Values. They are
// valid until Forget, or until Scan, and as long as the record is.
func (s *Scanner) ScanInto(values []Value, record []byte) (reason Reason, path int) {
	s.into = values[:len(s.Values)]
	if s.maxBytes > 0 && len(record) > s.maxBytes {
		if blank(record) {
			return Empty, -1
		}
		return TooLarge, -1
	}
	b := withoutMark(record)
	s.scan++
	s.double = -1
	for i := range s.into {
		s.into[i].Kind = Missing
	}

	i := skipSpace(b, 0)
	if i == len(b) {
		return Empty, -1
	}
	object := b[i] == '{'
	if object {
		i = s.object(b, i, s.root, 1)
	} else {
		i = s.nested.skip(b, i, 0)
	}
	if i < 0 || skipSpace(b, i) != len(b) {
		return whyNot(b), -1
	}
	if !object {
		return NotObject, -1
	}
	if s.double >= 0 {
		return DuplicateField, s.double
	}
	for _, c := range s.copies {
		s.into[c.to] = s.into[c.from]
	}
	return OK, -1
}

// object reads the object that begins at b[i], of which n holds the wanted
// fields, at depth (the outermost is 1). It returns the index behind it, -1
// where it is not valid.
func (s *Scanner) object(b []byte, i int, n *node, depth int) int {
	if depth > maxDepth {
		return -1
	}
	i = skipSpace(b, i+1)
	if i < len(b) && b[i] == '}' {
		return i + 1
	}
	at := 0 // in the order last seen
	if n.learning {
		at = maxOrder
	}
	strange := false // a name came that the order does not have here
	for {
		if uint(i) >= uint(len(b)) || b[i] != '"' {
			return -1
		}
		var f *field
		var end int
		if at < len(n.order) && n.fits(&n.order[at], b, i) {
			f, end = n.order[at].field, i+n.order[at].size
			at++
		} else if f, end = n.expected(b, i, &at); end < 0 {
			strange = true
			if f, end = s.name(b, i, n); end < 0 {
				return -1
			}
		}
		if b[end-1] != ':' {
			if end = skipSpace(b, end); end >= len(b) || b[end] != ':' {
				return -1
			}
			end++
		}
		i = end
		if i < len(b) && b[i] <= ' ' {
			i = skipSpace(b, i)
		}

		if f == nil {
			i = s.nested.skip(b, i, depth)
		} else {
			if f.seen == s.scan && s.double < 0 {
				s.double = f.path
			}
			f.seen = s.scan
			if f.slot >= 0 && i < len(b) && b[i]-'0' <= 9 {
				if end = numberEnd(b, i); end < 0 {
					return -1
				}
				v := &s.into[f.slot]
				v.Kind, v.Bytes = Number, b[i:end:end]
				i = end
			} else {
				i = s.value(b, i, f, depth)
			}
		}
		if i < 0 {
			return -1
		}

		if i < len(b) && b[i] <= ' ' {
			i = skipSpace(b, i)
		}
		if i >= len(b) {
			return -1
		}
		switch b[i] {
		case ',':
			if i++; i < len(b) && b[i] <= ' ' {
				i = skipSpace(b, i)
			}
		case '}':
			n.done(strange)
			return i + 1
		default:
			return -1
		}
	}
}

// value reads the value of f that begins at b[i], in an object at depth, and
// returns the index behind it, -1 where it is not valid.
func (s *Scanner) value(b []byte, i int, f *field, depth int) (end int) {
	if i >= len(b) {
		return -1
	}
	var kind Kind
	start := i
	switch c := b[i]; {
	case c == '"':
		quote, escaped := textEnd(b, i+1)
		if quote < 0 {
			return -1
		}
		if f.slot >= 0 {
			text := b[i+1 : quote : quote]
			if escaped {
				at := len(s.texts)
				s.texts = unescape(s.texts, text)
				text = s.texts[at:len(s.texts):len(s.texts)]
			}
			v := &s.into[f.slot]
			v.Kind, v.Bytes = Text, text
		}
		return quote + 1
	case c == '-' || c-'0' <= 9:
		kind, end = Number, numberEnd(b, i)
	case c == '{':
		kind = Object
		if f.child != nil {
			end = s.object(b, i, f.child, depth+1)
		} else {
			end = s.nested.skip(b, i, depth)
		}
	case c == '[':
		kind, end = Array, s.nested.skip(b, i, depth)
	default:
		kind, end = literal(b, i)
	}
	if end >= 0 && f.slot >= 0 {
		v := &s.into[f.slot]
		v.Kind, v.Bytes = kind, b[start:end:end]
	}
	return end
}

// name reads the name that begins with the quote at b[i] and finds its field,
// nil where none is wanted. end is the index behind the closing quote, or behind
// the colon where that follows at once; -1 where the name is not valid.
func (s *Scanner) name(b []byte, i int, n *node) (f *field, end int) {
	quote, escaped := textEnd(b, i+1)
	if quote < 0 {
		return nil, -1
	}
	text := b[i+1 : quote]
	if end = quote + 1; end < len(b) && b[end] == ':' {
		end++
	}
	if escaped {
		at := len(s.texts)
		s.texts = unescape(s.texts, text)
		text = s.texts[at:]
		f = n.find(text)
		s.texts = s.texts[:at]
		return f, end
	}
	f = n.find(text)
	n.learn(b[i:end], f)
	return f, end
}
