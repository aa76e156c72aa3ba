package kafka

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"tidemark/aggregator"
)

// Where the fields of a record batch (format 2, of Kafka 0.11) are.
const (
	atLength     = 8  // of what follows this field
	atMagic      = 16 // also of message sets, which are formats 0 and 1
	atSum        = 17 // CRC-32C of what follows it
	atAttributes = 21
	atLastDelta  = 23
	atFirstTime  = 27
	atLastTime   = 35
	atProducer   = 43
	atCount      = 57
	batchHead    = 61

	setHead = 12 // of an entry of a message set: offset and length
)

// Attributes of a batch.
const (
	codecMask     = 7
	logAppendTime = 1 << 3
	transactional = 1 << 4
	control       = 1 << 5
)

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)

	errSum     = errors.New("its checksum does not fit")
	errRecords = errors.New("its records are not what its head says")
	errHead    = errors.New("its head is none of a batch")
)

// entry is one batch, or one entry of a message set, at the start of what a
// broker sent.
type entry struct {
	bytes []byte // all of it
	magic int8
	first int64
	next  int64 // the offset behind it
}

// nextEntry looks at the head of the first entry. whole is false where the end
// of it was cut off, or nothing is there.
func nextEntry(b []byte) (e entry, whole bool, err error) {
	if len(b) <= atMagic {
		return e, false, nil
	}
	size := int64(int32(binary.BigEndian.Uint32(b[atLength:]))) + setHead
	e.first = int64(binary.BigEndian.Uint64(b))
	e.magic = int8(b[atMagic])
	if e.magic < 0 || e.magic > 2 || size < atMagic+1 || e.magic == 2 && size < batchHead {
		return e, false, errHead
	}
	if size > int64(len(b)) {
		return e, false, nil
	}
	e.bytes = b[:size]
	e.next = e.first + 1
	if e.magic == 2 {
		e.next += int64(int32(binary.BigEndian.Uint32(b[atLastDelta:])))
	}
	if e.first < 0 || e.next <= e.first {
		return e, false, errHead
	}
	return e, true, nil
}

// span is what the records of a partition in an answer cover.
type span struct {
	next int64 // the offset to ask for afterwards
	size int   // bytes of whole entries, up to one that cannot be read
	cut  bool  // the limit cut the first entry off, nothing of it is there
	err  error // the first entry cannot be read
}

// measure looks through records that were asked for from offset on: at the
// heads of batches only.
func measure(records []byte, offset int64) span {
	s := span{next: offset}
	for s.size < len(records) {
		e, whole, err := nextEntry(records[s.size:])
		if err != nil && s.size == 0 {
			s.err = err
			return s
		}
		if !whole {
			break
		}
		s.size += len(e.bytes)
		s.next = max(s.next, e.next)
	}
	s.cut = s.next == offset && len(records) > 0
	return s
}

// unpacker decodes the records of one answer, entry by entry. It belongs to one
// goroutine.
type unpacker struct {
	rest     []byte         // entries not decoded yet
	offset   int64          // records before it were not asked for
	pending  []transaction  // aborted ones that begin later, in order
	aborted  map[int64]bool // producers in an aborted transaction
	inflated []byte         // of compressed entries; some records point into it
}

// keptInflated bounds what is kept of inflated for the next answer.
const keptInflated = 8 << 20

// begin takes records to decode, from offset on. aborted are the transactions
// that the broker names with them; it is nil under read_uncommitted.
func (u *unpacker) begin(records []byte, offset int64, aborted []transaction) {
	u.rest, u.offset, u.pending = records, offset, aborted
	slices.SortFunc(u.pending, func(a, b transaction) int { return cmp.Compare(a.first, b.first) })
	clear(u.aborted)
}

