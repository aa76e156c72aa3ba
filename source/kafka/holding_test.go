package kafka

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// slowHandler is told to let go of a partition by its channel.
type slowHandler struct {
	mu    sync.Mutex
	calls []string
	let   map[int32]chan struct{}
}

func (h *slowHandler) note(call string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, call)
}

func (h *slowHandler) Assign(p int32) { h.note("assign " + string('0'+p)) }

func (h *slowHandler) Revoke(ctx context.Context, p int32) {
	h.note("revoke " + string('0'+p))
	select {
	case <-h.let[p]:
		h.note("gone " + string('0'+p))
	case <-ctx.Done():
		h.note("late " + string('0'+p))
	}
}

func (h *slowHandler) want(t *testing.T, calls ...string) {
	t.Helper()
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	slices.Sort(h.calls)
	slices.Sort(calls)
	if !slices.Equal(h.calls, calls) {
		t.Errorf("calls are %v, want %v", h.calls, calls)
	}
	h.calls = nil
}

func holdingOf(ctx context.Context) (*holding, *slowHandler) {
	h := &slowHandler{let: map[int32]chan struct{}{0: make(chan struct{}), 1: make(chan struct{}), 2: make(chan struct{})}}
	x := newHolding(slog.New(slog.DiscardHandler), make(chan struct{}, 1))
	x.begin(ctx, h)
	return x, h
}

func never(int32) bool { return false }

func TestPartitionsAreLetGoOfSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, h := holdingOf(t.Context())
		x.assigned([]int32{0, 1, 2}, false, never)
		h.want(t, "assign 0", "assign 1", "assign 2")
		x.assigned([]int32{2}, false, never)
		h.want(t, "assign 2", "revoke 0", "revoke 1")
		close(h.let[1])
		h.want(t, "gone 1")
		if !slices.Equal(x.owned(), []int32{0, 2}) {
			t.Errorf("owned are %v: 0 is not let go of yet", x.owned())
		}
		// It comes back before it is gone: the handler gets it after that.
		x.assigned([]int32{0, 2}, false, never)
		h.want(t, "assign 2")
		close(h.let[0])
		h.want(t, "gone 0", "assign 0")
		close(h.let[2])
		x.end()
		h.want(t, "revoke 0", "gone 0", "revoke 2", "gone 2")
		x.assigned([]int32{0}, false, never)
		h.want(t)
	})
}

// What others may have had in between is let go of, and taken anew.
func TestALapseTakesAllAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, h := holdingOf(t.Context())
		x.assigned([]int32{0, 1}, false, never)
		x.assigned([]int32{0, 2}, true, never)
		h.want(t, "assign 0", "assign 1", "assign 2", "revoke 0", "revoke 1")
		close(h.let[1])
		close(h.let[0])
		h.want(t, "gone 1", "gone 0", "assign 0")
		close(h.let[2])
		x.end()
	})
}

// What may be another's is not this member's, though it is not let go of yet.
func TestALostPartitionIsNotOwned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, h := holdingOf(t.Context())
		x.assigned([]int32{0, 1}, false, never)
		x.assigned(nil, false, func(p int32) bool { return p == 1 })
		h.want(t, "assign 0", "assign 1", "revoke 0", "revoke 1")
		if x.has(1) || !x.has(0) || !slices.Equal(x.owned(), []int32{0}) {
			t.Errorf("owned are %v, want 0", x.owned())
		}
		close(h.let[0])
		close(h.let[1])
		x.end()
	})
}

// The end of Run leaves less time than a rebalance.
func TestTheEndShortensWhatRevokeMayTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		x, h := holdingOf(ctx)
		x.assigned([]int32{0}, false, never)
		cancel()
		x.end() // waits for shutdownTimeout, by the test's clock
		h.want(t, "assign 0", "revoke 0", "late 0")
	})
}

// A member without a session tells a leader of another program nothing: it has
// nothing then.
func TestWhatALeaderMayNotReadIsLetGoOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what    string
		address string // of the other member
		fresh   bool
		eager   bool
		want    []int32
	}{
		{"all are this program", "http://b", true, false, []int32{0}},
		{"another program may lead, in a session", "", false, false, []int32{0}},
		{"another program may lead", "", true, false, nil},
		{"an eager group", "http://b", true, true, nil},
	} {
		g := NewGroup(&Client{cfg: Config{Topic: topic, Address: "http://a"}}, nil)
		g.held.begin(t.Context(), handlerOf(func(int32) {}))
		g.held.assigned([]int32{0}, false, never)
		g.state.members, g.state.whole = []Member{{ID: "a", Address: "http://a"}, {ID: "b", Address: c.address}}, true
		g.fresh.Store(c.fresh)
		if sub := g.joins(c.eager); !slices.Equal(sub.Owned, c.want) {
			t.Errorf("%s: it tells that it has %v, want %v", c.what, sub.Owned, c.want)
		}
	}
}

// A silence longer than the session, by the member's own clock, is a lapse: an
// answer in the old generation is none, and it is told once.
func TestALapseIsTold(t *testing.T) {
	const session = 6 * time.Second
	began := time.Unix(1_000_000, 0)
	for _, c := range []struct {
		silence  time.Duration
		answered bool // in the old generation, before the next
		want     bool
	}{{session / 2, false, false}, {2 * session, false, true}, {2 * session, true, false}} {
		s := newState()
		s.assigned(began, session, 1, "me", []int32{0}, nil)
		s.answered(began)
		if s.lapse() {
			t.Error("the first assignment follows a lapse")
		}
		now := began.Add(c.silence)
		if c.answered {
			s.answered(now.Add(-time.Second))
		}
		s.joins(now, nil)
		s.assigned(now, session, 2, "me", []int32{0}, nil)
		if got := s.lapse(); got != c.want || s.lapse() {
			t.Errorf("%+v: told %v", c, got)
		}
	}
}
