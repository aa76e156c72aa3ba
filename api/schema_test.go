package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// spec is openapi.json, for checking answers against it. It knows the part of
// JSON Schema that the document uses, and refuses the rest.
type spec struct{ root map[string]any }

func loadSpec(t testing.TB) *spec {
	t.Helper()
	var root map[string]any
	if err := json.Unmarshal(openAPI, &root); err != nil {
		t.Fatal(err)
	}
	return &spec{root}
}

func (s *spec) resolve(node any) map[string]any {
	m := node.(map[string]any)
	for {
		ref, ok := m["$ref"].(string)
		if !ok {
			return m
		}
		var at any = s.root
		for name := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
			name = strings.ReplaceAll(strings.ReplaceAll(name, "~1", "/"), "~0", "~")
			at = at.(map[string]any)[name]
		}
		if at == nil {
			panic("no such reference: " + ref)
		}
		m = at.(map[string]any)
	}
}

// check says what is wrong with an answer of a route.
func (s *spec) check(method, route string, a *answerSeen) error {
	path, ok := s.root["paths"].(map[string]any)[route]
	if !ok {
		return fmt.Errorf("the document has no %s", route)
	}
	op, ok := path.(map[string]any)[strings.ToLower(method)]
	if !ok {
		return fmt.Errorf("the document has no %s %s", method, route)
	}
	response, ok := op.(map[string]any)["responses"].(map[string]any)[fmt.Sprint(a.code)]
	if !ok {
		return fmt.Errorf("%s %s answers %d, which the document does not have", method, route, a.code)
	}
	r := s.resolve(response)
	headers, _ := r["headers"].(map[string]any)
	for name := range headers {
		if a.header.Get(name) == "" {
			return fmt.Errorf("%s %s: status %d has no %s", method, route, a.code, name)
		}
	}
	if r["content"] == nil {
		if a.body != "" {
			return fmt.Errorf("%s %s: status %d has a body, which the document does not have", method, route, a.code)
		}
		return nil
	}
	contentType, _, _ := strings.Cut(a.header.Get("Content-Type"), ";")
	content, ok := r["content"].(map[string]any)[contentType].(map[string]any)
	if !ok {
		return fmt.Errorf("%s %s: status %d has the content type %q, which the document does not have", method, route, a.code, contentType)
	}
	if !strings.HasSuffix(contentType, "json") {
		return nil
	}
	value, err := decodeJSON([]byte(a.body))
	if err != nil {
		return fmt.Errorf("%s %s: status %d: %w", method, route, a.code, err)
	}
	if err := s.validate(content["schema"], value); err != nil {
		return fmt.Errorf("%s %s: status %d: %w\n%s", method, route, a.code, err, a.body)
	}
	return nil
}

func decodeJSON(body []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

var known = []string{
	"$ref", "type", "const", "enum", "oneOf", "properties", "required", "additionalProperties", "propertyNames",
	"items", "minItems", "maxItems", "minLength", "minimum", "maximum", "pattern", "format", "default", "description",
}

func typeOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case json.Number:
		if n, ok := new(big.Rat).SetString(v.String()); ok && n.IsInt() {
			return "integer"
		}
		return "number"
	case []any:
		return "array"
	}
	return "object"
}

