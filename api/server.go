package api

import (
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"tidemark/aggregator"
	"tidemark/web"
)

// Options of a Server. The zero value works.
type Options struct {
	Version     string
	Tokens      []string    // bearer tokens; empty: no authentication
	CORSOrigins []string    // scheme://host[:port], or "*"; empty: none
	MaxBadShare float64     // of the last 1000 records of a partition, above which /readyz says degraded; 0 is DefaultMaxBadShare
	HistoryMode string      // the cut's mode, "" without history
	MaxWatches  int         // at a time; 0 is DefaultMaxWatches
	PeerTLS     *tls.Config // for asking other members; nil is the system's

	Snapshots Snapshots           // nil where none are published
	Metrics   *Metrics            // nil for none
	Gatherer  prometheus.Gatherer // what /metrics shows; nil for nothing
	Logger    *slog.Logger        // nil for none
}

const (
	DefaultMaxBadShare = 0.5
	DefaultMaxWatches  = 1000
)

// Validate returns all that is wrong with the options.
func (o *Options) Validate() error {
	var errs []error
	for _, t := range o.Tokens {
		if t == "" {
			errs = append(errs, errors.New("a token is empty"))
		}
	}
	for _, origin := range o.CORSOrigins {
		u, err := url.Parse(origin)
		if origin != "*" && (err != nil || u.Scheme == "" || u.Host == "" || u.Path != "" || u.RawQuery != "" || u.User != nil) {
			errs = append(errs, fmt.Errorf("the origin %q is not scheme://host[:port] or *", origin))
		}
	}
	if o.MaxBadShare < 0 || o.MaxBadShare > 1 {
		errs = append(errs, fmt.Errorf("the bad share %v is not from 0 to 1", o.MaxBadShare))
	}
	if o.MaxWatches < 0 {
		errs = append(errs, fmt.Errorf("the number of watches, %d, is negative", o.MaxWatches))
	}
	return errors.Join(errs...)
}

// Server answers requests. It is an http.Handler and starts no goroutine that
// outlives a request.
type Server struct {
	program     *aggregator.Program
	fingerprint string
	columns     []string // names of the key columns
	reader      Reader
	group       Group
	local       *local
	peers       *peers
	knowledge   *knowledge
	opts        Options
	tokens      [][sha256.Size]byte
	log         *slog.Logger
	mux         *http.ServeMux
	rows        http.Handler  // of paths below rowPrefix, which the mux would tidy up
	watchers    chan struct{} // a slot for each watch
	totals      sync.Pool     // *aggregator.Total
	drain       drain
}

// New makes a server. Close releases what it holds.
func New(program *aggregator.Program, reader Reader, group Group, opts Options) (*Server, error) {
	if err := opts.Validate(); err != nil {
		return nil, fmt.Errorf("options of the HTTP interface: %w", err)
	}
	if opts.MaxBadShare == 0 {
		opts.MaxBadShare = DefaultMaxBadShare
	}
	if opts.MaxWatches == 0 {
		opts.MaxWatches = DefaultMaxWatches
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Gatherer == nil {
		opts.Gatherer = prometheus.NewRegistry()
	}
	s := &Server{
		program:     program,
		fingerprint: program.Definition().Fingerprint,
		reader:      reader,
		group:       group,
		knowledge:   &knowledge{},
		opts:        opts,
		log:         opts.Logger,
		watchers:    make(chan struct{}, opts.MaxWatches),
	}
	s.totals.New = func() any { return program.NewTotal() }
	for _, k := range program.Query().Keys {
		s.columns = append(s.columns, k.Name)
	}
	// Folding goes on: pages take all processors but one, and one at least.
	s.local = &local{
		program: program, reader: reader, group: group, knowledge: s.knowledge,
		pages: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)-1)),
	}
	var first string
	for i, t := range opts.Tokens {
		if i == 0 {
			first = t
		}
		s.tokens = append(s.tokens, sha256.Sum256([]byte(t)))
	}
	s.peers = newPeers(s.fingerprint, first, opts.PeerTLS)
	s.routes()
	return s, nil
}

// Drain turns new requests away and ends the watches; requests in hand finish.
// It returns at once: http.Server.Shutdown waits for them.
func (s *Server) Drain() { s.drain.begin() }

