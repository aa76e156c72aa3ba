package event

// Elements goes through the elements of an array. The zero Elements has none;
// Reset gives it an array. It belongs to one goroutine, and allocates nothing
// once its buffer for unescaped texts has warmed up.
type Elements struct {
	rest  []byte // from the next element, or the closing bracket, on
	value Value
	texts []byte
}

// Reset begins with an array: the Bytes of a Value of Kind Array. Values that
// were given before are no longer valid.
func (e *Elements) Reset(array []byte) {
	if cap(e.texts) > keptTexts {
		e.texts = nil
	}
	e.texts = e.texts[:0]
	e.rest = array[skipSpace(array, 1):]
}

// Next returns the next element, nil behind the last. The Value is valid until
// the following call; its Bytes point into the array, or for a text with
// escapes into a buffer that is valid until Reset. Elements that are arrays or
// objects come whole.
func (e *Elements) Next() *Value {
	b := e.rest
	if len(b) == 0 || b[0] == ']' {
		return nil
	}
	v := &e.value
	var end int
	switch c := b[0]; c {
	case '"':
		quote, escaped := textEnd(b, 1)
		v.Kind, v.Bytes = Text, b[1:quote:quote]
		if escaped {
			at := len(e.texts)
			e.texts = unescape(e.texts, v.Bytes)
			v.Bytes = e.texts[at:len(e.texts):len(e.texts)]
		}
		end = quote + 1
	case '[', '{':
		v.Kind = Array
		if c == '{' {
			v.Kind = Object
		}
		end = skipKnown(b, 0)
		v.Bytes = b[:end:end]
	case 'n', 't', 'f':
		v.Kind, end = literal(b, 0)
		v.Bytes = b[:end:end]
	default:
		end = numberEnd(b, 0)
		v.Kind, v.Bytes = Number, b[:end:end]
	}
	end = skipSpace(b, end)
	if b[end] == ',' {
		end = skipSpace(b, end+1)
	}
	e.rest = b[end:]
	return v
}
