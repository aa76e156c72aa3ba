package api

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"reflect"
	"sync"
	"time"
)

const (
	// watchPause is the least time between two looks at a watched row: changes
	// that come faster are seen together.
	watchPause = 50 * time.Millisecond
	// watchComment is the time between comments that keep a connection alive.
	watchComment = 15 * time.Second
	// watchRetry is the time to the next look where nothing tells of a change:
	// while the row cannot be answered, or a partition has no owner.
	watchRetry = 500 * time.Millisecond
)

// watch sends a row now and whenever it changes, as server-sent events, until
// the client goes or the member drains. Positions alone are no change.
func (s *Server) watch(w http.ResponseWriter, r *http.Request, key []byte) error {
	p := newParams(r, "numbers", "partial", "local")
	opts := p.readOptions()
	if p.err != nil {
		return p.err
	}
	select {
	case s.watchers <- struct{}{}:
		defer release(s.watchers)
	default:
		return problemf(typeBusy, "there are %d watches already", cap(s.watchers))
	}
	ctx, cancel := s.drain.bind(r.Context())
	defer cancel()

	out := &eventStream{w: w, rc: http.NewResponseController(w)}
	comment := time.NewTicker(watchComment)
	defer comment.Stop()
	var shown []byte
	for {
		look, err := s.look(ctx, key, &opts)
		var blockedNow *problem
		switch {
		case ctx.Err() != nil:
			return watchEnd(r, out)
		case err == nil:
			if shown == nil || !bytes.Equal(look.results, shown) {
				if err := out.event(look.body); err != nil {
					return watchEnd(r, out)
				}
				shown = look.results
				begun(w)
			}
		case errors.As(err, &blockedNow) && out.begun:
			// What was shown stands until there is more to say.
		default:
			return err
		}
		if r.Method == http.MethodHead {
			return nil
		}
		began := time.Now()
		for changed := false; !changed; {
			changed, err = s.awaitChange(ctx, key, &look, &opts, comment.C)
			if err == nil && !changed {
				err = out.comment()
			}
			if err != nil {
				return watchEnd(r, out)
			}
		}
		if pause(ctx, watchPause-time.Since(began)) != nil {
			return watchEnd(r, out)
		}
	}
}

// watchEnd ends a watch: cleanly once it has begun, else with what a request
// is told that comes too late.
func watchEnd(r *http.Request, out *eventStream) error {
	if out.begun {
		return nil
	}
	if err := r.Context().Err(); err != nil {
		return err
	}
	return errDraining()
}

func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// look is one look at a watched row.
type look struct {
	body    []byte // of the GET
	results []byte // what of it makes a change
	since   map[string][]moment
	local   []reflect.SelectCase // closed when a partition of this member changes
	view    View
}

// look reads a watched row. An absent one has a null row.
func (s *Server) look(ctx context.Context, key []byte, opts *readOptions) (look, error) {
	l := look{view: s.group.View(), since: map[string][]moment{}}
	owner := l.view.owners()
	for p, m := range owner {
		// The channels are taken before the row is read: no change is missed.
		if m != nil && m.ID == l.view.Member {
			l.local = append(l.local, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(s.reader.Changed(int32(p)))})
		}
	}
	ctx, cancel := context.WithTimeout(ctx, workLimit)
	defer cancel()
	g, err := s.ask(ctx, opts.local, readQuestion{Keys: [][]byte{key}})
	if err != nil {
		return l, err
	}
	r, err := s.row(g, 0, key, opts.partial, s.program.NewTotal())
	if err != nil {
		return l, err
	}
	for _, m := range r.marks {
		if int(m.Partition) >= len(owner) { // it appeared meanwhile
			continue
		}
		if o := owner[m.Partition]; o != nil && o.ID != l.view.Member {
			l.since[o.ID] = append(l.since[o.ID], moment{m, g.standing[m.Partition].Answers})
		}
	}
	if err := s.check(&r, opts); err != nil {
		return l, err
	}
	l.body = s.appendRow(nil, key, r.total, r.marks, len(r.blocked) == 0, opts.quoted)
	l.results = s.appendResults(nil, key, r.total, opts.quoted)
	if len(r.blocked) > 0 {
		l.results = append(l.results, " incomplete"...)
		l.since = nil
	}
	return l, nil
}

// awaitChange waits until something that a look depends on may have changed:
// true; or until a comment is due: false.
func (s *Server) awaitChange(ctx context.Context, key []byte, l *look, opts *readOptions, comment <-chan time.Time) (bool, error) {
	waiting, cancel := context.WithCancel(ctx)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()

	retry := make(<-chan time.Time)
	if l.body == nil || l.since == nil || len(l.since) > 0 {
		// A failed look is repeated, and with other members asked, the group
		// may have moved on without a word of theirs.
		d := watchRetry
		if l.body != nil && len(l.since) > 0 {
			d = watchComment
		}
		timer := time.NewTimer(d)
		defer timer.Stop()
		retry = timer.C
	}
	told := make(chan struct{}, 1)
	if !opts.local {
		for member, since := range l.since {
			to := s.peers.source(&l.view, member)
			of := make([]int32, len(since))
			for i, m := range since {
				of[i] = m.Partition
			}
			asking.Go(func() {
				_, err := to.Read(waiting, of, readQuestion{Keys: [][]byte{key}, Since: since, Wait: watchComment})
				if err != nil && pause(waiting, watchRetry) != nil {
					return
				}
				select {
				case told <- struct{}{}:
				default:
				}
			})
		}
	}
	cases := append(l.local[:len(l.local):len(l.local)],
		reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(ctx.Done())},
		reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(comment)},
		reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(retry)},
		reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf((<-chan struct{})(told))},
	)
	chosen, _, _ := reflect.Select(cases)
	switch chosen - len(l.local) {
	case 0:
		return false, ctx.Err()
	case 1:
		return false, nil
	}
	return true, nil
}

// eventStream writes server-sent events.
type eventStream struct {
	w     http.ResponseWriter
	rc    *http.ResponseController
	begun bool
}

func (e *eventStream) event(data []byte) error {
	if !e.begun {
		e.begun = true
		h := e.w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("Cache-Control", "no-store")
		h.Set("X-Accel-Buffering", "no") // a proxy passes events on at once
		e.w.WriteHeader(http.StatusOK)
	}
	return e.write("event: row\ndata: " + string(data) + "\n\n")
}

func (e *eventStream) comment() error { return e.write(": still here\n\n") }

// write sends text at once. A client that does not read for writeTimeout is
// taken for gone.
func (e *eventStream) write(text string) error {
	if err := e.rc.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := e.w.Write([]byte(text)); err != nil {
		return err
	}
	return e.rc.Flush()
}
