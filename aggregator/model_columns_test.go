package aggregator

import (
	"cmp"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"tidemark/event"
)

// modelColumn is one aggregate of the reference: how its arguments are read,
// and its answer from all folded events of a key, in whatever order.
type modelColumn struct {
	sql    string
	args   []modelArg
	answer func(limit int, args []modelArg, events []*modelEvent) (json string, capped bool)
}

// modelArg reads an argument: from the field at path, or what as makes of it.
type modelArg struct {
	path     string
	required bool
	as       func(v modelValue) (modelValue, event.Reason)
}

func (a modelArg) read(e *modelEvent) (modelValue, event.Reason) {
	v := e.fields[a.path]
	if v.isNull() {
		switch {
		case !a.required:
			return v, event.OK
		case v.kind == modelMissing:
			return v, event.MissingField
		}
		return v, event.NullField
	}
	return a.as(v)
}

func asNumber(v modelValue) (modelValue, event.Reason) {
	switch v.kind {
	case modelNumber:
		return v, event.OK
	case modelHuge:
		return v, event.Overflow
	case modelText:
		if v.rat == nil {
			return v, event.BadNumber
		}
		return modelValue{kind: modelNumber, rat: v.rat}, event.OK
	}
	return v, event.WrongType
}

func asScalar(v modelValue) (modelValue, event.Reason) {
	switch v.kind {
	case modelHuge:
		return v, event.Overflow
	case modelArray, modelObject:
		return v, event.WrongType
	}
	return v, event.OK
}

func asPresence(v modelValue) (modelValue, event.Reason) {
	if v.kind == modelArray || v.kind == modelObject {
		return v, event.WrongType
	}
	return v, event.OK
}

func asInstant(v modelValue) (modelValue, event.Reason) {
	switch {
	case v.instant != nil:
		return modelValue{kind: modelTime, instant: v.instant}, event.OK
	case v.kind == modelText || v.kind == modelNumber || v.kind == modelHuge:
		return v, event.BadTimestamp
	}
	return v, event.WrongType
}

func asMembers(v modelValue) (modelValue, event.Reason) {
	if v.kind != modelArray {
		v, reason := asScalar(v)
		return modelValue{kind: modelArray, list: []modelValue{v}}, reason
	}
	out, first := modelValue{kind: modelArray}, event.OK
	for _, m := range v.list {
		if m.isNull() {
			continue
		}
		if _, reason := asScalar(m); reason != event.OK && (first == event.OK || reason < first) {
			first = reason
		}
		out.list = append(out.list, m)
	}
	return out, first
}

// asMoney is CAST(x AS decimal(6,2)).
func asMoney(v modelValue) (modelValue, event.Reason) {
	v, reason := asNumber(v)
	if reason != event.OK {
		return v, reason
	}
	r, _ := new(big.Rat).SetString(v.rat.FloatString(2))
	if new(big.Rat).Abs(r).Cmp(big.NewRat(10_000, 1)) >= 0 {
		return v, event.Overflow
	}
	return modelValue{kind: modelNumber, rat: r}, event.OK
}

func asNegative(v modelValue) (modelValue, event.Reason) {
	v, reason := asNumber(v)
	if reason == event.OK {
		v = modelValue{kind: modelNumber, rat: new(big.Rat).Neg(v.rat)}
	}
	return v, reason
}

var modelColumns = []modelColumn{
	{"sum(a)", []modelArg{{"a", true, asNumber}}, modelSum(plainDigits)},
	{"sum(b)", []modelArg{{"b", true, asNumber}}, modelSum(plainDigits)},
	{"sum(-a)", []modelArg{{"a", true, asNegative}}, modelSum(plainDigits)},
	{"sum(COALESCE(b, 0))", []modelArg{{"b", false, asNumber}}, modelSum(plainDigits)},
	{"sum(CAST(b AS decimal(6,2)))", []modelArg{{"b", true, asMoney}}, modelSum(fixedDigits(2))},
	{"CAST(sum(a) AS decimal(38,3))", []modelArg{{"a", true, asNumber}}, modelSum(func(r *big.Rat) string {
		text := fixedDigits(3)(r)
		if len(strings.TrimLeft(strings.Split(text, ".")[0], "-0")) > 35 {
			return "null"
		}
		return text
	})},
	{"count(*)", nil, func(_ int, _ []modelArg, events []*modelEvent) (string, bool) {
		return strconv.Itoa(len(events)), false
	}},
	{"count(s)", []modelArg{{"s", false, asPresence}}, func(_ int, args []modelArg, events []*modelEvent) (string, bool) {
		return strconv.Itoa(len(modelValues(args[0], events))), false
	}},
	{"avg(a)", []modelArg{{"a", true, asNumber}}, modelAvg(func(r *big.Rat) string {
		return plainDigits(mustRat(r.FloatString(10)))
	})},
	{"CAST(avg(b) AS decimal(38,1))", []modelArg{{"b", true, asNumber}}, modelAvg(func(r *big.Rat) string {
		text := fixedDigits(1)(r)
		if len(strings.TrimLeft(strings.Split(text, ".")[0], "-0")) > 37 {
			return "null"
		}
		return text
	})},
	{"CAST(avg(b) AS bigint)", []modelArg{{"b", true, asNumber}}, modelAvg(func(r *big.Rat) string {
		n := new(big.Int).Quo(r.Num(), r.Denom()) // toward zero
		if !n.IsInt64() {
			return "null"
		}
		return n.String()
	})},
	{"min(s)", []modelArg{{"s", true, asScalar}}, modelExtreme(-1)},
	{"max(s)", []modelArg{{"s", true, asScalar}}, modelExtreme(1)},
	{"max(CAST(ts AS timestamp))", []modelArg{{"ts", true, asInstant}}, modelExtreme(1)},
	{"CAST(min(ts) AS timestamp)", []modelArg{{"ts", true, asInstant}}, modelExtreme(-1)},
	{"first(s)", []modelArg{{"s", false, asScalar}}, modelOrdered(-1)},
	{"last(s)", []modelArg{{"s", false, asScalar}}, modelOrdered(1)},
	{"last(CAST(ts AS timestamp))", []modelArg{{"ts", false, asInstant}}, modelOrdered(1)},
	{"min_by(s, a)", []modelArg{{"s", true, asScalar}, {"a", true, asScalar}}, modelBy(-1)},
	{"max_by(s, CAST(ts AS timestamp))", []modelArg{{"s", true, asScalar}, {"ts", true, asInstant}}, modelBy(1)},
	{"collect_set(tags)", []modelArg{{"tags", false, asMembers}}, modelSet},
	{"collect_set(s)", []modelArg{{"s", false, asMembers}}, modelSet},
}

