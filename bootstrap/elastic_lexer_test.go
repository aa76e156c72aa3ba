package bootstrap

import (
	"bytes"
	"slices"
	"testing"

	"github.com/go-json-experiment/json"
)

// answers are bodies that servers give, for seeds.
var answers = []string{
	`{"took":1,"timed_out":false,"_shards":{"total":2,"successful":2,"skipped":0,"failed":0},"hits":{"total":{"value":2,"relation":"eq"},"max_score":null,"hits":[` +
		`{"_index":"a","_type":"_doc","_id":"\"\\1","_score":null,"_source":{ "x": 1.50e2, "y":["}{\\", {"z":"\\\\\""}] },"sort":[4294967296]},` +
		`{"_index":"a","_id":"2","_score":null,"fields":{"a":[1]},"sort":[4294967297,"x"]}]}}`,
	`{"pit_id":"abc==","took":0,"timed_out":true,"terminated_early":true,"_shards":{"total":1,"successful":0,"failed":1,"failures":[{"shard":0}]},"hits":{"hits":[]},"aggregations":{"indices":{"buckets":[]}}}`,
	` { "_scroll_id" : "x" , "hits" : { "total" : 7 , "hits" : [ ] } } `,
	`{"id":"h-e1"}`, `{}`, `[]`, `{"hits":{"hits":[{}]}}`, `{"a":"\u0022"}`, `{"hits":null}`, `{"\u0068its":{"hits":[]}}`, `{"took":1`, `<html>`,
}

// FuzzPage: what is found in an answer is what a strict decoder finds in it,
// and nothing that is no JSON makes the reader fail otherwise than by an error.
func FuzzPage(f *testing.F) {
	for _, a := range answers {
		f.Add([]byte(a))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		p := page{body: bytes.Clone(body)}
		err := p.scan()
		var want struct {
			PIT      *string `json:"pit_id"`
			ID       *string `json:"id"`
			Scroll   *string `json:"_scroll_id"`
			TimedOut *bool   `json:"timed_out"`
			Shards   *struct {
				Total      int64 `json:"total"`
				Successful int64 `json:"successful"`
				Failed     int64 `json:"failed"`
			} `json:"_shards"`
			Hits *struct {
				Hits []struct {
					Index  string         `json:"_index"`
					ID     string         `json:"_id"`
					Source map[string]any `json:"_source"`
					Sort   []any          `json:"sort"`
				} `json:"hits"`
			} `json:"hits"`
		}
		if json.Unmarshal(body, &want) != nil {
			return
		}
		if err != nil {
			// A null, or a number that is none of the protocol's, may be refused.
			return
		}
		if want.TimedOut != nil && *want.TimedOut != p.timedOut {
			t.Errorf("timed_out is %t", p.timedOut)
		}
		if want.Scroll != nil && *want.Scroll != p.scroll {
			t.Errorf("scroll %q, want %q", p.scroll, *want.Scroll)
		}
		if want.Shards != nil && (want.Shards.Total != p.shards.total || want.Shards.Failed != p.shards.failed || want.Shards.Successful != p.shards.successful) {
			t.Errorf("shards %+v, want %+v", p.shards, *want.Shards)
		}
		if want.Hits == nil {
			return
		}
		if len(p.hits) != len(want.Hits.Hits) {
			t.Fatalf("%d hits, want %d", len(p.hits), len(want.Hits.Hits))
		}
		for i, h := range want.Hits.Hits {
			got := &p.hits[i]
			if string(got.name()) != h.ID || unquoted(got.index) != h.Index {
				t.Errorf("hit %s of %s, want %s of %s", got.name(), got.index, h.ID, h.Index)
			}
			if (got.source == nil) != (h.Source == nil) {
				t.Fatalf("source %s, want %v", got.source, h.Source)
			}
			if got.source == nil {
				continue
			}
			var source map[string]any
			if err := json.Unmarshal(got.source, &source); err != nil {
				t.Fatalf("source %s: %v", got.source, err)
			}
			a, _ := json.Marshal(source, json.Deterministic(true))
			b, _ := json.Marshal(h.Source, json.Deterministic(true))
			if !bytes.Equal(a, b) {
				t.Errorf("source %s, want %s", a, b)
			}
		}
	})
}

// TestPageFindsTheParts: of a page as servers write it, byte for byte.
func TestPageFindsTheParts(t *testing.T) {
	p := page{body: []byte(answers[0])}
	if err := p.scan(); err != nil {
		t.Fatal(err)
	}
	if err := p.whole(); err != nil || p.total != 2 || !p.exact || p.timedOut || len(p.hits) != 2 {
		t.Fatalf("the page is %+v, %v", p, err)
	}
	first, second := &p.hits[0], &p.hits[1]
	if got := string(first.source); got != `{ "x": 1.50e2, "y":["}{\\", {"z":"\\\\\""}] }` {
		t.Errorf("source %s", got)
	}
	if string(first.name()) != `"\1` || string(first.sort) != `[4294967296]` || string(first.index) != "a" {
		t.Errorf("hit %s %s of %s", first.name(), first.sort, first.index)
	}
	if second.source != nil || string(second.sort) != `[4294967297,"x"]` {
		t.Errorf("hit %s without a source %s", second.sort, second.source)
	}
	p.body = []byte(answers[1])
	if err := p.scan(); err != nil {
		t.Fatal(err)
	}
	if p.pit != "abc==" || !p.timedOut || !p.cutOff || p.whole() == nil || len(p.hits) != 0 || string(p.aggs) != `{"indices":{"buckets":[]}}` {
		t.Errorf("the page is %+v", p)
	}
	for _, bad := range slices.Concat(answers[10:], []string{``, `{`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{"hits":{"hits":[{"_id":"1}]}}`, `{} {}`, `{"a":{"b":[}`}) {
		p := page{body: []byte(bad)}
		if p.scan() == nil {
			t.Errorf("%s is taken for an answer", bad)
		}
	}
}

// TestPageAllocatesNothingPerDocument: a page is read into what the one before
// left.
func TestPageAllocatesNothingPerDocument(t *testing.T) {
	hit := `{"_index":"a","_type":"_doc","_id":"1","_score":null,"_source":{"x":1},"sort":[1]}`
	list := bytes.Repeat([]byte(hit+","), 500)
	p := page{body: slices.Concat([]byte(`{"_shards":{"total":1,"successful":1,"failed":0},"hits":{"hits":[`), list, []byte(hit+"]}}"))}
	if err := p.scan(); err != nil || len(p.hits) != 501 {
		t.Fatalf("%d hits, %v", len(p.hits), err)
	}
	if n := testing.AllocsPerRun(20, func() { _ = p.scan() }); n > 8 {
		t.Errorf("%.0f allocations for a page of 501 documents", n)
	}
}
