package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tidemark/internal/testkit"
	"tidemark/internal/testkit/search"
)

// TestQ01O01B12HistoryThatTakesItsTime: while the history's server lets wait,
// the service is alive and not ready, a key that is in the history is never
// "not found", nor is one that is not; then 200 and 404.
func TestQ01O01B12HistoryThatTakesItsTime(t *testing.T) {
	t.Parallel()
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: "sales", Partitions: 2})
	elastic := search.New(t, search.Elasticsearch)
	var documents []string
	for i := range 500 {
		documents = append(documents, fmt.Sprintf(`{"userId":"U-%d","revenue":1,"sales":1}`, i))
	}
	elastic.Add("sales", 1, documents...)
	release, pages := make(chan struct{}), 0
	elastic.Script(func(r search.Request) *search.Fault {
		if r.Kind == search.Page {
			if pages++; pages > 2 { // in the middle
				return &search.Fault{Wait: release}
			}
		}
		return nil
	})
	h := newHome(t, b, countQuery)
	h.rest = fmt.Sprintf("history: {elasticsearch: {addresses: [%q], index: sales, slices: 1, page_size: 100}, cut: {mode: latest}}\n", elastic.URL)
	h.write()
	s := h.serve()
	s.until("in the middle of the history", func() bool {
		return len(s.series("tidemark_bootstrap_documents_total", "")) > 0 && s.part(0).State == "bootstrapping"
	})
	for range 20 {
		for _, path := range []string{"/v1/aggregates/U-1", "/v1/aggregates/U-none", "/v1/aggregates"} {
			code, body, header := s.ask(path)
			if code != 503 || header.Get("Retry-After") == "" || !strings.Contains(body, "not_loaded") || !strings.Contains(body, "bootstrapping") {
				t.Fatalf("%s: %d %v %s", path, code, header, body)
			}
		}
		if code, body, _ := s.ask("/readyz"); code != 503 || !strings.Contains(body, "reasons") {
			t.Fatalf("/readyz: %d %s", code, body)
		}
		if code, _, _ := s.ask("/healthz"); code != 200 {
			t.Fatalf("/healthz: %d", code)
		}
	}
	close(release)
	s.caughtUp()
	s.expect("U-1", ones(1))
	if have := s.row("U-none"); !strings.HasPrefix(have, "404 ") {
		t.Errorf("a key that is nowhere: %s", have)
	}
	if code, _, _ := s.ask("/readyz"); code != 200 {
		t.Errorf("/readyz: %d", code)
	}
}

// TestQ03Q04O10ThreeMembers: members that listen at a wildcard find each other,
// 90 answers for 30 users are equal, and the series of a partition that left a
// member end there.
func TestQ03Q04O10ThreeMembers(t *testing.T) {
	t.Parallel()
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: "sales", Partitions: 6})
	for i := range 300 {
		b.Produce("sales", int32(i%6), testkit.Text("", fmt.Sprintf(`{"userId":"U-%d","revenue":0.10}`, i%30)))
	}
	h := newHome(t, b, countQuery)
	wildcard := func(h *home) {
		h.url = strings.Replace(h.url, "127.0.0.1", "0.0.0.0", 1)
		h.write()
		h.url = strings.Replace(h.url, "0.0.0.0", "127.0.0.1", 1)
	}
	h.rest = "snapshots: {url: 'file://" + t.TempDir() + "'}\n"
	wildcard(h)
	first := h.serve()
	first.caughtUp()
	if lines := first.series("tidemark_lag_records"); len(lines) != 6 {
		t.Errorf("the only member has %v", lines)
	}
	members := []*running{first}
	for range 2 {
		other := h.beside()
		wildcard(other)
		members = append(members, other.serve())
	}
	owned := map[int32]int{}
	for _, m := range members {
		m.until("two partitions, live", func() bool {
			s := m.status()
			return len(s.Partitions) == 2 && len(s.Members) == 3 && !slices.ContainsFunc(s.Partitions, func(p part) bool { return p.State != "live" || p.Lag != 0 })
		})
	}
	for _, m := range members {
		s := m.status()
		for _, p := range s.Partitions {
			owned[p.Partition]++
		}
		for _, other := range s.Members {
			if !strings.HasPrefix(other.Address, "http://127.0.0.1:") {
				t.Errorf("a member is told as %s", other.Address)
			}
		}
		for _, name := range []string{"tidemark_lag_records", "tidemark_position", "tidemark_keys", "tidemark_state_bytes", "tidemark_snapshot_age_seconds"} {
			lines := m.series(name)
			for _, line := range lines {
				if !slices.ContainsFunc(s.Partitions, func(p part) bool { return strings.Contains(line, fmt.Sprintf(`partition="%d"`, p.Partition)) }) {
					t.Errorf("%s has %v of others", name, line)
				}
			}
			if len(lines) != 2 && !strings.Contains(name, "snapshot") { // of which there may be none yet
				t.Errorf("of two partitions: %v", lines)
			}
		}
		if lines := m.series("tidemark_assigned_partitions"); len(lines) != 1 || !strings.HasSuffix(lines[0], " 2") {
			t.Errorf("assigned: %v", lines)
		}
	}
	if len(owned) != 6 {
		t.Errorf("the partitions are owned %v", owned)
	}
	for i := range 30 {
		for _, m := range members {
			m.expect(fmt.Sprintf("U-%d", i), fmt.Sprintf(`{"userId":"U-%d","revenue":1,"sales":10}`, i))
		}
	}
}

