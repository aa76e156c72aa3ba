package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tidemark/aggregator"
)

// lonely fills a service so that one partitioner alone is left in each
// partition, and returns a key of each partition. All members get to know it.
func lonely(all []*member, partitions int32) (keys []string) {
	for p := range partitions {
		key := keyAt(p, partitions)
		of(all, p).reader.fold(p, sale(`"`+key+`"`, fmt.Sprint(p+1)))
		keys = append(keys, key)
	}
	for _, m := range all {
		if got := m.get("/v1/aggregates/" + keys[0]); got.code != 200 {
			m.t.Fatalf("got %d: %s", got.code, got.body)
		}
	}
	return keys
}

func TestQ03AnyMemberAnswersForAnyKey(t *testing.T) {
	for _, tokens := range [][]string{nil, {"first", "second"}} {
		all := service(t, salesQuery, 6, 3, Options{Tokens: tokens})
		lonely(all, 6)
		var keys []string
		for i := range 30 {
			key := fmt.Sprintf("U-%d", i)
			p := placedAt(key, 6)
			of(all, p).reader.fold(p, sale(`"`+key+`"`, fmt.Sprintf("%d.50", i)))
			keys = append(keys, key)
		}
		for _, key := range keys {
			want := all[0].get("/v1/aggregates/" + key)
			for _, m := range all {
				if got := m.get("/v1/aggregates/" + key); got.code != 200 || got.body != want.body {
					t.Errorf("%s on %s: got %d: %s want %s", key, m.id, got.code, got.body, want.body)
				}
			}
		}
		// A dead member's users get 503, and the others what they had.
		dead := all[2]
		dead.http.Close()
		for _, key := range keys {
			for _, m := range all[:2] {
				got := m.get("/v1/aggregates/" + key)
				if of(all, placedAt(key, 6)) == dead {
					got.problem(t, 503, typeUnreachable)
					continue
				}
				if got.code != 200 {
					t.Errorf("%s on %s: got %d: %s", key, m.id, got.code, got.body)
				}
			}
		}
		m := all[0]
		for _, path := range []string{"/v1/aggregates", "/v1/aggregates?order=sales", "/v1/aggregates/none-" + keyAt(2, 6)} {
			if got := m.get(path); !strings.Contains(path, "none") {
				got.problem(t, 503, typeUnreachable)
			}
			if got := m.get(path + with(path, "partial=ok")); got.code != 200 || strings.Contains(path, "aggregates?") && !strings.Contains(got.body, `"complete":false`) {
				t.Errorf("%s: got %d: %s", path, got.code, got.body)
			}
		}
	}
}

func with(path, parameter string) string {
	if strings.Contains(path, "?") {
		return "&" + parameter
	}
	return "?" + parameter
}

// A member that hangs holds nobody up whose key is surely elsewhere.
func TestHangingMember(t *testing.T) {
	all := service(t, salesQuery, 2, 2, Options{})
	keys := lonely(all, 2)
	release := make(chan struct{})
	var waiting atomic.Int32
	hang := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		waiting.Add(1)
		select {
		case <-r.Context().Done():
		case <-release:
		}
	}))
	defer hang.Close()
	defer close(release)
	all[0].group.set(func(v *View) { v.Members[1].Address = hang.URL })
	for i := range 5 {
		began := time.Now()
		if got := all[0].get("/v1/aggregates/" + keys[0]); got.code != 200 {
			t.Fatalf("got %d: %s", got.code, got.body)
		}
		if took := time.Since(began); took > 2*time.Second || i > 0 && took > grace {
			t.Errorf("answer %d took %v", i, took)
		}
	}
	p := all[0].get("/v1/aggregates/"+keys[1]).problem(t, 503, typeUnreachable)
	if len(p.Partitions) != 1 || p.Partitions[0].Partition != 1 {
		t.Errorf("got %+v", p)
	}
	if waiting.Load() == 0 {
		t.Error("nobody was asked")
	}
}

// Owners by another, older or newer table than the asker's are not believed.
func TestMovingPartitions(t *testing.T) {
	all := service(t, salesQuery, 2, 2, Options{})
	keys := lonely(all, 2)
	// The asker's table gives partition 1 to the first member, which does not
	// have it yet; the old owner still has it, and must not be heard.
	all[0].group.set(func(v *View) {
		v.Generation++
		v.Members = []Member{{all[0].id, all[0].http.URL, []int32{0, 1}}, {all[1].id, all[1].http.URL, nil}}
	})
	all[0].get("/v1/aggregates/"+keys[1]).problem(t, 503, typeMoving)
	if got := all[0].get("/v1/aggregates/" + keys[0]); got.code != 200 {
		t.Errorf("got %d: %s", got.code, got.body)
	}
	// Nobody has it.
	all[0].group.set(func(v *View) { v.Members[0].Partitions = []int32{0} })
	all[0].get("/v1/aggregates/"+keys[1]).problem(t, 503, typeMoving)
	// A new owner restores it: its keys wait, others do not.
	all[0].reader.own(1, 2)
	all[0].reader.change(1, func(s *aggregator.PartitionStatus) { s.State, s.Answers = aggregator.Restoring, false })
	all[0].group.set(func(v *View) { v.Members[0].Partitions = []int32{0, 1} })
	all[0].get("/v1/aggregates/"+keys[1]).problem(t, 503, typeNotLoaded)
	if got := all[0].get("/v1/aggregates/" + keys[0]); got.code != 200 {
		t.Errorf("got %d: %s", got.code, got.body)
	}
}

