package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/aggregator"
	"tidemark/internal/testkit"
)

func TestTopicIsDescribedAfresh(t *testing.T) {
	t.Parallel()
	b := testkit.NewBroker(t, testkit.BrokerOptions{Brokers: 2})
	c := openClient(t, configOf(t, b))
	if _, err := c.Topic(t.Context()); !errors.Is(err, aggregator.ErrNoTopic) {
		t.Fatalf("%v, want no such topic", err)
	}
	b.CreateTopic(topic, 3)
	first, err := c.Topic(t.Context())
	if err != nil || first.Name != topic || first.Partitions != 3 || len(first.ID) != 22 {
		t.Fatalf("%+v, %v", first, err)
	}
	b.SetPartitions(topic, 4)
	if got, err := c.Topic(t.Context()); err != nil || got.Partitions != 4 || got.ID != first.ID {
		t.Errorf("with a partition more: %+v, %v", got, err)
	}
	b.DeleteTopic(topic)
	b.CreateTopic(topic, 1)
	if got, err := c.Topic(t.Context()); err != nil || got.ID == first.ID || got.Partitions != 1 {
		t.Errorf("created again: %+v, %v", got, err)
	}
}

func TestOffsetAt(t *testing.T) {
	t.Parallel()
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: topic})
	at := time.UnixMilli(1_438_161_432_000)
	for i := range 5 {
		b.Produce(topic, 0, testkit.Message{Value: []byte("x"), Time: at.Add(time.Duration(i) * time.Second)})
	}
	c := openClient(t, configOf(t, b))
	for _, want := range []struct {
		t      time.Time
		offset int64
	}{
		{at.Add(-time.Hour), 0}, {at, 0}, {at.Add(time.Nanosecond), 1}, {at.Add(time.Second), 1},
		{at.Add(1500 * time.Millisecond), 2}, {at.Add(4 * time.Second), 4}, {at.Add(4*time.Second + 1), 5}, {at.Add(time.Hour), 5},
		{time.Unix(-1000, 0), 0},
	} {
		if got, err := c.OffsetAt(t.Context(), 0, want.t); err != nil || got != want.offset {
			t.Errorf("at %v: %d (%v), want %d", want.t, got, err, want.offset)
		}
	}
}

func TestNewest(t *testing.T) {
	t.Parallel()
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: topic, Partitions: 2})
	for i := range 20 {
		b.Produce(topic, 0, testkit.Text(fmt.Sprint("k", i), fmt.Sprint(i)))
	}
	c := openClient(t, configOf(t, b))
	for _, n := range []int{1, 5, 20, 100} {
		got, err := c.Newest(t.Context(), 0, n)
		if err != nil {
			t.Fatal(err)
		}
		if want := min(n, 20); len(got) != want || string(got[0].Key) != fmt.Sprint("k", 20-want) || got[want-1].Offset != 19 {
			t.Errorf("newest %d: %v", n, values(got))
		}
	}
	if got, err := c.Newest(t.Context(), 1, 5); err != nil || len(got) != 0 {
		t.Errorf("of an empty partition: %v, %v", got, err)
	}
	tx := b.NewTransactions("tx")
	tx.Begin()
	tx.Produce(topic, 1, testkit.Text("", "no"))
	tx.Abort()
	if got, err := c.Newest(t.Context(), 1, 5); err != nil || len(got) != 0 {
		t.Errorf("of aborted records: %v, %v", got, err)
	}
}

func TestQuestionsFollowTheLeaderAndTheCoordinator(t *testing.T) {
	t.Parallel()
	b := testkit.NewBroker(t, testkit.BrokerOptions{Brokers: 3, Topic: topic})
	b.Produce(topic, 0, testkit.Text("", "x"))
	c := openClient(t, configOf(t, b))
	for i := range 6 {
		if _, end, err := c.Bounds(t.Context(), 0); err != nil || end != 1 {
			t.Fatalf("bounds end at %d (%v)", end, err)
		}
		want := map[int32]aggregator.Commit{0: {Offset: int64(i)}}
		if refused, err := c.Commit(t.Context(), NoGeneration, "", want); err != nil || len(refused) > 0 {
			t.Fatalf("commit: %v, %v", refused, err)
		}
		if got, err := c.Committed(t.Context()); err != nil || got[0] != want[0] {
			t.Fatalf("committed %v (%v), want %v", got, err, want)
		}
		b.Move(topic, 0)
		if i == 2 {
			b.Break(int16(kmsg.ListOffsets), 1)
			b.Break(int16(kmsg.OffsetFetch), 1)
		}
	}
}

