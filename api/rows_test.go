package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tidemark/aggregator"
)

// placedAt is the partition, of n, where Java producers put a key.
func placedAt(key string, n int32) int32 { return aggregator.Murmur2.Partition([]byte(key), n) }

func TestRowAsInTheContract(t *testing.T) {
	m := one(t, salesQuery, 4, Options{})
	p := placedAt("23", 4)
	m.reader.fold(p,
		`{"userId":23,"saleTimestamp":"2015-07-22T10:03:00Z","totalRevenue":12.05,"totalPoints":91,"productList":[47,1484]}`,
		`{"userId":23,"saleTimestamp":"2015-07-29T11:17:12+0200","totalRevenue":"255.59","totalPoints":208,"productList":47}`)
	want := fmt.Sprintf(`{"key":"23","row":{"userId":23,"latestSaleTimestamp":"2015-07-29T09:17:12.000Z","totalRevenue":267.64,`+
		`"totalPoints":299,"productList":[47,1484],"sales":2},"positions":{"%d":2},"complete":true}`+"\n", p)
	// Only the partition that the key hashes to may hold it, for each of the
	// partitioners that its keys agree with.
	got := m.get("/v1/aggregates/23")
	if got.code != 200 || got.header.Get("Content-Type") != "application/json" {
		t.Fatalf("got %d %v: %s", got.code, got.header, got.body)
	}
	var row rowSeen
	if err := json.Unmarshal([]byte(got.body), &row); err != nil {
		t.Fatal(err)
	}
	if row.Positions[fmt.Sprint(p)] != 2 {
		t.Errorf("positions are %v", row.Positions)
	}
	for q := range int32(4) { // let one partitioner alone be left
		if q != p {
			m.reader.fold(q, sale(`"`+keyAt(q, 4)+`"`, "1"))
		}
	}
	if got := m.get("/v1/aggregates/23"); got.body != want {
		t.Errorf("got\n%s\nwant\n%s", got.body, want)
	}
}

// keyAt is a key that murmur2 alone puts into a partition of n.
func keyAt(p, n int32) string {
	for i := 1000; ; i++ {
		key := fmt.Sprint(i)
		if placedAt(key, n) == p && aggregator.FNV1a.Partition([]byte(key), n) != p && aggregator.CRC32.Partition([]byte(key), n) != p {
			return key
		}
	}
}

func TestN05NumbersAsTexts(t *testing.T) {
	m := one(t, salesQuery, 1, Options{})
	m.reader.fold(0, `{"userId":23,"saleTimestamp":1438161432,"totalRevenue":-0.10,"totalPoints":9007199254740993,"productList":[47,"47",1.50]}`)
	want := `{"key":"23","row":{"userId":"23","latestSaleTimestamp":"2015-07-29T09:17:12.000Z","totalRevenue":"-0.1",` +
		`"totalPoints":"9007199254740993","productList":["1.5","47","47"],"sales":"1"},"positions":{"0":1},"complete":true}` + "\n"
	if got := m.get("/v1/aggregates/23?numbers=string"); got.body != want {
		t.Errorf("got\n%s\nwant\n%s", got.body, want)
	}
	plain := m.get("/v1/aggregates/23").body
	if !strings.Contains(plain, `"totalPoints":9007199254740993,"productList":[1.5,47,"47"]`) {
		t.Errorf("got %s", plain)
	}
	for _, path := range []string{"/v1/aggregates?numbers=string", "/v1/aggregates?order=sales&numbers=string"} {
		if got := m.get(path).body; !strings.Contains(got, strings.TrimSpace(want)) {
			t.Errorf("%s: got %s", path, got)
		}
	}
	if got := m.do("POST", "/v1/aggregates:batchGet?numbers=string", `{"keys":["23"]}`).body; !strings.Contains(got, strings.TrimSpace(want)) {
		t.Errorf("got %s", got)
	}
}

func TestCappedSetsAreNamedBesideTheRow(t *testing.T) {
	m := one(t, salesQuery, 1, Options{})
	m.reader.fold(0, `{"userId":23,"saleTimestamp":1438161432,"totalRevenue":1,"totalPoints":1,"productList":[5,4,3,2,1]}`)
	got := m.get("/v1/aggregates/23").body
	if !strings.Contains(got, `"productList":[1,2,3,4],"sales":1},"capped":["productList"],"positions"`) {
		t.Errorf("got %s", got)
	}
}

