//go:build integration

package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// owned is where a partition stands for everybody: the group's commit, and the
// newest snapshot.
type owned struct{ Offset, Seq, Epoch int64 }

// commitsOf are what the group has committed, with what the metadata names.
func commitsOf(t testing.TB, cl *kgo.Client, group, topic string, partitions int32) map[int32]owned {
	t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	one := kmsg.NewOffsetFetchRequestGroup()
	one.Group = group
	of := kmsg.NewOffsetFetchRequestGroupTopic()
	of.Topic = topic
	for p := range partitions {
		of.Partitions = append(of.Partitions, p)
	}
	one.Topics = append(one.Topics, of)
	req.Groups = append(req.Groups, one)
	resp, err := req.RequestWith(within(t), cl)
	if err == nil && len(resp.Groups) == 1 {
		err = kerr.ErrorForCode(resp.Groups[0].ErrorCode)
	}
	if err != nil || len(resp.Groups) != 1 || len(resp.Groups[0].Topics) != 1 {
		t.Fatalf("ask for the commits of %s: %v, %+v", group, err, resp)
	}
	at := map[int32]owned{}
	for _, p := range resp.Groups[0].Topics[0].Partitions {
		var note struct {
			Snapshot *struct{ Seq, Epoch int64 }
		}
		if p.Metadata == nil || json.Unmarshal([]byte(*p.Metadata), &note) != nil || note.Snapshot == nil {
			at[p.Partition] = owned{Offset: p.Offset}
			continue
		}
		at[p.Partition] = owned{p.Offset, note.Snapshot.Seq, note.Snapshot.Epoch}
	}
	return at
}

// snapshotsOf are all that a member lists.
func (s *service) snapshotsOf() (map[int32][]owned, error) {
	var list struct {
		Snapshots []struct {
			Partition            int32
			Seq, Epoch, Position int64
		}
	}
	if err := s.ask("/v1/snapshots", &list); err != nil {
		return nil, err
	}
	all := map[int32][]owned{}
	for _, n := range list.Snapshots {
		all[n.Partition] = append(all[n.Partition], owned{n.Position, n.Seq, n.Epoch})
	}
	return all, nil
}

// live are the partitions that the member says are live, with their positions.
func (s *service) live() (map[int32]int64, error) {
	st, err := s.status()
	if err != nil {
		return nil, err
	}
	at := map[int32]int64{}
	for _, p := range st.Partitions {
		if p.State == "live" {
			at[p.Partition] = p.Position
		}
	}
	return at, nil
}

