package api

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tidemark/aggregator"
)

func newRecorder() *httptest.ResponseRecorder { return httptest.NewRecorder() }

func TestWatch(t *testing.T) {
	members := service(t, salesQuery, 2, 2, Options{})
	key := keyAt(0, 2)
	for _, m := range members { // one has the partition, the other asks
		owner := members[0]
		first := owner.reader.Status()[0].Position
		events, _ := m.events("/v1/aggregates/" + key + "/watch")
		got := next(t, events)
		if single := m.get("/v1/aggregates/" + key + "?partial=ok"); got+"\n" != single.body {
			t.Errorf("got %s, want %s", got, single.body)
		}
		if first == 0 && !strings.Contains(got, `"row":null`) {
			t.Errorf("got %s", got)
		}
		for i := range 3 {
			eventually(t, "somebody waits", func() bool { return owner.reader.watched(0) })
			owner.reader.fold(0, sale(`"other-key"`, "1")) // no event: the row is the same
			eventually(t, "somebody waits again", func() bool { return owner.reader.watched(0) })
			owner.reader.fold(0, sale(`"`+key+`"`, "1"))
			if got, want := next(t, events), fmt.Sprintf(`"sales":%d}`, first/2+int64(i)+1); !strings.Contains(got, want) {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		select {
		case e := <-events:
			t.Errorf("one more event: %s", e)
		default:
		}
	}
}

func TestWatchOverAMove(t *testing.T) {
	m := one(t, salesQuery, 1, Options{})
	m.reader.fold(0, sale("23", "1"))
	events, _ := m.events("/v1/aggregates/23/watch?numbers=string")
	if got := next(t, events); !strings.Contains(got, `"sales":"1"}`) {
		t.Errorf("got %s", got)
	}
	m.reader.drop(0)
	m.reader.own(0, 1)
	m.reader.change(0, func(s *aggregator.PartitionStatus) { s.State, s.Answers = aggregator.CatchingUp, false })
	m.reader.fold(0, sale("23", "1")) // it begins again and must not be seen to go back
	m.reader.fold(0, sale("23", "1"))
	m.reader.change(0, func(s *aggregator.PartitionStatus) { s.State, s.Answers = aggregator.Live, true })
	if got := next(t, events); !strings.Contains(got, `"sales":"2"}`) {
		t.Errorf("got %s", got)
	}
}

func TestWatchBeforeItIsLoaded(t *testing.T) {
	m := one(t, salesQuery, 1, Options{MaxWatches: 1})
	m.reader.change(0, func(s *aggregator.PartitionStatus) { s.State, s.Answers = aggregator.Restoring, false })
	m.get("/v1/aggregates/23/watch").problem(t, 503, typeNotLoaded)
	events, _ := m.events("/v1/aggregates/23/watch?partial=ok")
	if got := next(t, events); !strings.Contains(got, `"row":null`) || !strings.Contains(got, `"complete":false`) {
		t.Errorf("got %s", got)
	}
	m.get("/v1/aggregates/23/watch").problem(t, 503, typeBusy)
	m.reader.change(0, func(s *aggregator.PartitionStatus) { s.State, s.Answers = aggregator.Live, true })
	if got := next(t, events); !strings.Contains(got, `"complete":true`) {
		t.Errorf("got %s", got)
	}
	if got := m.do("HEAD", "/v1/aggregates/23/watch", ""); got.code != 503 { // the one slot is taken
		t.Errorf("got %d", got.code)
	}
}

func TestHeadOfAWatch(t *testing.T) {
	m := one(t, salesQuery, 1, Options{})
	if got := m.do("HEAD", "/v1/aggregates/23/watch", ""); got.code != 200 || got.header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("got %d %v", got.code, got.header)
	}
}

// passed lets time pass on the clock of a bubble.
func passed(t *testing.T, d time.Duration) {
	if err := pause(t.Context(), d); err != nil {
		t.Error(err)
	}
}

// A burst of changes is seen in few events, the last of them whole; silence
// has comments.
func TestWatchCoalescesAndComments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, reader := alone(t)
		w := newRecorder()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/aggregates/23/watch", nil).WithContext(t.Context()))
		}()
		for range 1000 { // for a second
			reader.fold(0, sale("23", "1"))
			passed(t, time.Millisecond)
		}
		passed(t, time.Minute)
		s.Drain()
		<-ended
		s.Close()
		body := w.Body.String()
		if n := strings.Count(body, "event: row"); n < 10 || n > 22 {
			t.Errorf("%d events in a second", n)
		}
		if n := strings.Count(body, "\n: still here\n"); n != 4 {
			t.Errorf("%d comments in 61 s", n)
		}
		last := body[strings.LastIndex(body, "data: "):]
		if !strings.Contains(last, `"sales":1000}`) {
			t.Errorf("the last event is %s", last)
		}
	})
}
