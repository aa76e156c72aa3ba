package aggregator

import (
	"tidemark/decimal"
	"tidemark/event"
)

// A scalar in a row is three words:
//
//	      absent  number          text   timestamp   number beyond 128 bits
//	0     0       low half        place  seconds     place of its encoding
//	1     0       high half       size   nanoseconds its size
//	2     slot kind, and the scale of a number <<32
const scalarWords = 3

const (
	slotNone uint64 = iota
	slotFalse
	slotTrue
	slotNumber
	slotText
	slotTime
	slotWide
)

const slotKind = 0xff

// storeScalar makes the slot hold v, which is not absent.
func storeScalar(m *memory, slot []uint64, v *event.Value) {
	_ = slot[2]
	switch v.Kind {
	case event.Decimal:
		if hi, lo, scale, ok := v.Num.Parts(); ok {
			slot[0], slot[1], slot[2] = lo, uint64(hi), slotNumber|uint64(uint32(scale))<<32
			return
		}
		storeBytes(m, slot, slotWide, v.Num.Append(nil))
	case event.Text:
		storeBytes(m, slot, slotText, v.Bytes)
	case event.Timestamp:
		slot[0], slot[1], slot[2] = uint64(v.Time.Sec), uint64(v.Time.Nsec), slotTime
	case event.True:
		slot[0], slot[1], slot[2] = 0, 0, slotTrue
	default:
		slot[0], slot[1], slot[2] = 0, 0, slotFalse
	}
}

// storeBytes makes the slot hold bytes of a kind, in their old room where it
// does.
func storeBytes(m *memory, slot []uint64, kind uint64, b []byte) {
	if is := slot[2] & slotKind; is != slotText && is != slotWide {
		slot[0], slot[1] = 0, 0
	}
	m.putText(&slot[0], &slot[1], b)
	slot[2] = kind
}

// loadScalar sets v to what the slot holds, Null where it is empty. A text is
// valid until the slot changes.
func loadScalar(m *memory, slot []uint64, v *event.Value) {
	switch slot[2] & slotKind {
	case slotNone:
		v.Kind = event.Null
	case slotFalse:
		v.Kind = event.False
	case slotTrue:
		v.Kind = event.True
	case slotNumber:
		v.Kind = event.Decimal
		v.Num = decimal.New(int64(slot[1]), slot[0], int32(slot[2]>>32))
	case slotText:
		v.Kind = event.Text
		v.Bytes = m.text(slot[0], slot[1])
	case slotTime:
		v.Kind = event.Timestamp
		v.Time = event.Time{Sec: int64(slot[0]), Nsec: int32(slot[1])}
	case slotWide:
		v.Kind = event.Decimal
		v.Num, _, _ = decimal.Read(m.text(slot[0], slot[1])) // Append's own bytes
	}
}

// compareSlot orders what the slot holds, which is not empty, and v.
func compareSlot(m *memory, slot []uint64, v *event.Value) int {
	if slot[2] == slotTime && v.Kind == event.Timestamp {
		if sec := int64(slot[0]); sec != v.Time.Sec {
			return order(sec < v.Time.Sec)
		}
		return int(int32(slot[1]) - v.Time.Nsec)
	}
	var is event.Value
	loadScalar(m, slot, &is)
	return event.Compare(&is, v)
}

// slotEmpty says whether the slot holds nothing.
func slotEmpty(slot []uint64) bool { return slot[2] == slotNone }
