package api

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tidemark/aggregator"
)

// walkPages reads a listing to its end.
func walkPages(t *testing.T, m *member, query string, each func(page int, p *pageSeen)) (rows []*rowSeen) {
	t.Helper()
	cursor := ""
	for n := 0; ; n++ {
		p := m.get("/v1/aggregates?" + query + cursor).page(t)
		rows = append(rows, p.Rows...)
		if each != nil {
			each(n, &p)
		}
		if p.NextCursor == nil {
			return rows
		}
		if len(p.Rows) == 0 {
			t.Fatal("a page without rows has a cursor")
		}
		cursor = "&cursor=" + *p.NextCursor
	}
}

func TestQ06PagesHaveEachKeyOnce(t *testing.T) {
	for _, members := range []int{1, 3} {
		all := service(t, salesQuery, 6, members, Options{})
		add := func(key string) {
			p := placedAt(key, 6)
			of(all, p).reader.fold(p, sale(`"`+key+`"`, "1"))
		}
		var want []string
		for i := range 250 {
			key := fmt.Sprintf("u%03d", i)
			want = append(want, key)
			add(key)
		}
		for _, m := range all {
			var sizes []int
			rows := walkPages(t, m, "limit=100", func(n int, p *pageSeen) {
				sizes = append(sizes, len(p.Rows))
				add(fmt.Sprintf("%d-new", n)) // before all
				add(fmt.Sprintf("u%03d-new-%d", 100*(n+1), n))
				if !p.Complete {
					t.Error("the page is not complete")
				}
			})
			p := pageSeen{Rows: rows}
			keys := p.keys()
			if !slices.IsSorted(keys) || len(slices.Compact(slices.Clone(keys))) != len(keys) {
				t.Errorf("keys are not in order, each once: %v", keys)
			}
			var old []string
			for _, k := range keys {
				if !strings.Contains(k, "new") {
					old = append(old, k)
				}
			}
			if !slices.Equal(old, want) || sizes[0] != 100 {
				t.Errorf("got %d of %d old keys, in pages of %v", len(old), len(want), sizes)
			}
		}
	}
}

func TestPrefix(t *testing.T) {
	all := service(t, salesQuery, 3, 2, Options{})
	for _, key := range []string{"a", "ab", "ab1", "abé", "ac", "b", "ab&="} {
		p := placedAt(key, 3)
		of(all, p).reader.fold(p, sale(`"`+key+`"`, "1"))
	}
	for query, want := range map[string]string{
		"prefix=ab":       "ab ab&= ab1 abé",
		"prefix=ab%26":    "ab&=",
		"prefix=ab%C3":    "", // not UTF-8
		"prefix=ab%C3%A9": "abé",
		"prefix=x":        "",
		"prefix=":         "a ab ab&= ab1 abé ac b",
	} {
		if query == "prefix=ab%C3" {
			all[0].get("/v1/aggregates?"+query).problem(t, 400, typeBadRequest)
			continue
		}
		for _, m := range all {
			p := pageSeen{Rows: walkPages(t, m, query+"&limit=2", nil)}
			if got := strings.Join(p.keys(), " "); got != want {
				t.Errorf("%s: got %s, want %s", query, got, want)
			}
		}
	}
}

