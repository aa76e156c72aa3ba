package aggregator

import (
	"strconv"

	"tidemark/decimal"
	"tidemark/event"
	"tidemark/query"
)

// AppendRow appends t as the JSON object of an answer's row. quoted puts every
// number in quotes.
func (t *Total) AppendRow(dst, key []byte, quoted bool) []byte {
	p := t.program
	for i := range p.def.Columns {
		dst = append(dst, p.heads[i]...)
		c := &p.def.Columns[i]
		if c.Key >= 0 {
			text := p.keyPart(key, c.Key)
			if keyIsText(t.row, c.Key) {
				dst = appendQuoted(dst, text)
			} else {
				dst = appendDigits(dst, quoted, func(dst []byte) []byte { return append(dst, text...) })
			}
			continue
		}
		dst = t.appendAggregate(dst, c.Aggregate, quoted)
	}
	if len(p.def.Columns) == 0 {
		dst = append(dst, '{')
	}
	return append(dst, '}')
}

// appendAggregate appends the answer of one aggregate as JSON.
func (t *Total) appendAggregate(dst []byte, aggregate int, quoted bool) []byte {
	column := &t.program.columns[aggregate]
	if set, ok := column.acc.(collectSet); ok {
		return t.appendSet(dst, column, set, quoted)
	}
	t.value = event.Value{}
	t.program.answer(&t.memory, t.row, column, &t.value)
	return appendAnswer(dst, &t.value, column.fixed, quoted)
}

// AppendColumn appends the answer of a result column, which is no key, as JSON.
func (t *Total) AppendColumn(dst []byte, column int) []byte {
	return t.appendAggregate(dst, t.program.def.Columns[column].Aggregate, false)
}

// words is the words of a column in t's row.
func (t *Total) words(c *column) []uint64 { return t.row[c.word : c.word+c.words] }

// keyIsText says whether a key column is shown as text: something that was
// folded carried it so.
func keyIsText(row []uint64, column int) bool {
	return row[rowFlags]>>(flagTextShift+column)&1 != 0
}

// Capped names the columns whose set has lost members to the limit; nil for
// none.
func (t *Total) Capped() (names []string) {
	for i := range t.program.columns {
		c := &t.program.columns[i]
		if set, ok := c.acc.(collectSet); ok && set.view(&t.memory, t.words(c)).capped {
			names = append(names, c.name)
		}
	}
	return names
}

// Value is the answer of one column, for ordering: Null, False, True, Decimal,
// Text, Timestamp; for a set its number of members. A text is valid until t
// or key changes.
func (t *Total) Value(column int, key []byte) event.Value { return *t.valueOf(column, key) }

// valueOf is Value in the place that t has for one.
func (t *Total) valueOf(column int, key []byte) *event.Value {
	t.program.setValue(&t.value, &t.memory, t.row, key, column)
	return &t.value
}

// setValue sets v to the answer of a result column for a row. key is looked at
// for a column of the key alone.
func (p *Program) setValue(v *event.Value, m *memory, row []uint64, key []byte, column int) {
	c := &p.def.Columns[column]
	*v = event.Value{}
	if c.Key < 0 {
		p.answer(m, row, &p.columns[c.Aggregate], v)
		return
	}
	v.Kind, v.Bytes = event.Text, p.keyPart(key, c.Key)
	if !keyIsText(row, c.Key) {
		if n, err := decimal.Parse(v.Bytes); err == nil {
			v.Kind, v.Num = event.Decimal, n
		}
	}
}

// answer sets v to the answer of an aggregate, the cast round it included.
func (p *Program) answer(m *memory, row []uint64, c *column, v *event.Value) {
	words := row[c.word : c.word+c.words]
	if c.round == nil {
		c.acc.answer(m, words, v)
		return
	}
	if a, ok := c.acc.(avg); ok { // it is divided and rounded in one
		switch {
		case c.round.Name == query.TypeBigint:
			a.truncated(m, words, v)
		case c.fixed >= 0:
			a.quotient(m, words, c.fixed, v)
		default:
			a.answer(m, words, v)
		}
	} else {
		c.acc.answer(m, words, v)
	}
	if v.IsNull() {
		return
	}
	rounded, reason := query.ConvertTo(*v, *c.round, p.opts.Zone)
	if reason != event.OK {
		rounded = event.Value{Kind: event.Null}
	}
	*v = rounded
}

// appendSet appends the members of a set in value order.
func (t *Total) appendSet(dst []byte, c *column, set collectSet, quoted bool) []byte {
	view := set.view(&t.memory, t.words(c))
	dst = append(dst, '[')
	first := true
	view.each(&t.memory, func(member *event.Value) {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = appendAnswer(dst, member, c.fixed, quoted)
	})
	return append(dst, ']')
}

// appendAnswer appends a scalar as JSON: numbers plain, with exactly fixed
// decimals where that is not negative, and timestamps in UTC.
func appendAnswer(dst []byte, v *event.Value, fixed int32, quoted bool) []byte {
	switch v.Kind {
	case event.False:
		return append(dst, "false"...)
	case event.True:
		return append(dst, "true"...)
	case event.Decimal:
		return appendDigits(dst, quoted, func(dst []byte) []byte {
			if fixed >= 0 {
				return v.Num.AppendFixed(dst, fixed)
			}
			return v.Num.AppendText(dst)
		})
	case event.Text:
		return appendQuoted(dst, v.Bytes)
	case event.Timestamp:
		dst = append(dst, '"')
		dst = v.Time.AppendText(dst)
		return append(dst, '"')
	}
	return append(dst, "null"...)
}

// appendDigits appends what digits appends, in quotes where quoted.
func appendDigits(dst []byte, quoted bool, digits func(dst []byte) []byte) []byte {
	if !quoted {
		return digits(dst)
	}
	return append(digits(append(dst, '"')), '"')
}

// appendQuoted appends text, which is UTF-8, as a JSON string: only quotes,
// backslashes and control characters are escaped.
func appendQuoted(dst, text []byte) []byte {
	dst = append(dst, '"')
	plain := 0 // from here on nothing was appended yet
	for i, c := range text {
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, text[plain:i]...)
		plain = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\f':
			dst = append(dst, '\\', 'f')
		default:
			dst = append(dst, `\u00`...)
			dst = strconv.AppendUint(dst, uint64(c>>4), 16)
			dst = strconv.AppendUint(dst, uint64(c&15), 16)
		}
	}
	dst = append(dst, text[plain:]...)
	return append(dst, '"')
}
