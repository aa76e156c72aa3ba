package store_test

import (
	"reflect"
	"testing"

	"tidemark/store"
)

// What is read as a progress is written as one that reads the same; nothing
// else is accepted, and nothing panics.
func FuzzProgress(f *testing.F) {
	for _, seed := range []string{
		"\xac\x02" + `{"seeded":true,"epoch":0,"placement":0,"results":{"before_cut":3},"reasons":{"bad_timestamp":4}}`,
		"\x00{}", "\x05", "", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01{}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		p, err := store.DecodeProgress(value)
		if err != nil {
			return
		}
		again, err := store.AppendProgress(nil, p)
		if err != nil {
			t.Fatal(err)
		}
		if q, err := store.DecodeProgress(again); err != nil || p != q {
			t.Fatalf("%+v, then %+v (%v)", p, q, err)
		}
	})
}

// The same of an identity.
func FuzzIdentity(f *testing.F) {
	value, err := store.EncodeIdentity(identity(3))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(value)
	f.Add([]byte(`{"cut":{"event_time":[]}}`))
	f.Fuzz(func(t *testing.T, value []byte) {
		id, err := store.DecodeIdentity(value)
		if err != nil {
			return
		}
		again, err := store.EncodeIdentity(id)
		if err != nil {
			t.Fatal(err)
		}
		jd, err := store.DecodeIdentity(again)
		if len(id.Cut.EventTime) == 0 {
			id.Cut.EventTime, jd.Cut.EventTime = nil, nil
		}
		if err != nil || !reflect.DeepEqual(id, jd) {
			t.Fatalf("%+v, then %+v (%v)", id, jd, err)
		}
	})
}
