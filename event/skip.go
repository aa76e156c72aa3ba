package event

// maxDepth is how deep arrays and objects may lie in each other. It is the
// limit of encoding/json and its successor.
const maxDepth = 10_000

// nesting is a stack of one bit a level, set where the level is an object. It
// stands in for recursion, so that no input deepens the goroutine's stack.
type nesting [maxDepth/64 + 1]uint64

func (n *nesting) push(depth int, object bool) {
	bit := uint64(1) << (depth & 63)
	if object {
		n[depth>>6] |= bit
	} else {
		n[depth>>6] &^= bit
	}
}

func (n *nesting) object(depth int) bool { return n[depth>>6]>>(depth&63)&1 != 0 }

// skip reads the value that begins at b[i] and lies in depth arrays and
// objects, and keeps nothing of it. It returns the index behind it, -1 where
// it is not valid JSON.
func (n *nesting) skip(b []byte, i, depth int) int {
	outside := depth
value:
	if i >= len(b) {
		return -1
	}
	switch c := b[i]; {
	case c-'0' <= 9 || c == '-':
		if i = numberEnd(b, i); i < 0 {
			return -1
		}
	case c == '"':
		if i, _ = textEnd(b, i+1); i < 0 {
			return -1
		}
		i++
	case c == '{':
		if depth++; depth > maxDepth {
			return -1
		}
		n.push(depth, true)
		i = skipSpace(b, i+1)
		if i >= len(b) || b[i] != '}' {
			goto name
		}
		depth--
		i++
	case c == '[':
		if depth++; depth > maxDepth {
			return -1
		}
		n.push(depth, false)
		i = skipSpace(b, i+1)
		if i >= len(b) || b[i] != ']' {
			goto value
		}
		depth--
		i++
	default:
		if _, i = literal(b, i); i < 0 {
			return -1
		}
	}

	// Behind a value.
	for depth > outside {
		if i < len(b) && b[i] <= ' ' {
			i = skipSpace(b, i)
		}
		if i >= len(b) {
			return -1
		}
		object := n.object(depth)
		switch c := b[i]; {
		case c == ',':
			if i++; i < len(b) && b[i] <= ' ' {
				i = skipSpace(b, i)
			}
			if object {
				goto name
			}
			goto value
		case c == '}' && object, c == ']' && !object:
			depth--
			i++
		default:
			return -1
		}
	}
	return i

name:
	if i >= len(b) || b[i] != '"' {
		return -1
	}
	if i, _ = textEnd(b, i+1); i < 0 {
		return -1
	}
	i = skipSpace(b, i+1)
	if i >= len(b) || b[i] != ':' {
		return -1
	}
	i = skipSpace(b, i+1)
	goto value
}

// skipKnown is skip for bytes that are known to be valid: it only counts.
func skipKnown(b []byte, i int) int {
	for depth := 0; ; {
		switch c := b[i]; c {
		case '"':
			i, _ = textEnd(b, i+1)
			i++
		case '{', '[':
			depth++
			i++
			continue
		case '}', ']':
			depth--
			i++
		case ',', ':', ' ', '\n', '\r', '\t':
			i++
			continue
		case 'n', 't', 'f':
			_, i = literal(b, i)
		default:
			i = numberEnd(b, i)
		}
		if depth == 0 {
			return i
		}
	}
}
