package search

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// call is a request being answered.
type call struct {
	s       *Server
	r       *http.Request
	content string
	kind    Kind
	body    struct {
		Size        *int
		Sort        []string
		Slice       *slice
		SearchAfter []json.Number `json:"search_after"`
		PIT         *struct {
			ID string
		}
		ID       string
		ScrollID any `json:"scroll_id"`
		Aggs     json.RawMessage
	}
}

// what the request asks for.
func (c *call) what() Kind {
	path := c.r.URL.Path
	switch {
	case path == "/":
		return Root
	case strings.HasSuffix(path, "/_settings"):
		return Settings
	case strings.HasSuffix(path, "/_mapping"):
		return Mapping
	case strings.HasSuffix(path, "/_refresh"):
		return Refresh
	case c.r.Method == http.MethodDelete:
		return Close
	case strings.HasSuffix(path, "/_pit"), c.r.URL.Query().Has("scroll"):
		return Open
	case c.body.Size != nil && *c.body.Size == 0:
		return Count
	}
	return Page
}

// context is the snapshot that the request names.
func (c *call) context() string {
	switch id := c.body.ScrollID.(type) {
	case string:
		return id
	case nil:
	default:
		return fmt.Sprint(id)
	}
	if c.body.PIT != nil {
		return c.body.PIT.ID
	}
	return c.body.ID
}

func (c *call) answer() (status int, body string) {
	switch c.kind {
	case Root:
		return http.StatusOK, c.root()
	case Settings, Mapping:
		return c.describe()
	case Refresh:
		if _, missing := c.s.resolve(c.target()); missing != "" {
			return c.missing(missing)
		}
		return http.StatusOK, `{"_shards":{"total":2,"successful":1,"failed":0}}`
	case Close:
		return c.close()
	case Open:
		return c.open()
	}
	return c.search()
}

// target is the indices of the path.
func (c *call) target() string {
	target, _, _ := strings.Cut(strings.TrimPrefix(c.r.URL.Path, "/"), "/")
	return target
}

func (c *call) root() string {
	if c.s.Flavour == OpenSearch {
		return `{"name":"n","version":{"distribution":"opensearch","number":"2.19.6","lucene_version":"9.12.3"},"tagline":"The OpenSearch Project: https://opensearch.org/"}`
	}
	return `{"name":"n","version":{"number":"7.17.29","build_flavor":"default","lucene_version":"8.11.3"},"tagline":"You Know, for Search"}`
}

func (c *call) describe() (int, string) {
	names, missing := c.s.resolve(c.target())
	if missing != "" {
		return c.missing(missing)
	}
	all := map[string]any{}
	for _, name := range names {
		ix := c.s.indices[name]
		if c.kind == Mapping {
			mappings := ix.Mappings
			if mappings == "" {
				mappings = "{}"
			}
			all[name] = map[string]any{"mappings": json.RawMessage(mappings)}
			continue
		}
		settings := map[string]string{"index.number_of_shards": fmt.Sprint(ix.Shards), "index.number_of_replicas": "1"}
		for k, v := range ix.Settings {
			settings[k] = v
		}
		all[name] = map[string]any{"settings": settings}
	}
	return http.StatusOK, text(all)
}

// open opens a point in time, or a scroll with its first page.
func (c *call) open() (int, string) {
	pit := strings.HasSuffix(c.r.URL.Path, "/_pit")
	if pit && c.s.Flavour == OpenSearch {
		return http.StatusBadRequest, `{"error":"no handler found for uri [` + c.r.URL.RequestURI() + `] and method [POST]"}`
	}
	names, missing := c.s.resolve(c.target())
	if missing != "" {
		return c.missing(missing)
	}
	id := fmt.Sprintf("c%d==", c.s.opened+1)
	ctx := c.s.snapshot(names)
	status, body := http.StatusOK, text(map[string]string{"id": id})
	if !pit {
		ctx.scroll = true
		if c.body.Slice != nil {
			ctx.slice = *c.body.Slice
		}
		ctx.size = c.size()
		status, body = c.page(id, ctx, true)
	}
	if status == http.StatusOK {
		c.s.opened++
		c.s.contexts[id] = ctx
	}
	return status, body
}

func (c *call) size() int {
	if c.body.Size == nil {
		return 10
	}
	return *c.body.Size
}

// search is a search in a snapshot, or in the indices as they are.
func (c *call) search() (int, string) {
	id := c.context()
	if id == "" {
		names, missing := c.s.resolve(c.target())
		if missing != "" {
			return c.missing(missing)
		}
		ctx := c.s.snapshot(names)
		ctx.size = c.size()
		return c.page("", ctx, true)
	}
	ctx := c.s.contexts[id]
	if ctx == nil {
		return c.refuse(http.StatusNotFound, "search_context_missing_exception", "No search context found for id ["+id+"]")
	}
	if ctx.scroll {
		return c.page(id, ctx, false)
	}
	view := *ctx
	view.size = c.size()
	if c.body.Slice != nil {
		view.slice = *c.body.Slice
	}
	return c.page(id, &view, c.kind == Count)
}