// One look-up, the listing, a batch and the straight fold agree, wherever the
// keys lie, on every member, at every page size.
func TestListingAgreesWithLookUps(t *testing.T) {
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 1))
		partitions := 1 + rng.Int32N(5)
		members := 1 + rng.IntN(3)
		scattered := seed%2 == 0
		all := service(t, salesQuery, partitions, members, Options{})
		straight := one(t, salesQuery, 1, Options{})
		for range 400 {
			key := strconv.Itoa(rng.IntN(80))
			p := placedAt(key, partitions)
			if scattered {
				p = rng.Int32N(partitions)
			}
			event := fmt.Sprintf(`{"userId":%s,"saleTimestamp":%d,"totalRevenue":%d.%02d,"totalPoints":%d,"productList":[%d]}`,
				key, 1_438_161_432+rng.IntN(1000), rng.IntN(100)-50, rng.IntN(100), rng.IntN(1000), rng.IntN(3))
			of(all, p).reader.fold(p, event)
			straight.reader.fold(0, event)
		}
		want := walkPages(t, straight, "limit=1000", nil)
		for _, m := range all {
			rows := walkPages(t, m, fmt.Sprintf("limit=%d", 1+rng.IntN(90)), nil)
			if len(rows) != len(want) {
				t.Fatalf("seed %d: got %d rows, want %d", seed, len(rows), len(want))
			}
			for i, row := range rows {
				if string(row.Key) != string(want[i].Key) || string(row.Row) != string(want[i].Row) {
					t.Errorf("seed %d: got %s %s\nwant %s", seed, row.Key, row.Row, want[i].Row)
				}
				var key string
				if err := json.Unmarshal(row.Key, &key); err != nil {
					t.Fatal(err)
				}
				var single rowSeen
				if err := json.Unmarshal([]byte(m.get("/v1/aggregates/"+key).body), &single); err != nil {
					t.Fatal(err)
				}
				if fmt.Sprint(single) != fmt.Sprint(*row) {
					t.Errorf("seed %d: the look-up gives %s, the listing %s", seed, show(&single), show(row))
				}
			}
			for _, column := range []string{"totalRevenue", "userId", "latestSaleTimestamp", "productList", "sales"} {
				for _, sign := range []string{"", "-"} {
					query := fmt.Sprintf("/v1/aggregates?order=%s%s&limit=%d", sign, column, 1+rng.IntN(100))
					got, straightly := m.get(query).page(t), straight.get(query).page(t)
					if !slices.Equal(got.keys(), straightly.keys()) {
						t.Errorf("seed %d: %s: got %v, want %v", seed, query, got.keys(), straightly.keys())
					}
					for i := range got.Rows {
						if string(got.Rows[i].Row) != string(straightly.Rows[i].Row) {
							t.Errorf("seed %d: %s: got %s, want %s", seed, query, got.Rows[i].Row, straightly.Rows[i].Row)
						}
					}
				}
			}
		}
	}
}

func show(r *rowSeen) string {
	return fmt.Sprintf("%s %s %v %v", r.Key, r.Row, r.Positions, r.Complete)
}

func TestOrder(t *testing.T) {
	m := one(t, `SELECT id, sum(a) AS a, max(t) AS t, min(CAST(ts AS timestamp)) AS ts, first(b) AS b, count(*) AS "-n" FROM s GROUP BY id`, 3, Options{})
	for _, e := range []string{
		`{"id":"k1","a":10,"t":"x","ts":"2020-01-02","b":true}`,
		`{"id":"k2","a":9.5,"t":"y","ts":"2020-01-01T00:00:00Z"}`,
		`{"id":"k3","a":-1,"t":7,"ts":"2020-01-01T00:00:00.5Z","b":false}`,
		`{"id":"k4","a":10,"t":"x","ts":"2020-01-01T00:00:00Z","b":"false"}`,
		`{"id":"k5","a":100,"t":false,"ts":"2021-01-01T00:00:00Z","b":-3}`,
		`{"id":"k4","a":0,"t":"x","ts":"2020-01-01T00:00:00Z"}`,
	} {
		var at struct{ ID string }
		if err := json.Unmarshal([]byte(e), &at); err != nil {
			t.Fatal(err)
		}
		e = strings.Replace(e, `"2020-01-02"`, `"2020-01-02T00:00:00Z"`, 1)
		m.reader.fold(placedAt(at.ID, 3), e)
	}
	for query, want := range map[string]string{
		"order=a":           "k3 k2 k1 k4 k5",
		"order=-a":          "k5 k1 k4 k2 k3",
		"order=-a&limit=2":  "k5 k1",
		"order=-a&limit=3":  "k5 k1 k4",
		"order=t":           "k5 k3 k1 k4 k2",
		"order=-t":          "k2 k1 k4 k3 k5",
		"order=ts":          "k2 k4 k3 k1 k5",
		"order=-ts":         "k5 k1 k3 k2 k4",
		"order=b":           "k3 k1 k5 k4 k2", // the null last
		"order=-b":          "k4 k5 k1 k3 k2", // last again
		"order=id":          "k1 k2 k3 k4 k5",
		"order=-id&limit=1": "k5",
		"order=-n":          "k1 k2 k3 k5 k4", // a name with a minus
		"order=--n":         "k4 k1 k2 k3 k5",
	} {
		p := m.get("/v1/aggregates?" + query).page(t)
		if got := strings.Join(p.keys(), " "); got != want || p.NextCursor != nil || !p.Complete {
			t.Errorf("%s: got %s, want %s", query, got, want)
		}
	}
}

