package bench

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// measureHandover moves a partition with a million keys between two members
// that are told so: one joins, one gets SIGTERM, while events come in.
func measureHandover(t *testing.T, b *bench, s *section) {
	topic := b.name("handover")
	g := newSales(2*b.size.Users, each, 6)
	b.say("making two partitions of %d users", b.size.Users)
	b.broker.createTopic(t, topic, 2)
	b.fill(t, topic, g, 2*b.size.Users)
	set := settings{topic: topic, group: topic, snapshots: filepath.Join(b.dir, topic)}
	if err := os.MkdirAll(set.snapshots, 0o755); err != nil {
		t.Fatal(err)
	}
	stays, comes := b.newService(t, set), b.newService(t, set)
	stays.start(t)
	stays.folds(t, 10*time.Minute, 50*time.Millisecond, int64(2*b.size.Users))
	stays.publish(t)
	keys := b.keyOfEach(t, stays, 2)
	load := b.offer(t, topic, 2, g, b.size.Offered)

	var joins, leaves, silentJoins, silentLeaves []float64
	for range b.size.Runs {
		moved, silent := b.moves(t, stays, comes, stays, keys, func() { comes.start(t) })
		joins, silentJoins = append(joins, moved.Seconds()), append(silentJoins, silent.Seconds())
		moved, silent = b.moves(t, comes, stays, stays, keys, func() { comes.terminate(t) })
		comes.end(t)
		leaves, silentLeaves = append(leaves, moved.Seconds()), append(silentLeaves, silent.Seconds())
		b.say("hand-over: a member joins %.2f s, unanswered %.2f s; SIGTERM %.2f s, unanswered %.2f s",
			joins[len(joins)-1], silentJoins[len(joins)-1], leaves[len(leaves)-1], silentLeaves[len(leaves)-1])
	}
	rate := load.stop(t)
	stays.stop(t)
	b.broker.deleteTopic(t, topic)
	note := foldingAt(rate) + "; from the last event folded there to live here"
	keysOf := grouped(strconv.Itoa(b.size.Users)) + " users to a partition, "
	s.add(figure{What: keysOf + "a member joins: revoke to live", Unit: "s", Target: atMost(3), Values: joins, Other: -1, Note: note + "; the first to an empty disk"})
	s.add(figure{What: keysOf + "a member joins: unanswered", Unit: "s", Values: silentJoins, Other: -1, Note: "longest without an answer for a key of any partition"})
	s.add(figure{What: keysOf + "SIGTERM: revoke to live", Unit: "s", Target: atMost(3), Values: leaves, Other: -1, Note: note})
	s.add(figure{What: keysOf + "SIGTERM: unanswered", Unit: "s", Values: silentLeaves, Other: -1})
}

// keyOfEach finds a user of each partition, by the positions in the answers.
func (b *bench) keyOfEach(t *testing.T, svc *service, partitions int) []string {
	t.Helper()
	c, err := dial(svc.address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	found := map[string]string{}
	for user := 0; len(found) < partitions; user++ {
		body, err := c.get("/v1/aggregates/" + strconv.Itoa(user))
		if err != nil {
			t.Fatal(err)
		}
		var row struct{ Positions map[string]int64 }
		if err := json.Unmarshal(body, &row); err != nil {
			t.Fatal(err)
		}
		if len(row.Positions) != 1 {
			t.Fatalf("the answer for user %d has the positions %v", user, row.Positions)
		}
		for p := range row.Positions {
			found[p] = strconv.Itoa(user)
		}
	}
	var keys []string
	for _, key := range found {
		keys = append(keys, key)
	}
	return keys
}

// moves does act and waits until a partition of from is live at to. It returns
// how long that partition was folded by neither, and the longest that a key was
// not answered for by asked.
func (b *bench) moves(t *testing.T, from, to, asked *service, keys []string, act func()) (moved, silent time.Duration) {
	t.Helper()
	type seen struct {
		position int64
		at       time.Time
	}
	// A member that was told to end may answer nothing more: what it had folded
	// when it was told counts then.
	last, had := map[int32]seen{}, map[int32]bool{}
	look := func() {
		st, err := from.status()
		if err != nil {
			return
		}
		for _, p := range st.Partitions {
			if p.Position > last[p.Partition].position {
				last[p.Partition] = seen{p.Position, time.Now()}
			}
		}
	}
	look()
	if to.running() {
		st, err := to.status()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range st.Partitions {
			had[p.Partition] = true
		}
	}
	stop := make(chan struct{})
	longest := make(chan time.Duration, len(keys))
	for _, key := range keys {
		go func() { longest <- unanswered(asked.url+"/v1/aggregates/"+key, stop) }()
	}
	act()
	to.until(t, 2*time.Minute, 3*time.Millisecond, "a partition has moved", func() error {
		look()
		st, err := to.status()
		if err != nil {
			return err
		}
		for _, p := range st.Partitions {
			if !had[p.Partition] && p.State == "live" && !last[p.Partition].at.IsZero() {
				moved = time.Since(last[p.Partition].at)
				return nil
			}
		}
		return fmt.Errorf("the status is %+v", st.Partitions)
	})
	asked.until(t, time.Minute, 3*time.Millisecond, "all keys are answered for", func() error {
		for _, key := range keys {
			if !answered(asked.url + "/v1/aggregates/" + key) {
				return fmt.Errorf("there is no answer for %s", key)
			}
		}
		return nil
	})
	close(stop)
	for range keys {
		silent = max(silent, <-longest)
	}
	return moved, silent
}

// unanswered asks until stop and returns the longest without an answer.
func unanswered(url string, stop <-chan struct{}) (longest time.Duration) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	last := time.Now()
	for {
		if answered(url) {
			longest = max(longest, time.Since(last))
			last = time.Now()
		}
		select {
		case <-stop:
			return max(longest, time.Since(last))
		case <-tick.C:
		}
	}
}

func answered(url string) bool {
	resp, err := quick.Get(url)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}