func TestQuestionsEndWithTheirContext(t *testing.T) {
	t.Parallel()
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: topic})
	b.ControlKey(int16(kmsg.ListOffsets), func(kmsg.Request) (kmsg.Response, error, bool) { return nil, nil, true }) // no answer
	c := openClient(t, configOf(t, b))
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, _, err := c.Bounds(ctx, 0); err == nil {
		t.Error("an answer came")
	}
	if d := time.Since(began); d > 3*time.Second {
		t.Errorf("it took %s", d)
	}
	// and the connection is made anew
	if _, _, err := c.Bounds(t.Context(), 0); err != nil {
		t.Error(err)
	}
}

func TestAPartitionThatIsNotThere(t *testing.T) {
	t.Parallel()
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: topic})
	c := openClient(t, configOf(t, b))
	for _, p := range []int32{1, -1} {
		if _, _, err := c.Bounds(t.Context(), p); !errors.Is(err, aggregator.ErrNoTopic) {
			t.Errorf("partition %d: %v", p, err)
		}
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	good := Config{Brokers: []string{"localhost:9092"}, Topic: topic, GroupID: "g"}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		spoil func(*Config)
		wants string
	}{
		{func(c *Config) { c.Brokers = nil }, "bootstrap.servers"},
		{func(c *Config) { c.Brokers = []string{"localhost"} }, `"localhost"`},
		{func(c *Config) { c.Topic = "a b" }, `"a b"`},
		{func(c *Config) { c.Topic = ".." }, `".."`},
		{func(c *Config) { c.GroupID = "" }, "group.id"},
		{func(c *Config) { c.GroupInstanceID = "a/b" }, "group.instance.id"},
		{func(c *Config) { c.SessionTimeout = time.Second }, "session.timeout.ms"},
		{func(c *Config) { c.SecurityProtocol = "TLS" }, "SASL_SSL"},
		{func(c *Config) { c.IsolationLevel = "committed" }, "read_committed"},
		{func(c *Config) { c.SASL.Username = "me" }, "security.protocol"},
		{func(c *Config) { c.TLS.CAFile = "ca.pem" }, "security.protocol"},
		{func(c *Config) { c.SecurityProtocol = "SSL"; c.TLS.CAFile = "/no/such.pem" }, "ssl.ca.location"},
		{func(c *Config) { c.SecurityProtocol = "SSL"; c.TLS.CertFile = "x" }, "belong together"},
		{func(c *Config) { c.SecurityProtocol = "SASL_SSL"; c.SASL = SASL{"SCRAM", "u", "p"} }, "SCRAM-SHA-512"},
		{func(c *Config) { c.SecurityProtocol = "SASL_SSL"; c.SASL = SASL{"PLAIN", "", "p"} }, "sasl.username"},
		{func(c *Config) { c.SecurityProtocol = "SASL_SSL"; c.SASL = SASL{"PLAIN", "u", "file:/no/such"} }, "sasl.password"},
	} {
		cfg := good
		c.spoil(&cfg)
		if err := cfg.Validate(); err == nil || !contains(err.Error(), c.wants) {
			t.Errorf("%+v: %v, want a word on %s", cfg, err, c.wants)
		}
	}
	many := Config{SecurityProtocol: "x", IsolationLevel: "y"}
	if err := many.Validate(); !contains(err.Error(), "bootstrap.servers") || !contains(err.Error(), "group.id") || !contains(err.Error(), "isolation.level") {
		t.Errorf("not all problems are told: %v", err)
	}
	if got := slices.Sorted(slices.Values(mechanisms)); len(got) != 4 {
		t.Errorf("mechanisms are %v", got)
	}
}
