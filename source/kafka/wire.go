package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/IBM/sarama"
)

// Fetch requests are written and their answers read here, on connections that
// sarama has opened and logged in: what it would read, it would keep in a new
// buffer for each answer and a new struct for each record, at several times the
// cost of the bytes themselves. Here the records of a partition go from the
// connection into a buffer that was used before, and are decoded where they
// lie, by the one who reads the partition.

// Versions of the fetch request that are spoken. The lower one is Kafka 0.11's;
// from the one after the upper, topics go by their ids.
const (
	fetchKey     = 1
	minFetch     = 4
	maxFetch     = 12
	flexible     = 12 // the first version with compact lengths and tagged fields
	wireBuffer   = 4 << 10
	writeTimeout = answerTimeout
	// reviveEvery is how often a login that expires is looked after (KIP-368):
	// sarama renews it before a request of its own, in the last tenth of its life.
	reviveEvery = time.Second
)

// asked is one partition of a fetch request.
type asked struct {
	partition int32
	offset    int64
	maxBytes  int32
	epoch     int32 // of the leader, -1 for any
}

// fetchRequest asks for some partitions of the topic. The broker answers as
// soon as it has a byte for one of them, and after wait without one. Its answer
// goes beyond the limits where one batch alone does.
type fetchRequest struct {
	wait       time.Duration
	maxBytes   int32
	partitions []asked
}

// answered is one partition's part of an answer.
type answered struct {
	partition                   int32
	err                         sarama.KError
	highWater, stable, logStart int64
	aborted                     []transaction
	records                     []byte // of the fetcher's buffers; batches one after another, the last perhaps cut off
}

// transaction is an aborted transaction: its records are those of the producer
// from an offset up to the abort marker.
type transaction struct{ producer, first int64 }

// wire speaks the fetch protocol over one connection.
type wire struct {
	cfg     Config
	broker  *sarama.Broker
	conn    net.Conn
	version int16
	number  int32 // of the last request
	revived time.Time
	quiet   time.Time // the broker wants no request before: a quota
	out     []byte
	in      frame
}

// newWire asks the broker what it speaks. conn is broker's.
func newWire(cfg Config, broker *sarama.Broker, conn net.Conn) (*wire, error) {
	w := &wire{cfg: cfg, broker: broker, conn: conn, revived: time.Now()}
	w.in.conn, w.in.buf = conn, make([]byte, wireBuffer)
	resp, err := broker.ApiVersions(&sarama.ApiVersionsRequest{})
	if err != nil {
		return nil, err
	}
	if resp.ErrorCode != 0 {
		return nil, sarama.KError(resp.ErrorCode)
	}
	for _, k := range resp.ApiKeys {
		if k.ApiKey == fetchKey {
			w.version = min(k.MaxVersion, maxFetch)
			if w.version < minFetch || k.MinVersion > maxFetch {
				return nil, fmt.Errorf("the broker speaks versions %d to %d of the fetch request, and %d to %d are known here", k.MinVersion, k.MaxVersion, minFetch, maxFetch)
			}
			return w, nil
		}
	}
	return nil, errors.New("the broker takes no fetch requests")
}

// fetch sends a request and reads its answer. Records lie in buffers of the
// pool: the caller gives them back.
func (w *wire) fetch(ctx context.Context, req *fetchRequest, pool *buffers) (list []answered, err error) {
	if d := time.Until(w.quiet); d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if w.cfg.sasl() && time.Since(w.revived) > reviveEvery {
		if _, err := w.broker.ApiVersions(&sarama.ApiVersionsRequest{}); err != nil {
			return nil, err
		}
		w.revived = time.Now()
	}
	w.number++
	w.out = w.appendRequest(w.out[:0], req)
	if err := w.conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return nil, err
	}
	if _, err := w.conn.Write(w.out); err != nil {
		return nil, err
	}
	list, throttled, err := w.readAnswer(pool)
	if err != nil {
		for _, a := range list {
			pool.put(a.records)
		}
		return nil, err
	}
	w.quiet = time.Now().Add(throttled)
	return list, nil
}

