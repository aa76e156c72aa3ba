package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"tidemark/aggregator"
)

// The types of problems: the words that clients decide on.
const (
	typeNotFound         = "not_found"
	typeUnknownRoute     = "unknown_route"
	typeMethodNotAllowed = "method_not_allowed"
	typeNotLoaded        = "not_loaded"
	typeMoving           = "moving"
	typeUnreachable      = "unreachable"
	typeTimeout          = "timeout"
	typeBadRequest       = "bad_request"
	typeUnauthorized     = "unauthorized"
	typeTooLarge         = "too_large"
	typeBusy             = "busy"
	typeInternal         = "internal"
)

var titles = map[string]string{
	typeNotFound:         "There is no such key.",
	typeUnknownRoute:     "There is nothing at this path.",
	typeMethodNotAllowed: "The path does not take this method.",
	typeNotLoaded:        "A partition that may hold the key is not loaded.",
	typeMoving:           "A partition that may hold the key is moving to another member.",
	typeUnreachable:      "What the answer needs cannot be reached.",
	typeTimeout:          "The offset asked for was not reached in time.",
	typeBadRequest:       "The request cannot be understood.",
	typeUnauthorized:     "A valid token is needed.",
	typeTooLarge:         "The request is too large.",
	typeBusy:             "There is too much to do; try again.",
	typeInternal:         "Something went wrong inside.",
}

var statuses = map[string]int{
	typeNotFound:         http.StatusNotFound,
	typeUnknownRoute:     http.StatusNotFound,
	typeMethodNotAllowed: http.StatusMethodNotAllowed,
	typeNotLoaded:        http.StatusServiceUnavailable,
	typeMoving:           http.StatusServiceUnavailable,
	typeUnreachable:      http.StatusServiceUnavailable,
	typeTimeout:          http.StatusGatewayTimeout,
	typeBadRequest:       http.StatusBadRequest,
	typeUnauthorized:     http.StatusUnauthorized,
	typeTooLarge:         http.StatusRequestEntityTooLarge,
	typeBusy:             http.StatusServiceUnavailable,
	typeInternal:         http.StatusInternalServerError,
}

// problem is an error as a client sees it (RFC 9457).
type problem struct {
	Type       string           `json:"type"`
	Title      string           `json:"title"`
	Status     int              `json:"status"`
	Detail     string           `json:"detail,omitempty"`
	Positions  map[int32]int64  `json:"positions,omitempty"`
	Partitions []blockedProblem `json:"partitions,omitempty"`

	retryAfter int // seconds; 0 for none
}

// blockedProblem is a partition that keeps an answer from being given.
type blockedProblem struct {
	Partition int32  `json:"partition"`
	State     string `json:"state"`
	Reason    string `json:"reason,omitempty"`
}

func (p *problem) Error() string { return p.Type + ": " + p.Detail }

// problemf makes a problem of one of the types with a detail.
func problemf(typ, format string, args ...any) *problem {
	p := &problem{Type: typ, Title: titles[typ], Status: statuses[typ], Detail: fmt.Sprintf(format, args...)}
	if p.Status == http.StatusServiceUnavailable {
		p.retryAfter = 1
	}
	return p
}

// badRequest is a problem of the client's making.
func badRequest(format string, args ...any) *problem {
	return problemf(typeBadRequest, format, args...)
}

// blockedAnswer is the problem of an answer that some partitions keep from
// being given. The first that cannot be reached names it, else the first that
// moves, else the first that is not loaded.
func blockedAnswer(blocked []blocked) *problem {
	first := blocked[0]
	for _, b := range blocked[1:] {
		if rank(b.why) < rank(first.why) {
			first = b
		}
	}
	p := problemf(first.why, "%s", first.sentence())
	if first.standsStill() {
		p.retryAfter = 5
	}
	for _, b := range blocked {
		if b.partition >= 0 {
			p.Partitions = append(p.Partitions, blockedProblem{b.partition, b.state, b.reason})
		}
	}
	return p
}

func rank(typ string) int {
	return strings.Index(typeUnreachable+typeMoving+typeNotLoaded, typ)
}

// problemOf is the one place where errors become what a client sees. An error
// of no kind known here is internal, and its text stays inside.
func problemOf(err error) *problem {
	var p *problem
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &tooLarge):
		return problemf(typeTooLarge, "the body is larger than %d bytes", tooLarge.Limit)
	case errors.Is(err, context.DeadlineExceeded):
		return problemf(typeBusy, "the work took longer than %v", workLimit)
	case errors.Is(err, aggregator.ErrNotOwned), errors.Is(err, aggregator.ErrClosing):
		return problemf(typeMoving, "the partition is moving to another member")
	}
	return problemf(typeInternal, "the log of this member says more")
}

// fail answers a request with err. A client that has hung up gets nothing.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil && errors.Is(err, context.Canceled) {
		if rec, ok := w.(*recorder); ok {
			rec.hungUp()
		}
		return
	}
	p := problemOf(err)
	if p.Type == typeInternal {
		s.log.Error("a request failed", "method", r.Method, "path", r.URL.Path, "err", err)
	}
	if p.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(p.retryAfter))
	}
	body, err := json.Marshal(p)
	if err != nil {
		s.log.Error("encode a problem", "err", err)
	}
	respond(w, p.Status, "application/problem+json", append(body, '\n'))
}

// respond writes a whole answer.
func respond(w http.ResponseWriter, status int, contentType string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "no-store")
	}
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that has gone needs no answer
}

// respondJSON writes v as a whole answer.
func (s *Server) respondJSON(w http.ResponseWriter, r *http.Request, status int, v any) {
	body, err := appendJSON(nil, v)
	if err != nil {
		s.fail(w, r, fmt.Errorf("encode an answer: %w", err))
		return
	}
	respond(w, status, "application/json", append(body, '\n'))
}