func (s *spec) validate(node, v any) error {
	schema := s.resolve(node)
	for name := range schema {
		if !slices.Contains(known, name) {
			return fmt.Errorf("the keyword %q is not known here", name)
		}
	}
	if want, ok := schema["type"].(string); ok {
		if is := typeOf(v); is != want && !(want == "number" && is == "integer") {
			return fmt.Errorf("%v is %s, not %s", v, is, want)
		}
	}
	if want, ok := schema["const"]; ok && !reflect.DeepEqual(want, v) {
		return fmt.Errorf("%v is not %v", v, want)
	}
	if enum, ok := schema["enum"].([]any); ok && !slices.ContainsFunc(enum, func(x any) bool { return reflect.DeepEqual(x, v) }) {
		return fmt.Errorf("%v is none of %v", v, enum)
	}
	if options, ok := schema["oneOf"].([]any); ok {
		var fits int
		var errs []error
		for _, o := range options {
			if err := s.validate(o, v); err != nil {
				errs = append(errs, err)
				continue
			}
			fits++
		}
		if fits != 1 {
			return fmt.Errorf("%v fits %d of the alternatives: %v", v, fits, errs)
		}
	}
	switch v := v.(type) {
	case map[string]any:
		return s.validateObject(schema, v)
	case []any:
		if n, ok := schema["minItems"].(float64); ok && len(v) < int(n) {
			return fmt.Errorf("%v has fewer than %v items", v, n)
		}
		for i, one := range v {
			if items, ok := schema["items"]; ok {
				if err := s.validate(items, one); err != nil {
					return fmt.Errorf("[%d]: %w", i, err)
				}
			}
		}
	case string:
		if p, ok := schema["pattern"].(string); ok && !regexp.MustCompile(p).MatchString(v) {
			return fmt.Errorf("%q does not match %s", v, p)
		}
		if n, ok := schema["minLength"].(float64); ok && len(v) < int(n) {
			return fmt.Errorf("%q is too short", v)
		}
	case json.Number:
		n, err := v.Float64()
		if least, ok := schema["minimum"].(float64); err != nil || ok && n < least {
			return fmt.Errorf("%v is below %v", v, least)
		}
	}
	return nil
}

func (s *spec) validateObject(schema, v map[string]any) error {
	required, _ := schema["required"].([]any)
	for _, name := range required {
		if _, ok := v[name.(string)]; !ok {
			return fmt.Errorf("%v is missing", name)
		}
	}
	properties, _ := schema["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(v)) {
		if names, ok := schema["propertyNames"]; ok {
			if err := s.validate(names, name); err != nil {
				return err
			}
		}
		property, ok := properties[name]
		if !ok {
			switch rest := schema["additionalProperties"].(type) {
			case bool:
				return fmt.Errorf("%q is not in the document", name)
			case map[string]any:
				property = rest
			default:
				continue
			}
		}
		if err := s.validate(property, v[name]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// The document names every route that the server has, with its methods, and no
// other; internal ones are not in it.
func TestOpenAPINamesEveryRoute(t *testing.T) {
	s := loadSpec(t)
	var got []string
	for route, item := range s.root["paths"].(map[string]any) {
		for method, op := range item.(map[string]any) {
			got = append(got, strings.ToUpper(method)+" "+route)
			responses := op.(map[string]any)["responses"].(map[string]any)
			for code, r := range responses {
				if s.resolve(r)["description"] == "" {
					t.Errorf("%s %s: status %s has no description", method, route, code)
				}
			}
		}
	}
	slices.Sort(got)
	want := []string{
		"GET /", "GET /healthz", "GET /metrics", "GET /openapi.json", "GET /readyz", "GET /v1/aggregates",
		"GET /v1/aggregates/{key}", "GET /v1/aggregates/{key}/watch", "GET /v1/bad-records", "GET /v1/snapshots", "GET /v1/status",
		"POST /v1/aggregates:batchGet", "POST /v1/snapshots",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the document has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// The document's words for problems are those that the code has.
func TestOpenAPINamesEveryProblem(t *testing.T) {
	s := loadSpec(t)
	schema := s.resolve(map[string]any{"$ref": "#/components/schemas/Problem"})
	enum := schema["properties"].(map[string]any)["type"].(map[string]any)["enum"].([]any)
	got := map[string]bool{}
	for _, e := range enum {
		got[e.(string)] = true
	}
	for typ := range titles {
		if !got[typ] {
			t.Errorf("%s is not in the document", typ)
		}
		if statuses[typ] == 0 {
			t.Errorf("%s has no status", typ)
		}
	}
	if len(got) != len(titles) {
		t.Errorf("the document has %d problems, the code %d", len(got), len(titles))
	}
}