func TestKeysOfSeveralColumns(t *testing.T) {
	m := one(t, `SELECT shop, user.id, count(*) AS n FROM sales GROUP BY shop, user.id`, 1, Options{})
	m.reader.fold(0,
		`{"shop":"a/b","user":{"id":7}}`, `{"shop":"..","user":{"id":"watch"}}`, `{"shop":"ü \"","user":{"id":"%2F"}}`)
	for path, key := range map[string]string{
		"/v1/aggregates/a%2Fb/7":            `["a/b","7"]`,
		"/v1/aggregates/%2E%2E/watch":       `["..","watch"]`,
		"/v1/aggregates/../watch":           `["..","watch"]`,
		"/v1/aggregates/%C3%BC%20%22/%252F": `["ü \"","%2F"]`,
	} {
		req := m.request("GET", "/", "")
		req.URL.Opaque = path // as it is, not tidied up by the client
		resp, err := m.http.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var row rowSeen
		err = json.NewDecoder(resp.Body).Decode(&row)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK || string(row.Key) != key {
			t.Errorf("%s: got %d %s (%v), want %s", path, resp.StatusCode, row.Key, err, key)
		}
	}
	for _, path := range []string{"/v1/aggregates/a", "/v1/aggregates/a%2Fb", "/v1/aggregates/a/b/7", "/v1/aggregates/a/", "/v1/aggregates/%FF/7"} {
		m.get(path).problem(t, 400, typeBadRequest)
	}
	m.get("/v1/aggregates/a%2Fb/8").problem(t, 404, typeNotFound)
	got := m.do("POST", "/v1/aggregates:batchGet", `{"keys":[["..","watch"],["a/b","7"],["x","y"]]}`).page(t)
	if got.Rows[2] != nil || string(got.Rows[0].Key) != `["..","watch"]` || string(got.Rows[1].Key) != `["a/b","7"]` {
		t.Errorf("got %v", got)
	}
}

func TestOneKeyInSeveralPartitions(t *testing.T) {
	members := service(t, salesQuery, 3, 3, Options{})
	for p := range int32(3) {
		of(members, p).reader.fold(p, sale("23", "1.10"), sale(`"u"`, "7"), sale("23", "0.20"))
	}
	for _, m := range members {
		got := m.get("/v1/aggregates/23").body
		if !strings.Contains(got, `"totalRevenue":3.9,`) || !strings.Contains(got, `"positions":{"0":3,"1":3,"2":3},"complete":true`) {
			t.Errorf("got %s", got)
		}
	}
}

func TestQ01NoAnswerBeforeItIsLoaded(t *testing.T) {
	m := one(t, salesQuery, 2, Options{})
	holder := placedAt("U-1", 2)
	m.reader.fold(holder, sale(`"U-1"`, "5"))
	for _, state := range []aggregator.State{aggregator.Restoring, aggregator.Bootstrapping, aggregator.CatchingUp, aggregator.Gap, aggregator.Paused} {
		for p := range int32(2) {
			m.reader.change(p, func(s *aggregator.PartitionStatus) {
				s.State, s.Reason, s.Answers = state, "the reason", false
			})
		}
		for _, path := range []string{"/v1/aggregates/U-1", "/v1/aggregates/U-none", "/v1/aggregates", "/v1/aggregates?order=sales"} {
			p := m.get(path).problem(t, 503, typeNotLoaded)
			if len(p.Partitions) == 0 || p.Partitions[0].Reason != "the reason" || !strings.Contains(p.Detail, "the reason") {
				t.Errorf("%s in %v says %+v", path, state, p)
			}
		}
		m.do("POST", "/v1/aggregates:batchGet", `{"keys":["U-1"]}`).problem(t, 503, typeNotLoaded)
	}
	for p := range int32(2) {
		m.reader.change(p, func(s *aggregator.PartitionStatus) { s.State, s.Answers = aggregator.Live, true })
	}
	if got := m.get("/v1/aggregates/U-1"); got.code != 200 {
		t.Errorf("got %d: %s", got.code, got.body)
	}
	m.get("/v1/aggregates/U-none").problem(t, 404, typeNotFound)
	// A partition that was live and is paused answers with what it has.
	m.reader.change(holder, func(s *aggregator.PartitionStatus) { s.State = aggregator.Paused })
	if got := m.get("/v1/aggregates/U-1"); got.code != 200 {
		t.Errorf("got %d: %s", got.code, got.body)
	}
	m.group.set(func(v *View) { v.Assigned, v.Members, v.Partitions = false, nil, 0 })
	m.get("/v1/aggregates/U-1").problem(t, 503, typeNotLoaded)
}

// A partition that stands still holds back its own keys, and not those that it
// surely does not have.
func TestGapHoldsBackItsOwnKeysAlone(t *testing.T) {
	m := one(t, salesQuery, 2, Options{})
	keys := [2]string{keyAt(0, 2), keyAt(1, 2)}
	for p, key := range keys {
		m.reader.fold(int32(p), sale(`"`+key+`"`, "5"))
	}
	m.reader.change(1, func(s *aggregator.PartitionStatus) { s.State, s.Answers = aggregator.Gap, false })
	if got := m.get("/v1/aggregates/" + keys[0]); got.code != 200 {
		t.Errorf("got %d: %s", got.code, got.body)
	}
	if p := m.get("/v1/aggregates/"+keys[1]).problem(t, 503, typeNotLoaded); !strings.HasPrefix(p.Detail, "partition 1 has a gap") {
		t.Errorf("it says %q", p.Detail)
	}
}

