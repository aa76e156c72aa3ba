package aggregator

import (
	"fmt"
	"hash/maphash"
	"time"

	"tidemark/query"
)

// Options are what a fold depends on besides the query.
type Options struct {
	Zone     *time.Location // for timestamps without a zone; nil is UTC
	SetLimit int            // members of a set per key; 0 is DefaultSetLimit
	MaxBytes int            // of a record; 0 is DefaultMaxBytes
}

const (
	DefaultSetLimit = 10_000
	DefaultMaxBytes = 64 << 20

	// MaxSetLimit bounds Options.SetLimit.
	MaxSetLimit = 100_000_000
	// MaxKeyColumns bounds the columns of GROUP BY.
	MaxKeyColumns = 24
)

// Program is a definition compiled for folding, merging and answering. It is
// immutable and shared by all goroutines.
type Program struct {
	def  *query.Definition
	opts Options

	columns  []column // the aggregates, in SELECT order
	rowWords int      // of one key's row
	sets     []int    // where the words of sets are in it
	heads    [][]byte // of each column of an answer: `{"name":` or `,"name":`
	seed     maphash.Seed
	seeds    [2]uint64
}

// Compile makes a program of a definition. Its error names the option or the
// clause that is out of bounds.
func Compile(def *query.Definition, opts Options) (*Program, error) {
	if opts.Zone == nil {
		opts.Zone = time.UTC
	}
	if opts.SetLimit == 0 {
		opts.SetLimit = DefaultSetLimit
	}
	if opts.MaxBytes == 0 {
		opts.MaxBytes = DefaultMaxBytes
	}
	if opts.SetLimit < 1 || opts.SetLimit > MaxSetLimit {
		return nil, fmt.Errorf("a set limit of %d is not between 1 and %d", opts.SetLimit, MaxSetLimit)
	}
	if opts.MaxBytes < 0 {
		return nil, fmt.Errorf("a record of at most %d bytes is none", opts.MaxBytes)
	}
	if n := len(def.Keys); n > MaxKeyColumns {
		return nil, fmt.Errorf("GROUP BY has %d columns, and a key has at most %d", n, MaxKeyColumns)
	}
	p := &Program{def: def, opts: opts, rowWords: headWords, seed: maphash.MakeSeed()}
	p.seeds[0] = maphash.String(p.seed, "first")
	p.seeds[1] = maphash.String(p.seed, "second")
	for i := range def.Aggregates {
		c := newColumn(&def.Aggregates[i], opts)
		c.word = p.rowWords
		if a := def.Aggregates[i]; a.Func == query.CollectSet {
			p.sets = append(p.sets, c.word)
		}
		p.rowWords += c.words
		p.columns = append(p.columns, c)
	}
	for i, c := range def.Columns {
		head := []byte{','}
		if i == 0 {
			head = []byte{'{'}
		}
		head = appendQuoted(head, []byte(c.Name))
		p.heads = append(p.heads, append(head, ':'))
	}
	return p, nil
}

// Query is the definition that p was compiled from.
func (p *Program) Query() *query.Definition { return p.def }

// zoneClause is the clause of the time zone.
const zoneClause = "events.timestamp_zone"

// Definition identifies p in a state: the query's clauses, and the time zone
// where the query reads timestamps.
func (p *Program) Definition() Definition {
	clauses := p.def.Clauses()
	if p.def.ReadsTimestamps() {
		clauses = append(clauses[:len(clauses):len(clauses)], query.Clause{Name: zoneClause, Text: p.opts.Zone.String()})
	}
	d := Definition{SQL: p.def.SQL, Fingerprint: query.Fingerprint(clauses)}
	for _, c := range clauses {
		d.Clauses = append(d.Clauses, Clause(c))
	}
	return d
}

// Differs says, as one sentence part for people, which clause of a stored
// definition differs from the one now configured; "" where none does.
func Differs(was, is Definition) string {
	return query.Differs(queryClauses(was), queryClauses(is))
}

// Vet returns ErrOtherDefinition, with the clause that differs, where what has
// the identity (a state, a snapshot) was made by another definition than p.
func (p *Program) Vet(id Identity, what string) error {
	is := p.Definition()
	if id.Definition.Equal(is) {
		return nil
	}
	return fmt.Errorf("the %s of partition %d is of %w: %s; choose another state.dir and group.id to start over, or go back to the query",
		what, id.Partition, ErrOtherDefinition, Differs(id.Definition, is))
}

func queryClauses(d Definition) (clauses []query.Clause) {
	for _, c := range d.Clauses {
		clauses = append(clauses, query.Clause(c))
	}
	return clauses
}