// TestQ04AdvertiseIsRefused: an address that others cannot reach ends serve
// before the group is joined.
func TestQ04AdvertiseIsRefused(t *testing.T) {
	t.Parallel()
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: "sales"})
	h := newHome(t, b, countQuery)
	for _, address := range []string{"http://0.0.0.0:8080", "http://[::]:8080"} {
		h.http = ", advertise: '" + address + "'"
		h.write()
		if said := h.serve().ends(exitUsage); !strings.Contains(said, "is not an address at which others could reach this member") || strings.Contains(said, `"assigned"`) {
			t.Errorf("%s: %s", address, said)
		}
	}
}

// TestQ05ReadYourOwnWrite: a GET with the offset of one's own record waits for
// it; one for an offset that does not come is 504 with what was reached.
func TestQ05ReadYourOwnWrite(t *testing.T) {
	t.Parallel()
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: "sales", Partitions: 2})
	b.Produce("sales", 1, repeated(77, `{"userId":"other","revenue":1}`)...)
	s := newHome(t, b, countQuery).serve()
	s.caughtUp()
	for n := range 20 {
		at := b.Produce("sales", 1, repeated(1, one)...)
		if have := s.row(fmt.Sprintf("U-1?min_offset=1:%d&timeout=10s", at+1)); have != ones(n+1) {
			t.Fatalf("after record %d: %s", at, have)
		}
	}
	code, body, _ := s.ask("/v1/aggregates/U-1?min_offset=1:98&timeout=100ms")
	if code != 504 || !strings.Contains(body, `"1":97`) {
		t.Errorf("an offset that is not there: %d %s", code, body)
	}
}

