//go:build integration

package integration

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"tidemark/web"
)

// script is a member that says what a test tells it to: for what a real one
// comes by too fast, or too seldom, to be looked at.
type script struct {
	mu         sync.Mutex
	partitions string // of the status
	members    string
}

func (s *script) set(partitions, members string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.partitions, s.members = partitions, members
}

// ServeHTTP implements http.Handler.
func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case r.URL.Path == "/":
		web.Serve(w, r)
	case r.URL.Path == "/v1/status":
		fmt.Fprintf(w, `{"member":"tidemark-a","group":"tidemark-sales","generation":3,"version":"v1.2.3",
			"definition":{"sql":"SELECT shop, user, sum(paid) AS paid FROM sales GROUP BY shop, user","fingerprint":"abc","keys":["shop","user"],
			"columns":[{"name":"shop","expression":"shop"},{"name":"user","expression":"user"},{"name":"paid","expression":"sum(paid)"}]},
			"topic":{"name":"sales","partitions":5},"partitions":[%s],"members":[%s],"history":null}`, s.partitions, s.members)
	case r.URL.Path == "/v1/bad-records":
		fmt.Fprint(w, `{"records":[]}`)
	default:
		w.Header().Set("Content-Type", "application/problem+json")
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, `{"type":"not_loaded","title":"A partition that may hold the key is not loaded.","status":503,"detail":"partition 0 is restoring"}`)
	}
}

// partitionText is a partition in a status, with its state and its restore.
func partitionText(n int, state, reason, restore string) string {
	return fmt.Sprintf(`{"topic":"sales","partition":%d,"state":%q,"reason":%q,"position":9007199254740993,"high_watermark":9007199254741042,"log_start":5,
		"lag":49,"epoch":2,"counts":{"folded":1040,"filtered":3,"bad":0,"tombstone":0,"before_cut":0},"bad_reasons":{},"gap_records":0,"keys":700,"state_bytes":5242880,
		"snapshot":{"seq":4,"position":1040,"age_seconds":3.2},"restore":%s}`, n, state, reason, restore)
}

func restoreText(have, need int64, remaining float64) string {
	return fmt.Sprintf(`{"have":%d,"need":%d,"remaining_seconds":%g}`, have, need, remaining)
}

// A slow restore is seen to go on, beside partitions that other members have,
// that nobody has and that stand still for a reason; and a member that leaves
// is shown as gone.
func TestPageShowsARestore(t *testing.T) {
	const mib = 1 << 20
	here := `{"member":"tidemark-a","address":"http://10.0.0.1:8080","partitions":[0,1,2]}`
	there := `{"member":"tidemark-b","address":"http://10.0.0.2:8080","partitions":[3]}`
	waits := partitionText(1, "paused", "the state directory has 12 MiB free, and state.min_free is 256 MiB", "null") + "," + partitionText(2, "live", "", "null")
	restoring := func(have int64, remaining float64) string {
		return partitionText(0, "restoring", "", restoreText(have, 400*mib, remaining)) + "," + waits
	}
	member := &script{}
	member.set(restoring(40*mib, 90), here+","+there)
	server := httptest.NewServer(member)
	defer server.Close()

	b := newTab(t, startChromium(t), "503")
	b.look(1280)
	b.open(server.URL + "/#key=north/a%2Fb")
	bar := `document.querySelector("#partitions-table progress")`
	b.says("#partitions-table", "40.0 MiB of 400 MiB, about 90 s left")
	b.until(bar + ".position === 0.1")
	b.says("#partitions-table", "state.min_free is 256 MiB")
	b.says("#partitions-table", "9,007,199,254,740,993")
	b.says("#partitions-table", "no owner")
	b.until(`document.querySelector("#partitions-table a[href='http://10.0.0.2:8080/']").textContent === "10.0.0.2:8080"`)
	b.says("#row-name", "north / a/b")
	b.says("#row-problem", "A partition that may hold the key is not loaded. Partition 0 is restoring.")
	b.says("#top-problem", "not loaded")
	b.shoot()

	member.set(restoring(300*mib, 20), here+","+there)
	b.says("#partitions-table", "300 MiB of 400 MiB, about 20 s left")
	b.until(bar + ".position === 0.75")
	member.set(partitionText(0, "catching_up", "", "null")+","+waits, strings.Replace(here, "[0,1,2]", "[0,1,2,3]", 1))
	b.says("#partitions-table", "catching up")
	b.until(bar + " === null")
	b.says("#members-table", "gone")
	b.says("#members-table", "it left the group at")
	if !eval[bool](b, `document.querySelector("#members-table").innerText.includes("tidemark-b")`) {
		t.Error("the page has forgotten who left")
	}
}
