package bootstrap

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"tidemark/aggregator"
)

// Defaults of ElasticOptions.
const (
	DefaultSlices    = 4
	DefaultKeepAlive = 5 * time.Minute
	DefaultTimeout   = 2 * time.Minute
	DefaultPatience  = 2 * time.Minute
)

// openPatience is the patience until the first page, from where on to begin
// again costs something: until then the caller begins again and shows why.
const openPatience = 3 * time.Second

// maxKeepAlive is as far as KeepAlive grows; servers take up to a day.
const maxKeepAlive = time.Hour

// ElasticOptions say where the history lies and how it is read.
type ElasticOptions struct {
	Addresses []string        // of the nodes, http or https; at least one
	Index     []string        // names, aliases or patterns; at least one
	Query     json.RawMessage // which documents, a JSON object; nil is all
	Username  string          // with Password; or
	Password  string
	APIKey    string // in its encoded form; or neither
	CAFile    string // PEM, "" for the system's authorities
	Slices    int    // read at once, at most one a primary shard; 0 is DefaultSlices
	PageSize  int    // documents asked for at once; 0 is as many as suits their size

	KeepAlive time.Duration // that a snapshot on the server outlives its last use; 0 is DefaultKeepAlive
	Timeout   time.Duration // of one request; 0 is DefaultTimeout
	Patience  time.Duration // that a page which may yet come is asked for; 0 is DefaultPatience

	Logger   *slog.Logger // nil logs nothing
	Observer Observer     // told of what is tried again; nil observes nothing
}

// Elastic reads a history from Elasticsearch 7 and 8 and from OpenSearch. It
// asks in the plainest way there is, since servers write the numbers of a
// document anew where its source is filtered, and takes an answer only where
// it is whole.
type Elastic struct {
	o      ElasticOptions
	log    *slog.Logger
	client *client
	target string // the indices as they stand in a path

	firstWait, longestWait time.Duration // before a request is repeated
	pageBytes              int64         // see there

	// keepAlive grows with each snapshot that a server dropped during a read,
	// in nanoseconds.
	keepAlive atomic.Int64
}

var _ Source = (*Elastic)(nil)

// errLost is a read whose snapshot the server has dropped, or one of whose
// answers went astray: it begins again from its beginning.
var errLost = errors.New("the history is read again from its beginning")

// NewElastic returns the source that reads indices; it connects when it is
// read. Its error says which of the options are unusable.
func NewElastic(o ElasticOptions) (*Elastic, error) {
	if len(o.Addresses) == 0 || len(o.Index) == 0 {
		return nil, errors.New("addresses and index are wanted")
	}
	if o.Query = bytes.TrimSpace(o.Query); len(o.Query) == 0 {
		o.Query = json.RawMessage(`{"match_all":{}}`)
	}
	if !json.Valid(o.Query) || o.Query[0] != '{' {
		return nil, fmt.Errorf("the query %s is no JSON object", o.Query)
	}
	if o.Slices == 0 {
		o.Slices = DefaultSlices
	}
	if o.Slices < 1 || o.PageSize < 0 {
		return nil, fmt.Errorf("slices %d, page_size %d: both are at least 1", o.Slices, o.PageSize)
	}
	if o.KeepAlive == 0 {
		o.KeepAlive = DefaultKeepAlive
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Patience == 0 {
		o.Patience = DefaultPatience
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Observer == nil {
		o.Observer = unobserved{}
	}
	var authorities []byte
	if o.CAFile != "" {
		var err error
		if authorities, err = os.ReadFile(o.CAFile); err != nil {
			return nil, fmt.Errorf("read the authorities of ca_file: %w", err)
		}
	}
	e := &Elastic{o: o, log: o.Logger, firstWait: defaultFirstWait, longestWait: defaultLongestWait, pageBytes: pageBytes}
	names := make([]string, len(o.Index))
	for i, name := range o.Index {
		names[i] = url.PathEscape(name)
	}
	e.target = "/" + strings.Join(names, ",")
	e.keepAlive.Store(int64(o.KeepAlive))
	var err error
	if e.client, err = newClient(o, authorities); err != nil {
		return nil, err
	}
	return e, nil
}

// Name is the indices as they were given.
func (e *Elastic) Name() string { return strings.Join(e.o.Index, ",") }

// Read reads the documents that one snapshot of the indices holds: of the
// point in time, or of the scrolls where the server has no points in time. The
// snapshot is closed on return, whatever happened.
//
// An error wraps aggregator.ErrHopeless where no repetition mends it: what the
// server refuses, indices that keep no source or rewrite it, a count that
// differs. Any other error may pass, and the read then begins again from its
// beginning: a snapshot that is lost cannot be gone on with, since documents
// may have changed since.
func (e *Elastic) Read(ctx context.Context, yield func(*Document) error) error {
	defer e.client.rest()
	err := e.read(ctx, yield)
	if errors.Is(err, errLost) {
		e.o.Observer.Retried()
	}
	return err
}

func (e *Elastic) read(ctx context.Context, yield func(*Document) error) error {
	found, err := e.find(ctx)
	if err != nil {
		return err
	}
	if err := e.probe(ctx); err != nil {
		return err
	}
	if err := e.refresh(ctx); err != nil {
		return err
	}
	r := &reading{Elastic: e, found: found, counted: map[string]*int64{}}
	return r.run(ctx, yield)
}

// Sample returns the first n documents that a plain search gives, at most a
// page of them.
func (e *Elastic) Sample(ctx context.Context, n int) ([]*Document, error) {
	defer e.client.rest()
	var p page
	body := searchBody{Size: new(min(n, cautiousPage)), Query: e.o.Query, Sort: []string{"_doc"}}
	err := e.patiently(ctx, openPatience, func() error {
		return e.searchPage(ctx, e.target+"/_search?allow_partial_search_results=false", body, &p)
	})
	if err != nil {
		return nil, e.fail("sample", err)
	}
	docs := make([]*Document, len(p.hits))
	for i, h := range p.hits {
		docs[i] = &Document{Source: slices.Clone(h.source), ID: h.name(), Index: slices.Clone(h.index), Read: int64(i + 1)}
	}
	return docs, nil
}

// fail wraps an error of the read with what was done.
func (e *Elastic) fail(verb string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, aggregator.ErrHopeless) {
		return fmt.Errorf("%s the history %s: %w", verb, e.Name(), err)
	}
	return fmt.Errorf("%s the history %s at %s: %w", verb, e.Name(), e.client.addresses, err)
}

// hopeless is an error that no repetition mends.
func hopeless(format string, args ...any) error {
	return fmt.Errorf("%w: %w", aggregator.ErrHopeless, fmt.Errorf(format, args...))
}
