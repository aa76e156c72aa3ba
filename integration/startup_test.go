//go:build integration

package integration

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"tidemark/internal/testkit/servers"
)

// Kafka comes after the service: it is alive and not ready meanwhile, and then
// it works. The broker dies under load, comes back, and nothing is lost.
func TestO09KafkaIsAwayAtStartAndLater(t *testing.T) {
	ports, err := servers.FreePorts(2)
	if err != nil {
		t.Fatal(err)
	}
	address := "127.0.0.1:" + strconv.Itoa(ports[0])
	topic := unique(t, "sales")
	s := newService(t, settings{brokers: address, query: salesQuery(topic)})
	s.start()
	s.alive()
	code, body, err := s.get("/readyz")
	if err != nil || code != 503 || !strings.Contains(string(body), "not_ready") {
		t.Errorf("GET /readyz without Kafka: %d %s %v, want 503", code, body, err)
	}

	own := servers.NewKafka(t, servers.KafkaOptions{Ports: ports})
	cl := kafka(t, kgo.SeedBrokers(own.Address))
	// The topic is not there yet: it is waited for.
	s.logs("does not exist")
	s.alive()
	createTopic(t, cl, topic, 2)
	o := newOracle(9, 100)
	o.feed(t, cl, topic, 1000)
	s.ready()
	consumed := func() error {
		st, err := s.status()
		if err != nil {
			return err
		}
		var n int64
		for _, p := range st.Partitions {
			n += p.consumed()
		}
		if n != o.consumed() {
			return fmt.Errorf("%d records consumed, want %d", n, o.consumed())
		}
		return nil
	}
	s.until(60*time.Second, "all consumed", consumed)

	own.Kill()
	if code, _, err := s.get("/healthz"); err != nil || code != 200 {
		t.Errorf("GET /healthz while the broker is away: %d %v, want 200", code, err)
	}
	if err := own.Restart(); err != nil {
		t.Fatal(err)
	}
	o.feed(t, cl, topic, 1000)
	s.until(90*time.Second, "all consumed after the broker came back", consumed)
	s.ready()
	o.check(t, s)
	s.stop()
}

// "latest" is resolved to a number once: what comes between a crash and the
// restart is not lost.
func TestB14LatestIsResolvedOnce(t *testing.T) {
	topic := newTopic(t, 2)
	produce(t, topic, 0, sale("U-14", "5.00")) // before the service: not wanted
	s := newService(t, settings{query: fmt.Sprintf(revenueQuery, topic), kafka: "auto.offset.reset: latest"})
	s.start()
	s.caughtUp(topic)
	s.kill()
	produce(t, topic, 0, sale("U-14", "1.00"), sale("U-14", "1.00"))
	produce(t, topic, 1, sale("U-14", "1.00"))
	s.start()
	s.ready()
	s.caughtUp(topic)
	s.want("U-14", `{"revenue":3,"sales":3}`)
}
