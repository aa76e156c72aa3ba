package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/IBM/sarama"

	"tidemark/aggregator"
)

// feed is one partition from some offset on. All but batch is guarded by the
// fetcher's mutex.
type feed struct {
	f         *Fetcher
	partition int32
	wake      chan struct{} // of the reader

	next     int64   // the offset to ask for
	queue    []block // fetched ahead
	worker   *worker // of its leader, nil while that is not known
	epoch    int32   // of the leader
	topicID  string
	flying   bool      // asked for, and not answered yet
	maxBytes int32     // to ask for
	alone    bool      // to be asked for by itself
	retryAt  time.Time // not to be routed or asked for before
	failures int       // in a row
	missing  time.Time // since when the topic is not known, zero where it is
	hungry   time.Time // since when the reader could wait
	outAt    leader    // who said that next is out of range
	rescued  bool      // the watchdog has made new connections for it
	err      error     // for the reader, after the queue
	dead     bool      // nothing more is fetched: closed, or err is for good

	// These belong to the reader.
	batch  aggregator.Batch
	block  block // that the batch is of
	unpack unpacker
}

// block is what an answer has of one partition: records from an offset on.
type block struct {
	records       []byte // a buffer of the fetcher's, nil for none
	aborted       []transaction
	from, next    int64
	end, logStart int64
}

// batchRecords is how many records a batch has before it takes no further
// record batch of the log: few enough that they stay in the nearer caches from
// their decoding to their folding.
const batchRecords = 1 << 10

var errFeedClosed = errors.New("feed is closed")

