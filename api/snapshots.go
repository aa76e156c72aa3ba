package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

type snapshotsBody struct {
	Snapshots []Snapshot `json:"snapshots"`
}

// serveSnapshots answers GET /v1/snapshots.
func (s *Server) serveSnapshots(w http.ResponseWriter, r *http.Request) error {
	if p := newParams(r); p.err != nil {
		return p.err
	}
	body := snapshotsBody{Snapshots: []Snapshot{}}
	if s.opts.Snapshots != nil {
		ctx, cancel := context.WithTimeout(r.Context(), workLimit)
		defer cancel()
		list, err := s.opts.Snapshots.List(ctx)
		if err != nil {
			return storeProblem(ctx, "the snapshots cannot be listed", err)
		}
		body.Snapshots = append(body.Snapshots, list...)
	}
	s.respondJSON(w, r, http.StatusOK, body)
	return nil
}

// publishTimeout bounds a publish that a client asks for.
const publishTimeout = 10 * time.Minute

// serveSnapshot answers POST /v1/snapshots once what is new is published.
func (s *Server) serveSnapshot(w http.ResponseWriter, r *http.Request) error {
	if p := newParams(r); p.err != nil {
		return p.err
	}
	if s.opts.Snapshots == nil {
		return problemf(typeNotLoaded, "this member publishes no snapshots")
	}
	err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(publishTimeout + writeTimeout))
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("set a deadline for a publish: %w", err)
	}
	ctx, cancel := context.WithTimeout(r.Context(), publishTimeout)
	defer cancel()
	list, err := s.opts.Snapshots.Publish(ctx)
	if err != nil {
		return storeProblem(ctx, "not all could be published", err)
	}
	s.respondJSON(w, r, http.StatusOK, snapshotsBody{append([]Snapshot{}, list...)})
	return nil
}

// storeProblem is the problem of what the store of snapshots, or the way to it,
// did not do: busy where the time was up.
func storeProblem(ctx context.Context, what string, err error) *problem {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return problemf(typeBusy, "%s in time: %v", what, err)
	}
	return problemf(typeUnreachable, "%s: %v", what, err)
}
