package aggregator

import (
	"errors"
	"slices"
	"strings"

	"tidemark/event"
	"tidemark/query"
)

// Decoder decodes the records of one partition and folds them. It belongs to
// one goroutine.
type Decoder struct {
	program *Program
	paths   []event.Path
	scanner *event.Scanner
	env     query.Env
	cut     DecodeCut
	timed   bool // the cut asks for the event's time
	time    int  // slot of the event's time, -1 for the record's timestamp
	guard   func(key []byte) (event.Time, bool, error)

	operands []operand // by aggregate
	elements event.Elements
	ahead    [ahead]scanned
	one      [1]Outcome
}

// scanned is a record that was scanned, and not folded yet.
type scanned struct {
	values []event.Value
	reader keyReader
	key    []byte // of reader
	texts  uint64 // see keyReader.read
	at     found
	result Result // Folded, unless it came to something else already
	fault  fault  // of Bad
}

// DecodeCut is what a decoder must know of the cut.
type DecodeCut struct {
	Before    *event.Time // events before it are BeforeCut; nil for none
	EventTime event.Path  // of the event's time, nil for the record's timestamp
	Guard     bool        // per key, events at or before its guard are BeforeCut
}

var errNoGuards = errors.New("cut mode guard needs a look-up of guards")

// NewDecoder returns a decoder for a partition with the cut. guard looks up a
// key's instant in the history; it is called once per key and delta, in cut
// mode guard alone, and may be nil in the others.
func (p *Program) NewDecoder(cut DecodeCut, guard func(key []byte) (event.Time, bool, error)) (*Decoder, error) {
	d := &Decoder{
		program:  p,
		paths:    slices.Clone(p.def.Paths),
		cut:      cut,
		timed:    cut.Before != nil || cut.Guard,
		time:     -1,
		guard:    guard,
		operands: make([]operand, len(p.columns)),
	}
	if cut.Guard && guard == nil {
		return nil, errNoGuards
	}
	if d.timed && cut.EventTime != nil {
		d.time = slotOf(&d.paths, cut.EventTime)
	}
	d.scanner = event.NewScanner(d.paths, p.opts.MaxBytes)
	d.env = query.Env{Zone: p.opts.Zone}
	for i := range d.ahead {
		d.ahead[i].values = make([]event.Value, len(d.paths))
		d.ahead[i].reader.columns = p.def.Keys
	}
	for i := range d.operands {
		d.operands[i].count = 1
		d.operands[i].at.event = true
	}
	return d, nil
}

// slotOf returns the index of path in paths, where it is added if need be.
func slotOf(paths *[]event.Path, path event.Path) int {
	i := slices.IndexFunc(*paths, func(p event.Path) bool { return slices.Equal(p, path) })
	if i < 0 {
		i = len(*paths)
		*paths = append(*paths, path)
	}
	return i
}

// fault is what makes a record or a document bad, with the slot of the path at
// fault, -1 where no single one is.
type fault struct {
	reason event.Reason
	slot   int
}

// orEarlier is f, or g where its reason is looked for before f's.
func (f fault) orEarlier(g fault) fault {
	if f.reason == event.OK || g.reason != event.OK && g.reason < f.reason {
		return g
	}
	return f
}

// Fold decodes r, folds it into delta and counts it there. An error is one of
// the guard's; the record is then not counted. A record that is not folded
// leaves no trace but in the counts.
func (d *Decoder) Fold(delta *Delta, partition int32, r *Record) (Outcome, error) {
	_, err := d.FoldAll(delta, partition, []Record{*r}, d.one[:])
	return d.one[0], err
}

// ahead is the number of records that are scanned before the first of them is
// folded, and of rows that are fetched from memory at once.
const ahead = 16

// FoldAll is Fold for some records, in order, whose outcomes it writes into
// outcomes. It returns how many it has done, which is less than all with an
// error alone.
//
// Keys come in no order, so their rows are cache misses once there are many of
// them. Scanning some records ahead lets the misses of several overlap.
func (d *Decoder) FoldAll(delta *Delta, partition int32, records []Record, outcomes []Outcome) (done int, err error) {
	for done < len(records) {
		some := records[done:min(done+ahead, len(records))]
		scanned := d.ahead[:len(some)]
		d.scanner.Forget()
		for i := range some {
			d.scan(delta, &some[i], &scanned[i])
		}
		delta.fetch(scanned)
		for i := range some {
			s := &scanned[i]
			if s.result == Folded {
				if s.result, s.fault, err = d.fold(delta, partition, &some[i], s); err != nil {
					return done, err
				}
			}
			outcomes[done] = d.count(delta, s)
			done++
		}
	}
	return done, nil
}

