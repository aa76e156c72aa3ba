package kafka

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"pgregory.net/rapid"

	"tidemark/aggregator"
)

// Random logs of transactions are unpacked as a reader does that knows how each
// of them ended, whatever the fetch begins with.
func TestUnpackAgainstTheWholeLog(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		type written struct {
			batch   *sarama.RecordBatch
			aborted bool
		}
		var log []written
		open := map[int64][]int{} // producer -> its batches in the open transaction
		began := map[int64]int64{}
		var aborted []*sarama.AbortedTransaction
		ends := map[*sarama.AbortedTransaction]int64{}
		next := int64(0)
		add := func(producer int64, transactional, control bool, n int, key []byte) int {
			b := &sarama.RecordBatch{FirstOffset: next, Version: 2, ProducerID: producer, IsTransactional: transactional, Control: control, LastOffsetDelta: int32(n - 1), FirstTimestamp: time.UnixMilli(1000)}
			for i := range n {
				if n > 1 && rapid.IntRange(0, 9).Draw(r, "hole") == 0 {
					continue // compacted away
				}
				b.Records = append(b.Records, &sarama.Record{OffsetDelta: int64(i), Key: key, Value: []byte{byte(i)}})
			}
			log = append(log, written{batch: b})
			next += int64(n)
			return len(log) - 1
		}
		for range rapid.IntRange(1, 30).Draw(r, "steps") {
			p := int64(rapid.IntRange(0, 3).Draw(r, "producer"))
			switch rapid.IntRange(0, 3).Draw(r, "what") {
			case 0:
				add(-1, false, false, rapid.IntRange(1, 4).Draw(r, "n"), nil)
			case 1, 2:
				if len(open[p]) == 0 {
					began[p] = next
				}
				open[p] = append(open[p], add(p, true, false, rapid.IntRange(1, 4).Draw(r, "n"), nil))
			case 3:
				if len(open[p]) == 0 {
					continue
				}
				commit := rapid.Bool().Draw(r, "commit")
				marker := []byte{0, 0, 0, 0}
				if commit {
					marker[3] = 1
				}
				at := add(p, true, true, 1, marker)
				if !commit {
					for _, i := range open[p] {
						log[i].aborted = true
					}
					a := &sarama.AbortedTransaction{ProducerID: p, FirstOffset: began[p]}
					aborted = append(aborted, a)
					ends[a] = log[at].batch.FirstOffset
				}
				open[p] = nil
			}
		}
		stable := next
		for p, batches := range open {
			if len(batches) > 0 {
				stable = min(stable, began[p])
			}
		}
		from := int64(rapid.IntRange(0, int(next)).Draw(r, "from"))
		block := &sarama.FetchResponseBlock{}
		var want []aggregator.Record
		for _, w := range log {
			if w.batch.LastOffset() < from || w.batch.FirstOffset >= stable {
				continue
			}
			block.RecordsSet = append(block.RecordsSet, &sarama.Records{RecordBatch: w.batch})
			if w.batch.Control || w.aborted {
				continue
			}
			for _, rec := range w.batch.Records {
				if at := w.batch.FirstOffset + rec.OffsetDelta; at >= from {
					want = append(want, aggregator.Record{Offset: at, Timestamp: 1000, Key: rec.Key, Value: rec.Value})
				}
			}
		}
		for _, a := range aborted { // those that a broker tells: what overlaps the fetch
			if ends[a] >= from && a.FirstOffset < stable {
				block.AbortedTransactions = append(block.AbortedTransactions, a)
			}
		}
		block.AbortedTransactions = rapid.Permutation(block.AbortedTransactions).Draw(r, "told")
		got := unpack(nil, block, from, true)
		if !slices.EqualFunc(got, want, func(a, b aggregator.Record) bool { return reflect.DeepEqual(a, b) }) {
			r.Fatalf("from %d: got %v, want %v", from, got, want)
		}
		sp := measure(block, from)
		last := from
		if n := len(block.RecordsSet); n > 0 {
			last = max(last, block.RecordsSet[n-1].RecordBatch.LastOffset()+1)
		}
		if sp.next != last || sp.cut {
			r.Fatalf("next is %d (%v), want %d", sp.next, sp.cut, last)
		}
	})
}

