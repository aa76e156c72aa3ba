package client

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Kind is what a service answers in place of what was asked for: the type of a
// problem. It is an error to compare with: errors.Is(err, ErrNotFound).
type Kind string

// Error is the kind's name.
func (k Kind) Error() string { return string(k) }

// The kinds. NotLoaded, Moving, Unreachable and Busy pass: another member was
// asked, and asking later may help.
const (
	ErrNotFound         Kind = "not_found"          // the key is surely absent
	ErrUnknownRoute     Kind = "unknown_route"      // the address is not that of a service of this version
	ErrMethodNotAllowed Kind = "method_not_allowed" // as is this
	ErrNotLoaded        Kind = "not_loaded"         // a partition that may hold the key does not count yet, or has a gap
	ErrMoving           Kind = "moving"             // it is moving to another member
	ErrUnreachable      Kind = "unreachable"        // its owner cannot be reached by the member that was asked
	ErrTimeout          Kind = "timeout"            // MinOffset was not reached in time; Positions says what was
	ErrBadRequest       Kind = "bad_request"        // an unknown column, a key of another number of columns
	ErrUnauthorized     Kind = "unauthorized"       // a valid token is needed
	ErrTooLarge         Kind = "too_large"          // the keys of a batch are too large
	ErrBusy             Kind = "busy"               // there is too much to do
	ErrInternal         Kind = "internal"           // something went wrong inside; the member's log says more
)

// Error is a problem that a member answers with.
type Error struct {
	Address    string // of the member
	Status     int    // of HTTP
	Type       Kind   // "" where it is no problem of a service, such as a proxy's page
	Detail     string
	RetryAfter time.Duration // when to ask again; 0 where the member does not say
	Positions  Positions     // with ErrTimeout and ErrNotFound: what was looked at
	Partitions []Blocked     // that kept the answer from being given
}

// Blocked is a partition that keeps an answer from being given.
type Blocked struct {
	Partition int32  `json:"partition"`
	State     string `json:"state"`
	Reason    string `json:"reason"`
}

// Error says which member answers what.
func (e *Error) Error() string {
	what := string(e.Type)
	if what != "" && e.Detail != "" {
		what += ": "
	}
	return fmt.Sprintf("%s answers %d %s: %s", e.Address, e.Status, http.StatusText(e.Status), what+e.Detail)
}

// Is makes errors.Is compare with a Kind.
func (e *Error) Is(target error) bool {
	k, ok := target.(Kind)
	return ok && k == e.Type
}

// mostDetail is how much of an answer that is no problem is shown, in bytes.
const mostDetail = 300

// readError reads the problem that an answer is.
func readError(address string, resp *http.Response) error {
	e := &Error{Address: address, Status: resp.StatusCode}
	if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && s > 0 {
		e.RetryAfter = time.Duration(s) * time.Second
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return unreachable(address, err)
	}
	var problem struct {
		Type       Kind
		Detail     string
		Positions  Positions
		Partitions []Blocked
	}
	if err := json.Unmarshal(body, &problem); err != nil || problem.Type == "" {
		e.Detail = strings.TrimSpace(string(body[:min(len(body), mostDetail)]))
		return e
	}
	e.Type, e.Detail, e.Positions, e.Partitions = problem.Type, problem.Detail, problem.Positions, problem.Partitions
	return e
}

// unreachableError is a member that gave no whole answer.
type unreachableError struct {
	address string
	err     error
}

func unreachable(address string, err error) error { return &unreachableError{address, err} }

func (e *unreachableError) Error() string { return fmt.Sprintf("ask %s: %v", e.address, e.err) }
func (e *unreachableError) Unwrap() error { return e.err }