// next appends the records of the next entry, and says which offset follows it.
// Markers and what was aborted are left out. Follows the Java consumer: a
// producer's records are aborted from the first offset of its aborted
// transaction up to the abort marker. An error leaves all as it was, but for
// what was appended.
func (u *unpacker) next(records []aggregator.Record) ([]aggregator.Record, int64, error) {
	e, whole, err := nextEntry(u.rest)
	if err == nil && !whole {
		err = errHead
	}
	if err != nil {
		return records, u.offset, err
	}
	if e.magic < 2 {
		if records, err = u.oldSet(records, &e); err != nil {
			return records, e.first, err
		}
	} else if records, err = u.batch(records, &e); err != nil {
		return records, e.first, err
	}
	u.rest = u.rest[len(e.bytes):]
	return records, e.next, nil
}

// batch appends the records of a batch of format 2.
func (u *unpacker) batch(records []aggregator.Record, e *entry) ([]aggregator.Record, error) {
	b := e.bytes
	if crc32.Checksum(b[atAttributes:], castagnoli) != binary.BigEndian.Uint32(b[atSum:]) {
		return records, errSum
	}
	attributes := binary.BigEndian.Uint16(b[atAttributes:])
	producer := int64(binary.BigEndian.Uint64(b[atProducer:]))
	for len(u.pending) > 0 && u.pending[0].first < e.next {
		if u.aborted == nil {
			u.aborted = make(map[int64]bool)
		}
		u.aborted[u.pending[0].producer] = true
		u.pending = u.pending[1:]
	}
	if attributes&(transactional|control) == transactional && u.aborted[producer] {
		return records, nil
	}
	body, err := u.inflate(attributes&codecMask, b[batchHead:])
	if err != nil {
		return records, err
	}
	at := len(records)
	if records, err = appendRecords(records, body, b, u.offset); err != nil || attributes&control == 0 {
		return records, err
	}
	if markers := records[at:]; len(markers) > 0 && isAbort(markers[0].Key) {
		delete(u.aborted, producer)
	}
	return records[:at], nil
}

// isAbort reads the key of a transaction marker: version and type, 16 bits
// each, and type 0 is an abort.
func isAbort(key []byte) bool { return len(key) >= 4 && key[2] == 0 && key[3] == 0 }

// appendRecords appends the records at offset or later in the body of a batch.
// They point into body.
func appendRecords(records []aggregator.Record, body, head []byte, offset int64) ([]aggregator.Record, error) {
	first := int64(binary.BigEndian.Uint64(head))
	stamp := int64(binary.BigEndian.Uint64(head[atFirstTime:]))
	byBroker := head[atAttributes+1]&logAppendTime != 0
	if byBroker {
		stamp = int64(binary.BigEndian.Uint64(head[atLastTime:]))
	}
	for n := int32(binary.BigEndian.Uint32(head[atCount:])); n > 0; n-- {
		u, i := uvarint(body, 0)
		size := signed(u)
		if i < 0 || size < 1 || size > int64(len(body)-i) {
			return records, errRecords
		}
		b := body[i : i+int(size)]
		body = body[i+int(size):]
		since, i := uvarint(b, 1) // behind attributes, of which there are none
		delta, i := uvarint(b, i)
		u, i = uvarint(b, i)
		key, i, ok := lengthed(b, i, signed(u))
		if !ok {
			return records, errRecords
		}
		u, i = uvarint(b, i)
		value, _, ok := lengthed(b, i, signed(u)) // headers follow
		if !ok {
			return records, errRecords
		}
		at := first + signed(delta)
		if at < offset {
			continue
		}
		r := aggregator.Record{Offset: at, Timestamp: stamp, Key: key, Value: value}
		if !byBroker {
			r.Timestamp += signed(since)
		}
		records = append(records, r)
	}
	return records, nil
}

// lengthed reads size bytes at b[i]; nil for a size below 0. i may be negative,
// from a varint that was none.
func lengthed(b []byte, i int, size int64) (field []byte, next int, ok bool) {
	if i < 0 || size > int64(len(b)-i) {
		return nil, -1, false
	}
	if size < 0 {
		return nil, i, true
	}
	end := i + int(size)
	return b[i:end:end], end, true
}

