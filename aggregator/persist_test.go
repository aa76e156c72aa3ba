package aggregator_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"tidemark/aggregator"
	"tidemark/event"
)

// fill sets v, and all that is in it, to values other than zero, each another.
func fill(t *testing.T, v reflect.Value, next *int64) {
	t.Helper()
	*next++
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(*next)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(*next))
	case reflect.String:
		v.SetString(strings.Repeat("x", int(*next)))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), next)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fallthrough
	case reflect.Array:
		for i := range v.Len() {
			fill(t, v.Index(i), next)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i), next)
		}
	default:
		t.Fatalf("%s of kind %s: say here how it is filled", v.Type(), v.Kind())
	}
}

func filled[T any](t *testing.T) T {
	var v T
	var next int64
	fill(t, reflect.ValueOf(&v).Elem(), &next)
	return v
}

// roundTrip writes a record and reads it into another.
func roundTrip[T any](t *testing.T, record T) (read T) {
	t.Helper()
	b, err := json.Marshal(record)
	if err != nil {
		t.Fatal(err)
	}
	if err := aggregator.UnmarshalStrict(b, &read); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	return read
}

// A field of Identity, Cut or Progress that is not stored would be lost with
// the next restart or hand-over: every field is carried, also those added later.
func TestEveryFieldIsStored(t *testing.T) {
	id := filled[aggregator.Identity](t)
	if got := roundTrip(t, id.Record()).Identity(); !reflect.DeepEqual(got, id) {
		t.Errorf("identity\n got %+v\nwant %+v", got, id)
	}
	p := filled[aggregator.Progress](t)
	got, err := roundTrip(t, p.Record()).Progress(p.Position)
	if err != nil || !reflect.DeepEqual(got, p) {
		t.Errorf("progress, %v\n got %+v\nwant %+v", err, got, p)
	}
	var none aggregator.Identity
	if got := roundTrip(t, none.Record()).Identity(); !reflect.DeepEqual(got, none) {
		t.Errorf("of nothing: %+v", got)
	}
}

// The bytes are part of the formats of states and manifests.
func TestStoredBytes(t *testing.T) {
	id := aggregator.Identity{
		Topic: "sales", TopicID: "AAAAAAAAAAAAAAAAAAAAAQ", Partition: 3, Partitions: 8,
		Definition: aggregator.Definition{SQL: "SELECT a<b", Fingerprint: "f", Clauses: []aggregator.Clause{{Name: "SELECT", Text: "x"}}},
		Cut: aggregator.Cut{
			Mode: "timestamp", Start: 7, Before: &event.Time{Sec: 1438000000, Nsec: 5}, EventTime: event.Path{"sale", "at"}, Partitioner: "fnv1a",
		},
		HasHistory: true, SeedPartitions: 6,
	}
	p := aggregator.Progress{Position: 300, Seeded: true, Documents: 9, Epoch: 2, Gap: 1, Placement: 5}
	p.Counts.Results[aggregator.BeforeCut] = 3
	p.Counts.Results[aggregator.Folded] = 7
	p.Counts.Reasons[event.BadTimestamp] = 4
	for _, c := range []struct {
		record any
		want   string
	}{
		{id.Record(), `{"topic":"sales","topic_id":"AAAAAAAAAAAAAAAAAAAAAQ","partition":3,"partitions":8,` +
			`"definition":{"sql":"SELECT a\u003cb","fingerprint":"f","clauses":[{"name":"SELECT","text":"x"}]},` +
			`"cut":{"mode":"timestamp","start":7,"before":{"sec":1438000000,"nsec":5},"event_time":["sale","at"],"partitioner":"fnv1a"},` +
			`"has_history":true,"seed_partitions":6}`},
		{aggregator.Identity{}.Record(), `{"topic":"","topic_id":"","partition":0,"partitions":0,` +
			`"definition":{"sql":"","fingerprint":"","clauses":null},"cut":{"mode":"","start":0},"has_history":false,"seed_partitions":0}`},
		{p.Record(), `{"seeded":true,"documents":9,"epoch":2,"gap":1,"placement":5,` +
			`"results":{"before_cut":3,"folded":7},"reasons":{"bad_timestamp":4}}`},
		{aggregator.Progress{Position: 9}.Record(), `{"seeded":false,"epoch":0,"placement":0}`},
	} {
		if got, err := json.Marshal(c.record); err != nil || string(got) != c.want {
			t.Errorf("%v\n got %s\nwant %s", err, got, c.want)
		}
	}
}

// What a program does not know it must not read, for it would write the rest
// alone.
func TestUnknownNamesAreRefused(t *testing.T) {
	for _, text := range []string{`{"results":{"folded":1,"lost":1}}`, `{"reasons":{"lost":0}}`} {
		var r aggregator.ProgressRecord
		if err := aggregator.UnmarshalStrict([]byte(text), &r); err != nil {
			t.Fatal(err)
		}
		for range 2 { // reading it changes nothing
			if _, err := r.Progress(1); err == nil || !strings.Contains(err.Error(), `"lost"`) {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
	for _, text := range []string{"", `{"more":1}`, `{"cut":{"more":1}}`, `{}{}`, `{} x`, `[]`} {
		var r aggregator.IdentityRecord
		if err := aggregator.UnmarshalStrict([]byte(text), &r); err == nil {
			t.Errorf("%q is read", text)
		}
	}
}