// Next returns the next batch, waiting for one. It has no records where only
// markers, aborted records or what compaction left were passed. Trouble with
// brokers and leaders is waited out. Errors are aggregator.ErrOutOfRange and
// aggregator.ErrNoTopic where the topic was created again, both for good;
// aggregator.ErrNoTopic where there has been no topic for some seconds, and
// what the broker refuses or nobody can read, which may be tried again.
func (d *feed) Next(ctx context.Context) (*aggregator.Batch, error) {
	d.unpack.release()
	for len(d.unpack.rest) == 0 {
		d.f.buffers.put(d.block.records)
		d.block = block{}
		b, ok, err := d.take()
		if err != nil {
			return nil, err
		}
		if ok {
			d.block = b
			d.unpack.begin(b.records, b.from, b.aborted)
			d.batch.Next = b.from
			continue
		}
		select {
		case <-d.wake:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	b := &d.batch
	b.First, b.End, b.LogStart, b.Records = b.Next, d.block.end, d.block.logStart, b.Records[:0]
	for len(d.unpack.rest) > 0 && len(b.Records) < batchRecords {
		records, next, err := d.unpack.next(b.Records)
		switch {
		case err == nil:
			b.Records, b.Next = records, max(b.Next, next)
		case b.Next > b.First:
			return b, nil // the error comes again
		default:
			err = unreadable(next, d.partition, err)
			d.rewind(b.Next)
			return nil, err
		}
	}
	return b, nil
}

// rewind forgets what was fetched and not read, so that it is fetched again.
func (d *feed) rewind(next int64) {
	d.f.buffers.put(d.block.records)
	d.block, d.unpack.rest = block{}, nil
	f := d.f
	f.mu.Lock()
	defer f.mu.Unlock()
	d.forget()
	d.next = next
	d.retryAt = time.Now().Add(goneAfter)
}

// forget empties the queue.
func (d *feed) forget() {
	for _, b := range d.queue {
		d.f.buffered -= cap(b.records)
		d.f.buffers.put(b.records)
	}
	d.queue = nil
}

// take takes the first block of the queue, if there is one.
func (d *feed) take() (b block, ok bool, err error) {
	f := d.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(d.queue) > 0 {
		b = d.queue[0]
		copy(d.queue, d.queue[1:])
		d.queue[len(d.queue)-1] = block{}
		d.queue = d.queue[:len(d.queue)-1]
		full := f.buffered >= f.opts.Buffer
		f.buffered -= cap(b.records)
		if len(d.queue) == 0 {
			d.hungry = time.Now()
		}
		if full && f.buffered < f.opts.Buffer {
			for _, w := range f.workers {
				w.poke()
			}
		} else if d.worker != nil {
			d.worker.poke()
		}
		return b, true, nil
	}
	if err := d.err; err != nil {
		if !d.dead {
			d.err = nil
		}
		return b, false, err
	}
	if f.stopped {
		return b, false, errFeedClosed
	}
	return b, false, nil
}

// Close ends the feed; a Next that waits returns.
func (d *feed) Close() {
	f := d.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.feeds[d]; !ok {
		return
	}
	delete(f.feeds, d)
	d.forget()
	d.fail(errFeedClosed, true)
}

// home gives the feed to a worker, or to none.
func (d *feed) home(w *worker) {
	if d.worker != nil {
		delete(d.worker.feeds, d)
	}
	if d.worker = w; w != nil {
		w.feeds[d] = struct{}{}
	}
}

// fail tells the reader of err, once the queue is empty; for good, or until the
// next try.
func (d *feed) fail(err error, forGood bool) {
	d.err = err
	if forGood {
		d.dead = true
		d.home(nil)
	}
	poke(d.wake)
}

// stray sends the feed to look for its leader, after a while that grows.
func (d *feed) stray(now time.Time, why error) {
	d.home(nil)
	d.retryAt = now.Add(min(10*time.Millisecond<<min(d.failures, 8), 1300*time.Millisecond))
	if d.failures++; d.failures == 6 { // more than a leader's move takes
		d.f.log.Warn("partition cannot be read now; trying again", "partition", d.partition, "offset", d.next, "err", why)
	}
	poke(d.f.route)
}

// unknown is stray where the topic, or the partition, is not there; the reader
// is told when that lasts.
func (d *feed) unknown(now time.Time, err error) {
	if d.missing.IsZero() {
		d.missing = now
	}
	if now.Sub(d.missing) >= goneAfter {
		d.missing = now
		d.fail(err, false)
	}
	d.stray(now, err)
}

// loading says whether a large answer is on its way.
func (d *feed) loading(now time.Time) bool {
	if d.worker == nil || !d.flying {
		return false
	}
	for _, s := range d.worker.slots {
		for _, other := range s.asked {
			if other == d {
				return now.Sub(s.sent) > 2*d.f.opts.MaxWait && now.Sub(s.link.lastHeard()) < answerTimeout/2 &&
					s.link.lastHeard().After(s.sent)
			}
		}
	}
	return false
}

// answer takes the feed's part of an answer that was asked for from offset from
// on. Where it makes progress, it keeps the part's records.
func (d *feed) answer(now time.Time, b *answered, from int64, sp span) (progress bool) {
	f := d.f
	switch b.err {
	case sarama.ErrNoError:
	case sarama.ErrOffsetOutOfRange:
		// First see that this is still the leader, and the topic.
		d.outAt = leader{d.worker.addr, d.epoch}
		f.client.cluster.doubt()
		d.home(nil)
		poke(f.route)
		return false
	case sarama.ErrUnknownTopicOrPartition:
		f.client.cluster.doubt()
		d.unknown(now, fmt.Errorf("partition %d of topic %s: %w", d.partition, f.cfg.Topic, aggregator.ErrNoTopic))
		return false
	default:
		if !mends(b.err) {
			d.fail(fmt.Errorf("read partition %d at offset %d: %w", d.partition, from, b.err), false)
		}
		f.client.cluster.doubt()
		d.stray(now, b.err)
		return false
	}
	d.failures, d.missing, d.alone, d.outAt = 0, time.Time{}, false, leader{}
	if from != d.next {
		return false // it was rewound meanwhile
	}
	if sp.err != nil {
		d.fail(unreadable(from, d.partition, sp.err), false)
		d.retryAt = now.Add(goneAfter)
		return false
	}
	if sp.cut {
		if d.maxBytes >= maxAnswer/2 {
			d.fail(fmt.Errorf("the batch at offset %d of partition %d is larger than %d MiB", from, d.partition, maxAnswer>>20), false)
			d.retryAt = now.Add(goneAfter)
			return false
		}
		d.maxBytes *= 2
		return true
	}
	if sp.next == from {
		return false
	}
	end := b.highWater
	if !f.cfg.readCommitted() {
		b.aborted = nil
	} else {
		end = b.stable
	}
	d.queue = append(d.queue, block{
		records: b.records[:sp.size], aborted: b.aborted, from: from, next: sp.next, end: max(end, sp.next), logStart: b.logStart,
	})
	f.buffered += cap(b.records)
	b.records = nil
	d.next, d.rescued = sp.next, false
	switch {
	case sp.next >= end:
		d.maxBytes = firstBytes
	case d.maxBytes < leastBytes:
		d.maxBytes *= 16
	default:
		d.maxBytes = min(2*d.maxBytes, busyBytes)
	}
	poke(d.wake)
	return true
}

// garbled deals with a response that cannot be decoded: the partition at fault
// is found by asking for each by itself, then the batch at fault by asking for
// no more than one.
func (d *feed) garbled(now time.Time, err error, partitions int) {
	if partitions > 1 {
		d.alone = true
		return
	}
	d.alone = true
	if d.maxBytes > 1 {
		d.maxBytes = 1
		return
	}
	d.fail(fmt.Errorf("the batch at offset %d of partition %d is corrupt: %w", d.next, d.partition, err), false)
	d.retryAt = now.Add(goneAfter)
}
