//go:build integration

package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// asker asks members all the time, and looks whether answers go back, lack
// what is there, or differ from the truth at their positions.
type asker struct {
	t      *testing.T
	truth  *truth
	ledger *ledger
	users  int
	client *http.Client
	urls   []string // of the members, up or not

	mu          sync.Mutex
	floor       map[int]int64 // sales that a whole answer has shown, by user
	answers     map[string]int
	differences int
	samples     []sample // whole answers that are yet to be compared
	compared    int
	slowest     time.Duration // of whole answers
}

// sample is a whole answer; 404 is one without sales.
type sample struct {
	user      int
	row       row
	positions map[int32]int64
	asked     string
}

// differs notes a difference.
func (a *asker) differs(format string, args ...any) {
	a.t.Helper()
	a.mu.Lock()
	a.differences++
	n := a.differences
	a.mu.Unlock()
	if n <= 20 {
		a.t.Errorf("%s: "+format, append([]any{time.Now().UTC().Format("15:04:05.000")}, args...)...)
	}
}

// floorOf is what an answer that is asked for from now on must at least show.
func (a *asker) floorOf(user int) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n, ok := a.floor[user]; ok {
		return n
	}
	return -1 // not known to exist
}

func (a *asker) floors() map[int]int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := make(map[int]int64, len(a.floor))
	for user, n := range a.floor {
		all[user] = n
	}
	return all
}

