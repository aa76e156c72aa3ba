package bootstrap

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"tidemark/aggregator"
)

// passing is an error of a request that may succeed when it is sent again.
type passing struct {
	err   error
	after time.Duration // the least wait that the server asked for
	// unsent says that the request did not reach a server.
	unsent bool
	// silent says that it is not known what the server did: no answer came.
	silent bool
}

func (p *passing) Error() string { return p.err.Error() }
func (p *passing) Unwrap() error { return p.err }

// refusal is an answer of a server that says what is wrong.
type refusal struct {
	status       int
	kind, reason string // kind is "" where the server gave a text alone
}

func (r *refusal) Error() string {
	text := fmt.Sprintf("the server answers %d", r.status)
	if r.kind != "" {
		text += " " + r.kind
	}
	if r.reason != "" {
		text += ": " + r.reason
	}
	return text
}

// unreached is what an error of the way to the server means. One of the
// certificates stays; any other may pass.
func unreached(err error) error {
	var untrusted *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &untrusted):
		return hopeless("the server's certificate is not trusted; see history.elasticsearch.ca_file: %w", err)
	case errors.As(err, &record):
		return hopeless("the server does not speak TLS; see the https of history.elasticsearch.addresses: %w", err)
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return &passing{err: errors.New("no answer came in time"), silent: true}
	}
	var dial *net.OpError
	unsent := errors.As(err, &dial) && dial.Op == "dial"
	return &passing{err: err, unsent: unsent, silent: !unsent}
}

// cause is the part of an answer that says what went wrong.
type cause struct {
	Type      string  `json:"type"`
	Reason    string  `json:"reason"`
	RootCause []cause `json:"root_cause"`
	CausedBy  *cause  `json:"caused_by"`
	Failed    []struct {
		Index  string `json:"index"`
		Reason cause  `json:"reason"`
	} `json:"failed_shards"`
}

// deepest is the cause that says most: servers wrap what went wrong on a shard.
func (c *cause) deepest() *cause {
	switch {
	case len(c.RootCause) > 0 && c.RootCause[0].Type != "":
		return &c.RootCause[0]
	case len(c.Failed) > 0 && c.Failed[0].Reason.Type != "":
		return &c.Failed[0].Reason
	case c.CausedBy != nil && c.CausedBy.Type != "":
		return c.CausedBy.deepest()
	}
	return c
}

// said reads the body of an error.
func said(status int, body []byte) *refusal {
	r := &refusal{status: status}
	var envelope struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(body, &envelope) != nil || envelope.Error == nil {
		r.reason = excerpt(body)
		return r
	}
	var c cause
	if json.Unmarshal(envelope.Error, &r.reason) == nil {
		return r
	}
	if json.Unmarshal(envelope.Error, &c) != nil {
		r.reason = excerpt(envelope.Error)
		return r
	}
	deep := c.deepest()
	r.kind, r.reason = deep.Type, deep.Reason
	if r.reason == "" {
		r.reason = c.Reason
	}
	return r
}

const (
	contextMissing = "search_context_missing_exception"
	noIndex        = "index_not_found_exception"
)

// again are the answers that may be others later; 500 is what some versions
// say when they are too busy.
var again = []int{
	http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError,
	http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
}

// refused is what an answer that is no 2xx means.
func refused(a answer, body []byte) error {
	r := said(a.status, body)
	switch {
	case slices.Contains(again, a.status):
		return &passing{err: r, after: retryAfter(a.header)}
	case r.kind == contextMissing:
		return fmt.Errorf("%w: the snapshot on the server is gone: it was not used for longer than it is kept, was closed, or its node started anew: %w", errLost, r)
	}
	return fmt.Errorf("%w: %w", aggregator.ErrHopeless, r)
}

// forbidden says whether err is an answer that the login may not do this.
func forbidden(err error) bool {
	var r *refusal
	return errors.As(err, &r) && (r.status == http.StatusUnauthorized || r.status == http.StatusForbidden)
}

// shardFailure is one of those in an answer.
type shardFailure struct {
	Index  string `json:"index"`
	Reason cause  `json:"reason"`
}

// standing are failures of shards that stay, however often one asks.
var standing = []string{"illegal_argument_exception", "query_shard_exception", "parsing_exception", "parse_exception"}

// failed is what failures of shards in an answer mean.
func failed(p *page) error {
	var failures []shardFailure
	text := fmt.Sprintf("%d of %d shards answered", p.shards.successful, p.shards.total)
	if p.shards.failures != nil && json.Unmarshal(p.shards.failures, &failures) != nil {
		text += ": " + excerpt(p.shards.failures)
	}
	if len(failures) > 0 {
		f := failures[0]
		c := f.Reason.deepest()
		text = strings.TrimSuffix(fmt.Sprintf("%s: index %s: %s: %s", text, f.Index, c.Type, c.Reason), ": ")
		switch {
		case c.Type == contextMissing:
			return fmt.Errorf("%w: the snapshot on the server is gone: %s", errLost, text)
		case slices.Contains(standing, c.Type):
			return hopeless("%s", text)
		}
	}
	return &passing{err: errors.New(text)}
}

// excerpt is the beginning of an answer, for messages.
func excerpt(b []byte) string {
	const most = 200
	text := strings.Join(strings.Fields(string(b[:min(len(b), most)])), " ")
	text = strings.ToValidUTF8(text, "")
	if len(b) > most {
		text += "…"
	}
	return text
}
