package bootstrap

import (
	"errors"
	"fmt"
)

// page is the answer of one search. Its slices point into body and are valid
// until the next search.
type page struct {
	body []byte
	hits []hit

	pit, scroll      string // the snapshot's id as of this answer, "" where there is none
	total            int64  // documents that the query finds
	exact            bool   // whether total is known, and is no bound
	timedOut, cutOff bool
	aggs             []byte
	shards           shards

	held int64      // bytes of the reading's budget
	home chan *page // where it goes when its documents are taken
}

// hit is a document of a page. source is nil where there is none.
type hit struct {
	index, id, source, sort []byte
}

// name is the hit's _id.
func (h *hit) name() []byte { return []byte(unquoted(h.id)) }

// shards is how many of them a search asked.
type shards struct {
	seen                      bool
	total, successful, failed int64
	failures                  []byte
}

// scan finds the parts of body.
func (p *page) scan() error {
	*p = page{body: p.body, hits: p.hits[:0], held: p.held, home: p.home}
	l := lexer{b: p.body}
	for ok := l.open('{'); ok; ok = l.more('}') {
		switch string(l.name()) {
		case "pit_id", "id":
			p.pit = l.string()
		case "_scroll_id":
			p.scroll = l.string()
		case "timed_out":
			p.timedOut = string(l.value()) != "false"
		case "terminated_early":
			p.cutOff = string(l.value()) == "true"
		case "_shards":
			p.scanShards(&l)
		case "hits":
			p.scanHits(&l)
		case "aggregations":
			p.aggs = l.value()
		default:
			l.value()
		}
	}
	if l.bad || l.next() != 0 {
		return &passing{err: fmt.Errorf("the answer is not what a search server gives: %s", excerpt(p.body)), silent: true}
	}
	return nil
}

func (p *page) scanShards(l *lexer) {
	p.shards.seen = true
	for ok := l.open('{'); ok; ok = l.more('}') {
		switch string(l.name()) {
		case "total":
			p.shards.total = l.number()
		case "successful":
			p.shards.successful = l.number()
		case "failed":
			p.shards.failed = l.number()
		case "failures":
			p.shards.failures = l.value()
		default:
			l.value()
		}
	}
}

func (p *page) scanHits(l *lexer) {
	for ok := l.open('{'); ok; ok = l.more('}') {
		switch string(l.name()) {
		case "total":
			p.scanTotal(l)
		case "hits":
			for ok := l.open('['); ok; ok = l.more(']') {
				p.scanHit(l)
			}
		default:
			l.value()
		}
	}
}

func (p *page) scanTotal(l *lexer) {
	if l.next() != '{' {
		l.value()
		return
	}
	for ok := l.open('{'); ok; ok = l.more('}') {
		switch string(l.name()) {
		case "value":
			p.total = l.number()
		case "relation":
			p.exact = string(l.value()) == `"eq"`
		default:
			l.value()
		}
	}
}

func (p *page) scanHit(l *lexer) {
	var h hit
	for ok := l.open('{'); ok; ok = l.more('}') {
		switch string(l.name()) {
		case "_index":
			h.index = unquotes(l.value())
		case "_id":
			h.id = unquotes(l.value())
		case "_source":
			if source := l.value(); len(source) > 0 && source[0] == '{' {
				h.source = source
			}
		case "sort":
			h.sort = l.value()
		default:
			l.value()
		}
	}
	p.hits = append(p.hits, h)
}

// unquotes takes the quotes off a text.
func unquotes(value []byte) []byte {
	if len(value) < 2 || value[0] != '"' {
		return nil
	}
	return value[1 : len(value)-1]
}

// whole says what keeps the page from being all that was asked for: an answer
// of 200 may be a part.
func (p *page) whole() error {
	switch {
	case !p.shards.seen:
		return &passing{err: fmt.Errorf("the answer is not what a search server gives: %s", excerpt(p.body)), silent: true}
	case p.shards.failed != 0 || p.shards.successful != p.shards.total:
		return failed(p)
	case p.timedOut:
		return &passing{err: errors.New("the search timed out on the server and gave a part")}
	case p.cutOff:
		return &passing{err: errCutOff}
	}
	return nil
}

var errCutOff = errors.New("the search was ended early by the server and gave a part")
