package query

import (
	"time"

	"tidemark/event"
)

// Error is what is wrong with a query, at a place in its text.
// Error() reads "query:LINE:COLUMN: MESSAGE".
type Error struct {
	Line, Column int // from 1; columns count characters
	Message      string
}

// Parse reads and binds a query. Its error is an *Error.
func Parse(sql string) (*Definition, error) { panic("query: not built") }

// Clause is one part of a definition as canonical text: "FROM", "WHERE",
// "GROUP BY", or "SELECT name" for each column. Two queries with equal clauses
// give equal states.
type Clause struct{ Name, Text string }

// Clauses returns the canonical clauses in a fixed order.
func (d *Definition) Clauses() []Clause { panic("query: not built") }

// Fingerprint is a SHA-256 over clauses, in lower-case hex.
func Fingerprint(clauses []Clause) string { panic("query: not built") }

// Differs says, as one sentence part for people, which clause of a stored
// definition differs from the one now configured ("" where none does), for
// example: `SELECT totalRevenue: was sum(totalRevenue), is sum(revenue)`.
func Differs(was, is []Clause) string { panic("query: not built") }

// Env is what an expression is evaluated in. One goroutine, one Env; Reset
// before each expression of which the outcome is wanted.
type Env struct {
	Values []event.Value  // by slot, as the Scanner left them
	Zone   *time.Location // for timestamps that carry no zone

	// Missing is the first slot that was read and is missing, else -1.
	Missing int
	// Reason is the first, in the order of event.Reason, of what went wrong
	// in conversions and arithmetic; Field is the slot at fault, else -1.
	Reason event.Reason
	Field  int
}

// Reset forgets what earlier evaluations noted.
func (e *Env) Reset() { e.Missing, e.Reason, e.Field = -1, event.OK, -1 }

// True evaluates a WHERE expression: true only where it is true. Nothing that
// goes wrong in it makes a bad record: a conversion that fails is NULL.
func True(where Expr, env *Env) bool { panic("query: not built") }

// Required evaluates the argument of an aggregate that wants a value. It
// returns OK with a value that is not null, or the reason that makes the
// record bad with the slot at fault (-1 where no single field is): MissingField
// where the result is NULL and a path that was read is missing, NullField where
// it is NULL otherwise, else the first of what env noted.
func Required(x Expr, env *Env) (v event.Value, reason event.Reason, slot int) {
	panic("query: not built")
}

// Optional is Required for aggregates that take NULL as absent: NULL comes
// back as a null value with OK.
func Optional(x Expr, env *Env) (v event.Value, reason event.Reason, slot int) {
	panic("query: not built")
}
