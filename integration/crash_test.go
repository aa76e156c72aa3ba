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
func TestKillNineAtRandomMoments(t *testing.T) {
	events, kills := fromEnv(t, "SOAK_EVENTS", 100_000), fromEnv(t, "SOAK_KILLS", 5)
	seed := uint64(fromEnv(t, "SOAK_SEED", 1))
	topic := newTopic(t, 4)
	s := newService(t, settings{
		query: salesQuery(topic),
		// A static member comes back to its partitions without a wait.
		kafka: "group.instance.id: " + unique(t, "member") + "\nsession.timeout.ms: 10000",
		state: "apply_records: 5000\napply_interval: 100ms",
	})

	o := newOracle(seed, 2000)
	rnd := rand.New(rand.NewPCG(seed, 2))
	cl := kafka(t)
	// Each life gets its share of the events while it lives.
	share := events / (kills + 1)
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
		pause(t, time.Duration(rnd.IntN(700))*time.Millisecond)
		s.kill()
		load.Wait()
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

// SIGTERM under load ends the process with 0 in time, and a restart goes on
// exactly where it was; a second SIGTERM ends it at once, still exact.
func TestO03SIGTERMUnderLoad(t *testing.T) {
	const rounds, share = 4, 10_000
	topic := newTopic(t, 4)
	s := newService(t, settings{query: salesQuery(topic), state: "apply_records: 5000\napply_interval: 1s"})
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