// While the table of the group has not come, a member has what it has.
func TestNoTableYet(t *testing.T) {
	all := service(t, salesQuery, 2, 2, Options{})
	lonely(all, 2)
	for _, id := range []string{"", all[0].id} {
		all[0].group.set(func(v *View) { v.Member, v.Members = id, nil })
		page := all[0].get("/v1/aggregates?partial=ok").page(t)
		if len(page.Rows) != 1 || page.Complete {
			t.Errorf("got %+v", page)
		}
		all[0].get("/v1/aggregates").problem(t, 503, typeMoving)
	}
}

// A member that the group has not heard for a session timeout answers for
// nothing, neither its clients nor other members.
func TestSilentMember(t *testing.T) {
	all := service(t, salesQuery, 2, 2, Options{})
	keys := lonely(all, 2)
	all[1].group.set(func(v *View) { v.Silent = true })
	for _, m := range all {
		m.get("/v1/aggregates/"+keys[1]).problem(t, 503, typeMoving)
		m.get("/v1/aggregates").problem(t, 503, typeMoving)
	}
	if got := all[0].get("/v1/aggregates/" + keys[0]); got.code != 200 {
		t.Errorf("got %d: %s", got.code, got.body)
	}
}

func TestMembersOfOtherDefinitionsAreNotAsked(t *testing.T) {
	all := service(t, salesQuery, 1, 1, Options{})
	other := service(t, strings.Replace(salesQuery, "sum(totalPoints)", "max(totalPoints)", 1), 1, 1, Options{})[0]
	other.group.set(func(v *View) {
		v.Members = []Member{{all[0].id, all[0].http.URL, []int32{0}}, {"other", other.http.URL, nil}}
		v.Member = "other"
	})
	p := other.get("/v1/aggregates/23").problem(t, 503, typeUnreachable)
	if !strings.Contains(p.Detail, "different definitions") {
		t.Errorf("got %s", p.Detail)
	}
	other.group.set(func(v *View) { v.Members[0].Address = "" })
	p = other.get("/v1/aggregates/23").problem(t, 503, typeUnreachable)
	if !strings.Contains(p.Detail, "no address") {
		t.Errorf("got %s", p.Detail)
	}
}

func TestBadInternalQuestions(t *testing.T) {
	m := one(t, salesQuery, 1, Options{})
	for route, bodies := range map[string][]string{
		internalRead: {"", "[", `{"question":{"keys":"x"}}`},
		internalScan: {`{}`, `{"question":{"limit":10001}}`, "x"},
		internalTop:  {`{}`, `{"question":{"limit":1,"column":99}}`, `{"question":{"limit":1,"column":-1}}`, "x"},
	} {
		for _, body := range bodies {
			m.do("POST", route, body, definitionHeader, m.server.fingerprint).problem(t, 400, typeBadRequest)
		}
		m.do("POST", route, `{}`).problem(t, 400, typeBadRequest)
		m.get(route).problem(t, 405, typeMethodNotAllowed)
	}
}

// Members tell each other one encoded total of a key, whatever parts it is kept in.
func TestMembersAreToldOneTotal(t *testing.T) {
	m := one(t, salesQuery, 2, Options{})
	m.reader.fold(0, sale(`"u"`, "1"))
	m.reader.fold(0, sale(`"u"`, "2.5"))
	m.reader.fold(1, sale(`"u"`, "4"))
	parts := func(question string) (all [][]byte) {
		var a answer
		got := m.do("POST", question, `{"of":[0,1],"question":{"keys":["dQ=="],"limit":10}}`, definitionHeader, m.server.fingerprint)
		if err := json.Unmarshal([]byte(got.body), &a); got.code != 200 || err != nil {
			t.Fatalf("got %d: %s: %v", got.code, got.body, err)
		}
		for _, readings := range a.Readings {
			for _, r := range readings {
				all = append(all, r.Parts)
			}
		}
		for _, it := range a.Items {
			all = append(all, it.Parts)
		}
		return all
	}
	for question, totals := range map[string]int{internalRead: 2, internalScan: 1} {
		sum, got := m.server.program.NewTotal(), parts(question)
		for _, total := range got {
			if err := sum.Merge(total); err != nil {
				t.Errorf("%s tells %x: %v", question, total, err)
			}
		}
		want := `"totalRevenue":7.5`
		if row := string(sum.AppendRow(nil, []byte("u"), false)); len(got) != totals || !strings.Contains(row, want) {
			t.Errorf("%s tells %d totals of %s, want %d of %s", question, len(got), row, totals, want)
		}
	}
}

// A member that has too much to do makes the answer busy.
func TestBusyMember(t *testing.T) {
	all := service(t, salesQuery, 2, 2, Options{})
	lonely(all, 2)
	all[1].reader.setHook(&all[1].reader.scanning, func(context.Context, int32) error { return context.DeadlineExceeded })
	all[0].get("/v1/aggregates").problem(t, 503, typeBusy)
	all[0].get("/v1/aggregates?order=sales").problem(t, 503, typeBusy)
}