// modelValues are the values of an argument that are not null.
func modelValues(a modelArg, events []*modelEvent) (values []modelValue) {
	for _, e := range events {
		if v, _ := a.read(e); !v.isNull() {
			values = append(values, v)
		}
	}
	return values
}

func mustRat(text string) *big.Rat {
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		panic(text)
	}
	return r
}

// fixedDigits rounds HALF_UP to exactly n decimals, never -0.
func fixedDigits(n int) func(r *big.Rat) string {
	return func(r *big.Rat) string {
		text := r.FloatString(n)
		if mustRat(text).Sign() == 0 {
			text = strings.TrimPrefix(text, "-")
		}
		return text
	}
}

type modelAnswerFunc = func(limit int, args []modelArg, events []*modelEvent) (string, bool)

func modelSum(show func(*big.Rat) string) modelAnswerFunc {
	return func(_ int, args []modelArg, events []*modelEvent) (string, bool) {
		total := new(big.Rat)
		for _, v := range modelValues(args[0], events) {
			total.Add(total, v.rat)
		}
		return show(total), false
	}
}

func modelAvg(show func(*big.Rat) string) modelAnswerFunc {
	return func(_ int, args []modelArg, events []*modelEvent) (string, bool) {
		total := new(big.Rat)
		for _, v := range modelValues(args[0], events) {
			total.Add(total, v.rat)
		}
		return show(total.Quo(total, big.NewRat(int64(len(events)), 1))), false
	}
}

func modelExtreme(sign int) modelAnswerFunc {
	return func(_ int, args []modelArg, events []*modelEvent) (string, bool) {
		values := modelValues(args[0], events)
		return slices.MaxFunc(values, func(v, w modelValue) int { return sign * v.compare(w) }).show(), false
	}
}

// inOrder are the events by (timestamp, partition, offset).
func inOrder(events []*modelEvent) []*modelEvent {
	return slices.SortedFunc(slices.Values(events), func(a, b *modelEvent) int {
		return cmp.Or(cmp.Compare(a.at.time, b.at.time), cmp.Compare(a.at.partition, b.at.partition), cmp.Compare(a.at.offset, b.at.offset))
	})
}

func modelOrdered(sign int) modelAnswerFunc {
	return func(_ int, args []modelArg, events []*modelEvent) (string, bool) {
		values := modelValues(args[0], inOrder(events))
		switch {
		case len(values) == 0:
			return "null", false
		case sign < 0:
			return values[0].show(), false
		}
		return values[len(values)-1].show(), false
	}
}

func modelBy(sign int) modelAnswerFunc {
	return func(_ int, args []modelArg, events []*modelEvent) (string, bool) {
		best := slices.MaxFunc(inOrder(events), func(e, f *modelEvent) int { // the first of several
			v, _ := args[1].read(e)
			w, _ := args[1].read(f)
			return sign * v.compare(w)
		})
		v, _ := args[0].read(best)
		return v.show(), false
	}
}

func modelSet(limit int, args []modelArg, events []*modelEvent) (string, bool) {
	var members []modelValue
	for _, v := range modelValues(args[0], events) {
		members = append(members, v.list...)
	}
	slices.SortFunc(members, modelValue.compare)
	members = slices.CompactFunc(members, func(v, w modelValue) bool { return v.compare(w) == 0 })
	capped := len(members) > limit
	var shown []string
	for _, v := range members[:min(limit, len(members))] {
		shown = append(shown, v.show())
	}
	return "[" + strings.Join(shown, ",") + "]", capped
}
