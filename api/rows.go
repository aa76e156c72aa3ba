package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"tidemark/aggregator"
)

// row is what is known of one key.
type row struct {
	key     []byte
	total   *aggregator.Total // nil where nothing was found
	marks   []mark            // of the partitions that may hold the key, by number
	blocked []blocked         // of these, those that are missing or do not count
}

// row puts together what was gathered of the index-th key of a question. With
// partial, what partitions have that do not count yet is taken too. The row's
// total is sum, which is reset for it.
func (s *Server) row(g *gathered, index int, key []byte, partial bool, sum *aggregator.Total) (row, error) {
	out := row{key: key}
	if g.waits != "" {
		out.blocked = g.blocked(nil)
		return out, nil
	}
	at := g.holders.places(key)
	read := g.readings(index)
	for p := range g.partitions {
		r, st := read[p], g.standing[p]
		ok := r != nil
		if !ok && !g.holders.may(p, &at) {
			continue
		}
		switch {
		case st == nil:
			out.blocked = append(out.blocked, g.missing[p])
			continue
		case !ok: // it was surely not there, by the partition's own account
			r = &reading{Partition: p, Position: st.Position, Answers: st.Answers, State: st.State, Reason: st.Reason}
		}
		if !r.Answers {
			if !ok || len(r.Parts) > 0 || g.holders.may(p, &at) {
				out.blocked = append(out.blocked, notLoaded(p, r.State, r.Reason))
			}
			if !partial {
				continue
			}
		}
		if len(r.Parts) > 0 {
			if out.total == nil {
				sum.Reset()
				out.total = sum
			}
			if err := out.total.MergeParts(r.Parts); err != nil {
				return out, fmt.Errorf("merge the total of a key from partition %d: %w", p, err)
			}
		}
		out.marks = append(out.marks, mark{p, r.Position})
	}
	return out, nil
}

// appendRow appends a row as clients see it.
func (s *Server) appendRow(dst []byte, key []byte, total *aggregator.Total, marks []mark, complete, quoted bool) []byte {
	dst = s.program.AppendKey(append(dst, `{"key":`...), key)
	dst = append(dst, `,"row":`...)
	dst = s.appendResults(dst, key, total, quoted)
	dst = append(dst, `,"positions":{`...)
	for i, m := range marks {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(append(dst, '"'), int64(m.Partition), 10)
		dst = strconv.AppendInt(append(dst, `":`...), m.Position, 10)
	}
	dst = append(dst, `},"complete":`...)
	return append(strconv.AppendBool(dst, complete), '}')
}

// appendResults appends the results, and beside them which sets are capped.
func (s *Server) appendResults(dst []byte, key []byte, total *aggregator.Total, quoted bool) []byte {
	if total == nil {
		return append(dst, "null"...)
	}
	dst = total.AppendRow(dst, key, quoted)
	if capped := total.Capped(); len(capped) > 0 {
		dst = append(dst, `,"capped":`...)
		dst = appendText(dst, capped...)
	}
	return dst
}

// appendText appends an array of texts.
func appendText(dst []byte, texts ...string) []byte {
	out, err := appendJSON(nil, texts)
	if err != nil { // texts always encode
		return append(dst, "[]"...)
	}
	return append(dst, out...)
}

// reached returns the partition of min that a row's positions have not
// reached, false where there is none.
func reached(marks []mark, min []mark) (mark, bool) {
	for _, m := range min {
		i := slices.IndexFunc(marks, func(x mark) bool { return x.Partition == m.Partition })
		if i < 0 || marks[i].Position < m.Position {
			return m, true
		}
	}
	return mark{}, false
}

// positionsOf are marks as a problem shows them.
func positionsOf(marks []mark) map[int32]int64 {
	out := make(map[int32]int64, len(marks))
	for _, m := range marks {
		out[m.Partition] = m.Position
	}
	return out
}

