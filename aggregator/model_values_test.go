package aggregator

import (
	"encoding/json"
	"math/big"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"tidemark/event"
)

// modelValue is one field of an event, as the reference sees it.
type modelValue struct {
	kind    modelKind
	rat     *big.Rat   // of a number, and of a text that is one
	text    string     // of a text
	instant *time.Time // what reads as a timestamp
	list    []modelValue
	json    string
}

type modelKind int

// In value order, from modelFalse to modelTime.
const (
	modelMissing modelKind = iota
	modelNull
	modelFalse
	modelTrue
	modelNumber
	modelText
	modelTime // made by a cast alone
	modelHuge // a number of too many digits
	modelArray
	modelObject
)

func (v modelValue) isNull() bool { return v.kind <= modelNull }

// key is the text of a key column.
func (v modelValue) key() (text string, number bool, reason event.Reason) {
	switch v.kind {
	case modelMissing:
		return "", false, event.MissingField
	case modelNull:
		return "", false, event.NullField
	case modelNumber:
		return plainDigits(v.rat), true, event.OK
	case modelText:
		if v.text == "" {
			return "", false, event.MissingField
		}
		return v.text, false, event.OK
	case modelHuge:
		return "", false, event.Overflow
	}
	return "", false, event.WrongType
}

// compare orders false, true, numbers, texts, timestamps.
func (v modelValue) compare(w modelValue) int {
	if v.kind != w.kind {
		return int(v.kind - w.kind)
	}
	switch v.kind {
	case modelNumber:
		return v.rat.Cmp(w.rat)
	case modelText:
		return strings.Compare(v.text, w.text)
	case modelTime:
		return v.instant.Compare(*w.instant)
	}
	return 0
}

// show is the value in an answer.
func (v modelValue) show() string {
	switch v.kind {
	case modelFalse:
		return "false"
	case modelTrue:
		return "true"
	case modelNumber:
		return plainDigits(v.rat)
	case modelText:
		return quoteJSON(v.text)
	case modelTime:
		layout := "2006-01-02T15:04:05.000000000Z"
		switch n := v.instant.Nanosecond(); {
		case n%1e6 == 0:
			layout = "2006-01-02T15:04:05.000Z"
		case n%1e3 == 0:
			layout = "2006-01-02T15:04:05.000000Z"
		}
		return `"` + v.instant.UTC().Format(layout) + `"`
	}
	return "null"
}

// plainDigits is an exact decimal without trailing zeros.
func plainDigits(r *big.Rat) string {
	if r.IsInt() {
		return r.Num().String()
	}
	return strings.TrimRight(r.FloatString(120), "0")
}

