package query

import (
	"strings"
	"time"

	"github.com/alecthomas/participle/v2/lexer"

	"tidemark/event"
)

const (
	// MaxBytes is the most bytes that a query may have.
	MaxBytes = 64 << 10
	// MaxDepth is the deepest nesting of parentheses and CASE.
	MaxDepth = 100
)

// Parse reads and binds a query. Its error is an *Error.
func Parse(sql string) (*Definition, error) {
	if len(sql) > MaxBytes {
		return nil, fail(lexer.Position{Line: 1, Column: 1}, "found a query of %d bytes; at most %d are read", len(sql), MaxBytes)
	}
	tokens, err := scan(sql)
	if err != nil {
		return nil, err
	}
	if len(tokens) == 1 {
		return nil, fail(tokens[0].Pos, "found no query; expected one such as SELECT userId, count(*) AS sales FROM sales GROUP BY userId")
	}
	if err := checkDepth(tokens); err != nil {
		return nil, err
	}
	lex, err := lexer.Upgrade(&tokenList{tokens})
	if err != nil {
		return nil, fail(tokens[0].Pos, "%s", err)
	}
	stmt, err := grammar.ParseFromLexer(lex)
	if err != nil {
		return nil, syntaxError(err, tokens)
	}
	return bind(sql, stmt, tokens[len(tokens)-1].Pos)
}

// checkDepth bounds the nesting before anything recurses.
func checkDepth(tokens []lexer.Token) error {
	depth := 0
	for i, t := range tokens {
		switch word := strings.ToUpper(t.Value); {
		case t.Type == tokenReserved && i > 0 && tokens[i-1].Value == ".":
			// a name in a path
		case word == "(", word == "CASE" && t.Type == tokenReserved:
			depth++
		case word == ")", word == "END" && t.Type == tokenReserved:
			depth--
		}
		if depth > MaxDepth {
			return fail(t.Pos, "found %s nested more than %d deep; expected a flatter expression", show(t), MaxDepth)
		}
	}
	return nil
}

// Env is what an expression is evaluated in. One goroutine, one Env; Reset
// before each expression of which the outcome is wanted (True, Required and
// Optional do it themselves).
type Env struct {
	Values []event.Value  // by slot, as the Scanner left them
	Zone   *time.Location // for timestamps that carry no zone; nil is UTC

	// Missing is the first slot that was read and is missing, else -1.
	Missing int
	// Reason is the first, in the order of event.Reason, of what went wrong
	// in conversions and arithmetic; Field is the slot at fault, else -1.
	Reason event.Reason
	Field  int

	null  int   // the first slot that was read and is null, else -1
	last  int   // the slot that the value just returned came from, else -1
	quiet bool  // nothing is noted, and what cannot matter is not evaluated
	texts texts // of casts to string
}

// Reset forgets what earlier evaluations noted. Values that they returned stay
// valid as long as the event's do.
func (e *Env) Reset() {
	e.Missing, e.Reason, e.Field, e.null, e.last = -1, event.OK, -1, -1, -1
	if e.Zone == nil {
		e.Zone = time.UTC
	}
}

// note notes what went wrong with the value of a slot. Of several the first
// reason counts, and of one reason the first slot.
func (e *Env) note(reason event.Reason, slot int) {
	if !e.quiet && (e.Reason == event.OK || reason < e.Reason) {
		e.Reason, e.Field = reason, slot
	}
}

// True evaluates a WHERE expression: true only where it is true. Nothing that
// goes wrong in it makes a bad record: a conversion that fails is NULL.
func True(where Expr, env *Env) bool {
	env.Reset()
	env.quiet = true
	is := truthOf(where, env)
	env.quiet = false
	return is == isTrue
}

// Required evaluates the argument of an aggregate that wants a value. It
// returns OK with a value that is not null, or the reason that makes the
// record bad with the slot at fault (-1 where no single field is): MissingField
// where the result is NULL and a path that was read is missing, NullField where
// it is NULL otherwise, else the first of what env noted. A NULL that only a
// failed conversion led to has that failure's reason. With OK, slot is the
// field that the value came from, -1 where it was computed.
func Required(x Expr, env *Env) (v event.Value, reason event.Reason, slot int) {
	env.Reset()
	v = x.Eval(env)
	if v.IsNull() {
		switch {
		case env.Missing >= 0:
			return null, event.MissingField, env.Missing
		case !hasFailed(&v):
			return null, event.NullField, env.null
		}
	}
	if env.Reason != event.OK {
		return null, env.Reason, env.Field
	}
	return v, event.OK, env.last
}

// Optional is Required for aggregates that take NULL as absent: NULL comes
// back as a null value with OK, unless something went wrong on the way.
func Optional(x Expr, env *Env) (v event.Value, reason event.Reason, slot int) {
	env.Reset()
	v = x.Eval(env)
	if env.Reason != event.OK {
		return null, env.Reason, env.Field
	}
	return v, event.OK, env.last
}