// TestQ06Q08PagesWhileItFolds: ten clients page through all keys while events
// come; each old key is in each listing once, in order, and the events are all
// folded meanwhile.
func TestQ06Q08PagesWhileItFolds(t *testing.T) {
	t.Parallel()
	const users, listings, rounds = 5000, 10, 20
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: "sales", Partitions: 2})
	for p := range int32(2) {
		var all []testkit.Message
		for i := range users / 2 {
			all = append(all, testkit.Text("", fmt.Sprintf(`{"userId":"u%05d","revenue":1}`, 2*i+int(p))))
		}
		b.Produce("sales", p, all...)
	}
	s := newHome(t, b, countQuery).serve()
	s.caughtUp()
	for _, limit := range []string{"0", "-1", "1000000", "1001", "x"} {
		if code, body, _ := s.ask("/v1/aggregates?limit=" + limit); code != 400 {
			t.Errorf("limit %s: %d %s", limit, code, body)
		}
	}
	done := make(chan struct{})
	var clients sync.WaitGroup
	walked := make([]int, listings)
	for n := range listings {
		clients.Go(func() {
			for {
				old, last, cursor := 0, "", ""
				for {
					code, body, _ := s.ask("/v1/aggregates?limit=100&prefix=u" + cursor)
					if code == 503 && strings.Contains(body, `"busy"`) {
						select {
						case <-done:
							return
						case <-time.After(5 * time.Millisecond):
							continue
						}
					}
					var page struct {
						Rows []struct{ Key string }
						Next string `json:"next_cursor"`
					}
					if err := json.Unmarshal([]byte(body), &page); code != 200 || err != nil {
						t.Errorf("a page: %d %s", code, body)
						return
					}
					for _, row := range page.Rows {
						if row.Key <= last {
							t.Errorf("%s comes after %s", row.Key, last)
						}
						last = row.Key
						if len(row.Key) == len("u00000") {
							old++
						}
					}
					if page.Next == "" {
						break
					}
					cursor = "&cursor=" + page.Next
				}
				if old != users {
					t.Errorf("a listing has %d of %d keys", old, users)
				}
				walked[n]++
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	// New keys come between the old ones, and old ones change.
	for round := range rounds {
		var all []testkit.Message
		for i := range 250 {
			all = append(all, testkit.Text("", fmt.Sprintf(`{"userId":"u%05d-%d","revenue":1}`, i*19, round)), testkit.Text("", one))
		}
		b.Produce("sales", int32(round%2), all...)
	}
	s.caughtUp() // while they walk
	close(done)
	clients.Wait()
	s.expect("U-1", ones(rounds*250))
	total := 0
	for _, n := range walked {
		total += n
	}
	if total == 0 {
		t.Error("no listing came to its end")
	}
}

// TestQ09OriginsAndTokens: a page's preflight wants no token, its request does;
// other origins get no word of it, and health is open.
func TestQ09OriginsAndTokens(t *testing.T) {
	t.Parallel()
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: "sales"})
	b.Produce("sales", 0, repeated(1, one)...)
	h := newHome(t, b, countQuery)
	h.http = ", tokens: [secret-1], cors_origins: ['https://dash.example']"
	h.write()
	s := h.serve()
	request := func(method, path, origin, token string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), method, s.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if req.Header.Set("Origin", origin); method == "OPTIONS" {
			req.Header.Set("Access-Control-Request-Method", "GET")
			req.Header.Set("Access-Control-Request-Headers", "authorization")
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp
	}
	s.until("ready", func() bool { code, _, _ := s.ask("/readyz"); return code == 200 })
	for _, c := range []struct {
		method, path, origin, token string
		code                        int
		allowed                     string
	}{
		{"OPTIONS", "/v1/aggregates/U-1", "https://dash.example", "", 204, "https://dash.example"},
		{"GET", "/v1/aggregates/U-1", "https://dash.example", "secret-1", 200, "https://dash.example"},
		{"GET", "/v1/aggregates/U-1", "https://dash.example", "", 401, "https://dash.example"},
		{"GET", "/v1/aggregates/U-1", "https://dash.example", "secret-2", 401, "https://dash.example"},
		{"OPTIONS", "/v1/aggregates/U-1", "https://evil.example", "", 401, ""},
		{"GET", "/v1/aggregates/U-1", "https://evil.example", "secret-1", 200, ""},
		{"GET", "/v1/aggregates/U-1", "https://dash.example.evil", "secret-1", 200, ""},
		{"GET", "/healthz", "https://evil.example", "", 200, ""},
	} {
		resp := request(c.method, c.path, c.origin, c.token)
		if have := resp.Header.Get("Access-Control-Allow-Origin"); resp.StatusCode != c.code || have != c.allowed {
			t.Errorf("%s %s from %s with %q: %d, allowed %q; want %d, %q", c.method, c.path, c.origin, c.token, resp.StatusCode, have, c.code, c.allowed)
		}
	}
}

// TestQ11S06O03RequestsWhileItEnds: ten clients ask all the while, some listen
// slowly, and watches are open. Every answer is whole, 200 or 503, until nobody
// listens; the end is clean and in time.
func TestQ11S06O03RequestsWhileItEnds(t *testing.T) {
	t.Parallel()
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: "sales"})
	var all []testkit.Message
	for i := range 3000 {
		all = append(all, testkit.Text("", fmt.Sprintf(`{"userId":"U-%d","revenue":1}`, i)))
	}
	b.Produce("sales", 0, all...)
	s := newHome(t, b, countQuery).serve()
	s.caughtUp()
	address := strings.TrimPrefix(s.url, "http://")
	for i := range 6 { // they ask, and read a byte
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		path := "/v1/aggregates?limit=1000"
		if i%2 == 0 {
			path = "/v1/aggregates/U-1/watch"
		}
		if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path); err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReaderSize(conn, 16).ReadByte(); err != nil {
			t.Fatal(err)
		}
	}
	var clients sync.WaitGroup
	var mu sync.Mutex
	codes, ended := map[int]int{}, make(chan struct{})
	for n := range 10 {
		clients.Go(func() {
			for i := 0; ; i++ {
				path := fmt.Sprintf("/v1/aggregates/U-%d", (i*10+n)%3000)
				if i%10 == 0 {
					path = "/v1/aggregates?limit=1000"
				}
				code, body, _ := s.ask(path)
				if code == 200 && !json.Valid([]byte(body)) || code != 200 && code != 503 && code != 0 {
					t.Errorf("%s: %d %s", path, code, body)
				}
				mu.Lock()
				codes[code]++
				mu.Unlock()
				select {
				case <-ended:
					return
				case <-time.After(20 * time.Millisecond):
				}
			}
		})
	}
	s.until("answers", func() bool { mu.Lock(); defer mu.Unlock(); return codes[200] > 50 })
	log := s.stop()
	close(ended)
	clients.Wait()
	if strings.Contains(log, "panic") {
		t.Errorf("it panicked: %s", log)
	}
	if codes[200] == 0 {
		t.Errorf("the answers were %v", codes)
	}
}