func quoteJSON(text string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(text); err != nil {
		panic(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func modelJSON(text string) modelValue {
	v := modelValue{json: text}
	switch {
	case text == "":
		v.kind = modelMissing
	case text == "null":
		v.kind = modelNull
	case text == "false":
		v.kind = modelFalse
	case text == "true":
		v.kind = modelTrue
	case text[0] == '{':
		v.kind = modelObject
	case text[0] == '[':
		v.kind = modelArray
		var raw []json.RawMessage
		if err := json.Unmarshal([]byte(text), &raw); err != nil {
			panic(err)
		}
		for _, r := range raw {
			v.list = append(v.list, modelJSON(string(r)))
		}
	case text[0] == '"':
		v.kind = modelText
		if err := json.Unmarshal([]byte(text), &v.text); err != nil {
			panic(err)
		}
		if n := new(json.Number); json.Unmarshal([]byte(v.text), n) == nil && strings.TrimSpace(v.text) == v.text && v.text != "null" && v.text[0] != '"' {
			v.rat, _ = new(big.Rat).SetString(v.text)
		}
	default:
		v.kind = modelNumber
		v.rat, _ = new(big.Rat).SetString(text)
		if digits := strings.Split(v.rat.FloatString(400), "."); len(strings.TrimLeft(digits[0], "-0")) > 38 || len(strings.TrimRight(digits[1], "0")) > 38 {
			v.kind = modelHuge
		}
	}
	return v
}

// modelEvent is a record.
type modelEvent struct {
	at        position
	fields    map[string]modelValue
	tombstone bool
	raw       string // a record that is bad as a whole
	rawReason event.Reason
	rawField  string
}

var (
	modelNames   = []string{"k", "j", "a", "b", "s", "tags", "ts"}
	modelKeys    = []string{"1", "1.0", `"1"`, `"a/b"`, `"ключ %"`, "10e-1", "2", `"\"q\"\u0001"`, `"a long key, of more than fifteen bytes"`, `"a long key, of more than fifteen Bytes"`}
	modelNumbers = []string{"1", "2.5", "-0.75", "0", "-0", "1e3", "12345678901234567890123456789012345678", "0.00000000000000000000000000000000000001", "99999999999999999999999999999999999999.99999999999999999999999999999999999999", "9223372036854775807", `"7.25"`, `"-3"`}
	modelScalars = []string{"1", "1.0", "2", "47", `"47"`, `"A"`, `"B"`, `"x"`, "true", "false", "-0.5", "1.5", "1e-20", `"long text, kept in memory of its own"`, `"ünï"`, "170141183460469231731687303715884105728"}
	modelTimes   = []string{`"2015-07-29T09:17:12.000Z"`, `"2015-07-29T09:17:12.123456Z"`, "1438161432", "1438161432000", `"2015-07-29 11:17:12+02:00"`, `"2015-07-29T09:17:12.123456789Z"`}
	modelOdd     = []string{"", "null", "1e40", "1e-39", "[]", "[1]", "{}", `"abc"`, `""`, "true"}
	modelLists   = []string{"[]", "[1,2,3]", `["A","B","A"]`, `[null,1.5,"x"]`, "[47,\"47\",true]", "[0.1,0.10,1e-1]", "[[1]]", "[{}]", "[9,8,7,6,5,4,3]", "[1e40]"}
	modelRaw     = []modelEvent{
		{raw: " ", rawReason: event.Empty},
		{raw: "[]", rawReason: event.NotObject},
		{raw: "{\"k\":1", rawReason: event.NotJSON},
		{raw: "{\"k\":\"\xff\"}", rawReason: event.NotUTF8},
		{raw: `{"k":1,"k":1}`, rawReason: event.DuplicateField, rawField: "k"},
	}
)

// drawEvent draws a record: mostly a whole one, with a field odd now and then.
func drawEvent(t *rapid.T) modelEvent {
	e := modelEvent{}
	e.at = position{
		time:      int64(rapid.IntRange(0, 3).Draw(t, "timestamp")),
		partition: int32(rapid.IntRange(0, 2).Draw(t, "partition")),
		event:     true,
	}
	switch rapid.IntRange(0, 19).Draw(t, "shape") {
	case 0:
		e.tombstone = true
		return e
	case 1:
		raw := rapid.SampledFrom(modelRaw).Draw(t, "raw")
		e.raw, e.rawReason, e.rawField = raw.raw, raw.rawReason, raw.rawField
		return e
	}
	pools := [][]string{modelKeys, modelKeys, modelNumbers, modelNumbers, modelScalars, slices.Concat(modelLists, modelScalars), modelTimes}
	e.fields = map[string]modelValue{}
	for i, name := range modelNames {
		pool := pools[i]
		if rapid.IntRange(0, 19).Draw(t, "odd") == 0 {
			pool = modelOdd
		}
		v := modelJSON(rapid.SampledFrom(pool).Draw(t, name))
		if name == "ts" && v.kind != modelHuge {
			v.instant = readInstant(v.json)
		}
		e.fields[name] = v
	}
	return e
}

func readInstant(text string) *time.Time {
	at := map[string]string{
		modelTimes[0]: "2015-07-29T09:17:12Z", modelTimes[1]: "2015-07-29T09:17:12.123456Z", modelTimes[2]: "2015-07-29T09:17:12Z",
		modelTimes[3]: "2015-07-29T09:17:12Z", modelTimes[4]: "2015-07-29T09:17:12Z", modelTimes[5]: "2015-07-29T09:17:12.123456789Z",
	}[text]
	if at == "" {
		return nil
	}
	t, err := time.Parse(time.RFC3339Nano, at)
	if err != nil {
		panic(err)
	}
	return &t
}

func (e *modelEvent) json() string {
	if e.raw != "" {
		return e.raw
	}
	var fields []string
	for _, name := range modelNames {
		if v := e.fields[name]; v.kind != modelMissing {
			fields = append(fields, `"`+name+`":`+v.json)
		}
	}
	return "{" + strings.Join(fields, ",") + "}"
}

func (e *modelEvent) record() *Record {
	r := &Record{Offset: e.at.offset, Timestamp: e.at.time}
	if !e.tombstone {
		r.Value = []byte(e.json())
	}
	return r
}
