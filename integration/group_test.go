//go:build integration

package integration

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// Three members of one group join and leave under load, by SIGTERM and by
// kill -9, each with a state of its own. At the end the last one has
// everything, exactly once.
func TestK07ThreeMembersJoinAndLeaveUnderLoad(t *testing.T) {
	const partitions, events, changes = 4, 60_000, 8
	topic := newTopic(t, partitions)
	group := unique(t, "group")
	members := make([]*service, 3)
	for i := range members {
		members[i] = newService(t, settings{query: salesQuery(topic), group: group})
		members[i].start()
		members[i].alive()
	}

	o := newOracle(7, 500)
	var load sync.WaitGroup
	load.Go(func() {
		cl := kafka(t)
		for fed := 0; fed < events && t.Context().Err() == nil; fed += 2000 {
			o.feed(t, cl, topic, 2000)
			pause(t, 150*time.Millisecond)
		}
	})

	rnd := rand.New(rand.NewPCG(7, 7))
	for range changes {
		m := members[1+rnd.IntN(2)]
		switch {
		case !m.running():
			m.start()
			m.alive()
		case rnd.IntN(2) == 0:
			m.stop()
		default:
			m.kill()
		}
		pause(t, time.Duration(300+rnd.IntN(900))*time.Millisecond)
	}
	load.Wait()

	for _, m := range members[1:] {
		if m.running() {
			m.stop()
		}
	}
	members[0].caughtUp(topic)
	o.check(t, members[0])
	members[0].stop()
}

// pause lets a moment pass in which the load goes on: what it is about has no
// other sign.
func pause(t testing.TB, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}
