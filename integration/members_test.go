//go:build integration

package integration

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Three members answer alike for every user. One is killed: until the group has
// given its partitions away its users are 503 on the others, never 404, and
// nobody's total is another one than before; then all are answered again.
func TestQ03AMemberDies(t *testing.T) {
	const partitions, users, sales = 6, 30, 10
	topic := newTopic(t, partitions)
	group, shared := unique(t, "group"), sharedSnapshots(t, "1s")
	for p := range int32(partitions) {
		var values []string
		for u := range users {
			if u%partitions == int(p) {
				for range sales {
					values = append(values, sale(fmt.Sprint("U-", u), "0.10"))
				}
			}
		}
		produce(t, topic, p, values...)
	}
	var members []*service
	for range 3 {
		members = append(members, serve(t, settings{query: fmt.Sprintf(revenueQuery, topic), group: group, rest: shared}))
	}
	all := func(those []*service) error {
		for _, m := range those {
			for u := range users {
				r, err := m.row(fmt.Sprint("U-", u))
				if err != nil {
					return err
				}
				if text(r.Row["sales"]) != fmt.Sprint(sales) || text(r.Row["revenue"]) != "1" || !r.Complete {
					return fmt.Errorf("user %d has %+v", u, r)
				}
			}
		}
		return nil
	}
	eventually(t, 90*time.Second, "90 equal answers", func() error {
		for _, m := range members {
			if st, err := m.status(); err != nil || len(st.Partitions) != partitions/3 {
				return fmt.Errorf("%d partitions (%v)", len(st.Partitions), err) //nolint:errorlint // it may be nil
			}
		}
		return all(members)
	})
	members[2].kill()
	left, unanswered := members[:2], 0
	eventually(t, 90*time.Second, "all answered without it", func() error {
		for _, m := range left {
			for u := range users {
				code, body, err := m.get(fmt.Sprint("/v1/aggregates/U-", u))
				if code == 503 {
					unanswered++
				}
				if err != nil || code != 503 && (code != 200 || !bytes.Contains(body, []byte(`"sales":10`))) {
					t.Fatalf("user %d: %d %s (%v)", u, code, body, err)
				}
			}
		}
		return all(left)
	})
	if unanswered == 0 {
		t.Error("the dead member's users were answered all the while: that shows nothing")
	}
}

// The whole process, with many users in 24 partitions, keeps to twice
// state.memory, as the manual says, however many users there are.
func TestS07ProcessKeepsToItsMemory(t *testing.T) {
	const partitions, users, memory = 24, 200_000, 128 << 20
	topic := newTopic(t, partitions)
	plain := filepath.Join(t.TempDir(), "tidemark") // the race detector takes memory of its own
	if out, err := exec.Command("go", "build", "-o", plain, "../cmd/tidemark").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s := serve(t, settings{query: salesQuery(topic), state: fmt.Sprintf("memory: %d", memory), binary: plain})
	peak := func() int64 {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(status), "VmHWM:")
		fields := strings.Fields(rest)
		kib, err := strconv.ParseInt(fields[0], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return kib << 10
	}
	o := newOracle(7, users)
	o.feed(t, kafka(t), topic, 2*users)
	s.caughtUp(topic)
	for range 20 {
		if _, _, err := s.get("/v1/aggregates?limit=1000"); err != nil {
			t.Fatal(err)
		}
	}
	most := peak()
	t.Logf("%d MiB at most, of %d", most>>20, memory>>20)
	if most > 2*memory {
		t.Errorf("the process took %d MiB, and state.memory is %d", most>>20, memory>>20)
	}
}
