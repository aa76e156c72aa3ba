package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"
)

// route puts the guards of the door before the handlers of one route, by
// method; without any there is nothing there. label names it in metrics.
func (s *Server) route(label string, methods map[string]handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := &recorder{ResponseWriter: w, label: label, began: time.Now(), metrics: s.opts.Metrics}
		defer rec.observe()
		defer s.recover(rec, r)
		if err := s.enter(rec, r, methods); err != nil {
			s.fail(rec, r, err)
		}
	})
}

// enter decides whether a request may pass, and passes it.
func (s *Server) enter(w *recorder, r *http.Request, methods map[string]handler) error {
	if s.cors(w, r, methods) {
		return nil
	}
	if err := s.authorize(w, r); err != nil {
		return err
	}
	if methods == nil {
		return problemf(typeUnknownRoute, "there is nothing at %s; /openapi.json says what there is", r.URL.Path)
	}
	h := methods[r.Method]
	if h == nil {
		w.Header().Set("Allow", allowed(methods))
		return problemf(typeMethodNotAllowed, "%s takes %s, not %s", r.URL.Path, allowed(methods), r.Method)
	}
	if s.drain.hasBegun() {
		w.Header().Set("Connection", "close")
		if !slices.Contains(openDraining, r.URL.Path) {
			return errDraining()
		}
	}
	return h(w, r)
}

// openDraining are answered to the end.
var openDraining = []string{"/healthz", "/readyz", "/metrics"}

// errDraining is what requests get once the member is leaving.
func errDraining() *problem {
	return problemf(typeMoving, "this member is shutting down; ask another one")
}

func allowed(methods map[string]handler) string {
	var names []string
	for m := range methods {
		names = append(names, m)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// open are the paths that need no token.
var open = []string{"/healthz", "/readyz", "/", "/openapi.json"}

// authorize looks for one of the tokens; members show each other the first.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request) error {
	if len(s.tokens) == 0 || slices.Contains(open, r.URL.Path) {
		return nil
	}
	tokens := s.tokens
	if strings.HasPrefix(r.URL.Path, "/internal/") {
		tokens = tokens[:1]
	}
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		w.Header().Set("WWW-Authenticate", `Bearer realm="tidemark"`)
		return problemf(typeUnauthorized, "the request has no bearer token: Authorization: Bearer TOKEN")
	}
	sum, ok := sha256.Sum256([]byte(strings.TrimSpace(given))), 0
	for i := range tokens { // all of them, so that time tells nothing
		ok |= subtle.ConstantTimeCompare(sum[:], tokens[i][:])
	}
	if ok == 0 {
		w.Header().Set("WWW-Authenticate", `Bearer realm="tidemark", error="invalid_token"`)
		return problemf(typeUnauthorized, "the bearer token is not one of this service's")
	}
	return nil
}

// cors lets pages of the listed origins read answers, and answers their
// preflights, which carry no token: true.
func (s *Server) cors(w http.ResponseWriter, r *http.Request, methods map[string]handler) bool {
	if len(s.opts.CORSOrigins) == 0 {
		return false
	}
	h := w.Header()
	h.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	switch {
	case origin == "":
		return false
	case slices.Contains(s.opts.CORSOrigins, "*"):
		h.Set("Access-Control-Allow-Origin", "*")
	case slices.Contains(s.opts.CORSOrigins, origin):
		h.Set("Access-Control-Allow-Origin", origin)
	default:
		return false
	}
	h.Set("Access-Control-Expose-Headers", "Retry-After")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" || methods == nil {
		return false
	}
	h.Set("Access-Control-Allow-Methods", allowed(methods))
	h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type")
	h.Set("Access-Control-Max-Age", strconv.Itoa(int((10 * time.Minute).Seconds())))
	w.WriteHeader(http.StatusNoContent)
	return true
}

// recover turns a panic into a problem, or into a broken connection where the
// answer has begun.
func (s *Server) recover(w *recorder, r *http.Request) {
	v := recover()
	if v == nil {
		return
	}
	if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(v)
	}
	s.log.Error("a request panicked", "method", r.Method, "path", r.URL.Path, "err", fmt.Sprint(v), "stack", string(debug.Stack()))
	if w.code != 0 {
		panic(http.ErrAbortHandler)
	}
	s.fail(w, r, problemf(typeInternal, "the log of this member says more"))
}

// recorder notes what a request is answered with.
type recorder struct {
	http.ResponseWriter
	label    string
	code     int
	began    time.Time
	metrics  *Metrics
	observed bool
}

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(code int) {
	if r.code == 0 {
		r.code = code
	}
	r.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (r *recorder) Write(b []byte) (int, error) {
	if r.code == 0 {
		r.code = http.StatusOK
	}
	return r.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// statusHungUp is what metrics call a request whose client went before the
// answer.
const statusHungUp = 499

func (r *recorder) hungUp() {
	if r.code == 0 {
		r.code = statusHungUp
	}
}

// observe counts the request, once: a watch is counted when it has begun.
func (r *recorder) observe() {
	if r.observed || r.metrics == nil {
		return
	}
	r.observed = true
	if r.code == 0 {
		r.code = http.StatusOK
	}
	r.metrics.requested(r.label, r.code, time.Since(r.began))
}

// label names the route of a request in metrics, where it turns out late.
func label(w http.ResponseWriter, name string) {
	if r, ok := w.(*recorder); ok {
		r.label = name
	}
}

// begun counts a request that goes on for as long as its client likes.
func begun(w http.ResponseWriter) {
	if r, ok := w.(*recorder); ok {
		r.observe()
	}
}