func TestTimestampsOfTheBroker(t *testing.T) {
	rec := &sarama.Record{TimestampDelta: 5 * time.Millisecond}
	batch := func(b sarama.RecordBatch) *sarama.FetchResponseBlock {
		b.Records = []*sarama.Record{rec}
		return &sarama.FetchResponseBlock{RecordsSet: []*sarama.Records{{RecordBatch: &b}}}
	}
	first, last := time.UnixMilli(1000), time.UnixMilli(2000)
	for _, c := range []struct {
		batch sarama.RecordBatch
		want  int64
	}{
		{sarama.RecordBatch{FirstTimestamp: first, MaxTimestamp: last}, 1005},
		{sarama.RecordBatch{FirstTimestamp: first, MaxTimestamp: last, LogAppendTime: true}, 2000},
	} {
		if got := unpack(nil, batch(c.batch), 0, true); got[0].Timestamp != c.want {
			t.Errorf("timestamp is %d, want %d", got[0].Timestamp, c.want)
		}
	}
}

// Message sets of Kafka before 0.11: inner offsets of format 1 count from zero.
func TestOldFormats(t *testing.T) {
	at := time.UnixMilli(7000)
	message := func(offset int64, version int8, value string) *sarama.MessageBlock {
		return &sarama.MessageBlock{Offset: offset, Msg: &sarama.Message{Version: version, Timestamp: at, Value: []byte(value)}}
	}
	outer := func(offset int64, version int8, inner ...*sarama.MessageBlock) *sarama.MessageBlock {
		b := message(offset, version, "")
		b.Msg.Set = &sarama.MessageSet{Messages: inner}
		return b
	}
	zero := message(4, 0, "zero")
	zero.Msg.Timestamp = time.Time{}
	block := &sarama.FetchResponseBlock{RecordsSet: []*sarama.Records{{MsgSet: &sarama.MessageSet{Messages: []*sarama.MessageBlock{
		zero,
		outer(6, 0, message(5, 0, "five"), message(6, 0, "six")),
		outer(9, 1, message(0, 1, "seven"), message(1, 1, "eight"), message(2, 1, "nine")),
	}}}}}
	got := unpack(nil, block, 6, true)
	var offsets []int64
	for _, r := range got {
		offsets = append(offsets, r.Offset)
	}
	if !slices.Equal(offsets, []int64{6, 7, 8, 9}) || !slices.Equal(values(got), []string{"six", "seven", "eight", "nine"}) {
		t.Errorf("offsets %v, values %v", offsets, values(got))
	}
	if sp := measure(block, 6); sp.next != 10 {
		t.Errorf("next is %d, want 10", sp.next)
	}
	if all := unpack(nil, block, 0, true); all[0].Timestamp != -1 || all[1].Timestamp != 7000 {
		t.Errorf("timestamps are %d and %d, want -1 and 7000", all[0].Timestamp, all[1].Timestamp)
	}
}

// sarama keeps to itself what batches without records cover. This reads it all
// the same, and breaks where a later sarama has it elsewhere.
func TestWhatBatchesWithoutRecordsCover(t *testing.T) {
	f, ok := reflect.TypeFor[sarama.FetchResponseBlock]().FieldByName("recordsNextOffset")
	if !ok || f.Type != reflect.TypeFor[*int64]() {
		t.Fatalf("sarama.FetchResponseBlock.recordsNextOffset is %v", f.Type)
	}
	if n := emptyNext(&sarama.FetchResponseBlock{}); n != 0 {
		t.Errorf("without batches: %d", n)
	}
}
