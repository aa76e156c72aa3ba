package aggregator

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"tidemark/event"
	"tidemark/query"
)

// Mapping says where a history document holds what a result row holds.
type Mapping struct {
	Keys   []event.Path          // one for each key column; nil: their result names
	Fields map[string]event.Path // by result name, or NAME.sum, NAME.count, NAME.by; absent: the result name itself
	Guard  event.Path            // of cut mode guard; nil in other modes
}

// field says where a document holds one aggregate: slots, -1 for none.
type field struct {
	value int         // also the sum of avg, and the x of min_by and max_by
	count int         // of count and avg
	by    int         // the y of min_by and max_by
	as    *query.Type // what value is cast to; nil: it is taken as it is
	byAs  *query.Type
}

// NewDocuments compiles a reader of documents. Its error says what a mapping
// lacks for the definition (avg needs .sum and .count, min_by and max_by .by),
// or which of its names the definition does not have.
func (p *Program) NewDocuments(m Mapping) (*Documents, error) {
	b := binder{fields: m.Fields}
	d := &Documents{program: p, guard: -1, operands: make([]operand, len(p.columns))}
	d.key.columns = b.keys(p.def.Keys, m.Keys)
	for i := range p.def.Aggregates {
		d.fields = append(d.fields, b.field(&p.def.Aggregates[i]))
	}
	b.unknown(p.def.Keys)
	if len(b.problems) > 0 {
		return nil, errors.New(strings.Join(b.problems, "; "))
	}
	if m.Guard != nil {
		d.guard = slotOf(&b.paths, m.Guard)
	}
	d.paths = b.paths
	d.scanner = event.NewScanner(d.paths, p.opts.MaxBytes)
	return d, nil
}

// binder binds the names of a mapping to paths.
type binder struct {
	fields   map[string]event.Path
	paths    []event.Path
	known    []string // names that fields may have
	problems []string
}

func (b *binder) keys(columns []query.Key, paths []event.Path) (bound []query.Key) {
	if paths == nil {
		for _, k := range columns {
			paths = append(paths, event.Path{k.Name})
		}
	}
	if len(paths) != len(columns) {
		b.problems = append(b.problems, fmt.Sprintf("the key of a document needs %d %s, one for each column of GROUP BY, not %d",
			len(columns), plural(len(columns), "path"), len(paths)))
		return nil
	}
	for i, k := range columns {
		bound = append(bound, query.Key{Name: k.Name, Slot: slotOf(&b.paths, paths[i])})
	}
	return bound
}

// field binds one aggregate.
func (b *binder) field(a *query.Aggregate) field {
	f := field{value: -1, count: -1, by: -1}
	switch a.Func {
	case query.CountAll, query.Count:
		f.count = b.slot(a.Name)
	case query.Avg:
		f.value = b.required(a, ".sum")
		f.count = b.required(a, ".count")
	case query.Sum:
		f.value = b.slot(a.Name) // a total has as many digits as it has, whatever its terms are cast to
	default:
		f.value = b.slot(a.Name)
		f.as = resultType(a.Arg)
	}
	if a.By != nil {
		f.by = b.required(a, ".by")
		f.byAs = resultType(a.By)
	}
	return f
}

// slot is where a document holds what has the name.
func (b *binder) slot(name string) int {
	b.known = append(b.known, name)
	path, ok := b.fields[name]
	if !ok {
		path = event.Path{name}
	}
	return slotOf(&b.paths, path)
}

// required is slot for what no result name says.
func (b *binder) required(a *query.Aggregate, suffix string) int {
	name := a.Name + suffix
	b.known = append(b.known, name)
	path, ok := b.fields[name]
	if !ok {
		b.problems = append(b.problems, fmt.Sprintf("%s cannot be taken from a result row alone: name the field of a document that holds its %s as %q",
			a.Name, parts[suffix], name))
		return -1
	}
	return slotOf(&b.paths, path)
}

var parts = map[string]string{".sum": "sum", ".count": "count", ".by": "second argument"}

// unknown complains about names that mean nothing.
func (b *binder) unknown(keys []query.Key) {
	for _, name := range slices.Sorted(maps.Keys(b.fields)) {
		if slices.Contains(b.known, name) {
			continue
		}
		why := fmt.Sprintf("%q is no aggregate of the query", name)
		switch near := nearest(name, b.known); {
		case slices.ContainsFunc(keys, func(k query.Key) bool { return k.Name == name }):
			why = fmt.Sprintf("%q is a key column: the paths of the key say where it is", name)
		case slices.Contains(b.known, name+".sum"):
			why = fmt.Sprintf("%q is an average: name %q and %q", name, name+".sum", name+".count")
		case near != "":
			why += fmt.Sprintf(": did you mean %q?", near)
		default:
			why += ": there are " + strings.Join(b.known, ", ")
		}
		b.problems = append(b.problems, why)
	}
}
