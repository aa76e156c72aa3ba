package query

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Clause is one part of a definition as canonical text: "FROM", "WHERE",
// "GROUP BY", or "SELECT name" for each column. Two queries with equal clauses
// give equal states.
type Clause struct{ Name, Text string }

// Clauses returns the canonical clauses in a fixed order: FROM, WHERE where
// there is one, GROUP BY, and the columns as they are selected.
func (d *Definition) Clauses() []Clause {
	clauses := []Clause{{"FROM", QuoteName(d.Topic)}}
	if d.Where != nil {
		clauses = append(clauses, Clause{"WHERE", d.Where.String()})
	}
	clauses = append(clauses, Clause{"GROUP BY", d.groupBy()})
	for _, c := range d.Columns {
		clauses = append(clauses, Clause{"SELECT " + c.Name, d.Expression(c)})
	}
	return clauses
}

// String is the whole query in canonical text.
func (d *Definition) String() string {
	var b strings.Builder
	for i, c := range d.Columns {
		b.WriteString([]string{"SELECT ", ", "}[min(i, 1)])
		b.WriteString(d.Expression(c) + " AS " + QuoteName(c.Name))
	}
	b.WriteString(" FROM " + QuoteName(d.Topic))
	if d.Where != nil {
		b.WriteString(" WHERE " + d.Where.String())
	}
	b.WriteString(" GROUP BY " + d.groupBy())
	return b.String()
}

func (d *Definition) groupBy() string {
	paths := make([]string, len(d.Keys))
	for i, k := range d.Keys {
		paths[i] = QuotePath(d.Paths[k.Slot])
	}
	return strings.Join(paths, ", ")
}

// Expression is what a column is made of: canonical text, without its name.
func (d *Definition) Expression(c Column) string {
	if c.Key >= 0 {
		return QuotePath(d.Paths[d.Keys[c.Key].Slot])
	}
	return d.Aggregates[c.Aggregate].String()
}

// String is the aggregate as SQL, without its name.
func (a Aggregate) String() string {
	text := a.Func.String() + "("
	switch {
	case a.Func == CountAll:
		text += "*"
	case a.By != nil:
		text += list([]Expr{a.Arg, a.By})
	default:
		text += a.Arg.String()
	}
	text += ")"
	if a.Round != nil {
		text = "CAST(" + text + " AS " + a.Round.String() + ")"
	}
	return text
}

