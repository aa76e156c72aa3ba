package query

import (
	"fmt"
	"time"

	"tidemark/decimal"
	"tidemark/event"
)

// String is the type as SQL.
func (t Type) String() string {
	switch t.Name {
	case TypeTimestamp:
		return "TIMESTAMP"
	case TypeBigint:
		return "BIGINT"
	case TypeString:
		return "STRING"
	}
	if t.Precision == 0 {
		return "DECIMAL"
	}
	return fmt.Sprintf("DECIMAL(%d,%d)", t.Precision, t.Scale)
}

// Eval converts X. What does not fit is noted and NULL.
func (c *Cast) Eval(env *Env) event.Value {
	var tmp event.Value
	v := operand(c.X, env, &tmp)
	if v.IsNull() {
		return nullTri(v).value()
	}
	out, reason := convert(v, c.Type, env.Zone, &env.texts)
	if reason != event.OK {
		env.note(reason, env.last)
		return failed
	}
	return out
}

// String is the cast as SQL.
func (c *Cast) String() string { return "CAST(" + c.X.String() + " AS " + c.Type.String() + ")" }

// ConvertTo converts v to t as CAST does; NULL stays NULL. zone is for texts
// that are timestamps without a zone; nil is UTC. The reason why v does not
// convert is WrongType, BadNumber, Overflow or BadTimestamp.
//
// A timestamp becomes a number of seconds since the epoch, with its fraction,
// and a text as answers show it; a number becomes its plain digits, a boolean
// "true" or "false". The bytes of a text that was not one before are new.
func ConvertTo(v event.Value, t Type, zone *time.Location) (event.Value, event.Reason) {
	return convert(&v, t, zone, new(texts))
}

func convert(v *event.Value, t Type, zone *time.Location, a *texts) (event.Value, event.Reason) {
	if v.IsNull() {
		return null, event.OK
	}
	switch t.Name {
	case TypeTimestamp:
		if zone == nil {
			zone = time.UTC
		}
		at, reason := v.Timestamp(zone)
		if reason != event.OK {
			return null, reason
		}
		return event.Value{Kind: event.Timestamp, Time: at}, event.OK
	case TypeString:
		return toText(v, a)
	}
	d, reason := toNumber(v)
	if reason != event.OK {
		return null, reason
	}
	switch {
	case t.Name == TypeBigint:
		n, ok := d.Trunc().Int64()
		if !ok {
			return null, event.Overflow
		}
		d = decimal.FromInt64(n)
	case t.Precision > 0:
		d = d.Round(t.Scale)
		if !d.Fits(t.Precision, t.Scale) {
			return null, event.Overflow
		}
	}
	return event.Value{Kind: event.Decimal, Num: d}, event.OK
}

// toNumber reads v as a number; an instant is its seconds since the epoch.
func toNumber(v *event.Value) (decimal.Decimal, event.Reason) {
	if v.Kind != event.Timestamp {
		return v.Decimal()
	}
	nanos := decimal.New(0, uint64(v.Time.Nsec), 9)
	return decimal.FromInt64(v.Time.Sec).Add(nanos), event.OK
}

// toText writes v as text; bytes that it makes are in a.
func toText(v *event.Value, a *texts) (event.Value, event.Reason) {
	out := event.Value{Kind: event.Text}
	switch v.Kind {
	case event.Text:
		out.Bytes = v.Bytes
	case event.False:
		out.Bytes = falseText
	case event.True:
		out.Bytes = trueText
	case event.Number, event.Decimal:
		d, reason := v.Decimal()
		if reason != event.OK {
			return null, reason
		}
		out.Bytes = a.keep(d.AppendText(a.room()))
	case event.Timestamp:
		out.Bytes = a.keep(v.Time.AppendText(a.room()))
	default:
		return null, event.WrongType
	}
	return out, event.OK
}

var (
	falseText = []byte("false")
	trueText  = []byte("true")
)

// texts is where the texts of casts lie. Nothing in it is ever written twice,
// so a text stays valid for as long as it is held; one allocation serves many.
type texts struct{ chunk []byte }

const (
	textsChunk = 4 << 10
	textsRoom  = 96 // bytes: more than the text of any number of an event
)

// room returns an empty slice to append one text to.
func (a *texts) room() []byte {
	if cap(a.chunk)-len(a.chunk) < textsRoom {
		size := textsRoom // the first text may be the only one
		if a.chunk != nil {
			size = textsChunk
		}
		a.chunk = make([]byte, 0, size)
	}
	return a.chunk[len(a.chunk):]
}

// keep takes what room's slice has become, and returns it.
func (a *texts) keep(text []byte) []byte {
	if n := len(a.chunk) + len(text); n <= cap(a.chunk) {
		a.chunk = a.chunk[:n]
	}
	return text[:len(text):len(text)]
}