// A member that sleeps past its session, while another takes its partitions
// and goes on, has nothing to say when it wakes: it commits nothing over the
// heir's commits, publishes nothing over its snapshots, and no answer through
// it is older than what the heir has answered, not even to requests that have
// waited for it to wake.
func TestASleeperHasNothingToSay(t *testing.T) {
	const partitions, users, session = 4, 300, 6
	topic, group := newTopic(t, partitions), unique(t, "group")
	shared := sharedSnapshots(t, "300ms, keep: 50")
	cl, o := kafka(t), newOracle(11, users)
	start := func() *service {
		return serve(t, settings{query: salesQuery(topic), group: group, rest: shared, kafka: fmt.Sprintf("session.timeout.ms: %d", session*1000)})
	}
	sleeper, heir := start(), start()
	o.feed(t, cl, topic, 3000)
	eventually(t, 60*time.Second, "both members live", func() error {
		a, err := sleeper.live()
		if err != nil {
			return err
		}
		b, err := heir.live()
		if err == nil && (len(a) == 0 || len(b) == 0 || len(a)+len(b) != partitions) {
			err = fmt.Errorf("live are %v and %v", a, b)
		}
		return err
	})

	sleeper.signal(syscall.SIGSTOP)
	o.feed(t, cl, topic, 3000)
	heir.caughtUp(topic)
	if resp, err := client.Post(heir.url+"/v1/snapshots", "application/json", http.NoBody); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("publish: %v %v", resp, err)
	} else {
		resp.Body.Close()
	}
	commits := commitsOf(t, cl, group, topic, partitions)
	snapshots, err := heir.snapshotsOf()
	if err != nil {
		t.Fatal(err)
	}
	floor := map[int]int64{}
	for user, total := range o.totals {
		floor[user] = total.sales
	}
	pause(t, time.Second)

	// These wait for it to wake.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var asking sync.WaitGroup
	answers, mu := map[string]int{}, sync.Mutex{}
	ask := func(user int, query string) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, sleeper.url+"/v1/aggregates/"+strconv.Itoa(user)+query, http.NoBody)
		if err != nil {
			t.Error(err)
			return
		}
		resp, err := client.Do(req)
		if err != nil {
			return // the test ends, or the sleeper has too much to do
		}
		defer resp.Body.Close()
		var r row
		switch want, there := floor[user], floor[user] > 0; {
		case resp.StatusCode == http.StatusNotFound && there && query == "":
			t.Errorf("user %d is not there, by the sleeper", user)
		case resp.StatusCode == http.StatusOK:
			if err := json.NewDecoder(resp.Body).Decode(&r); err != nil {
				t.Error(err)
			} else if !r.Complete && query == "" {
				t.Errorf("user %d is not whole by the sleeper", user)
			} else if !r.Complete {
				break // of this member alone: it says that there is more
			} else if sales, _ := r.Row["sales"].(float64); int64(sales) < want {
				t.Errorf("user %d has %v sales by the sleeper%s at %v, and had %d by the heir before: %+v", user, sales, query, r.Positions, want, r)
			}
		}
		mu.Lock()
		answers[strings.TrimSpace(resp.Status+" "+query)]++
		mu.Unlock()
	}
	for i := range 60 {
		asking.Go(func() { ask(i, []string{"", "?local=true"}[i%2]) })
	}
	pause(t, 500*time.Millisecond)
	sleeper.signal(syscall.SIGCONT)
	for i := range 4 {
		asking.Go(func() {
			for user := i; ctx.Err() == nil; user = (user + 7) % users {
				ask(user, []string{"", "?local=true"}[user%2])
				pause(t, 5*time.Millisecond)
			}
		})
	}
	// It comes back into the group, which gives it partitions again.
	eventually(t, 60*time.Second, "the sleeper is back", func() error {
		for p, now := range commitsOf(t, cl, group, topic, partitions) {
			if was := commits[p]; now.Offset < was.Offset || now.Epoch < was.Epoch || now.Seq < was.Seq {
				t.Fatalf("partition %d: the group's commit was %+v, and is %+v", p, was, now)
			}
		}
		a, err := sleeper.live()
		if err != nil {
			return err
		}
		b, err := heir.live()
		if err == nil && (len(a) == 0 || len(a)+len(b) != partitions) {
			err = fmt.Errorf("live are %v and %v", a, b)
		}
		return err
	})
	cancel()
	asking.Wait()
	t.Logf("answers by the sleeper: %v", answers)

	now, err := heir.snapshotsOf()
	if err != nil {
		t.Fatal(err)
	}
	for p, was := range snapshots {
		var newest owned
		for _, n := range was {
			if n.Seq > newest.Seq {
				newest = n
			}
		}
		for _, n := range now[p] {
			if n.Seq > newest.Seq && (n.Epoch < newest.Epoch || n.Offset < newest.Offset) {
				t.Errorf("partition %d: snapshot %+v was published after %+v", p, n, newest)
			}
		}
	}
	o.feed(t, cl, topic, 500)
	ends := ends(t, topic)
	eventually(t, 60*time.Second, "both members at the end", func() error {
		at := map[int32]int64{}
		for _, m := range []*service{sleeper, heir} {
			live, err := m.live()
			if err != nil {
				return err
			}
			for p, n := range live {
				at[p] = n
			}
		}
		for p, end := range ends {
			if at[p] != end {
				return fmt.Errorf("positions are %v, want %v", at, ends)
			}
		}
		return nil
	})
	for _, m := range []*service{sleeper, heir} {
		o.checkRows(t, m)
	}
	o.checkCounts(t, sleeper, heir)
	sleeper.stop()
	heir.stop()
}
