//go:build integration

package integration

import (
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// fromEnv reads the size of a soak run, else the suite's.
func fromEnv(t testing.TB, name string, fallback int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return fallback
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s is %q, want a whole number from 1", name, text)
	}
	return n
}

// kill -9 at random moments, from the first milliseconds of a run to the
// middle of its folding and applying, each time restarted on the same state.
// `make soak` runs a million events and twenty kills.
func TestS16KillNineAtRandomMoments(t *testing.T) {
	events, kills := fromEnv(t, "SOAK_EVENTS", 100_000), fromEnv(t, "SOAK_KILLS", 5)
	seed := uint64(fromEnv(t, "SOAK_SEED", 1))
	topic := newTopic(t, 4)
	s := newService(t, settings{
		query: salesQuery(topic),
		// A static member comes back to its partitions without a wait.
		kafka: "group.instance.id: " + unique(t, "member") + "\nsession.timeout.ms: 10000",
		state: "apply_records: 5000\napply_interval: 60ms\nmemory: 16MiB",
	})

	o := newOracle(seed, 2000)
	rnd := rand.New(rand.NewPCG(seed, 2))
	cl := kafka(t)
	// Each life gets its share of the events while it lives.
	share := events / (kills + 1)
	durable := map[int32]int64{}
	for life := range kills {
		s.start()
		var load sync.WaitGroup
		load.Go(func() {
			for fed := 0; fed < share; fed += share / 10 {
				o.feed(t, cl, topic, min(share/10, share-fed))
			}
		})
		// One life in three ends while it starts, the others in their folding.
		if life%3 != 2 {
			s.ready()
		}
		pause(t, time.Duration(rnd.IntN(2500))*time.Millisecond)
		s.kill()
		durable = s.durable(durable)
		load.Wait()
	}
	if len(durable) == 0 {
		t.Error("no kill left anything durable: the restarts began at the beginning, which proves little")
	}
	o.feed(t, cl, topic, events-o.n)
	s.start()
	s.ready()
	s.caughtUp(topic)
	o.check(t, s)

	// A killed process that folds nothing more comes back with the same rows.
	s.kill()
	s.start()
	s.ready()
	s.caughtUp(topic)
	o.check(t, s)
	s.stop()
}

// SIGTERM under load, twenty times, ends the process with 0 in time, and a
// restart goes on exactly where it was; a second SIGTERM, in every other round,
// ends it at once, still exact.
func TestO03SIGTERMUnderLoad(t *testing.T) {
	const rounds, share = 20, 5_000
	topic := newTopic(t, 4)
	s := newService(t, settings{
		query: salesQuery(topic),
		// A member that ended at once comes back to its partitions without a wait.
		kafka: "group.instance.id: " + unique(t, "member"),
		state: "apply_records: 2500\napply_interval: 1s",
	})
	o := newOracle(3, 1000)
	cl := kafka(t)
	for round := range rounds {
		s.start()
		s.ready()
		var load sync.WaitGroup
		load.Go(func() {
			for range 10 {
				o.feed(t, cl, topic, share/10)
				pause(t, 20*time.Millisecond)
			}
		})
		pause(t, 120*time.Millisecond)
		if round%2 == 0 {
			s.stop()
		} else {
			s.signal(syscall.SIGTERM)
			s.signal(syscall.SIGTERM)
			s.exit(3 * time.Second)
		}
		load.Wait()
	}
	s.start()
	s.ready()
	s.caughtUp(topic)
	o.check(t, s)
	s.stop()
}

// A SIGTERM while the group and the state are still coming up ends the process
// as well as any other.
func TestO03SIGTERMWhileItStarts(t *testing.T) {
	topic := newTopic(t, 1)
	s := newService(t, settings{query: salesQuery(topic)})
	for range 3 {
		s.start()
		s.alive()
		s.stop()
	}
}

// durable looks at what a crash has left on disk: in each partition a prefix of
// the log, whole, with its counts, and nothing that was durable before is gone.
// It returns the positions above zero.
func (s *service) durable(before map[int32]int64) map[int32]int64 {
	s.t.Helper()
	code, out, errs := command(s.t, "inspect", "--json", s.dir)
	if code != 0 && len(before) == 0 {
		return before // killed before there was any state
	}
	var in struct {
		Partitions []struct {
			Partition int32
			Position  int64
			Counts    map[string]int64
		}
	}
	if err := decode([]byte(out), &in); err != nil || code != 0 {
		s.t.Fatalf("inspect after a kill: exit %d, %v\n%s%s", code, err, out, errs)
	}
	after := map[int32]int64{}
	for _, p := range in.Partitions {
		var consumed int64
		for _, n := range p.Counts {
			consumed += n
		}
		if consumed != p.Position {
			s.t.Errorf("partition %d is at %d on disk, and counts %d records", p.Partition, p.Position, consumed)
		}
		if p.Position < before[p.Partition] {
			s.t.Errorf("partition %d is at %d on disk, and was at %d before", p.Partition, p.Position, before[p.Partition])
		}
		if p.Position > 0 {
			after[p.Partition] = p.Position
		}
	}
	s.t.Logf("on disk after the kill: %v", after)
	return after
}
