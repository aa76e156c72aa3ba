package kafka

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/internal/testkit"
)

// answerTo makes a response to a fetch request, with the same in each
// partition.
func answerTo(req *kmsg.FetchRequest, fill func(p kmsg.FetchRequestTopicPartition, to *kmsg.FetchResponseTopicPartition)) *kmsg.FetchResponse {
	resp := req.ResponseKind().(*kmsg.FetchResponse)
	for _, rt := range req.Topics {
		st := kmsg.NewFetchResponseTopic()
		st.Topic = rt.Topic
		for _, rp := range rt.Partitions {
			sp := kmsg.NewFetchResponseTopicPartition()
			sp.Partition = rp.Partition
			sp.RecordBatches = []byte{}
			fill(rp, &sp)
			st.Partitions = append(st.Partitions, sp)
		}
		resp.Topics = append(resp.Topics, st)
	}
	return resp
}

// emptyBatch is a record batch without records. wrong is added to its sum.
func emptyBatch(first int64, lastDelta int32, wrong int32) []byte {
	b := kmsg.RecordBatch{FirstOffset: first, Length: 49, Magic: 2, LastOffsetDelta: lastDelta, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1}
	raw := b.AppendTo(nil)
	b.CRC = int32(sumOf(raw[21:])) + wrong
	return b.AppendTo(nil)
}

// One batch that nobody can read stops its partition, says where, and nothing
// else. What lies before it is read.
func TestACorruptBatchStopsItsPartitionAlone(t *testing.T) {
	t.Parallel()
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: topic, Partitions: 3})
	for p := range int32(3) {
		for i := range 3 {
			b.Produce(topic, p, testkit.Text("", fmt.Sprint(i)))
		}
	}
	// Partition 1 is corrupt at offset 1, behind a batch that is not.
	b.ControlKey(int16(kmsg.Fetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		req := kreq.(*kmsg.FetchRequest)
		bad := false
		for _, rt := range req.Topics {
			for _, rp := range rt.Partitions {
				bad = bad || rp.Partition == 1 && rp.FetchOffset <= 1
			}
		}
		if !bad {
			return nil, nil, false
		}
		return answerTo(req, func(rp kmsg.FetchRequestTopicPartition, to *kmsg.FetchResponseTopicPartition) {
			if rp.Partition == 1 {
				to.HighWatermark, to.LastStableOffset = 3, 3
				if rp.FetchOffset == 0 {
					to.RecordBatches = batchOf(kmsg.RecordBatch{ProducerID: -1}, kmsg.Record{Value: []byte("0")})
				}
				to.RecordBatches = append(to.RecordBatches, emptyBatch(1, 0, 1)...)
			}
		}), nil, true
	})
	f := startFetcher(t, configOf(t, b), FetchOptions{MaxWait: 100 * time.Millisecond})
	corrupt := read(t, f, 1, 0)
	err := corrupt.fails()
	if err == nil || !strings.Contains(err.Error(), "offset 1 of partition 1") || !strings.Contains(err.Error(), "corrupt") {
		t.Errorf("%v, want an error that names offset and partition", err)
	}
	if !slices.Equal(values(corrupt.got), []string{"0"}) {
		t.Errorf("before it, %v was read, want [0]", values(corrupt.got))
	}
	for _, p := range []int32{0, 2} {
		read(t, f, p, 0).until(3)
	}
}

// S17: compaction leaves batches without records at the end of a log. They are
// passed, and nothing spins on them.
func TestS17BatchesWithoutRecordsAtTheEnd(t *testing.T) {
	t.Parallel()
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: topic})
	b.Produce(topic, 0, testkit.Text("", "0"), testkit.Text("", "1"))
	var asked atomic.Int32
	b.ControlKey(int16(kmsg.Fetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		req := kreq.(*kmsg.FetchRequest)
		switch req.Topics[0].Partitions[0].FetchOffset {
		case 2:
			return answerTo(req, func(_ kmsg.FetchRequestTopicPartition, to *kmsg.FetchResponseTopicPartition) {
				to.HighWatermark, to.LastStableOffset = 10, 10
				to.RecordBatches = append(emptyBatch(2, 3, 0), emptyBatch(6, 1, 0)...)
			}), nil, true
		case 8: // and, wrongly, nothing at all
			asked.Add(1)
			return answerTo(req, func(_ kmsg.FetchRequestTopicPartition, to *kmsg.FetchResponseTopicPartition) {
				to.HighWatermark, to.LastStableOffset = 10, 10
			}), nil, true
		}
		return nil, nil, false
	})
	r := read(t, startFetcher(t, configOf(t, b), FetchOptions{}), 0, 0).until(8)
	if r.next != 8 || len(r.got) != 2 || r.end != 10 {
		t.Errorf("position %d of %d with %d records", r.next, r.end, len(r.got))
	}
	testkit.Eventually(t, 10*time.Second, func() bool { return asked.Load() > 0 }, "it asks on")
	began := time.Now()
	testkit.Eventually(t, 10*time.Second, func() bool { return asked.Load() > 10 }, "it asks ten times")
	if d := time.Since(began); d < 100*time.Millisecond {
		t.Errorf("ten empty answers took %s: it spins", d)
	}
}