// count counts a record, and says what came of it.
func (d *Decoder) count(delta *Delta, s *scanned) Outcome {
	delta.Counts.Results[s.result]++
	if s.result != Bad {
		return Outcome{Result: s.result}
	}
	delta.Counts.Reasons[s.fault.reason]++
	out := Outcome{Result: Bad, Reason: s.fault.reason}
	if s.fault.slot >= 0 {
		out.Field = strings.Join(d.paths[s.fault.slot], ".")
	}
	return out
}

// scan reads r up to its key, and looks where that would be in delta.
func (d *Decoder) scan(delta *Delta, r *Record, s *scanned) {
	if r.Value == nil {
		s.result = Tombstone
		return
	}
	s.result = Bad
	if s.fault.reason, s.fault.slot = d.scanner.ScanInto(s.values, r.Value); s.fault.reason != event.OK {
		return
	}
	if where := d.program.def.Where; where != nil {
		d.env.Values = s.values
		d.env.Reset()
		if !query.True(where, &d.env) {
			s.result = Filtered
			return
		}
	}
	if s.key, s.texts, s.fault = s.reader.read(s.values); s.fault.reason != event.OK {
		return
	}
	delta.place(&s.at, s.key)
	s.result = Folded
}

// fold folds a record that was scanned.
func (d *Decoder) fold(delta *Delta, partition int32, r *Record, s *scanned) (Result, fault, error) {
	d.env.Values = s.values
	delta.find(&s.at, s.key)
	if d.timed {
		t, f := d.eventTime(r)
		if f.reason != event.OK {
			return Bad, f, nil
		}
		if d.cut.Before != nil && t.Compare(*d.cut.Before) < 0 {
			return BeforeCut, fault{}, nil
		}
		if d.cut.Guard {
			if s.at.row == nil {
				delta.insert(&s.at, s.key)
			}
			guarded, err := delta.guarded(s.key, s.at.index, t, d.guard)
			if err != nil {
				return 0, fault{}, err
			}
			if guarded {
				return BeforeCut, fault{}, nil
			}
		}
	}
	if f := d.evaluate(partition, r); f.reason != event.OK {
		return Bad, f, nil
	}
	if s.at.row == nil {
		delta.insert(&s.at, s.key)
	}
	delta.touch(s.at.row, s.key)
	delta.fold(s.at.row, s.texts, d.operands)
	if delta.changes != nil {
		delta.change(s.at.index)
	}
	return Folded, fault{}, nil
}

// eventTime is the instant that the cut compares.
func (d *Decoder) eventTime(r *Record) (event.Time, fault) {
	if d.time < 0 {
		return millis(r.Timestamp), fault{}
	}
	v := &d.env.Values[d.time]
	switch v.Kind {
	case event.Missing:
		return event.Time{}, fault{event.MissingField, d.time}
	case event.Null:
		return event.Time{}, fault{event.NullField, d.time}
	}
	t, reason := v.Timestamp(d.program.opts.Zone)
	return t, fault{reason, d.time}
}

// millis is an instant in milliseconds since the epoch.
func millis(ms int64) event.Time {
	sec, rest := ms/1000, ms%1000
	if rest < 0 {
		sec, rest = sec-1, rest+1000
	}
	return event.Time{Sec: sec, Nsec: int32(rest) * 1e6}
}

// evaluate makes the operands of all columns, in SELECT order; nothing is
// folded before all are right.
func (d *Decoder) evaluate(partition int32, r *Record) fault {
	columns := d.program.columns
	for i := range columns {
		c, o := &columns[i], &d.operands[i]
		switch {
		case c.arg.want == wantNothing: // count stays 1
			continue
		case c.plainInstant:
			if src := &d.env.Values[c.arg.slot]; src.Kind == event.Text {
				var reason event.Reason
				if o.value.Time, reason = event.ParseTime(src.Bytes, d.env.Zone); reason != event.OK {
					return fault{reason, c.arg.slot}
				}
				o.value.Kind = event.Timestamp
				continue
			}
		case c.plainSum:
			if src := &d.env.Values[c.arg.slot]; src.Kind == event.Number {
				if reason := src.DecimalInto(&o.value.Num); reason != event.OK {
					return fault{reason, c.arg.slot}
				}
				o.value.Kind = event.Decimal
				continue
			}
		}
		if f := d.operand(c, o); f.reason != event.OK {
			return f
		}
		if c.placed {
			o.at.time, o.at.partition, o.at.offset = r.Timestamp, partition, r.Offset
		}
	}
	return fault{}
}

