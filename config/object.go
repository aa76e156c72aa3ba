package config

import (
	"bytes"
	"encoding/json"

	"go.yaml.in/yaml/v3"
)

// maxObject bounds the nodes of a mapping that becomes JSON, so that aliases
// which hold aliases do not fill the memory.
const maxObject = 10_000

// object reads a mapping, or a text that holds a JSON object, as JSON.
func (r *reader) object(k *key, n *yaml.Node, p *place) (any, bool) {
	switch n.Kind {
	case yaml.ScalarNode:
		e, ok := r.expand(n, p)
		if !ok {
			return failedValue, false
		}
		text := bytes.TrimSpace([]byte(e.text))
		if len(text) == 0 {
			return nil, false
		}
		if len(e.unset) > 0 && !json.Valid(text) {
			return nil, false
		}
		if text[0] != '{' || !json.Valid(text) {
			r.problem(n.Line, "%s is neither a mapping nor a JSON object: %s is wanted", k.shown(), k.kind.want)
			return failedValue, false
		}
		return json.RawMessage(text), true
	case yaml.MappingNode:
		budget := maxObject
		v, ok := r.tree(k, n, p, &budget)
		if !ok {
			return failedValue, false
		}
		text, err := json.Marshal(v)
		if err != nil {
			r.problem(n.Line, "%s cannot be written as JSON: %v", k.shown(), err)
			return failedValue, false
		}
		return json.RawMessage(text), true
	}
	r.problem(n.Line, "%s is %s: %s is wanted", k.shown(), describe(n), k.kind.want)
	return failedValue, false
}

// tree is a node as encoding/json takes it.
func (r *reader) tree(k *key, n *yaml.Node, p *place, budget *int) (any, bool) {
	n = follow(n)
	if *budget--; *budget == 0 {
		r.problem(n.Line, "%s is too large: up to %d values are accepted", k.shown(), maxObject)
	}
	if *budget <= 0 {
		return nil, false
	}
	switch n.Kind {
	case yaml.MappingNode:
		m, good := map[string]any{}, true
		for i := 0; i+1 < len(n.Content); i += 2 {
			name := r.veil.lift(follow(n.Content[i]).Value)
			if _, twice := m[name]; twice {
				r.problem(n.Content[i].Line, "%s: %s is given twice: once is wanted", k.shown(), tidy(name))
				good = false
			}
			v, ok := r.tree(k, n.Content[i+1], p, budget)
			m[name], good = v, good && ok
		}
		return m, good
	case yaml.SequenceNode:
		s, good := make([]any, len(n.Content)), true
		for i, item := range n.Content {
			v, ok := r.tree(k, item, p, budget)
			s[i], good = v, good && ok
		}
		return s, good
	}
	e, ok := r.expand(n, p)
	if !ok {
		return nil, false
	}
	return scalarValue(n, e), true
}

// scalarValue is a scalar as JSON has it: a plain text that reads as a number,
// a truth value or null is one, with a number's own digits where JSON has the
// same form.
func scalarValue(n *yaml.Node, e expansion) any {
	plain := yaml.Node{Kind: yaml.ScalarNode, Value: e.text}
	if n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		return e.text
	}
	switch plain.ShortTag() {
	case "!!null":
		return nil
	case "!!bool":
		var b bool
		if plain.Decode(&b) == nil {
			return b
		}
	case "!!int", "!!float":
		if json.Valid([]byte(e.text)) {
			return json.Number(e.text)
		}
		var number any
		if plain.Decode(&number) == nil {
			return number
		}
	}
	return e.text
}