// Close drains and closes idle connections to other members.
func (s *Server) Close() {
	s.drain.begin()
	s.peers.close()
}

const (
	headerTimeout = 5 * time.Second
	bodyTimeout   = 10 * time.Second
	writeTimeout  = 30 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeader     = 64 << 10
	maxBody       = 1 << 20
)

// HTTPServer returns a server for handler whose slow clients pin nothing for
// long: headers, bodies and answers have their time. Watches and waiting
// questions set deadlines of their own.
func HTTPServer(handler http.Handler, logger *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: headerTimeout,
		WriteTimeout:      workLimit + maxTimeout + writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
}

// handler answers a request, or returns the error that answers it.
type handler func(w http.ResponseWriter, r *http.Request) error

// rowPrefix is what the path of one row begins with. A key may hold anything,
// so its path is read as it was sent and never tidied up.
const rowPrefix = "/v1/aggregates/"

func (s *Server) routes() {
	s.mux = http.NewServeMux()
	get := func(h handler) map[string]handler {
		return map[string]handler{http.MethodGet: h, http.MethodHead: h}
	}
	post := func(h handler) map[string]handler { return map[string]handler{http.MethodPost: h} }
	s.mux.Handle("/{$}", s.route("/", get(s.servePage)))
	s.mux.Handle("/healthz", s.route("/healthz", get(s.serveHealth)))
	s.mux.Handle("/readyz", s.route("/readyz", get(s.serveReady)))
	s.mux.Handle("/metrics", s.route("/metrics", get(s.serveMetrics)))
	s.mux.Handle("/openapi.json", s.route("/openapi.json", get(s.serveOpenAPI)))
	s.mux.Handle("/v1/status", s.route("/v1/status", get(s.serveStatus)))
	s.mux.Handle("/v1/bad-records", s.route("/v1/bad-records", get(s.serveBadRecords)))
	s.mux.Handle("/v1/aggregates", s.route("/v1/aggregates", get(s.serveList)))
	s.mux.Handle("/v1/aggregates:batchGet", s.route("/v1/aggregates:batchGet", post(s.serveBatch)))
	s.rows = s.route("/v1/aggregates/{key}", get(s.serveKey))
	s.mux.Handle("/v1/snapshots", s.route("/v1/snapshots", map[string]handler{
		http.MethodGet: s.serveSnapshots, http.MethodHead: s.serveSnapshots, http.MethodPost: s.serveSnapshot,
	}))
	s.mux.Handle(internalRead, s.route(internalRead, post(s.serveInternalRead)))
	s.mux.Handle(internalScan, s.route(internalScan, post(s.serveInternalScan)))
	s.mux.Handle(internalTop, s.route(internalTop, post(s.serveInternalTop)))
	s.mux.Handle("/", s.route("unknown", nil))
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.EscapedPath(), rowPrefix) {
		s.rows.ServeHTTP(w, r)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// readBody reads a request's body of at most limit bytes, in bounded time.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	rc := http.NewResponseController(w)
	if err := rc.SetReadDeadline(time.Now().Add(bodyTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, fmt.Errorf("set a deadline for a body: %w", err)
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, err
	case err != nil:
		return nil, badRequest("the body cannot be read: %v", err)
	}
	// A deadline left in place would end the request's context.
	if err := rc.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, fmt.Errorf("lift the deadline for a body: %w", err)
	}
	return body, nil
}

// servePage answers GET /.
func (s *Server) servePage(w http.ResponseWriter, r *http.Request) error {
	web.Serve(w, r)
	return nil
}

// serveMetrics answers GET /metrics.
func (s *Server) serveMetrics(w http.ResponseWriter, r *http.Request) error {
	families, err := s.opts.Gatherer.Gather()
	if err != nil {
		return fmt.Errorf("gather the metrics: %w", err)
	}
	promhttp.HandlerFor(prometheus.GathererFunc(always(families)), promhttp.HandlerOpts{}).ServeHTTP(w, r)
	return nil
}

// always returns v, and no error.
func always[T any](v T) func() (T, error) {
	return func() (T, error) { return v, nil }
}
