package main

import (
	"fmt"
	"slices"
	"strings"

	"tidemark/event"
	"tidemark/query"
)

// column is a result that is proposed; one that is off stands as a comment.
type column struct {
	expr string // SQL without AS
	name string // of the result
	off  bool
	why  string     // for people
	from event.Path // the field, nil for count(*)
	time bool       // a latest timestamp
}

// proposal is a definition that fits what a sample looks like.
type proposal struct {
	topic   string
	keys    []*field
	columns []column // without the keys; count(*) is the last
	time    *field   // the event's own time, nil where nothing looks like it
	unused  []*field // those of which no column is made, not even as a comment
}

// keyScore says how well a field would do as the key; 0 and below for not at
// all.
func keyScore(s *sample, f *field) int {
	if f.seen < s.objects || f.values() < s.objects || !f.only(isInteger, isText, isNumberText) || isTime(f) {
		return 0
	}
	score := 1
	if f.inKey == s.objects {
		score += 100 // the producers place the records by it
	}
	if named(f.last()) {
		score += 20
	}
	if anyWord(strings.Join(f.path, "."), whoWords) && (named(f.last()) || lastWord(f.last(), whoWords)) {
		score += 10
	}
	if anyWord(f.last(), eventID) && named(f.last()) {
		score -= 18
	}
	distinct := len(f.distinct)
	switch {
	case s.objects >= 10 && distinct == s.objects:
		score -= 15 // each event has its own
	case distinct > 1 && distinct < s.objects && f.only(isText):
		score += 2
	}
	if f.only(isInteger) && !named(f.last()) && f.inKey < s.objects {
		return 0 // a count or an amount
	}
	return score - len(f.path) + 1
}

// guessKey is the field that looks most like the key, nil where none does.
func guessKey(s *sample) *field {
	var best *field
	most := 0
	for _, f := range s.fields {
		if score := keyScore(s, f); score > most {
			best, most = f, score
		}
	}
	return best
}

// isTime says whether a field looks like an instant.
func isTime(f *field) bool {
	if f.only(isTimeText) {
		return true
	}
	return f.only(isInteger, isDecimal, isNumberText, isDecimalText) && timeNamed(f.last()) && allTimes(f)
}

// allTimes says whether every number of a field is an epoch.
func allTimes(f *field) bool {
	for text := range f.distinct {
		v := event.Value{Kind: event.Text, Bytes: []byte(text)}
		if _, reason := v.Timestamp(nil); reason != event.OK {
			return false
		}
	}
	return true
}

// propose makes a definition with some keys.
func propose(topic string, s *sample, keys []*field) *proposal {
	p := &proposal{topic: topic, keys: keys, time: eventTime(s)}
	for _, f := range s.fields {
		if slices.Contains(keys, f) {
			continue
		}
		columns := p.propose(s, f)
		if len(columns) == 0 {
			p.unused = append(p.unused, f)
		}
		p.columns = append(p.columns, columns...)
	}
	p.columns = append(p.columns, column{expr: "count(*)", name: "events", why: "how many records make up the row"})
	p.rename()
	return p
}

// eventTime is the first field of every event that looks like its time; one
// that says when something was updated or made comes after others.
func eventTime(s *sample) *field {
	var best *field
	for _, f := range s.fields {
		if !isTime(f) || f.values() < s.objects {
			continue
		}
		if best == nil || anyWord(best.last(), []string{"updated", "created"}) && !anyWord(f.last(), []string{"updated", "created"}) {
			best = f
		}
	}
	return best
}