// TestO03EndsUnderLoad: twenty ends in the middle of the stream, each clean and
// in time, and each restart goes on where it was.
func TestO03EndsUnderLoad(t *testing.T) {
	t.Parallel()
	const rounds, batches, batch = 20, 10, 50
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: "sales", Partitions: 2})
	h := newHome(t, b, countQuery)
	h.state = ", apply_records: 40"
	h.write()
	for range rounds {
		s := h.serve()
		fed := make(chan struct{})
		go func() {
			defer close(fed)
			for i := range batches {
				b.Produce("sales", int32(i%2), repeated(batch, one)...)
			}
		}()
		s.until("it folds", func() bool { p := s.part(0); return p.State == "live" || p.State == "catching_up" && p.Position > 0 })
		s.stop()
		<-fed
		if at, folded := committed(t, b), int64(rounds*batches*batch); at < 0 || at > folded {
			t.Errorf("the group shows %d", at)
		}
	}
	s := h.serve()
	s.caughtUp()
	s.expect("U-1", ones(rounds*batches*batch))
	for p := range int32(2) {
		if c := s.part(p).Counts; c["folded"] != rounds*batches*batch/2 {
			t.Errorf("partition %d counts %v", p, c)
		}
	}
}

// TestO07TenThousandBadRecords: about twenty lines, and the number in full.
func TestO07TenThousandBadRecords(t *testing.T) {
	t.Parallel()
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: "sales"})
	b.Produce("sales", 0, repeated(10_000, `{"userId":"U-1","revenue":"x"}`)...)
	b.Produce("sales", 0, repeated(1, one)...)
	s := newHome(t, b, countQuery).serve()
	s.caughtUp()
	s.expect("U-1", ones(1))
	if lines := s.series("tidemark_bad_events_total", `reason="bad_number"`); len(lines) != 1 || !strings.HasSuffix(lines[0], " 10000") && !strings.HasSuffix(lines[0], " 1e+04") {
		t.Errorf("the metric says %v", lines)
	}
	if code, body, _ := s.ask("/readyz"); code != 200 || !strings.Contains(body, "degraded") {
		t.Errorf("/readyz: %d %s", code, body)
	}
	log := s.stop()
	if n := lineCount(log, `"msg":"bad record"`); n < 15 || n > 40 { // a minute may end in between
		t.Errorf("%d lines of 10,000 bad records", n)
	}
	if len(log) > 40_000 {
		t.Errorf("the log has %d bytes", len(log))
	}
}

// TestS05S07ListingsThatHangUp: a thousand clients ask for everything and go
// away, while the state is written; what they had open is let go of. What the
// states hold of disk and memory is shown.
func TestS05S07ListingsThatHangUp(t *testing.T) {
	t.Parallel()
	const users, clients = 2000, 1000
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: "sales"})
	feed := func() {
		var all []testkit.Message
		for i := range users {
			all = append(all, testkit.Text("", fmt.Sprintf(`{"userId":"U-%d","revenue":1}`, i)))
		}
		b.Produce("sales", 0, all...)
	}
	feed()
	s := newHome(t, b, countQuery).serve()
	s.caughtUp()
	address := strings.TrimPrefix(s.url, "http://")
	for i := range clients {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintf(conn, "GET /v1/aggregates?limit=1000 HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if i%50 == 0 { // the answer is under way
			if _, err := io.ReadFull(conn, make([]byte, 100)); err != nil {
				t.Fatal(err)
			}
		}
		conn.Close()
		if i%200 == 0 {
			feed()
		}
	}
	s.caughtUp()
	s.expect("U-1", ones(1+clients/200))
	for name, want := range map[string]string{"tidemark_state_memory_limit_bytes": "5.36870912e+08", "tidemark_state_memory_bytes": ""} {
		if lines := s.series(name); len(lines) != 1 || strings.HasSuffix(lines[0], " 0") || !strings.HasSuffix(lines[0], want) {
			t.Errorf("%s: %v", name, lines)
		}
	}
	s.until("nothing is held", func() bool {
		lines := s.series("tidemark_state_obsolete_bytes")
		return len(lines) == 1 && strings.HasSuffix(lines[0], " 0")
	})
}
