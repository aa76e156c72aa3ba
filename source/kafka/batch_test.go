package kafka

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"hash/crc32"
	"reflect"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"tidemark/aggregator"
)

// batchOf is a record batch of kmsg's with its length and sum set.
func batchOf(b kmsg.RecordBatch, records ...kmsg.Record) []byte {
	b.Magic = 2
	b.NumRecords = int32(len(records))
	b.Records = nil
	for _, r := range records {
		r.Length = 0
		r.Length = int32(len(r.AppendTo(nil)) - 1) // the length itself takes one byte of a zero
		b.Records = r.AppendTo(b.Records)
	}
	return sealed(b)
}

// sealed is a batch whose records are bytes already.
func sealed(b kmsg.RecordBatch) []byte {
	b.Length = int32(len(b.AppendTo(nil)) - 12)
	b.CRC = int32(sumOf(b.AppendTo(nil)[21:]))
	return b.AppendTo(nil)
}

// unpackAll decodes all of what a broker sent.
func unpackAll(t rapid.TB, raw []byte, from int64, aborted []transaction) (records []aggregator.Record) {
	var u unpacker
	u.begin(raw, from, aborted)
	for len(u.rest) > 0 {
		var err error
		if records, _, err = u.next(records); err != nil {
			t.Fatal(err)
		}
	}
	return records
}

