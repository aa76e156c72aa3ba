package query

import (
	"slices"
	"strings"

	"github.com/alecthomas/participle/v2/lexer"

	"tidemark/event"
)

// maxNames is the most names that a path may have.
const maxNames = 100

// binder turns a parsed query into a Definition: it resolves names to slots
// and columns, finds the aggregates, and checks types as far as they show.
type binder struct {
	def   *Definition
	slots map[string]int // by the names of a path, joined by NUL
	// place says where an expression stands, for what is wrong with an
	// aggregate there.
	place string
}

// bind binds stmt; end is where the text ends.
func bind(sql string, stmt *selectStmt, end lexer.Position) (*Definition, error) {
	b := &binder{def: &Definition{SQL: sql}, slots: map[string]int{}}
	if d := stmt.Distinct; d != nil {
		return nil, fail(d.Pos, "found DISTINCT; GROUP BY makes every row distinct: leave it out")
	}
	for _, it := range stmt.Items {
		if it.Star {
			return nil, fail(it.Pos, `found "*"; each column is named: a path of GROUP BY, or an aggregate such as sum(x)`)
		}
	}
	if err := b.bindTopic(stmt.From); err != nil {
		return nil, err
	}
	if len(stmt.Group) == 0 {
		return nil, fail(end, "found no GROUP BY; a definition has a key: GROUP BY and one path or several, which are selected too")
	}
	grouped, err := b.bindGroup(stmt)
	if err != nil {
		return nil, err
	}
	if err := b.bindWhere(stmt.Where); err != nil {
		return nil, err
	}
	if err := b.bindColumns(stmt.Items); err != nil {
		return nil, err
	}
	for i := range b.def.Keys {
		if b.def.Keys[i].Name == "" {
			path := QuotePath(b.def.Paths[i])
			return nil, fail(grouped[i], "GROUP BY has %s, which is not selected: add %s to the columns", path, path)
		}
	}
	return b.def, nil
}

// bindTopic takes the FROM name.
func (b *binder) bindTopic(t *topic) error {
	name := unquoteName(t.Name)
	if len(t.More) > 0 {
		for _, part := range t.More {
			name += unquoteName(part)
		}
		return fail(t.Pos, "found a topic of several names; a topic with dots or dashes is written in backquotes: FROM `%s`", name)
	}
	for _, r := range name {
		if r < 0x80 && (isPlain("_"+string(r)) || r == '.' || r == '-') {
			continue
		}
		return fail(t.Pos, "found the topic %s; the name of a topic holds letters a to z, digits, dots, dashes and underscores only", QuoteName(name))
	}
	if len(name) > 249 || name == "." || name == ".." {
		return fail(t.Pos, `found the topic %s; the name of a topic has 1 to 249 characters and is not "." or ".."`, QuoteName(name))
	}
	b.def.Topic = name
	return nil
}

// bindGroup makes the keys, nameless as yet, and returns where each stands.
// A name of GROUP BY may be the AS of a selected path.
func (b *binder) bindGroup(stmt *selectStmt) ([]lexer.Position, error) {
	selected := map[string]bool{}
	aliases := map[string]event.Path{}
	for _, it := range stmt.Items {
		if path, ok := solePath(it.Expr); ok {
			selected[joinPath(path)] = true
			if it.Alias != nil {
				aliases[unquoteName(it.Alias.Text)] = path
			}
		}
	}
	var places []lexer.Position
	for _, g := range stmt.Group {
		path, ok := solePath(g)
		if !ok {
			return nil, b.notAPath(g)
		}
		if aliased, ok := aliases[path[0]]; ok && len(path) == 1 && !selected[joinPath(path)] {
			path = aliased
		}
		if err := checkPath(path, g.Pos); err != nil {
			return nil, err
		}
		slot := b.slot(path)
		if slot < len(b.def.Keys) {
			return nil, fail(g.Pos, "GROUP BY has %s twice", QuotePath(path))
		}
		b.def.Keys = append(b.def.Keys, Key{Slot: slot})
		places = append(places, g.Pos)
	}
	return places, nil
}

// notAPath says what is wrong with an expression in GROUP BY.
func (b *binder) notAPath(g *orExpr) error {
	if p := sole(g); p != nil {
		switch {
		case p.Number != "":
			return fail(p.Pos, "found %s in GROUP BY; columns are grouped by their paths, not by their numbers", p.Number)
		case p.Name != nil:
			switch fn := strings.ToLower(unquoteName(p.Name.First)); {
			case fn == "window", fn == "session_window", fn == "tumble", fn == "hop", fn == "session":
				return fail(p.Pos, "found %s(…) in GROUP BY; %s", fn, noWindow)
			case isAggregate(fn):
				return fail(p.Pos, "found the aggregate %s(…) in GROUP BY; expected a path, as in GROUP BY userId", fn)
			}
		}
	}
	return fail(g.Pos, "found an expression in GROUP BY; expected a path, as in GROUP BY userId")
}