func TestPartialAndLocal(t *testing.T) {
	members := service(t, salesQuery, 2, 2, Options{})
	for p := range int32(2) {
		of(members, p).reader.fold(p, sale("23", "1.10"), sale("24", "1"), sale(fmt.Sprint(30+p), "1"))
	}
	members[1].reader.change(1, func(s *aggregator.PartitionStatus) { s.State, s.Answers = aggregator.CatchingUp, false })
	has := func(a *answerSeen, revenue string, complete bool) {
		t.Helper()
		var row rowSeen
		if err := json.Unmarshal([]byte(a.body), &row); err != nil || a.code != 200 {
			t.Fatalf("got %d: %s", a.code, a.body)
		}
		if revenue == "" != (string(row.Row) == "null") || !strings.Contains(a.body, revenue) || row.Complete != complete {
			t.Errorf("got %s, want %s, complete %v", a.body, revenue, complete)
		}
	}
	for _, m := range members {
		m.get("/v1/aggregates/23").problem(t, 503, typeNotLoaded)
		has(m.get("/v1/aggregates/23?partial=ok"), `"totalRevenue":2.2,`, false)
		has(m.get("/v1/aggregates/23?local=true"), `"totalRevenue":1.1,`, false)
		has(m.get("/v1/aggregates/none?partial=ok"), "", false)
		has(m.get("/v1/aggregates/23?partial=ok&local=false"), `"totalRevenue":2.2,`, false)
	}
	members[1].reader.change(1, func(s *aggregator.PartitionStatus) { s.State, s.Answers = aggregator.Live, true })
	for _, m := range members {
		has(m.get("/v1/aggregates/23?partial=ok"), `"totalRevenue":2.2,`, true)
		has(m.get("/v1/aggregates/none?partial=ok"), "", true)
		has(m.get("/v1/aggregates/23?local=true"), `"totalRevenue":1.1,`, false)
		for _, path := range []string{"/v1/aggregates?local=true", "/v1/aggregates?order=-totalRevenue&local=true"} {
			page := m.get(path).page(t)
			keys := page.keys()
			slices.Sort(keys)
			if page.Complete || len(keys) != 3 || keys[0] != "23" {
				t.Errorf("%s: got %v, complete %v", path, keys, page.Complete)
			}
		}
		got := m.do("POST", "/v1/aggregates:batchGet?local=true", `{"keys":["none","23"]}`).page(t)
		if got.Complete || string(got.Rows[0].Row) != "null" || got.Rows[0].Complete || string(got.Rows[1].Row) == "null" {
			t.Errorf("got %+v", got)
		}
	}
}

func TestQ05ReadYourOwnWrite(t *testing.T) {
	members := service(t, salesQuery, 3, 3, Options{})
	owner := of(members, 1)
	owner.reader.fold(1, sale("23", "1"))
	for _, m := range members {
		// It is there already, for any partition that is named.
		if got := m.get("/v1/aggregates/23?min_offset=1:1,0:0"); got.code != 200 {
			t.Errorf("got %d: %s", got.code, got.body)
		}
		p := m.get("/v1/aggregates/23?min_offset=1:9000&timeout=20ms").problem(t, 504, typeTimeout)
		if p.Positions[1] == 0 {
			t.Errorf("the problem has the positions %v", p.Positions)
		}
		m.do("POST", "/v1/aggregates:batchGet?min_offset=1:9000&timeout=20ms", `{"keys":["23"]}`).problem(t, 504, typeTimeout)

		at := owner.reader.Status()[0].Position
		answers := make(chan *answerSeen)
		go func() {
			answers <- m.get(fmt.Sprintf("/v1/aggregates/23?min_offset=1:%d&timeout=10s", at+2))
		}()
		for range 2 { // one is not enough
			eventually(t, "the owner waits for a fold", func() bool { return owner.reader.watched(1) })
			owner.reader.fold(1, sale("23", "1"))
		}
		got := <-answers
		if got.code != 200 || !strings.Contains(got.body, fmt.Sprintf(`"1":%d`, at+2)) || !strings.Contains(got.body, fmt.Sprintf(`"sales":%d}`, at+2)) {
			t.Errorf("got %d: %s", got.code, got.body)
		}
	}
	// A partition that is not loaded yet is waited for, too.
	owner.reader.change(1, func(s *aggregator.PartitionStatus) { s.State, s.Answers = aggregator.CatchingUp, false })
	answers := make(chan *answerSeen)
	go func() { answers <- members[0].get("/v1/aggregates/23?min_offset=1:1&timeout=10s") }()
	eventually(t, "the owner waits for a fold", func() bool { return owner.reader.watched(1) })
	owner.reader.change(1, func(s *aggregator.PartitionStatus) { s.State, s.Answers = aggregator.Live, true })
	if got := <-answers; got.code != 200 {
		t.Errorf("got %d: %s", got.code, got.body)
	}
}