// operand makes one column's operand.
func (d *Decoder) operand(c *column, o *operand) fault {
	reason, slot := c.arg.read(&d.env, &o.value)
	f := fault{reason, slot}
	if c.by.want != wantNothing {
		reason, slot = c.by.read(&d.env, &o.by)
		return f.orEarlier(fault{reason, slot})
	}
	if reason != event.OK {
		return f
	}
	switch c.arg.want {
	case wantPresence:
		o.count = 1
		if o.value.IsNull() {
			o.count = 0
		}
	case wantMembers:
		f.reason = o.takeMembers(&d.elements, nil)
	}
	return f
}

// takeMembers makes o's set what its value holds: a scalar, or an array of
// scalars, nulls left out. as converts each; nil leaves it as it is. Of the
// members that are bad, the one whose reason is looked for first counts.
func (o *operand) takeMembers(elements *event.Elements, as func(*event.Value) event.Reason) event.Reason {
	o.clearSet()
	if o.value.Kind != event.Array {
		return o.takeMember(&o.value, as)
	}
	elements.Reset(o.value.Bytes)
	first := fault{}
	for v := elements.Next(); v != nil; v = elements.Next() {
		if v.Kind == event.Array {
			return event.WrongType
		}
		first = first.orEarlier(fault{reason: o.takeMember(v, as)})
		if first.reason == event.WrongType {
			break // no member's reason is looked for before
		}
	}
	return first.reason
}

// takeMember adds one scalar, or nothing for a null, to o's set.
func (o *operand) takeMember(v *event.Value, as func(*event.Value) event.Reason) (reason event.Reason) {
	if v.IsNull() {
		return event.OK
	}
	if as != nil {
		if reason = as(v); reason != event.OK {
			return reason
		}
	}
	if v.Kind == event.Number {
		if v.Num, reason = v.Decimal(); reason != event.OK {
			return reason
		}
		v.Kind = event.Decimal
	}
	if v.Kind >= event.Array {
		return event.WrongType
	}
	o.addMember(v)
	return event.OK
}

// keyReader makes keys of the values of the key columns. Documents and events
// share it.
type keyReader struct {
	columns []query.Key
	key     []byte
	part    []byte
}

// read makes the key; it is valid until the next read, and as long as the values
// are, whose bytes it may be. texts has bit 1<<column
// for each column that came as text.
func (k *keyReader) read(values []event.Value) (key []byte, texts uint64, f fault) {
	var number bool
	if len(k.columns) == 1 {
		slot := k.columns[0].Slot
		v := &values[slot]
		if len(v.Bytes) > maxKeyBytes && v.Kind == event.Text {
			return nil, 0, fault{event.TooLarge, slot}
		}
		if key, ok := event.PlainKey(v); ok {
			if v.Kind == event.Text {
				texts = 1
			}
			return key, texts, fault{}
		}
		k.key, number, f.reason = event.AppendKey(k.key[:0], v)
		if !number {
			texts = 1
		}
		f.slot = slot
		return k.key, texts, f
	}
	k.key = k.key[:0]
	size := 0
	for i := range k.columns {
		slot := k.columns[i].Slot
		v := &values[slot]
		if len(v.Bytes) > maxKeyBytes && v.Kind == event.Text {
			return nil, 0, fault{event.TooLarge, slot}
		}
		k.part, number, f.reason = event.AppendKey(k.part[:0], v)
		if f.reason != event.OK {
			f.slot = slot
			return nil, 0, f
		}
		if size += len(k.part); size > maxKeyBytes {
			return nil, 0, fault{event.TooLarge, slot}
		}
		if !number {
			texts |= 1 << i
		}
		if i > 0 {
			k.key = append(k.key, '/')
		}
		k.key = appendPercent(k.key, k.part)
	}
	return k.key, texts, fault{}
}