// check returns the problem that keeps a row from being answered with, nil
// where it may be. An absent key is none.
func (s *Server) check(r *row, opts *readOptions) error {
	if len(r.blocked) > 0 && !opts.partial {
		return blockedAnswer(r.blocked)
	}
	if m, late := reached(r.marks, opts.min); late {
		p := problemf(typeTimeout, "offset %d of partition %d was not reached within %v", m.Position, m.Partition, opts.wait)
		p.Positions = positionsOf(r.marks)
		return p
	}
	return nil
}

// readKeys asks for keys. Waiting for an offset ends with a drain, as nothing
// is folded any more then.
func (s *Server) readKeys(ctx context.Context, keys [][]byte, opts *readOptions) (*gathered, error) {
	q := readQuestion{Keys: keys, Min: opts.min}
	if len(opts.min) > 0 {
		q.Wait = opts.wait
		var unbind context.CancelFunc
		ctx, unbind = s.drain.bind(ctx)
		defer unbind()
	}
	g, err := s.ask(ctx, opts.local, q)
	if err != nil && len(opts.min) > 0 && s.drain.hasBegun() {
		return nil, errDraining()
	}
	return g, err
}

// scratch is a total to merge in, which goes back to totals.
func (s *Server) scratch() *aggregator.Total { return s.totals.Get().(*aggregator.Total) }

// rowSize is what a row takes in an answer, in bytes: most take less.
const rowSize = 256

// serveKey answers for one key: its row, or a watch of it.
func (s *Server) serveKey(w http.ResponseWriter, r *http.Request) error {
	key, watch, err := s.pathKey(strings.TrimPrefix(r.URL.EscapedPath(), rowPrefix))
	if err != nil {
		return err
	}
	if watch {
		label(w, "/v1/aggregates/{key}/watch")
		return s.watch(w, r, key)
	}
	p := newParams(r, "numbers", "partial", "local", "min_offset", "timeout")
	opts := p.readOptions()
	p.minOffset(&opts, s.group)
	if p.err != nil {
		return p.err
	}
	g, err := s.readKeys(r.Context(), [][]byte{key}, &opts)
	if err != nil {
		return err
	}
	total := s.scratch()
	defer s.totals.Put(total)
	found, err := s.row(g, 0, key, opts.partial, total)
	if err != nil {
		return err
	}
	body, err := s.rowBody(&found, &opts)
	if err != nil {
		return err
	}
	respond(w, http.StatusOK, "application/json", append(body, '\n'))
	return nil
}

// rowBody is the answer for one key, or the problem in its place.
func (s *Server) rowBody(r *row, opts *readOptions) ([]byte, error) {
	if err := s.check(r, opts); err != nil {
		return nil, err
	}
	if r.total == nil && !opts.partial {
		p := problemf(typeNotFound, "there is no row with the key %s", s.program.AppendKey(nil, r.key))
		p.Positions = positionsOf(r.marks)
		return nil, p
	}
	return s.appendRow(make([]byte, 0, rowSize), r.key, r.total, r.marks, len(r.blocked) == 0, opts.quoted), nil
}

// respondRows answers with a list of rows, each as the answer for its key.
func (s *Server) respondRows(w http.ResponseWriter, g *gathered, items []item, opts readOptions, cursor string) error {
	complete := g.complete()
	body := append(make([]byte, 0, rowSize*len(items)+64), `{"rows":[`...)
	total := s.scratch()
	defer s.totals.Put(total)
	for i := range items {
		if i > 0 {
			body = append(body, ',')
		}
		total.Reset()
		if err := total.MergeParts(items[i].Parts); err != nil {
			return fmt.Errorf("read the total of a key: %w", err)
		}
		body = s.appendRow(body, items[i].Key, total, items[i].Marks, complete, opts.quoted)
	}
	body = append(body, ']')
	if cursor != "" {
		body = append(append(append(body, `,"next_cursor":"`...), cursor...), '"')
	}
	body = strconv.AppendBool(append(body, `,"complete":`...), complete)
	respond(w, http.StatusOK, "application/json", append(body, "}\n"...))
	return nil
}