// Fingerprint is a SHA-256 over clauses, in lower-case hex.
func Fingerprint(clauses []Clause) string {
	h := sha256.New()
	var buf []byte
	for _, c := range clauses {
		buf = buf[:0]
		for _, text := range [...]string{c.Name, c.Text} {
			// The lengths keep the bounds between texts.
			buf = append(strconv.AppendInt(buf, int64(len(text)), 10), ':')
			buf = append(buf, text...)
		}
		h.Write(buf)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Differs says, as one sentence part for people, which clause of a stored
// definition differs from the one now configured ("" where none does), for
// example: `SELECT totalRevenue: was sum(totalRevenue), is sum(revenue)`.
func Differs(was, is []Clause) string {
	texts := make(map[string]string, len(is))
	for _, c := range is {
		texts[c.Name] = c.Text
	}
	for _, c := range was {
		text, ok := texts[c.Name]
		switch {
		case !ok:
			return fmt.Sprintf("%s: was %s, is gone", c.Name, c.Text)
		case text != c.Text:
			return fmt.Sprintf("%s: was %s, is %s", c.Name, c.Text, text)
		}
		delete(texts, c.Name)
	}
	for _, c := range is {
		if text, ok := texts[c.Name]; ok {
			return fmt.Sprintf("%s: was not there, is %s", c.Name, text)
		}
	}
	if !slices.Equal(was, is) {
		return fmt.Sprintf("SELECT: the order of the columns was %s, is %s", columnNames(was), columnNames(is))
	}
	return ""
}

// columnNames lists the names of the SELECT clauses.
func columnNames(clauses []Clause) string {
	var names []string
	for _, c := range clauses {
		if name, ok := strings.CutPrefix(c.Name, "SELECT "); ok {
			names = append(names, QuoteName(name))
		}
	}
	return strings.Join(names, ", ")
}

// How tightly an expression binds, loosest first.
const (
	bindsOr = iota
	bindsAnd
	bindsNot
	bindsCompare
	bindsAdd
	bindsMul
	bindsNeg
	bindsMost
)

func binds(x Expr) int {
	switch x := x.(type) {
	case *Or:
		return bindsOr
	case *And:
		return bindsAnd
	case *Not:
		return bindsNot
	case *Compare, *Between, *In, *Like, *IsNull:
		return bindsCompare
	case *Add:
		return bindsAdd
	case *Mul:
		return bindsMul
	case *Neg:
		return bindsNeg
	case *Literal:
		if x.isNegative() {
			return bindsNeg
		}
	}
	return bindsMost
}

// within writes x where an operand that binds at least so tightly is wanted.
func within(x Expr, tightly int) string {
	if binds(x) < tightly {
		return "(" + x.String() + ")"
	}
	return x.String()
}

// joined writes operands with an operator between them.
func joined(xs []Expr, op string, tightly int) string {
	texts := make([]string, len(xs))
	for i, x := range xs {
		texts[i] = within(x, tightly)
	}
	return strings.Join(texts, op)
}

// not writes the NOT of a predicate.
func not(is bool) string {
	if is {
		return " NOT"
	}
	return ""
}

// String is the condition as SQL.
func (x *Or) String() string { return joined(x.Args, " OR ", bindsAnd) }

// String is the condition as SQL.
func (x *And) String() string { return joined(x.Args, " AND ", bindsNot) }

// String is the condition as SQL.
func (x *Not) String() string { return "NOT " + within(x.X, bindsNot) }

// String is the condition as SQL.
func (x *Compare) String() string {
	return within(x.L, bindsAdd) + " " + x.Op.String() + " " + within(x.R, bindsAdd)
}

// String is the condition as SQL.
func (x *Between) String() string {
	return within(x.X, bindsAdd) + not(x.Not) + " BETWEEN " + within(x.Low, bindsAdd) + " AND " + within(x.High, bindsAdd)
}

// String is the condition as SQL.
func (x *In) String() string {
	return within(x.X, bindsAdd) + not(x.Not) + " IN (" + list(x.Items) + ")"
}

// String is the condition as SQL.
func (x *Like) String() string {
	return within(x.X, bindsAdd) + not(x.Not) + " LIKE " + quoteText(x.Pattern)
}

// String is the condition as SQL.
func (x *IsNull) String() string {
	return within(x.X, bindsAdd) + " IS" + not(x.Not) + " NULL"
}

// String is the sum as SQL.
func (a *Add) String() string {
	var b strings.Builder
	b.WriteString(within(a.First, bindsMul))
	for _, t := range a.Rest {
		b.WriteString(map[bool]string{false: " + ", true: " - "}[t.Minus])
		b.WriteString(within(t.X, bindsMul))
	}
	return b.String()
}

// String is the product as SQL.
func (a *Mul) String() string { return joined(a.Factors, " * ", bindsNeg) }

// String is the negation as SQL. What begins with a minus itself, or is a
// number, goes in parentheses, so that it reads back as a negation of it.
func (a *Neg) String() string { return "-" + within(a.X, bindsMost) }

// String is the choice as SQL.
func (x *Case) String() string {
	var b strings.Builder
	b.WriteString("CASE")
	if x.Of != nil {
		b.WriteString(" " + x.Of.String())
	}
	for _, w := range x.Whens {
		b.WriteString(" WHEN " + w.If.String() + " THEN " + w.Then.String())
	}
	if x.Else != nil {
		b.WriteString(" ELSE " + x.Else.String())
	}
	b.WriteString(" END")
	return b.String()
}

// String is the choice as SQL.
func (x *Coalesce) String() string { return "COALESCE(" + list(x.Args) + ")" }
