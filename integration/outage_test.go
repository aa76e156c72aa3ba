//go:build integration

package integration

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"tidemark/internal/testkit/servers"
)

// The broker is killed and away for fifteen seconds, a third of the session
// timeout. Answers go on without a break, the group's generation stays, and
// what came meanwhile is folded once.
func TestAnswersGoOnWhileTheBrokerIsAway(t *testing.T) {
	const partitions, events, away = 4, 4000, 15 * time.Second
	own := servers.NewKafka(t, servers.KafkaOptions{})
	cl := kafka(t, kgo.SeedBrokers(own.Address))
	topic := unique(t, "sales")
	createTopic(t, cl, topic, partitions)
	s := serve(t, settings{query: salesQuery(topic), brokers: own.Address, kafka: "session.timeout.ms: 45000"})
	o := newOracle(15, 200)
	o.feed(t, cl, topic, events)
	folded := func() error {
		st, err := s.status()
		if err != nil {
			return err
		}
		var consumed int64
		for _, p := range st.Partitions {
			consumed += p.consumed()
			if p.State != "live" || p.Lag != 0 {
				return fmt.Errorf("%+v, want live without lag", p)
			}
		}
		if consumed != o.consumed() || len(st.Partitions) != partitions {
			return fmt.Errorf("%d records in %d partitions are consumed, want %d", consumed, len(st.Partitions), o.consumed())
		}
		return nil
	}
	s.until(60*time.Second, "all folded", folded)

	before, err := s.status()
	if err != nil {
		t.Fatal(err)
	}
	keys := make([]string, 0, len(o.totals))
	for user := range o.totals {
		keys = append(keys, strconv.Itoa(user))
	}
	slices.Sort(keys)
	done, answers := make(chan struct{}), 0
	var polling sync.WaitGroup
	polling.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for ; ; answers++ {
			key := keys[answers%len(keys)]
			if code, body, err := s.get("/v1/aggregates/" + key); err != nil || code != http.StatusOK {
				t.Errorf("key %s: %d %s (%v)", key, code, body, err)
			}
			select {
			case <-tick.C:
			case <-done:
				return
			}
		}
	})
	own.Kill()
	pause(t, away)
	if err := own.Restart(); err != nil {
		t.Fatal(err)
	}
	cl = kafka(t, kgo.SeedBrokers(own.Address))
	o.feed(t, cl, topic, events)
	s.until(60*time.Second, "all folded after the outage", folded)
	close(done)
	polling.Wait()
	if answers < int(away/time.Second) {
		t.Errorf("only %d answers", answers)
	}
	o.check(t, s)
	if after, err := s.status(); err != nil || after.Generation != before.Generation {
		t.Errorf("generation %d after %d (%v): the outage cost a rebalance", after.Generation, before.Generation, err)
	}
	s.stop()
}

// A member is stopped for longer than its session, so that another folds its
// partitions on, and wakes. It never answers with less than the other has
// answered, and gets its share again.
func TestAMemberThatSleptAnswersWithNothingOld(t *testing.T) {
	const partitions, events = 4, 4000
	topic := newTopic(t, partitions)
	group := unique(t, "group")
	shared := sharedSnapshots(t, "1s")
	members := make([]*service, 2)
	for i := range members {
		members[i] = serve(t, settings{query: salesQuery(topic), group: group, rest: shared})
	}
	has := func(s *service, n int) func() error {
		return func() error {
			st, err := s.status()
			if err != nil {
				return err
			}
			for _, p := range st.Partitions {
				if p.State != "live" || p.Lag != 0 {
					return fmt.Errorf("%+v, want live without lag", p)
				}
			}
			if len(st.Partitions) != n {
				return fmt.Errorf("%d partitions, want %d", len(st.Partitions), n)
			}
			return nil
		}
	}
	share := func() {
		for _, s := range members {
			s.until(60*time.Second, "its share", has(s, partitions/len(members)))
		}
	}
	share()
	o := newOracle(16, 50)
	cl := kafka(t)
	o.feed(t, cl, topic, events)
	share()
	awake, sleeper := members[0], members[1]
	sleeper.signal(syscall.SIGSTOP)
	awake.until(60*time.Second, "all partitions", has(awake, partitions))
	o.feed(t, cl, topic, events)
	awake.caughtUp(topic)
	o.check(t, awake)
	least, err := awake.rows()
	if err != nil {
		t.Fatal(err)
	}

	sleeper.signal(syscall.SIGCONT)
	sleeper.until(60*time.Second, "its share again", func() error {
		for key, want := range least {
			r, err := sleeper.row(key)
			if err == nil && fmt.Sprint(r.Row["sales"]) != fmt.Sprint(want["sales"]) {
				t.Errorf("key %s has %v sales, and had %v before", key, r.Row["sales"], want["sales"])
			}
		}
		return has(sleeper, partitions/len(members))()
	})
	share()
	sleeper.stop()
	awake.caughtUp(topic)
	o.check(t, awake)
	awake.stop()
}
