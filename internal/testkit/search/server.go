package search

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"hash/fnv"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Flavour is the server that is played.
type Flavour int

const (
	Elasticsearch Flavour = iota // 7.17
	OpenSearch                   // 2.19
)

// Index is an index of the server, changed before it is used or under Lock.
type Index struct {
	Shards   int
	Settings map[string]string // besides the number of shards, flat
	Mappings string            // JSON, "" for {}
	NoSource bool              // hits come without _source
	docs     []document
}

type document struct {
	id, source string
	shard      int
}

// Kind is what a request asks for.
type Kind string

const (
	Root     Kind = "root"
	Settings Kind = "settings"
	Mapping  Kind = "mapping"
	Refresh  Kind = "refresh"
	Open     Kind = "open"  // a point in time, or the first page of a scroll
	Count    Kind = "count" // a search for no documents
	Page     Kind = "page"
	Close    Kind = "close"
)

// Request is one that came.
type Request struct {
	Kind    Kind
	N       int // of this kind, from 1
	Method  string
	URL     string // path and parameters
	Header  http.Header
	Body    string
	Context string // id of the snapshot that it names
}

// Fault is what becomes of a request in place of the right answer.
type Fault struct {
	Status int         // answered with, in place of what was asked; 0 does what was asked
	Header http.Header // besides
	Body   string      // of the answer, where Status is set
	Lose   bool        // what was asked is done, and the connection is closed without an answer
	Change func(body string) string
	Wait   <-chan struct{} // the answer waits for it, or for the client to go
}

// Server is a search server. Its fields are set before the first request.
type Server struct {
	URL      string
	Flavour  Flavour
	Nameless bool // no product header is sent

	http     *httptest.Server
	mu       sync.Mutex
	script   func(Request) *Fault
	indices  map[string]*Index
	aliases  map[string][]string
	contexts map[string]*context
	opened   int
	counts   map[Kind]int
	requests []Request
}

// context is a snapshot that is open.
type context struct {
	indices []string
	docs    []placed
	scroll  bool
	slice   slice
	size    int
	at      int // of a scroll
}

// placed is a document in the order of _shard_doc.
type placed struct {
	document
	index string
	shard int   // over all indices
	of    int   // shards over all indices
	place int64 // _shard_doc
}

type slice struct{ ID, Max int }

// New starts a server for the test.
func New(t testing.TB, flavour Flavour) *Server {
	s := empty(flavour)
	s.start(t, httptest.NewServer(s))
	return s
}

func empty(flavour Flavour) *Server {
	return &Server{
		Flavour: flavour, indices: map[string]*Index{}, aliases: map[string][]string{},
		contexts: map[string]*context{}, counts: map[Kind]int{},
	}
}

func (s *Server) start(t testing.TB, h *httptest.Server) {
	s.http, s.URL = h, h.URL
	t.Cleanup(h.Close)
}

// NewTLS is New over TLS; authority is the PEM of what signed its certificate.
func NewTLS(t testing.TB, flavour Flavour) (s *Server, authority []byte) {
	s = empty(flavour)
	h := httptest.NewUnstartedServer(s)
	h.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes that fail are what tests are about
	h.StartTLS()
	s.start(t, h)
	return s, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.http.Certificate().Raw})
}

// Add makes an index, or returns the one of that name, and appends documents.
func (s *Server) Add(name string, shards int, sources ...string) *Index {
	s.mu.Lock()
	defer s.mu.Unlock()
	ix := s.indices[name]
	if ix == nil {
		ix = &Index{Shards: shards}
		s.indices[name] = ix
	}
	for _, source := range sources {
		id := fmt.Sprint(len(ix.docs))
		h := fnv.New32a()
		io.WriteString(h, id)
		ix.docs = append(ix.docs, document{id, source, int(h.Sum32() % uint32(ix.Shards))})
	}
	return ix
}

// Alias names indices.
func (s *Server) Alias(name string, indices ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.aliases[name] = indices
}

// Script sets what is asked about every request from now on, one at a time; it
// returns nil for no fault. nil is no fault at all.
func (s *Server) Script(f func(Request) *Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = f
}

// OpenContexts is how many snapshots are open.
func (s *Server) OpenContexts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.contexts)
}

// Opened is how many snapshots were ever opened.
func (s *Server) Opened() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opened
}

// DropContexts closes all snapshots, as a restart of the node does.
func (s *Server) DropContexts() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.contexts)
}

// Requests are those that came.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	content, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	c := &call{s: s, r: r, content: string(content)}
	if len(content) > 0 && json.Unmarshal(content, &c.body) != nil {
		w.WriteHeader(http.StatusBadRequest)
		io.WriteString(w, Refusal(http.StatusBadRequest, "parsing_exception", "the body is no JSON"))
		return
	}
	c.kind = c.what()
	fault := s.note(c)
	if fault == nil {
		fault = &Fault{}
	}
	header := w.Header()
	header.Set("Content-Type", "application/json; charset=UTF-8")
	if s.Flavour == Elasticsearch && !s.Nameless {
		header.Set("X-Elastic-Product", "Elasticsearch")
	}
	for name, values := range fault.Header {
		header[name] = values
	}
	if fault.Wait != nil {
		select {
		case <-fault.Wait:
		case <-r.Context().Done():
		}
	}
	status, body := fault.Status, fault.Body
	if status == 0 {
		s.mu.Lock()
		status, body = c.answer()
		s.mu.Unlock()
	}
	if fault.Change != nil {
		body = fault.Change(body)
	}
	if fault.Lose {
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(status)
	io.WriteString(w, body)
}

// note keeps the request and asks for its fault.
func (s *Server) note(c *call) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[c.kind]++
	req := Request{c.kind, s.counts[c.kind], c.r.Method, c.r.URL.RequestURI(), c.r.Header, c.content, c.context()}
	s.requests = append(s.requests, req)
	if s.script == nil {
		return nil
	}
	return s.script(req)
}

// resolve finds the indices of an expression; missing is a name that is none.
func (s *Server) resolve(expression string) (names []string, missing string) {
	for _, part := range strings.Split(expression, ",") {
		switch {
		case s.aliases[part] != nil:
			names = append(names, s.aliases[part]...)
		case strings.Contains(part, "*"):
			prefix, _, _ := strings.Cut(part, "*")
			for name := range s.indices {
				if strings.HasPrefix(name, prefix) {
					names = append(names, name)
				}
			}
		case s.indices[part] == nil:
			return nil, part
		default:
			names = append(names, part)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), ""
}

// snapshot copies the documents of indices in the order of _shard_doc.
func (s *Server) snapshot(names []string) *context {
	c := &context{indices: names}
	shards := 0
	for _, name := range names {
		shards += s.indices[name].Shards
	}
	first := 0
	for _, name := range names {
		ix := s.indices[name]
		for shard := range ix.Shards {
			n := int64(0)
			for _, d := range ix.docs {
				if d.shard == shard {
					c.docs = append(c.docs, placed{d, name, first + shard, shards, int64(first+shard)<<32 | n})
					n++
				}
			}
		}
		first += ix.Shards
	}
	return c
}

// within says whether the document belongs to the slice.
func (s slice) within(d placed) bool {
	switch {
	case s.Max == 0:
		return true
	case s.Max <= d.of:
		return d.shard%s.Max == s.ID
	}
	return int(d.place)%s.Max == s.ID
}