func TestHangingUpEndsTheWait(t *testing.T) {
	m := one(t, salesQuery, 1, Options{})
	began := time.Now()
	req := m.request("GET", "/v1/aggregates/23?min_offset=0:1&timeout=10s", "")
	client := &http.Client{Timeout: 50 * time.Millisecond, Transport: m.http.Client().Transport}
	if _, err := client.Do(req); err == nil {
		t.Error("an answer came")
	}
	m.http.Close() // waits for the handler
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the handler went on for %v", took)
	}
}

func TestBadParameters(t *testing.T) {
	m := one(t, salesQuery, 4, Options{})
	for _, path := range []string{
		"/v1/aggregates/23?numbers=text", "/v1/aggregates/23?partial=yes", "/v1/aggregates/23?local=1", "/v1/aggregates/23?what=1",
		"/v1/aggregates/23?numbers=string&numbers=string", "/v1/aggregates/23?limit=1", "/v1/aggregates/23?%zz",
		"/v1/aggregates/23?min_offset=", "/v1/aggregates/23?min_offset=3", "/v1/aggregates/23?min_offset=a:1", "/v1/aggregates/23?min_offset=1:-1",
		"/v1/aggregates/23?min_offset=4:1", "/v1/aggregates/23?min_offset=1:1,1:2", "/v1/aggregates/23?min_offset=1:1,",
		"/v1/aggregates/23?min_offset=1:99999999999999999999", "/v1/aggregates/23?min_offset=1:1&timeout=11s",
		"/v1/aggregates/23?timeout=2", "/v1/aggregates/23?timeout=", "/v1/aggregates/23?numbers", "/v1/aggregates/23?partial=", "/v1/aggregates/23?local=",
		"/v1/aggregates/23?Numbers=string", "/v1/aggregates/23?numbers=string;x=1", "/v1/aggregates?limit=5&limit=5", "/v1/aggregates?limit=5.0", "/v1/aggregates?limit=%D9%A5", "/v1/aggregates/23?timeout=-1s", "/v1/aggregates/23?timeout=x",
		"/v1/aggregates/23/watch?min_offset=1:1", "/v1/aggregates/23/extra", "/v1/aggregates/", "/v1/aggregates/%FF",
		"/v1/aggregates?limit=0", "/v1/aggregates?limit=-1", "/v1/aggregates?limit=1001", "/v1/aggregates?limit=1000000", "/v1/aggregates?limit=x", "/v1/aggregates?limit=",
		"/v1/aggregates?cursor=abc", "/v1/aggregates?cursor=AAAA", "/v1/aggregates?cursor=" + encodeCursor([]byte("b")) + "&prefix=a",
		"/v1/aggregates?cursor=" + encodeCursor([]byte("b"))[1:], "/v1/aggregates?min_offset=1:1",
		"/v1/aggregates?order=", "/v1/aggregates?order=none", "/v1/aggregates?order=-none", "/v1/aggregates?order=--sales", "/v1/aggregates?order=Sales",
		"/v1/aggregates?order=sales&cursor=" + encodeCursor([]byte("b")), "/v1/aggregates?order=sales&prefix=a",
		"/v1/status?x=1", "/v1/snapshots?x=1",
	} {
		if p := m.get(path).problem(t, 400, typeBadRequest); p.Detail == "" {
			t.Errorf("%s: no detail", path)
		}
	}
}

// TestLongBatchIsBusy: a member that reads its own keys for longer than a request
// may work says so, once the key in hand is read, and reads no more of them.
func TestLongBatchIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, reader := alone(t)
		defer s.Close()
		reader.fold(0, sale(`"a"`, "1"))
		const each = 3 * time.Second
		reads := 0
		reader.setHook(&reader.getting, func(context.Context, int32) error {
			reads++
			<-time.After(each)
			return nil
		})
		began := time.Now()
		w := newRecorder()
		body := strings.NewReader(`{"keys":["a","b","c","d","e","f","g","h"]}`)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/aggregates:batchGet", body)
		if err != nil {
			t.Fatal(err)
		}
		s.ServeHTTP(w, r)
		if w.Code != 503 || !strings.Contains(w.Body.String(), typeBusy) {
			t.Errorf("got %d: %s", w.Code, w.Body)
		}
		if took := time.Since(began); took > workLimit+each || reads > 4 {
			t.Errorf("%d keys were read, in %v", reads, took)
		}
	})
}