// page gives documents of a snapshot, of a scroll the next ones.
func (c *call) page(id string, ctx *context, counts bool) (int, string) {
	window := 10_000
	for _, name := range ctx.indices {
		if v := c.s.indices[name]; v != nil && v.Settings["index.max_result_window"] != "" {
			fmt.Sscan(v.Settings["index.max_result_window"], &window)
		}
	}
	if ctx.size > window {
		return c.refuse(http.StatusBadRequest, "illegal_argument_exception", fmt.Sprintf("Result window is too large, from + size must be less than or equal to: [%d] but was [%d]", window, ctx.size))
	}
	after := int64(-1)
	if len(c.body.SearchAfter) > 0 {
		after, _ = c.body.SearchAfter[0].Int64()
	}
	hits := []any{}
	buckets := map[string]int{}
	total, shards := 0, map[int]bool{}
	for _, d := range ctx.docs {
		shards[d.shard] = true
		if !ctx.slice.within(d) {
			continue
		}
		total++
		buckets[d.index]++
		if d.place <= after || total <= ctx.at || len(hits) == ctx.size {
			continue
		}
		hit := map[string]any{"_index": d.index, "_type": "_doc", "_id": d.id, "_score": nil, "sort": []int64{d.place}}
		if ix := c.s.indices[d.index]; ix == nil || !ix.NoSource {
			hit["_source"] = source(d.source)
		}
		hits = append(hits, hit)
	}
	ctx.at += len(hits)
	n := 0
	for _, name := range ctx.indices {
		if ix := c.s.indices[name]; ix != nil {
			n += ix.Shards
		}
	}
	found := map[string]any{"max_score": nil, "hits": hits}
	answer := map[string]any{
		"took": 1, "timed_out": false, "hits": found,
		"_shards": map[string]int{"total": n, "successful": n, "skipped": 0, "failed": 0},
	}
	if counts || ctx.scroll {
		found["total"] = map[string]any{"value": total, "relation": "eq"}
	}
	switch {
	case ctx.scroll:
		answer["_scroll_id"] = id
	case id != "":
		answer["pit_id"] = id
	}
	if c.body.Aggs != nil {
		list := []any{}
		for name, n := range buckets {
			list = append(list, map[string]any{"key": name, "doc_count": n})
		}
		answer["aggregations"] = map[string]any{"indices": map[string]any{"doc_count_error_upper_bound": 0, "sum_other_doc_count": 0, "buckets": list}}
	}
	return http.StatusOK, text(answer)
}

// source is a document whose bytes are sent as they are.
type source string

// mark stands for a source until the answer is written: encoding/json would
// write its bytes anew.
func (s source) MarshalJSON() ([]byte, error) {
	return json.Marshal(mark + string(s) + mark)
}

const mark = "\uE000"

// text writes an answer, with the sources as they are.
func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	parts := strings.Split(string(b), mark)
	for i := 1; i < len(parts); i += 2 {
		var plain string
		if err := json.Unmarshal([]byte(`"`+parts[i]+`"`), &plain); err != nil {
			panic(err)
		}
		parts[i] = plain
		parts[i-1] = strings.TrimSuffix(parts[i-1], `"`)
		parts[i+1] = strings.TrimPrefix(parts[i+1], `"`)
	}
	return strings.Join(parts, "")
}

func (c *call) close() (int, string) {
	ids := []string{c.body.ID}
	if list, ok := c.body.ScrollID.([]any); ok {
		ids = ids[:0]
		for _, id := range list {
			ids = append(ids, fmt.Sprint(id))
		}
	}
	freed := 0
	for _, id := range ids {
		if c.s.contexts[id] != nil {
			delete(c.s.contexts, id)
			freed++
		}
	}
	status := http.StatusOK
	if freed == 0 {
		status = http.StatusNotFound
	}
	return status, fmt.Sprintf(`{"succeeded":%t,"num_freed":%d}`, freed > 0, freed)
}

func (c *call) missing(name string) (int, string) {
	return c.refuse(http.StatusNotFound, "index_not_found_exception", "no such index ["+name+"]")
}

// refuse is an error as servers write it.
func (c *call) refuse(status int, kind, reason string) (int, string) {
	return status, Refusal(status, kind, reason)
}

// Refusal is the body of an error.
func Refusal(status int, kind, reason string) string {
	cause := map[string]string{"type": kind, "reason": reason}
	return text(map[string]any{
		"error":  map[string]any{"root_cause": []any{cause}, "type": "search_phase_execution_exception", "reason": "all shards failed", "phase": "query", "caused_by": cause},
		"status": status,
	})
}