// A partition that leaves between two chunks makes the answer none, not a
// shorter one.
func TestPartitionLeavesDuringAListing(t *testing.T) {
	for query, at := range map[string]int32{"limit=1000": 2, "order=sales": 1} { // the order reads each partition once
		m := one(t, salesQuery, 2, Options{})
		for i := range 4000 {
			if key := fmt.Sprint(i); placedAt(key, 2) == 1 {
				m.reader.fold(1, sale(key, "1"))
			}
		}
		var scans atomic.Int32 // of partition 1
		m.reader.setHook(&m.reader.scanning, func(_ context.Context, p int32) error {
			if p == 1 && scans.Add(1) == at {
				return fmt.Errorf("partition 1: %w", aggregator.ErrClosing)
			}
			return nil
		})
		a := m.get("/v1/aggregates?" + query)
		if n := scans.Load(); n < at {
			t.Fatalf("%s: %d chunks were read", query, n)
		}
		a.problem(t, 503, typeMoving)
	}
}

// A store that closes says so in an empty page, not in an error.
func TestClosingPartitionIsNoShortList(t *testing.T) {
	for query, at := range map[string]int{"limit=900": 2, "order=sales": 1} {
		m := one(t, salesQuery, 1, Options{})
		for i := range 3000 {
			m.reader.fold(0, sale(fmt.Sprint(i), "1"))
		}
		scans := 0
		m.reader.setHook(&m.reader.scanning, func(context.Context, int32) error {
			if scans++; scans == at {
				m.reader.change(0, func(s *aggregator.PartitionStatus) { s.Answers = false })
			}
			return nil
		})
		a := m.get("/v1/aggregates?" + query)
		if query == "order=sales" {
			a.problem(t, 503, typeMoving)
		} else if a.code != 200 || len(a.page(t).Rows) != 900 {
			t.Errorf("got %d", a.code)
		}
	}
}

func TestQ08ScansAreFewAndBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, reader := alone(t)
		running, most := 0, 0
		var count = make(chan struct{}, 1)
		reader.setHook(&reader.scanning, func(ctx context.Context, _ int32) error {
			count <- struct{}{}
			running++
			most = max(most, running)
			<-count
			defer func() {
				count <- struct{}{}
				running--
				<-count
			}()
			<-ctx.Done() // a scan that takes too long
			return ctx.Err()
		})
		codes := make(chan int, 40)
		began := time.Now()
		for range cap(codes) {
			go func() {
				w := newRecorder()
				r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/aggregates?limit=1000", nil)
				if err != nil {
					t.Error(err)
				}
				s.ServeHTTP(w, r)
				if w.Code == 503 && !strings.Contains(w.Body.String(), typeBusy) {
					t.Errorf("got %s", w.Body)
				}
				codes <- w.Code
			}()
		}
		for range cap(codes) {
			if code := <-codes; code != 503 {
				t.Errorf("got %d", code)
			}
		}
		if took := time.Since(began); took > workLimit {
			t.Errorf("the requests took %v", took)
		}
		if limit := cap(s.local.pages); most > limit {
			t.Errorf("%d scans at once, of at most %d", most, limit)
		}
		s.Close()
	})
}

func TestCursors(t *testing.T) {
	for _, key := range []string{"", "a", "\x00\xff", strings.Repeat("x", 1024)} {
		p := params{values: map[string][]string{"cursor": {encodeCursor([]byte(key))}}}
		if got := p.cursor(nil); p.err != nil || string(got) != key+"\x00" {
			t.Errorf("%q: got %q, %v", key, got, p.err)
		}
	}
}

// TestTopRowsHoldNoPages: what is kept of a page for a top list shares no memory
// with it: the items of a page share theirs, and one of them would hold all.
func TestTopRowsHoldNoPages(t *testing.T) {
	m := service(t, salesQuery, 6, 1, Options{})[0]
	for i := range 50 {
		for p := range int32(6) { // in all partitions: keys must be looked through
			m.reader.fold(p, sale(fmt.Sprintf(`"u%03d"`, i), "1"))
		}
	}
	page, err := m.server.local.Scan(t.Context(), []int32{0, 1, 2, 3, 4, 5}, scanQuestion{Limit: 50})
	if err != nil {
		t.Fatal(err)
	}
	top := aggregator.NewLeaders[item](aggregator.Order{Column: 2}, 1)
	if err := offer(top, m.server.program.NewTotal(), &page.Items[0], 2); err != nil {
		t.Fatal(err)
	}
	kept, of := items(top)[0], page.Items[0]
	if !reflect.DeepEqual(kept, of) || len(of.Marks) != 6 {
		t.Fatalf("kept is %+v of %+v", kept, of)
	}
	if &kept.Key[0] == &of.Key[0] || &kept.Parts[0] == &of.Parts[0] || &kept.Marks[0] == &of.Marks[0] {
		t.Error("a row that is kept shares memory with its page")
	}
}
