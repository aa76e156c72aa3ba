package aggregator

import (
	"strings"

	"tidemark/event"
	"tidemark/query"
)

// Documents reads history documents into deltas. It belongs to one goroutine.
type Documents struct {
	program *Program
	paths   []event.Path
	scanner *event.Scanner
	key     keyReader
	guard   int     // slot, -1 for none
	fields  []field // by aggregate

	// Of the document just read.
	doc      Document
	good     bool
	texts    uint64
	instant  event.Time
	missing  []string
	operands []operand
	elements event.Elements
}

// Document is what a document says, besides its totals.
type Document struct {
	Key   []byte      // valid until the next Read, and as long as what was read
	Guard *event.Time // of cut mode guard, nil where the document has none; valid until the next Read
	// Missing holds the result names whose field is missing or null; valid
	// until the next Read. A count is 0 without a field, not missing.
	Missing []string
	Reason  event.Reason
	Field   string // at fault, where Reason is not OK
}

// Read reads one document and holds its totals until the next Read. Nothing is
// allocated for a good document once d has warmed up.
func (d *Documents) Read(source []byte) Document {
	f := d.read(source)
	d.good = f.reason == event.OK
	if !d.good {
		d.doc = Document{Reason: f.reason}
		if f.slot >= 0 {
			d.doc.Field = strings.Join(d.paths[f.slot], ".")
		}
	}
	return d.doc
}

func (d *Documents) read(source []byte) (f fault) {
	d.doc = Document{}
	d.missing = d.missing[:0]
	if f.reason, f.slot = d.scanner.Scan(source); f.reason != event.OK {
		return f
	}
	values := d.scanner.Values
	if d.doc.Key, d.texts, f = d.key.read(values); f.reason != event.OK {
		return f
	}
	if d.guard >= 0 && !values[d.guard].IsNull() {
		if d.instant, f.reason = values[d.guard].Timestamp(d.program.opts.Zone); f.reason != event.OK {
			return fault{f.reason, d.guard}
		}
		d.doc.Guard = &d.instant
	}
	for i := range d.fields {
		has, f := d.operand(&d.program.columns[i], &d.fields[i], &d.operands[i])
		if f.reason != event.OK {
			return f
		}
		if !has {
			d.missing = append(d.missing, d.program.columns[i].name)
		}
	}
	if len(d.missing) > 0 {
		d.doc.Missing = d.missing
	}
	return fault{}
}

// operand makes what the document adds to one aggregate; has is false where a
// field that it wants is missing or null: then it adds nothing.
func (d *Documents) operand(c *column, f *field, o *operand) (has bool, _ fault) {
	values := d.scanner.Values
	o.value.Kind, o.by.Kind, o.count = event.Null, event.Null, 0
	o.clearSet()
	if c.fn == query.CountAll || c.fn == query.Count {
		if values[f.count].IsNull() {
			return true, fault{}
		}
		reason := d.number(&values[f.count], o)
		return true, fault{reason, f.count}
	}
	for _, slot := range [...]int{f.value, f.count, f.by} {
		if slot >= 0 && values[slot].IsNull() {
			return false, fault{}
		}
	}
	if c.arg.want == wantMembers {
		o.value = values[f.value]
		return true, fault{o.takeMembers(&d.elements, d.caster(f.as)), f.value}
	}
	first := fault{d.take(c.arg.want, f.as, &values[f.value], &o.value), f.value}
	switch {
	case f.by >= 0:
		reason := d.take(wantScalar, f.byAs, &values[f.by], &o.by)
		first = first.orEarlier(fault{reason, f.by})
	case f.count >= 0:
		reason := d.number(&values[f.count], o)
		if first.reason == event.OK && reason == event.OK && o.count == 0 && !o.value.Num.IsZero() {
			reason = event.BadNumber // a sum of nothing
		}
		first = first.orEarlier(fault{reason, f.count})
	}
	return true, first
}

// take makes v of src what is wanted of it, cast first where as is not nil.
func (d *Documents) take(w want, as *query.Type, src, v *event.Value) event.Reason {
	if as == nil {
		return convert(w, src, v)
	}
	if as.Name == query.TypeTimestamp {
		var reason event.Reason
		v.Kind = event.Timestamp
		v.Time, reason = src.Timestamp(d.program.opts.Zone)
		return reason
	}
	converted, reason := query.ConvertTo(*src, *as, d.program.opts.Zone)
	if reason != event.OK {
		return reason
	}
	return convert(w, &converted, v)
}

// caster casts members of a set in place; nil where they are taken as they are.
func (d *Documents) caster(as *query.Type) func(*event.Value) event.Reason {
	if as == nil {
		return nil
	}
	return func(v *event.Value) event.Reason {
		var cast event.Value
		reason := d.take(wantScalar, as, v, &cast)
		*v = cast
		return reason
	}
}

// number makes o's count an integer that is not negative.
func (d *Documents) number(v *event.Value, o *operand) event.Reason {
	n, reason := v.Decimal()
	if reason != event.OK {
		return reason
	}
	whole, ok := n.Int64()
	switch {
	case n.Sign() < 0 || n.Trunc().Cmp(n) != 0:
		return event.BadNumber
	case !ok:
		return event.Overflow
	}
	o.count = uint64(whole)
	return event.OK
}

// AddTo adds the totals of the document just read to its key in delta. A
// document that is bad adds nothing. Counts is left alone.
func (d *Documents) AddTo(delta *Delta) {
	if !d.good {
		return
	}
	row, _ := delta.enter(d.doc.Key)
	delta.touch(row, d.doc.Key)
	delta.fold(row, d.texts, d.operands)
	addDocuments(row, 1)
}

// SetIn is AddTo, replacing what delta has of the key.
func (d *Documents) SetIn(delta *Delta) {
	if !d.good {
		return
	}
	row, _ := delta.enter(d.doc.Key)
	clear(row[headWords:]) // what it named in the delta's memory is free after the Reset
	row[rowFlags] &^= flagDocuments | flagTexts
	d.AddTo(delta)
}