// run asks until ctx ends.
func (a *asker) run(ctx context.Context, rnd *rand.Rand) {
	for ctx.Err() == nil {
		base := a.urls[rnd.IntN(len(a.urls))]
		switch n := rnd.IntN(20); {
		case n < 10:
			a.one(ctx, base, rnd.IntN(a.users), "", -1, 0)
		case n < 14:
			a.probe(ctx, base, rnd)
		case n < 16:
			a.batch(ctx, base, rnd)
		case n < 18:
			a.listing(ctx, base)
		default:
			a.top(ctx, base)
		}
		timer := time.NewTimer(time.Duration(5+rnd.IntN(30)) * time.Millisecond)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// send asks and counts the answer by its kind; a 404 is answered with true.
func (a *asker) send(ctx context.Context, kind, method, address, body string) (answer []byte, absent, ok bool) {
	req, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(body))
	if err != nil {
		a.t.Error(err)
		return nil, false, false
	}
	began := time.Now()
	resp, err := a.client.Do(req)
	outcome := "no answer"
	if err == nil {
		answer, err = io.ReadAll(resp.Body)
		resp.Body.Close()
	}
	if err == nil {
		var problem struct{ Type string }
		if resp.StatusCode != http.StatusOK {
			if err := json.Unmarshal(answer, &problem); err != nil {
				a.differs("%s %s: %d %s is no problem document", method, address, resp.StatusCode, answer)
			}
		}
		outcome = strings.TrimSpace(fmt.Sprint(resp.StatusCode, " ", problem.Type))
		absent, ok = resp.StatusCode == http.StatusNotFound, resp.StatusCode == http.StatusOK
		switch resp.StatusCode {
		case http.StatusOK, http.StatusNotFound, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		default:
			a.differs("%s %s: %d %s", method, address, resp.StatusCode, answer)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answers[kind+" "+outcome]++
	if ok {
		a.slowest = max(a.slowest, time.Since(began))
	}
	return answer, absent, ok
}

// one asks for a row; partition, where not negative, must be answered up to
// before offset.
func (a *asker) one(ctx context.Context, base string, user int, query string, partition int32, offset int64) {
	floor := a.floorOf(user)
	address := base + "/v1/aggregates/" + strconv.Itoa(user) + query
	answer, absent, ok := a.send(ctx, "row", http.MethodGet, address, "")
	if absent && (floor >= 0 || partition >= 0) {
		a.differs("%s: %s, though it is there with %d sales", address, answer, floor)
	}
	if !ok {
		return
	}
	var r row
	if err := decode(answer, &r); err != nil {
		a.differs("%s: %v in %s", address, err, answer)
		return
	}
	a.row(address, r, floor)
	if at := r.Positions[strconv.Itoa(int(partition))]; partition >= 0 && at < offset {
		a.differs("%s is answered at %d: %s", address, at, answer)
	}
}

// probe reads what was just written.
func (a *asker) probe(ctx context.Context, base string, rnd *rand.Rand) {
	if w, ok := a.ledger.recent(rnd.IntN); ok {
		a.one(ctx, base, w.user, fmt.Sprintf("?min_offset=%d:%d&timeout=3s", w.partition, w.offset+1), w.partition, w.offset+1)
	}
}

func (a *asker) batch(ctx context.Context, base string, rnd *rand.Rand) {
	users, keys := make([]int, 12), make([]string, 12)
	for i := range users {
		users[i] = rnd.IntN(a.users)
		keys[i] = strconv.Itoa(users[i])
	}
	floors := a.floors()
	answer, _, ok := a.send(ctx, "batch", http.MethodPost, base+"/v1/aggregates:batchGet", `{"keys":`+text(keys)+`}`)
	if !ok {
		return
	}
	var page struct{ Rows []*row }
	if err := decode(answer, &page); err != nil || len(page.Rows) != len(users) {
		a.differs("batch of %v: %v in %s", keys, err, answer)
		return
	}
	for i, r := range page.Rows {
		floor, known := floors[users[i]]
		switch {
		case r != nil:
			a.row("batch", *r, floor)
		case known:
			a.differs("batch: no row of %d, though it is there with %d sales", users[i], floor)
		}
	}
}

func (a *asker) listing(ctx context.Context, base string) {
	floors := a.floors()
	answer, _, ok := a.send(ctx, "listing", http.MethodGet, base+"/v1/aggregates?limit=1000", "")
	if !ok {
		return
	}
	var page struct {
		Rows []row
		Next string `json:"next_cursor"`
	}
	if err := decode(answer, &page); err != nil || page.Next != "" {
		a.differs("listing: %v in %s", err, answer[:min(len(answer), 300)])
		return
	}
	for _, r := range page.Rows {
		user, _ := strconv.Atoi(fmt.Sprint(r.Key))
		floor, known := floors[user]
		if !known {
			floor = -1
		}
		a.row("listing", r, floor)
		delete(floors, user)
	}
	if len(floors) > 0 {
		a.differs("listing by %s lacks %v", base, floors)
	}
}

// top asks for the first rows by sales. They are in order, and each is at
// least what as many others were at before: sales only grow.
func (a *asker) top(ctx context.Context, base string) {
	floors := a.floors()
	answer, _, ok := a.send(ctx, "top", http.MethodGet, base+"/v1/aggregates?order="+url.QueryEscape("-sales")+"&limit=10", "")
	if !ok {
		return
	}
	var page struct{ Rows []row }
	if err := decode(answer, &page); err != nil {
		a.differs("top: %v in %s", err, answer)
		return
	}
	var before []int64
	for _, n := range floors {
		before = append(before, n)
	}
	slices.Sort(before)
	slices.Reverse(before)
	last := int64(1) << 60
	for i, r := range page.Rows {
		user, _ := strconv.Atoi(fmt.Sprint(r.Key))
		sales := a.row("top", r, floors[user])
		if sales > last {
			a.differs("top by %s is not in order: %s", base, answer)
		}
		if last = sales; i < len(before) && sales < before[i] {
			a.differs("top by %s: row %d has %d sales, and so many had %d: %s", base, i, sales, before[i], answer)
		}
	}
	if len(page.Rows) < min(10, len(before)) {
		a.differs("top by %s has %d rows", base, len(page.Rows))
	}
}

// row looks at one whole answer, and returns its sales.
func (a *asker) row(asked string, r row, floor int64) (sales int64) {
	user, err := strconv.Atoi(fmt.Sprint(r.Key))
	if err == nil {
		sales, err = strconv.ParseInt(text(r.Row["sales"]), 10, 64)
	}
	if err != nil || !r.Complete {
		a.differs("%s: the row is %+v: %v", asked, r, err)
		return sales
	}
	if sales < floor {
		a.differs("%s goes back: user %d has %d sales, and had %d before: %+v", asked, user, sales, floor, r)
	}
	positions := make(map[int32]int64, len(r.Positions))
	for p, at := range r.Positions {
		n, err := strconv.Atoi(p)
		if err != nil {
			a.differs("%s: the positions are %v", asked, r.Positions)
		}
		positions[int32(n)] = at
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.floor[user] = max(a.floor[user], sales)
	a.samples = append(a.samples, sample{user, r, positions, asked})
	return sales
}

// compare looks at the answers up to whose positions the truth has come; what
// cannot be told yet stays. It returns how many do.
func (a *asker) compare() int {
	a.mu.Lock()
	samples := a.samples
	a.samples = nil
	a.mu.Unlock()
	var later []sample
	done := 0
	for _, s := range samples {
		if !a.truth.reached(s.positions) {
			later = append(later, s)
			continue
		}
		done++
		sales, revenue, points := a.truth.at(s.user, s.row.Positions)
		if text(s.row.Row["sales"]) != strconv.FormatInt(sales, 10) || text(s.row.Row["totalPoints"]) != strconv.FormatInt(points, 10) ||
			text(s.row.Row["totalRevenue"]) != revenue {
			a.differs("%s: user %d is %s at %v, want %d sales, revenue %s, %d points", s.asked, s.user, text(s.row.Row), s.row.Positions, sales, revenue, points)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.compared += done
	a.samples = append(later, a.samples...)
	return len(a.samples)
}

// report lists the answers by kind.
func (a *asker) report() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var kinds []string
	for kind := range a.answers {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	var out bytes.Buffer
	for _, kind := range kinds {
		fmt.Fprintf(&out, "\n  %-28s %d", kind, a.answers[kind])
	}
	fmt.Fprintf(&out, "\n  compared with the truth      %d, slowest answer %s", a.compared, a.slowest.Round(time.Millisecond))
	return out.String()
}
