package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// The internal routes: members ask each other here for encoded totals. They
// are no part of the public interface.
const (
	internalRead = "/internal/v1/read"
	internalScan = "/internal/v1/scan"
	internalTop  = "/internal/v1/top"

	definitionHeader = "Tidemark-Definition"
	maxInternalBody  = 4 << 20
	maxHold          = time.Minute // of a question that waits for a change
)

func (s *Server) serveInternalRead(w http.ResponseWriter, r *http.Request) error {
	q, err := decodeAsked[readQuestion](s, w, r)
	if err != nil {
		return err
	}
	q.Question.Wait = min(max(q.Question.Wait, 0), maxHold)
	a, err := s.answerPeer(w, r, workLimit+q.Question.Wait, q.Question, q.Of)
	if err != nil {
		return err
	}
	s.respondJSON(w, r, http.StatusOK, a)
	return nil
}

func (s *Server) serveInternalScan(w http.ResponseWriter, r *http.Request) error {
	q, err := decodeAsked[scanQuestion](s, w, r)
	if err != nil {
		return err
	}
	if q.Question.Limit < 1 || q.Question.Limit > walkLimit {
		return badRequest("limit %d is not from 1 to %d", q.Question.Limit, walkLimit)
	}
	a, err := s.answerPeer(w, r, workLimit, q.Question, q.Of)
	if err != nil {
		return err
	}
	s.respondJSON(w, r, http.StatusOK, a)
	return nil
}

func (s *Server) serveInternalTop(w http.ResponseWriter, r *http.Request) error {
	q, err := decodeAsked[topQuestion](s, w, r)
	if err != nil {
		return err
	}
	if q.Question.Limit < 1 || q.Question.Limit > maxLimit {
		return badRequest("limit %d is not from 1 to %d", q.Question.Limit, maxLimit)
	}
	if q.Question.Column < 0 || q.Question.Column >= len(s.program.Query().Columns) {
		return badRequest("there is no column %d", q.Question.Column)
	}
	a, err := s.answerPeer(w, r, workLimit, q.Question, q.Of)
	if err != nil {
		return err
	}
	s.respondJSON(w, r, http.StatusOK, a)
	return nil
}

// answerPeer answers from this member alone, ending with a drain.
func (s *Server) answerPeer(w http.ResponseWriter, r *http.Request, limit time.Duration, q question, of []int32) (answer, error) {
	ctx, cancel := context.WithTimeout(r.Context(), limit)
	defer cancel()
	ctx, unbind := s.drain.bind(ctx)
	defer unbind()
	err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(limit + writeTimeout))
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		return answer{}, fmt.Errorf("set a deadline for an answer: %w", err)
	}
	a, err := q.put(ctx, s.local, of)
	if err != nil && s.drain.hasBegun() {
		return a, errDraining()
	}
	if err == nil {
		err = s.settle(&a)
	}
	return a, err
}

// settle adds up the parts of each total: members tell each other one encoded total
// of a key, which those of every version read.
func (s *Server) settle(a *answer) error {
	total := s.scratch()
	defer s.totals.Put(total)
	sum := func(parts *[]byte) error {
		if len(*parts) == 0 {
			return nil
		}
		total.Reset()
		if err := total.MergeParts(*parts); err != nil {
			return fmt.Errorf("add up a total for another member: %w", err)
		}
		*parts = total.Append(nil)
		return nil
	}
	for _, readings := range a.Readings {
		for i := range readings {
			if err := sum(&readings[i].Parts); err != nil {
				return err
			}
		}
	}
	for i := range a.Items {
		if err := sum(&a.Items[i].Parts); err != nil {
			return err
		}
	}
	return nil
}

// decodeAsked reads a question, of a member that folds by the same definition.
func decodeAsked[Q any](s *Server, w http.ResponseWriter, r *http.Request) (q asked[Q], err error) {
	if is := r.Header.Get(definitionHeader); is != s.fingerprint {
		return q, badRequest("members fold by different definitions: %q there, %q here", is, s.fingerprint)
	}
	body, err := s.readBody(w, r, maxInternalBody)
	if err != nil {
		return q, err
	}
	if err := json.Unmarshal(body, &q); err != nil {
		return q, badRequest("the question cannot be read: %v", err)
	}
	slices.Sort(q.Of)
	return q, nil
}