// appendRequest appends a request with its length and header.
func (w *wire) appendRequest(b []byte, req *fetchRequest) []byte {
	be := binary.BigEndian
	compact := w.version >= flexible
	count := func(b []byte, n int) []byte {
		if compact {
			return binary.AppendUvarint(b, uint64(n)+1)
		}
		return be.AppendUint32(b, uint32(n))
	}
	text := func(b []byte, s string) []byte {
		if compact {
			b = binary.AppendUvarint(b, uint64(len(s))+1)
		} else {
			b = be.AppendUint16(b, uint16(len(s)))
		}
		return append(b, s...)
	}
	tags := func(b []byte) []byte {
		if compact {
			b = append(b, 0)
		}
		return b
	}
	b = append(b, 0, 0, 0, 0)
	b = be.AppendUint16(b, fetchKey)
	b = be.AppendUint16(b, uint16(w.version))
	b = be.AppendUint32(b, uint32(w.number))
	id := w.cfg.clientID() // in the header a text is never compact
	b = be.AppendUint16(b, uint16(len(id)))
	b = append(b, id...)
	b = tags(b)

	b = be.AppendUint32(b, 1<<32-1) // no replica
	b = be.AppendUint32(b, uint32(req.wait.Milliseconds()))
	b = be.AppendUint32(b, 1) // bytes at least
	b = be.AppendUint32(b, uint32(req.maxBytes))
	b = append(b, byte(w.cfg.isolation()))
	if w.version >= 7 {
		b = be.AppendUint32(b, 0) // no fetch session
		b = be.AppendUint32(b, 1<<32-1)
	}
	b = count(b, 1)
	b = text(b, w.cfg.Topic)
	b = count(b, len(req.partitions))
	for _, p := range req.partitions {
		b = be.AppendUint32(b, uint32(p.partition))
		if w.version >= 9 {
			b = be.AppendUint32(b, uint32(p.epoch))
		}
		b = be.AppendUint64(b, uint64(p.offset))
		if w.version >= 12 {
			b = be.AppendUint32(b, 1<<32-1) // no epoch of what was read last
		}
		if w.version >= 5 {
			b = be.AppendUint64(b, 1<<64-1) // no log start, being no replica
		}
		b = be.AppendUint32(b, uint32(p.maxBytes))
		b = tags(b)
	}
	b = tags(b)
	if w.version >= 7 {
		b = count(b, 0) // forgotten topics
	}
	if w.version >= 11 {
		b = text(b, "") // no rack
	}
	b = tags(b)
	be.PutUint32(b, uint32(len(b)-4))
	return b
}

// readAnswer reads one answer. With an error it returns what came before.
func (w *wire) readAnswer(pool *buffers) (list []answered, throttled time.Duration, err error) {
	f := &w.in
	compact := w.version >= flexible
	f.begin(compact)
	if n := f.int32(); f.err == nil && n != w.number {
		f.fail("it answers request %d, not %d", n, w.number)
	}
	f.tags()
	throttled = time.Duration(f.int32()) * time.Millisecond
	var code sarama.KError
	if w.version >= 7 {
		code = sarama.KError(f.int16())
		f.int32() // session
	}
	for range f.count() {
		if topic := f.text(); f.err == nil && topic != w.cfg.Topic {
			f.fail("it is about topic %q", topic)
		}
		for range f.count() {
			a := answered{partition: f.int32(), err: sarama.KError(f.int16())}
			a.highWater, a.stable = f.int64(), f.int64()
			if w.version >= 5 {
				a.logStart = f.int64()
			}
			for range f.count() {
				a.aborted = append(a.aborted, transaction{producer: f.int64(), first: f.int64()})
				f.tags()
			}
			if w.version >= 11 {
				f.int32() // replica to prefer
			}
			if n := f.size(); n > 0 {
				a.records = pool.get(n)
				f.full(a.records)
			}
			f.tags()
			list = append(list, a)
			if f.err != nil {
				return list, 0, f.err
			}
		}
		f.tags()
	}
	f.tags()
	if f.err == nil && f.left > 0 {
		f.fail("%d bytes follow its end", f.left)
	}
	if f.err == nil && code != sarama.ErrNoError {
		return list, throttled, code
	}
	return list, throttled, f.err
}

