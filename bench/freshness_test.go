package bench

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// probers measure freshness, each one event after another.
const probers = 4

// measureFreshness has events come in, and now and then one whose answer is
// waited for: from before it is handed to the producer until the row that holds
// it has been read over HTTP. So the broker's acknowledgement is in it.
func measureFreshness(t *testing.T, b *bench, s *section) {
	f := b.fillUp(t, b.size.Users)
	svc := b.newService(t, f.set)
	svc.start(t)
	svc.ready(t, time.Minute)
	load := b.offer(t, f.set.topic, partitions, f.sales, b.size.Offered)
	client, err := b.broker.newClient(kgo.ProducerLinger(0))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	probe := func(c *conn, w, n int) error {
		key := fmt.Sprintf("probe-%d", w)
		r := &kgo.Record{Topic: f.set.topic, Key: []byte(key), Value: fmt.Appendf(nil,
			`{"userId":"%s","saleTimestamp":"2015-07-29T00:00:00Z","totalRevenue":0.01,"totalPoints":1,"productList":[]}`, key)}
		if err := client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			return err
		}
		body, err := c.get(fmt.Sprintf("/v1/aggregates/%s?min_offset=%d:%d&timeout=10s", key, r.Partition, r.Offset+1))
		if err == nil && !strings.Contains(string(body), `"key":"`+key+`"`) {
			err = fmt.Errorf("the answer is %s", body)
		}
		return err
	}
	press(t, svc.address, probers, 20*time.Millisecond, b.span()/5, probe)
	measured := []struct {
		name   string
		share  float64
		target target
		values []float64
	}{{"p50", 0.5, atMost(15), nil}, {"p99", 0.99, atMost(60), nil}, {"longest", 1, target{}, nil}}
	m := b.meter()
	at, probes := svc.cpu(), 0
	for range b.size.Runs {
		times := press(t, svc.address, probers, 10*time.Millisecond, b.span(), probe)
		probes += len(times)
		for i, q := range measured {
			measured[i].values = append(q.values, quantile(times, q.share))
		}
		b.say("freshness: p50 %.2f ms, p99 %.2f ms of %d probes", quantile(times, 0.5), quantile(times, 0.99), len(times))
	}
	other := m.others(svc.cpu() - at)
	rate := load.stop(t)
	svc.stop(t)
	for _, q := range measured {
		s.add(figure{What: "produced to readable over HTTP: " + q.name, Unit: "ms", Target: q.target, Values: q.values, Other: other,
			Note: fmt.Sprintf("%s probes %s", grouped(strconv.Itoa(probes)), foldingAt(rate))})
	}
}
