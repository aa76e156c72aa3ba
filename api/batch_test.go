package api

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestBatchKeepsTheOrder(t *testing.T) {
	members := service(t, salesQuery, 4, 2, Options{})
	for i := range 50 {
		key := fmt.Sprint(i)
		p := placedAt(key, 4)
		of(members, p).reader.fold(p, sale(key, fmt.Sprint(i)))
	}
	var asked []string
	for i := range maxKeys {
		asked = append(asked, fmt.Sprintf("%q", fmt.Sprint((i*7)%60)))
	}
	for _, m := range members {
		page := m.do("POST", "/v1/aggregates:batchGet", `{"keys":[`+strings.Join(asked, ",")+`]}`).page(t)
		if len(page.Rows) != maxKeys || !page.Complete {
			t.Fatalf("got %d rows", len(page.Rows))
		}
		for i, row := range page.Rows {
			n := (i * 7) % 60
			if n >= 50 {
				if row != nil {
					t.Errorf("row %d is %s, want null", i, row.Row)
				}
				continue
			}
			if want := fmt.Sprintf(`"totalRevenue":%d,`, n); row == nil || !strings.Contains(string(row.Row), want) {
				t.Errorf("row %d is %v, want %s", i, row, want)
			}
		}
	}
	if got := members[0].do("POST", "/v1/aggregates:batchGet", `{"keys":[]}`); got.body != `{"rows":[],"complete":true}`+"\n" {
		t.Errorf("got %s", got.body)
	}
}

func TestBadBatches(t *testing.T) {
	m := one(t, salesQuery, 1, Options{})
	for _, body := range []string{
		"", "null", "[]", "{}", `{"keys":null}`, `{"keys":"23"}`, `{"keys":[23]}`, `{"keys":[null]}`, `{"keys":[["23","24"]]}`, `{"keys":[[]]}`,
		`{"keys":[[23]]}`, `{"keys":[""]}`, `{"keys":["23"],"more":1}`, `{"Keys":["23"]}`, `{"keys":["23"]} x`, `{"keys":["23"`, "{\"keys\":[\"\xff\"]}",
		`{"keys":["23"],"keys":["24"]}`, `{"keys":[],"k\u0065ys":["24"]}`, "\xef\xbb\xbf" + `{"keys":["23"]}`, `{"keys":["23",]}`, `{"keys":["23"]}{}`, "7", "\x1f\x8b",
		`{"keys":["\ud800"]}`, `{"keys":["\ud800\ud800"]}`, `{"keys":["\udc00 x"]}`,
		`{"keys":[` + strings.TrimSuffix(strings.Repeat(`"1",`, maxKeys+1), ",") + `]}`,
	} {
		m.do("POST", "/v1/aggregates:batchGet", body).problem(t, 400, typeBadRequest)
	}
	for _, body := range []string{`{"keys":["\ufffd"]}`, `{"keys":["�"]}`, `{"keys":["\ud83d\ude00"]}`, `{"keys":["\\ud800"]}`, `{"keys":[["23"]]}`} {
		if got := m.do("POST", "/v1/aggregates:batchGet", body); got.code != 200 {
			t.Errorf("%s: got %d: %s", body, got.code, got.body)
		}
	}
	m.do("POST", "/v1/aggregates:batchGet", `{"keys":["`+strings.Repeat("x", maxBody)+`"]}`).problem(t, 413, typeTooLarge)
	m.do("POST", "/v1/aggregates:batchGet?limit=1", `{"keys":[]}`).problem(t, 400, typeBadRequest)
}

func TestLoneSurrogates(t *testing.T) {
	for raw, want := range map[string]bool{
		`""`: false, `"\ud83d\ude00"`: false, `"\ud83d\ude00\n\ud83d"`: true, `"\ud83d"`: true, `"\ude00\ud83d"`: true, `"\\ud83d"`: false,
		`"\ud83dx\ude00"`: true, `"\ud83d\\ude00"`: true, `"\u00e9"`: false, `"\ud83d\ude00\ud83d\ude00"`: false,
	} {
		if got := loneSurrogate([]byte(raw)); got != want {
			t.Errorf("%s: got %v", raw, got)
		}
	}
	if !slices.Equal([]rune{escaped([]byte("u00e9"))}, []rune("é")) {
		t.Error("an escape is misread")
	}
}