// Random logs of transactions are unpacked as a reader does that knows how each
// of them ended, whatever the fetch begins with.
func TestUnpackAgainstTheWholeLog(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		type written struct {
			first, next int64
			raw         []byte
			records     []aggregator.Record // nil for markers
			aborted     bool
		}
		var log []written
		open := map[int64][]int{} // producer -> its batches in the open transaction
		began := map[int64]int64{}
		var aborted []transaction
		ends := map[transaction]int64{}
		next := int64(0)
		add := func(producer int64, attributes int16, n int, key []byte) int {
			w := written{first: next, next: next + int64(n)}
			var records []kmsg.Record
			for i := range n {
				if n > 1 && rapid.IntRange(0, 9).Draw(r, "hole") == 0 {
					continue // compacted away
				}
				records = append(records, kmsg.Record{OffsetDelta: int32(i), Key: key, Value: []byte{byte(i)}})
				if attributes&control == 0 {
					w.records = append(w.records, aggregator.Record{Offset: next + int64(i), Timestamp: 1000, Key: key, Value: []byte{byte(i)}})
				}
			}
			w.raw = batchOf(kmsg.RecordBatch{
				FirstOffset: next, ProducerID: producer, Attributes: attributes, LastOffsetDelta: int32(n - 1), FirstTimestamp: 1000,
			}, records...)
			log = append(log, w)
			next += int64(n)
			return len(log) - 1
		}
		for range rapid.IntRange(1, 30).Draw(r, "steps") {
			p := int64(rapid.IntRange(0, 3).Draw(r, "producer"))
			switch rapid.IntRange(0, 3).Draw(r, "what") {
			case 0:
				add(-1, 0, rapid.IntRange(1, 4).Draw(r, "n"), nil)
			case 1, 2:
				if len(open[p]) == 0 {
					began[p] = next
				}
				open[p] = append(open[p], add(p, transactional, rapid.IntRange(1, 4).Draw(r, "n"), nil))
			case 3:
				if len(open[p]) == 0 {
					continue
				}
				commit := rapid.Bool().Draw(r, "commit")
				marker := []byte{0, 0, 0, 0}
				if commit {
					marker[3] = 1
				}
				at := add(p, transactional|control, 1, marker)
				if !commit {
					for _, i := range open[p] {
						log[i].aborted = true
					}
					a := transaction{producer: p, first: began[p]}
					aborted = append(aborted, a)
					ends[a] = log[at].first
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
		var raw []byte
		var want []aggregator.Record
		last := from
		for _, w := range log {
			if w.next <= from || w.first >= stable {
				continue
			}
			raw = append(raw, w.raw...)
			last = max(last, w.next)
			for _, rec := range w.records {
				if rec.Offset >= from && !w.aborted {
					want = append(want, rec)
				}
			}
		}
		var told []transaction // by a broker: those that overlap the fetch
		for _, a := range aborted {
			if ends[a] >= from && a.first < stable {
				told = append(told, a)
			}
		}
		told = rapid.Permutation(told).Draw(r, "told")
		sp := measure(raw, from)
		if sp.next != last || sp.cut || sp.err != nil || sp.size != len(raw) {
			r.Fatalf("%+v of %d bytes, want %d next", sp, len(raw), last)
		}
		got := unpackAll(r, raw, from, told)
		if !slices.EqualFunc(got, want, func(a, b aggregator.Record) bool { return reflect.DeepEqual(a, b) }) {
			r.Fatalf("from %d: got %v, want %v", from, got, want)
		}
	})
}

func TestTimestampsOfTheBroker(t *testing.T) {
	for _, c := range []struct {
		attributes int16
		want       int64
	}{{0, 1005}, {logAppendTime, 2000}} {
		raw := batchOf(kmsg.RecordBatch{Attributes: c.attributes, FirstTimestamp: 1000, MaxTimestamp: 2000}, kmsg.Record{TimestampDelta64: 5})
		if got := unpackAll(t, raw, 0, nil); got[0].Timestamp != c.want {
			t.Errorf("timestamp is %d, want %d", got[0].Timestamp, c.want)
		}
	}
}

// oldMessage is an entry of a message set.
func oldMessage(offset int64, magic int8, attributes int8, value []byte) []byte {
	be := binary.BigEndian
	b := []byte{byte(magic), byte(attributes)}
	if magic == 1 {
		b = be.AppendUint64(b, 7000)
	}
	b = be.AppendUint32(b, 1<<32-1) // no key
	b = append(be.AppendUint32(b, uint32(len(value))), value...)
	entry := be.AppendUint64(nil, uint64(offset))
	entry = be.AppendUint32(entry, uint32(len(b)+4))
	entry = be.AppendUint32(entry, crc32.ChecksumIEEE(b))
	return append(entry, b...)
}

// Message sets of Kafka before 0.11: inner offsets of format 1 count from zero.
func TestOldFormats(t *testing.T) {
	packed := func(offset int64, magic int8, inner ...[]byte) []byte {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		for _, i := range inner {
			if _, err := w.Write(i); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return oldMessage(offset, magic, codecGzip, b.Bytes())
	}
	plain := func(offset int64, magic int8, value string) []byte {
		return oldMessage(offset, magic, 0, []byte(value))
	}
	raw := slices.Concat(plain(4, 0, "zero"),
		packed(6, 0, plain(5, 0, "five"), plain(6, 0, "six")),
		packed(9, 1, plain(0, 1, "seven"), plain(1, 1, "eight"), plain(2, 1, "nine")))
	got := unpackAll(t, raw, 6, nil)
	var offsets []int64
	for _, r := range got {
		offsets = append(offsets, r.Offset)
	}
	if !slices.Equal(offsets, []int64{6, 7, 8, 9}) || !slices.Equal(values(got), []string{"six", "seven", "eight", "nine"}) {
		t.Errorf("offsets %v, values %v", offsets, values(got))
	}
	if sp := measure(raw, 6); sp.next != 10 {
		t.Errorf("next is %d, want 10", sp.next)
	}
	if all := unpackAll(t, raw, 0, nil); all[0].Timestamp != -1 || all[3].Timestamp != 7000 {
		t.Errorf("timestamps are %d and %d, want -1 and 7000", all[0].Timestamp, all[3].Timestamp)
	}
}

// Varints of all lengths, whole and cut off, are what the library reads: those of
// one and two bytes are read without it.
func TestVarints(t *testing.T) {
	check := func(b []byte) {
		t.Helper()
		want, n := binary.Varint(b)
		if n <= 0 {
			n = -2
		}
		u, next := uvarint(append([]byte{0x80}, b...), 1)
		if n < 0 && next != -1 || n > 0 && (next != n+1 || signed(u) != want) {
			t.Errorf("% x: %d and %d, want %d and %d", b, signed(u), next, want, n+1)
		}
	}
	for bits := range 64 {
		for _, n := range []int64{1<<bits - 1, 1 << bits, 1<<bits + 1, -1 << bits, -1<<bits - 1, -1<<bits + 1} {
			b := binary.AppendVarint(nil, n)
			for cut := range b {
				check(b[:cut])
			}
			check(b)
			check(append(b, 0xff))
		}
	}
	check([]byte{0x80, 0x00})
	check(bytes.Repeat([]byte{0x80}, 11))
	if _, next := uvarint([]byte{1, 2}, -1); next != -1 {
		t.Errorf("behind a varint that was none: %d, want -1", next)
	}
}

// Bytes that are no batches, and batches whose sum fits and whose contents do
// not, give an error or records, and nothing else.
func FuzzUnpack(f *testing.F) {
	f.Add(batchOf(kmsg.RecordBatch{LastOffsetDelta: 1}, kmsg.Record{Key: []byte("k"), Value: []byte("v")}, kmsg.Record{OffsetDelta: 1}), false)
	f.Add(batchOf(kmsg.RecordBatch{Attributes: transactional | control}, kmsg.Record{Key: []byte{0, 0, 0, 0}}), true)
	f.Add(sealed(kmsg.RecordBatch{Magic: 2, Attributes: codecZstd, NumRecords: 1, Records: []byte{0x28, 0xb5, 0x2f, 0xfd}}), true)
	f.Add(oldMessage(3, 1, 0, []byte("v")), false)
	f.Add(oldMessage(3, 0, codecLZ4, []byte("v")), false)
	f.Fuzz(func(t *testing.T, raw []byte, seal bool) {
		if seal && len(raw) > batchHead {
			raw[atMagic] = 2
			binary.BigEndian.PutUint32(raw[atLength:], uint32(len(raw)-setHead))
			binary.BigEndian.PutUint32(raw[atSum:], sumOf(raw[atAttributes:]))
		}
		sp := measure(raw, 0)
		if sp.err != nil || sp.cut {
			return
		}
		var u unpacker
		u.begin(raw[:sp.size], 0, []transaction{{producer: -1, first: 0}})
		var records []aggregator.Record
		for len(u.rest) > 0 {
			before := len(u.rest)
			var err error
			if records, _, err = u.next(records); err != nil {
				return
			}
			if len(u.rest) >= before {
				t.Fatal("it does not go on")
			}
		}
	})
}