// frame reads one answer from a connection, field by field. Its first error
// stays, and all that is read after it is 0.
type frame struct {
	conn    net.Conn
	buf     []byte // what of the connection was read and not yet taken: buf[r:n]
	r, n    int
	left    int // bytes of the answer that were not taken yet
	compact bool
	err     error
}

// begin waits for the next answer.
func (f *frame) begin(compact bool) {
	*f = frame{conn: f.conn, buf: f.buf, compact: compact}
	f.left = 4
	size := f.int32()
	if f.err == nil && (size < 4 || size > maxAnswer) {
		f.fail("it says to have %d bytes", size)
	}
	f.left = int(size)
}

// fail says that the answer is not what the protocol wants.
func (f *frame) fail(format string, args ...any) {
	if f.err == nil {
		f.err = fmt.Errorf("%w: "+format, append([]any{errGarbled}, args...)...)
	}
}

var zeros [8]byte

// take returns the next n bytes, 8 at most; valid until the next.
func (f *frame) take(n int) []byte {
	if f.err == nil && n > f.left {
		f.fail("it ends too early")
	}
	if f.err == nil && f.n-f.r < n {
		copy(f.buf, f.buf[f.r:f.n])
		f.n -= f.r
		f.r = 0
		// Not beyond the answer: what follows it is not this reader's.
		k, err := io.ReadAtLeast(f.conn, f.buf[f.n:min(len(f.buf), f.left)], n-f.n)
		f.n += k
		f.err = err
	}
	if f.err != nil {
		return zeros[:n]
	}
	b := f.buf[f.r : f.r+n]
	f.r += n
	f.left -= n
	return b
}

// full fills p.
func (f *frame) full(p []byte) {
	if f.err == nil && len(p) > f.left {
		f.fail("it ends too early")
	}
	if f.err != nil {
		return
	}
	k := copy(p, f.buf[f.r:f.n])
	f.r += k
	f.left -= len(p)
	_, f.err = io.ReadFull(f.conn, p[k:])
}

func (f *frame) int16() int16 { return int16(binary.BigEndian.Uint16(f.take(2))) }
func (f *frame) int32() int32 { return int32(binary.BigEndian.Uint32(f.take(4))) }
func (f *frame) int64() int64 { return int64(binary.BigEndian.Uint64(f.take(8))) }

func (f *frame) uvarint() (u uint64) {
	for shift := 0; shift < 35; shift += 7 {
		b := f.take(1)[0]
		u |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return u
		}
	}
	f.fail("a length in it is out of range")
	return 0
}

// size reads a length of bytes, 0 for none.
func (f *frame) size() int {
	var n int64
	if f.compact {
		n = int64(f.uvarint()) - 1
	} else {
		n = int64(f.int32())
	}
	if n > int64(f.left) {
		f.fail("it ends too early")
		return 0
	}
	return max(int(n), 0)
}

// count reads the length of an array, whose elements take a byte or more.
func (f *frame) count() int { return f.size() }

func (f *frame) text() string {
	var n int
	if f.compact {
		n = f.size()
	} else {
		n = int(f.int16())
	}
	if n < 0 || n > f.left {
		f.fail("it ends too early")
		return ""
	}
	b := make([]byte, n)
	f.full(b)
	return string(b)
}

// tags skips tagged fields.
func (f *frame) tags() {
	if !f.compact {
		return
	}
	for n := f.uvarint(); n > 0 && f.err == nil; n-- {
		f.uvarint()
		for size := f.uvarint(); size > 0 && f.err == nil; size-- {
			f.take(1)
		}
	}
}