// bindWhere binds the condition.
func (b *binder) bindWhere(where *orExpr) error {
	if where == nil {
		return nil
	}
	b.place = "WHERE"
	x, err := b.expr(where)
	if err != nil {
		return err
	}
	if err := wantCondition(x, "WHERE"); err != nil {
		return err
	}
	b.def.Where = x.x
	return nil
}

// bindColumns binds the SELECT list.
func (b *binder) bindColumns(items []*item) error {
	names := map[string]bool{}
	for _, it := range items {
		var name string
		var err error
		if path, ok := solePath(it.Expr); ok {
			name, err = b.bindKey(it, path)
		} else {
			name, err = b.bindAggregate(it)
		}
		if err != nil {
			return err
		}
		if names[name] {
			return fail(it.Pos, "two columns have the name %s; give one of them another: AS name", QuoteName(name))
		}
		names[name] = true
	}
	return nil
}

// bindKey makes the column of a key and returns its name.
func (b *binder) bindKey(it *item, path event.Path) (string, error) {
	slot, ok := b.slots[joinPath(path)]
	if !ok || slot >= len(b.def.Keys) {
		text := QuotePath(path)
		return "", fail(it.Pos, "found %s, which is not in GROUP BY: add it there, or take an aggregate such as last(%s)", text, text)
	}
	if b.def.Keys[slot].Name != "" {
		return "", fail(it.Pos, "found %s, which is selected already: a key makes one column", QuotePath(path))
	}
	name := path[len(path)-1]
	if it.Alias != nil {
		name = unquoteName(it.Alias.Text)
	}
	b.def.Keys[slot].Name = name
	b.def.Columns = append(b.def.Columns, Column{Name: name, Key: slot, Aggregate: -1})
	return name, nil
}

// bindAggregate makes the column of an aggregate and returns its name.
func (b *binder) bindAggregate(it *item) (string, error) {
	a, spark, err := b.aggregate(it.Expr)
	if err != nil {
		return "", err
	}
	a.Name = spark
	if it.Alias != nil {
		a.Name = unquoteName(it.Alias.Text)
	}
	b.def.Columns = append(b.def.Columns, Column{Name: a.Name, Key: -1, Aggregate: len(b.def.Aggregates)})
	b.def.Aggregates = append(b.def.Aggregates, a)
	return a.Name, nil
}

// slot returns the slot of path, a new one where it was not read before.
func (b *binder) slot(path event.Path) int {
	key := joinPath(path)
	slot, ok := b.slots[key]
	if !ok {
		slot = len(b.def.Paths)
		b.slots[key] = slot
		b.def.Paths = append(b.def.Paths, slices.Clone(path))
	}
	return slot
}

// joinPath is a path as the key of a map.
func joinPath(path event.Path) string { return strings.Join(path, "\x00") }

// checkPath bounds a path.
func checkPath(path event.Path, pos lexer.Position) error {
	if len(path) > maxNames {
		return fail(pos, "found a path of %d names; at most %d are read", len(path), maxNames)
	}
	for _, name := range path {
		if strings.IndexByte(name, 0) >= 0 {
			return fail(pos, "found a name with a NUL character, which no field has")
		}
	}
	return nil
}

// sole returns the operand that an expression consists of, without
// parentheses, nil where there is an operator.
func sole(e *orExpr) *primary {
	for {
		if len(e.Args) != 1 || len(e.Args[0].Args) != 1 {
			return nil
		}
		n := e.Args[0].Args[0]
		p := n.Arg
		if len(n.Nots) > 0 || p.Compare != nil || p.Is != nil || p.Not != nil || p.In != nil {
			return nil
		}
		if len(p.Left.Terms) > 0 || len(p.Left.Left.Args) != 1 {
			return nil
		}
		u := p.Left.Left.Args[0]
		if len(u.Minus) > 0 {
			return nil
		}
		if u.Arg.Paren == nil {
			return u.Arg
		}
		e = u.Arg.Paren
	}
}

// solePath returns the path that an expression consists of.
func solePath(e *orExpr) (event.Path, bool) {
	p := sole(e)
	if p == nil || p.Name == nil || p.Name.Call != nil {
		return nil, false
	}
	return p.Name.path(), true
}

// path returns the names of a path.
func (n *name) path() event.Path {
	path := event.Path{unquoteName(n.First)}
	for _, m := range n.More {
		path = append(path, unquoteName(m.Text))
	}
	return path
}