// Each error of a partition is passed, or told.
func TestErrorsOfAPartition(t *testing.T) {
	t.Parallel()
	passing := []*kerr.Error{
		kerr.NotLeaderForPartition, kerr.FencedLeaderEpoch, kerr.UnknownLeaderEpoch, kerr.LeaderNotAvailable,
		kerr.ReplicaNotAvailable, kerr.UnknownTopicOrPartition, kerr.KafkaStorageError, kerr.OffsetNotAvailable, kerr.RequestTimedOut,
	}
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: topic})
	b.Produce(topic, 0, testkit.Text("", "0"))
	f := startFetcher(t, configOf(t, b), FetchOptions{MaxWait: 50 * time.Millisecond})
	fail := func(e *kerr.Error) {
		b.ControlKey(int16(kmsg.Fetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
			req := kreq.(*kmsg.FetchRequest)
			if req.Topics[0].Partitions[0].FetchOffset > 0 {
				return nil, nil, false // of the feed before
			}
			return answerTo(req, func(_ kmsg.FetchRequestTopicPartition, to *kmsg.FetchResponseTopicPartition) {
				to.ErrorCode = e.Code
			}), nil, true
		})
	}
	for _, e := range passing {
		fail(e)
		r := read(t, f, 0, 0).until(1)
		r.feed.Close()
	}
	fail(kerr.TopicAuthorizationFailed)
	r := read(t, f, 0, 0)
	if err := r.fails(); !strings.Contains(strings.ToLower(err.Error()), "authoriz") {
		t.Errorf("%v, want what is not allowed", err)
	}
	r.until(1) // once it is allowed
}

// The watchdog makes new connections where a broker takes a request and never
// answers,
func TestTheWatchdogConnectsAnew(t *testing.T) {
	t.Parallel()
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: topic})
	b.Produce(topic, 0, testkit.Text("", "0"))
	b.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) { return nil, nil, true })
	read(t, startFetcher(t, configOf(t, b), FetchOptions{Watchdog: 400 * time.Millisecond}), 0, 0).until(1)
}

// and ends the process where that does not help.
func TestTheWatchdogEndsTheProcess(t *testing.T) {
	t.Parallel()
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: topic})
	b.Produce(topic, 0, testkit.Text("", "0"))
	b.ControlKey(int16(kmsg.Fetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		return answerTo(kreq.(*kmsg.FetchRequest), func(kmsg.FetchRequestTopicPartition, *kmsg.FetchResponseTopicPartition) {}), nil, true
	})
	f := NewFetcher(openClient(t, configOf(t, b)), FetchOptions{Watchdog: 300 * time.Millisecond})
	feed := f.Open(0, 0)
	defer feed.Close()
	err := f.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "partition 0") {
		t.Errorf("run: %v", err)
	}
	if _, err := feed.Next(t.Context()); !errors.Is(err, errFeedClosed) {
		t.Errorf("next: %v", err)
	}
}

// An idle partition is none of the watchdog's business.
func TestTheWatchdogLeavesIdlePartitionsAlone(t *testing.T) {
	t.Parallel()
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: topic})
	b.Produce(topic, 0, testkit.Text("", "0"))
	bounds := b.Count(int16(kmsg.ListOffsets))
	f := startFetcher(t, configOf(t, b), FetchOptions{Watchdog: 100 * time.Millisecond})
	r := read(t, f, 0, 0).until(1)
	testkit.Eventually(t, 10*time.Second, func() bool { return bounds() >= 6 }, "it looks three times")
	b.Produce(topic, 0, testkit.Text("", "1"))
	r.until(2)
}
