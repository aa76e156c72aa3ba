package api

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"

	"tidemark/aggregator"
)

// serveHealth answers GET /healthz: the process works.
func (s *Server) serveHealth(w http.ResponseWriter, r *http.Request) error {
	s.respondJSON(w, r, http.StatusOK, map[string]string{"status": "ok"})
	return nil
}

// readiness is the answer of /readyz.
type readiness struct {
	Status  string   `json:"status"`
	Reasons []string `json:"reasons,omitempty"`
}

// serveReady answers GET /readyz.
func (s *Server) serveReady(w http.ResponseWriter, r *http.Request) error {
	if why := s.notReady(); len(why) > 0 {
		w.Header().Set("Retry-After", "1")
		s.respondJSON(w, r, http.StatusServiceUnavailable, readiness{"not_ready", why})
		return nil
	}
	if why := s.degraded(); len(why) > 0 {
		s.respondJSON(w, r, http.StatusOK, readiness{"degraded", why})
		return nil
	}
	s.respondJSON(w, r, http.StatusOK, readiness{Status: "ready"})
	return nil
}

// notReady says what keeps this member from being ready: each partition that
// is its own must be live.
func (s *Server) notReady() (why []string) {
	view := s.group.View()
	switch {
	case s.drain.hasBegun():
		return []string{"this member is shutting down"}
	case !view.Assigned:
		return []string{because("the first assignment has not come", cmp.Or(view.Problem,
			"the group may be waiting for a member that ended without leaving, for its session timeout at most"))}
	case view.Silent:
		return []string{because("no heartbeat was answered for a session timeout", view.Problem)}
	}
	here := map[int32]bool{}
	for _, st := range s.reader.Status() {
		here[st.Partition] = true
		if st.State == aggregator.Live {
			continue
		}
		b := notLoaded(st.Partition, st.State, st.Reason)
		if st.State == aggregator.CatchingUp && st.Reason == "" {
			b.reason = fmt.Sprintf("%d records behind", lag(&st))
		}
		why = append(why, b.sentence())
	}
	for _, p := range slices.Sorted(slices.Values(view.Own)) {
		if !here[p] {
			why = append(why, because(fmt.Sprintf("partition %d has not begun", p), view.Problem))
		}
	}
	return why
}

// because adds a cause where one is known.
func because(what, cause string) string {
	if cause == "" {
		return what
	}
	return what + ": " + cause
}

// degraded says which partitions have too many bad records of late.
func (s *Server) degraded() (why []string) {
	for _, st := range s.reader.Status() {
		if st.BadShare > s.opts.MaxBadShare {
			why = append(why, fmt.Sprintf("partition %d: %.1f %% of the last 1000 records are bad", st.Partition, 100*st.BadShare))
		}
	}
	return why
}

// lag is how many records a partition is behind the readable end. Those that
// retention has removed are no lag: they will never be read.
func lag(st *aggregator.PartitionStatus) int64 {
	return max(0, st.End-max(st.Position, st.LogStart))
}
