package kafka

import (
	"cmp"
	"reflect"
	"slices"
	"time"

	"github.com/IBM/sarama"

	"tidemark/aggregator"
)

// asked is one partition of a fetch request.
type asked struct {
	partition int32
	offset    int64
	maxBytes  int32
	epoch     int32 // of the leader, -1 for any
}

// fetchRequest asks for some partitions of the topic. The broker answers as
// soon as it has a byte for one of them, and after wait milliseconds without
// one. Its answer goes beyond the limits where one batch alone does.
func fetchRequest(cfg Config, wait, maxBytes int32, partitions ...asked) *sarama.FetchRequest {
	req := &sarama.FetchRequest{
		Version:      12,
		MaxWaitTime:  wait,
		MinBytes:     1,
		MaxBytes:     maxBytes,
		Isolation:    cfg.isolation(),
		SessionEpoch: -1, // no fetch session
	}
	for _, p := range partitions {
		req.AddBlock(cfg.Topic, p.partition, p.offset, p.maxBytes, p.epoch)
	}
	return req
}

// span is what a block covers.
type span struct {
	next  int64 // the offset to ask for afterwards
	bytes int   // of memory, about
	cut   bool  // the limit cut the first batch off, nothing of it is there
}

// recordOverhead is what sarama keeps for a record besides key and value.
const recordOverhead = 112

// measure looks through a block that was asked for from offset on.
func measure(block *sarama.FetchResponseBlock, offset int64) span {
	s := span{next: offset}
	for _, set := range block.RecordsSet {
		if b := set.RecordBatch; b != nil {
			if b.PartialTrailingRecord {
				continue
			}
			s.next = max(s.next, b.LastOffset()+1)
			for _, r := range b.Records {
				s.bytes += recordOverhead + len(r.Key) + len(r.Value)
			}
		}
		if m := set.MsgSet; m != nil {
			for _, outer := range m.Messages {
				s.next = max(s.next, outer.Offset+1)
				for _, inner := range outer.Messages() {
					s.bytes += recordOverhead + len(inner.Msg.Key) + len(inner.Msg.Value)
				}
			}
		}
	}
	if s.next == offset {
		s.next = max(s.next, emptyNext(block))
		s.cut = s.next == offset && (block.Partial || len(block.RecordsSet) > 0)
	}
	return s
}

// emptyNext is the offset after batches without records, which compaction
// leaves behind: sarama drops them from the block and keeps what they cover to
// itself. 0 where there are none.
func emptyNext(block *sarama.FetchResponseBlock) int64 {
	if block.Partial || len(block.RecordsSet) > 0 {
		return 0
	}
	f := reflect.ValueOf(block).Elem().FieldByName("recordsNextOffset")
	if f.Kind() != reflect.Pointer || f.IsNil() {
		return 0
	}
	return f.Elem().Int()
}

// unpack appends the records of a block at offset or later to records. They
// point into the block. Markers and, under readCommitted, what was aborted are
// left out. Follows the Java consumer: a producer's records are aborted from
// the first offset of its aborted transaction up to the abort marker.
func unpack(records []aggregator.Record, block *sarama.FetchResponseBlock, offset int64, readCommitted bool) []aggregator.Record {
	var pending []*sarama.AbortedTransaction
	var aborted map[int64]bool
	if readCommitted && len(block.AbortedTransactions) > 0 {
		pending = block.AbortedTransactions
		slices.SortFunc(pending, func(a, b *sarama.AbortedTransaction) int {
			return cmp.Compare(a.FirstOffset, b.FirstOffset)
		})
		aborted = make(map[int64]bool)
	}
	for _, set := range block.RecordsSet {
		if set.MsgSet != nil {
			records = unpackOld(records, set.MsgSet, offset)
			continue
		}
		b := set.RecordBatch
		if b == nil || b.PartialTrailingRecord {
			continue
		}
		for len(pending) > 0 && pending[0].FirstOffset <= b.LastOffset() {
			aborted[pending[0].ProducerID] = true
			pending = pending[1:]
		}
		if b.Control {
			if isAbort(b) {
				delete(aborted, b.ProducerID)
			}
			continue
		}
		if b.IsTransactional && aborted[b.ProducerID] {
			continue
		}
		records = slices.Grow(records, len(b.Records))
		first, stamp := millis(b.FirstTimestamp), millis(b.MaxTimestamp)
		for _, r := range b.Records {
			at := b.FirstOffset + r.OffsetDelta
			if at < offset {
				continue
			}
			ts := stamp // of the broker
			if !b.LogAppendTime {
				ts = first + r.TimestampDelta.Milliseconds()
			}
			records = append(records, aggregator.Record{Offset: at, Timestamp: ts, Key: r.Key, Value: r.Value})
		}
	}
	return records
}

// millis is -1 where the log has no timestamp, as the log keeps it.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return -1
	}
	return t.UnixMilli()
}

// isAbort reads a transaction marker: its key is version and type, 16 bits
// each, and type 0 is an abort.
func isAbort(b *sarama.RecordBatch) bool {
	if len(b.Records) == 0 {
		return false
	}
	k := b.Records[0].Key
	return len(k) >= 4 && k[2] == 0 && k[3] == 0
}

// unpackOld is unpack for the message formats before Kafka 0.11. In a
// compressed set of format 1 the inner offsets count from 0 and the outer one
// is that of the last.
func unpackOld(records []aggregator.Record, set *sarama.MessageSet, offset int64) []aggregator.Record {
	for _, outer := range set.Messages {
		inner := outer.Messages()
		for _, m := range inner {
			at, ts := m.Offset, m.Msg.Timestamp
			if m.Msg.Version >= 1 {
				at += outer.Offset - inner[len(inner)-1].Offset
				if m.Msg.LogAppendTime {
					ts = outer.Msg.Timestamp
				}
			}
			if at < offset {
				continue
			}
			records = append(records, aggregator.Record{Offset: at, Timestamp: millis(ts), Key: m.Msg.Key, Value: m.Msg.Value})
		}
	}
	return records
}
