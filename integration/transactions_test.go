//go:build integration

package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const revenueQuery = `SELECT userId, sum(revenue) AS revenue, count(*) AS sales FROM "%s" GROUP BY userId`

// transaction produces values in one transaction to partition 0 and ends it.
func transaction(t *testing.T, topic string, end kgo.TransactionEndTry, values ...string) {
	t.Helper()
	cl := kafka(t, kgo.TransactionalID(unique(t, "tx")), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	var records []*kgo.Record
	for _, v := range values {
		records = append(records, &kgo.Record{Topic: topic, Value: []byte(v)})
	}
	if err := cl.ProduceSync(within(t), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := cl.EndTransaction(within(t), end); err != nil {
		t.Fatal(err)
	}
}

func sale(user, revenue string) string {
	return fmt.Sprintf(`{"userId":%q,"revenue":%s}`, user, revenue)
}

func TestK17AbortedTransactionsAreNotCounted(t *testing.T) {
	topic := newTopic(t, 1)
	s := serve(t, settings{query: fmt.Sprintf(revenueQuery, topic)})
	transaction(t, topic, kgo.TryAbort, sale("U-1", "10.00"), sale("U-1", "10.00"), sale("U-1", "10.00"))
	transaction(t, topic, kgo.TryCommit, sale("U-1", "10.00"))
	// A broker writes the markers of a transaction after it has answered its
	// end: what is readable may stand before it for a moment yet.
	s.eventuallyWant("U-1", `{"revenue":10,"sales":1}`)
	st, err := s.status()
	if err != nil {
		t.Fatal(err)
	}
	if c := st.Partitions[0].Counts; c.Folded != 1 {
		t.Errorf("counts are %+v, want one record folded", c)
	}
}

func TestK15LagIsZeroBehindTransactionMarkers(t *testing.T) {
	topic := newTopic(t, 1)
	s := serve(t, settings{query: fmt.Sprintf(revenueQuery, topic)})
	lagIsZero := func(position int64) {
		t.Helper()
		s.until(30*time.Second, "lag", func() error {
			st, err := s.status()
			if err != nil {
				return err
			}
			if p := st.Partitions[0]; p.Position != position || p.Lag != 0 || p.HighWatermark != position || p.State != "live" {
				return fmt.Errorf("%+v, want position %d, lag 0, live", p, position)
			}
			return nil
		})
	}
	var ten []string
	for range 10 {
		ten = append(ten, sale("U-15", "1.00"))
	}
	transaction(t, topic, kgo.TryCommit, ten...)
	lagIsZero(11)
	transaction(t, topic, kgo.TryAbort, ten...) // nothing but what is passed over
	lagIsZero(22)
	s.want("U-15", `{"revenue":10,"sales":10}`)

	// The end that is readable stands before an open transaction.
	open := kafka(t, kgo.TransactionalID(unique(t, "tx")), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err := open.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := open.ProduceSync(within(t), &kgo.Record{Topic: topic, Value: []byte(ten[0])}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	produce(t, topic, 0, ten[0])
	lagIsZero(22)

	// A restart in the middle of it changes nothing.
	s.kill()
	s.start()
	s.ready()
	lagIsZero(22)
	if err := open.EndTransaction(within(t), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	lagIsZero(25)
	s.want("U-15", `{"revenue":12,"sales":12}`)
}