// propose makes the columns of one field.
func (p *proposal) propose(s *sample, f *field) []column {
	path := f.name()
	always := f.values() == s.objects
	one := func(expr, name string, on bool, why string) column {
		return column{expr: expr, name: name, off: !on, why: why, from: f.path}
	}
	switch {
	case f.values() == 0 || f.kinds[isObjects] > 0 || f.kinds[isObject] > 0:
		return nil
	case isTime(f):
		c := one("CAST(max("+path+") AS timestamp)", camel("latest", f.last()), f == p.time, "the latest time")
		c.time = true
		switch {
		case !always:
			c.why = "a time, but not in every event: one without it would be bad"
		case c.off:
			c.why = "another time"
		}
		return []column{c}
	case f.kinds[isList] > 0 && f.only(isList, isInteger, isDecimal, isText, isNumberText, isDecimalText, isTimeText, isBool):
		return []column{one("collect_set("+path+")", f.last(), true, "an array: the set of its members")}
	case f.only(isInteger, isDecimal, isNumberText, isDecimalText) && !named(f.last()):
		if lastWord(f.last(), gauges) {
			why := "looks measured"
			if !always {
				why = "looks measured, but is not in every event: one without it would be bad"
			}
			return []column{
				one("min("+path+")", camel("min", f.last()), always, why),
				one("max("+path+")", camel("max", f.last()), always, why),
			}
		}
		why := "looks like a counter"
		if f.kinds[isDecimal]+f.kinds[isDecimalText] > 0 {
			why = "looks like an amount"
		}
		if !always {
			return []column{one("sum(COALESCE("+path+", 0))", f.last(), true, why+"; not every event has it")}
		}
		return []column{one("sum("+path+")", f.last(), true, why)}
	case f.only(isBool):
		return []column{one("count(CASE WHEN "+path+" = true THEN 1 END)", f.last(), false, "in how many events it is true")}
	case f.only(isInteger, isText, isNumberText, isDecimalText) && (named(f.last()) || len(f.distinct) <= 10 && len(f.distinct) < s.objects):
		return []column{one("collect_set("+path+")", f.last(), false, counted(len(f.distinct), "value")+" in the sample; WHERE can choose by it")}
	}
	return nil
}

// rename gives columns whose names are taken others: those of their paths.
func (p *proposal) rename() {
	taken := map[string]bool{}
	for _, k := range p.keys {
		taken[k.last()] = true
	}
	for _, off := range []bool{false, true} { // what is off gives way
		for i := range p.columns {
			c := &p.columns[i]
			if c.off != off {
				continue
			}
			if taken[c.name] && len(c.from) > 1 {
				c.name = strings.Join(c.from, "_")
			}
			for name, n := c.name, 2; taken[c.name]; n++ {
				c.name = fmt.Sprintf("%s%d", name, n)
			}
			taken[c.name] = true
		}
	}
}

// sql is the query, with what is off as comments.
func (p *proposal) sql() string {
	var b strings.Builder
	width := 0
	for _, c := range p.columns {
		if !c.off {
			width = max(width, len(c.expr))
		}
	}
	b.WriteString("SELECT ")
	var keys []string
	for i, k := range p.keys {
		if i > 0 {
			b.WriteString("       ")
		}
		b.WriteString(k.name() + ",\n")
		keys = append(keys, k.name())
	}
	for i, c := range p.columns {
		comma := ","
		if i == len(p.columns)-1 {
			comma = ""
		}
		lead := "       "
		if c.off {
			lead = "    -- "
		}
		fmt.Fprintf(&b, "%s%-*s AS %s%s  -- %s\n", lead, width, c.expr, query.QuoteName(c.name), comma, c.why)
	}
	fmt.Fprintf(&b, "FROM %s\nGROUP BY %s\n", query.QuoteName(p.topic), strings.Join(keys, ", "))
	return b.String()
}

// leftOut says which fields no column is made of, and what they look like: ""
// where all have one.
func (p *proposal) leftOut() string {
	const most = 5
	var texts []string
	for _, f := range p.unused[:min(len(p.unused), most)] {
		texts = append(texts, fmt.Sprintf("%s (%s)", f.name(), f.looks()))
	}
	if more := len(p.unused) - most; more > 0 {
		texts = append(texts, fmt.Sprintf("%d more", more))
	}
	if len(texts) == 0 {
		return ""
	}
	return fmt.Sprintf("Not in it: %s.\n", strings.Join(texts, ", "))
}

// summary is the proposal in a line.
func (p *proposal) summary() string {
	var on []string
	for _, c := range p.columns {
		if !c.off {
			on = append(on, c.name)
		}
	}
	var keys []string
	for _, k := range p.keys {
		keys = append(keys, k.name())
	}
	return fmt.Sprintf("one row for each %s: %s", strings.Join(keys, ", "), strings.Join(on, ", "))
}