// uvarint reads a varint at b[i] and returns the index behind it, -1 where there
// is none, or i is negative. It is inlined for one byte.
func uvarint(b []byte, i int) (u uint64, next int) {
	if uint(i) >= uint(len(b)) || b[i] >= 0x80 {
		return longUvarint(b, i)
	}
	return uint64(b[i]), i + 1
}

func longUvarint(b []byte, i int) (u uint64, next int) {
	if i < 0 || i > len(b) {
		return 0, -1
	}
	if i+2 <= len(b) && b[i+1] < 0x80 {
		return uint64(b[i]&0x7f) | uint64(b[i+1])<<7, i + 2
	}
	u, k := binary.Uvarint(b[i:])
	if k <= 0 {
		return 0, -1
	}
	return u, i + k
}

// signed is the number of a zigzag varint.
func signed(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }

// oldSet appends the records of an entry of a message set, as Kafka before 0.11
// wrote them. A compressed entry holds a set; in format 1 its offsets count
// from 0 and the entry's own is that of the last.
func (u *unpacker) oldSet(records []aggregator.Record, e *entry) ([]aggregator.Record, error) {
	m, err := readMessage(e)
	if err != nil {
		return records, err
	}
	if m.codec == 0 {
		return u.keep(records, m, e.first), nil
	}
	inner, err := u.inflate(m.codec, m.value)
	if err != nil {
		return records, err
	}
	at, last := len(records), int64(0)
	var all []message
	for len(inner) > 0 {
		i, whole, err := nextEntry(inner)
		if err != nil || !whole || i.magic == 2 {
			return records[:at], errRecords
		}
		n, err := readMessage(&i)
		if err != nil {
			return records[:at], err
		}
		if m.byBroker {
			n.stamp = m.stamp
		}
		all = append(all, n)
		last, inner = i.first, inner[len(i.bytes):]
	}
	for _, n := range all {
		offset := n.offset
		if e.magic == 1 {
			offset += e.first - last
		}
		records = u.keep(records, n, offset)
	}
	return records, nil
}

// message is one message of a message set.
type message struct {
	offset, stamp int64
	codec         uint16
	byBroker      bool // stamp is of the broker
	key, value    []byte
}

// keep appends a message where it was asked for.
func (u *unpacker) keep(records []aggregator.Record, m message, offset int64) []aggregator.Record {
	if offset < u.offset {
		return records
	}
	return append(records, aggregator.Record{Offset: offset, Timestamp: m.stamp, Key: m.key, Value: m.value})
}

// readMessage reads a message: behind offset and length its sum (CRC-32), magic,
// attributes, in format 1 a timestamp, key and value.
func readMessage(e *entry) (m message, err error) {
	b := e.bytes[setHead:]
	if crc32.ChecksumIEEE(b[4:]) != binary.BigEndian.Uint32(b) {
		return m, errSum
	}
	if b = b[5:]; len(b) == 0 {
		return m, errRecords
	}
	m.offset, m.stamp = e.first, -1
	m.codec, m.byBroker = uint16(b[0]&codecMask), b[0]&logAppendTime != 0
	b = b[1:]
	if e.magic == 1 {
		if len(b) < 8 {
			return m, errRecords
		}
		m.stamp = int64(binary.BigEndian.Uint64(b))
		b = b[8:]
	}
	for _, field := range []*[]byte{&m.key, &m.value} {
		if len(b) < 4 {
			return m, errRecords
		}
		size := int64(int32(binary.BigEndian.Uint32(b)))
		if b = b[4:]; size > int64(len(b)) {
			return m, errRecords
		}
		if size >= 0 {
			*field, b = b[:size:size], b[size:]
		}
	}
	return m, nil
}

// unreadable says which batch cannot be read.
func unreadable(offset int64, partition int32, err error) error {
	return fmt.Errorf("the batch at offset %d of partition %d is corrupt: %w", offset, partition, err)
}
