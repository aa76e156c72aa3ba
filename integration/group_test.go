//go:build integration

package integration

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"
)

// Three members of one group join and leave under load, by SIGTERM, by kill -9
// and by the loss of their disks, and share snapshots. At the end the last one
// has everything, exactly once.
func TestK07ThreeMembersJoinAndLeaveUnderLoad(t *testing.T) {
	const partitions, events, changes = 4, 60_000, 8
	topic := newTopic(t, partitions)
	group := unique(t, "group")
	shared := sharedSnapshots(t, "700ms")
	members := make([]*service, 3)
	for i := range members {
		members[i] = newService(t, settings{query: salesQuery(topic), group: group, rest: shared})
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
			if rnd.IntN(2) == 0 {
				if err := os.RemoveAll(m.dir); err != nil {
					t.Fatal(err)
				}
			}
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

// sharedSnapshots is the section of a snapshot store that several services
// share.
func sharedSnapshots(t testing.TB, interval string) string {
	return fmt.Sprintf("snapshots: {url: 'file://%s', interval: %s}", t.TempDir(), interval)
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
