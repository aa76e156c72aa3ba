package aggregator

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"tidemark/event"
)

// Total is one key's accumulators in memory, for merging and answering. The
// zero total is what a key has before its first event. One goroutine at a
// time.
type Total struct {
	program *Program
	row     []uint64
	memory  memory
	operand operand // of Merge
	value   event.Value
}

// NewTotal returns a zero total.
func (p *Program) NewTotal() *Total {
	return &Total{program: p, row: make([]uint64, p.rowWords)}
}

// Reset makes t the zero total again.
func (t *Total) Reset() {
	clear(t.row)
	t.memory.reset()
}

// Merge adds an encoded total. An error means bytes that no version of this
// program wrote, or a newer one did; it names both versions. After an error t
// holds a part of them and must be Reset.
func (t *Total) Merge(encoded []byte) error {
	rest, err := t.mergeNext(encoded)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("read an encoded total: %w", errLong)
	}
	return err
}

// MergeParts adds the encoded totals that stand one behind another in parts: what
// the store holds of a key, and what waits to be applied. Errors are as with Merge.
func (t *Total) MergeParts(parts []byte) (err error) {
	for err == nil && len(parts) > 0 {
		parts, err = t.mergeNext(parts)
	}
	return err
}

// mergeNext adds the encoded total at the front, and returns what follows it.
func (t *Total) mergeNext(encoded []byte) (rest []byte, err error) {
	if rest, err = t.mergeHead(encoded); err != nil {
		return nil, fmt.Errorf("read an encoded total: %w", err)
	}
	for i := range t.program.columns {
		c := &t.program.columns[i]
		if rest, err = c.acc.read(rest, &t.operand); err != nil {
			return nil, fmt.Errorf("read the encoded %s of a total: %w", c.name, err)
		}
		c.acc.fold(&t.memory, t.row[c.word:c.word+c.words], &t.operand)
	}
	return rest, nil
}

// only makes t what Value of a result column needs of an encoded total. Errors
// are as with Merge.
func (t *Total) only(encoded []byte, column int) error {
	t.Reset()
	last := t.program.def.Columns[column].Aggregate
	if t.program.def.Columns[column].Key >= 0 {
		last = -1
	}
	rest, err := t.mergeHead(encoded)
	for i := 0; err == nil && i <= last; i++ {
		c := &t.program.columns[i]
		if set, ok := c.acc.(collectSet); ok && i < last {
			rest, err = set.skip(rest)
		} else {
			rest, err = c.acc.read(rest, &t.operand)
		}
		if err != nil {
			return fmt.Errorf("read the encoded %s of a total: %w", c.name, err)
		}
	}
	if err != nil {
		return fmt.Errorf("read an encoded total: %w", err)
	}
	if last >= 0 {
		c := &t.program.columns[last]
		c.acc.fold(&t.memory, t.row[c.word:c.word+c.words], &t.operand)
	}
	return nil
}

// mergeHead merges what comes before the accumulators.
func (t *Total) mergeHead(encoded []byte) (rest []byte, err error) {
	flags, rest, err := readHead(encoded)
	if err == nil && !mergeFlags(t.row, flags) {
		err = errors.New("its flags are none")
	}
	return rest, err
}

// readHead reads the version and the flags of an encoded total.
func readHead(encoded []byte) (flags uint64, rest []byte, err error) {
	if len(encoded) == 0 {
		return 0, nil, errShort
	}
	if encoded[0] != FormatVersion {
		return 0, nil, errVersion(encoded[0])
	}
	return readUvarint(encoded[1:])
}

// Append appends the encoding of t: the same bytes for the same total, however
// it came about.
func (t *Total) Append(dst []byte) []byte {
	return t.program.appendTotal(dst, &t.memory, t.row)
}

// Sum is the encoding of the sum of encoded totals, of which any may be empty; nil
// where all are. t is where it is summed up: it may hold anything before, and does
// afterwards. The slice of those given is used up. Errors are as with Merge.
func (t *Total) Sum(encoded ...[]byte) ([]byte, error) {
	encoded = slices.DeleteFunc(encoded, func(e []byte) bool { return len(e) == 0 })
	switch len(encoded) {
	case 0:
		return nil, nil
	case 1:
		return bytes.Clone(encoded[0]), nil
	}
	t.Reset()
	for _, e := range encoded {
		if err := t.Merge(e); err != nil {
			return nil, err
		}
	}
	return t.Append(nil), nil
}

// Duplicate says whether an encoded total came from more than one document.
func Duplicate(encoded []byte) bool {
	flags, _, err := readHead(encoded)
	return err == nil && flags&flagDocuments == 2
}
