package kafka

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/IBM/sarama"

	"tidemark/aggregator"
)

const (
	letterBytes = 1 << 20 // of records that wait, above which Send flushes first
	letterCount = 1000
	batchBytes  = 1_000_000 // of one produced batch: Kafka's default limit
	bigBytes    = 95 << 20  // of one record: what sarama sends at all, about
)

// DeadLetter produces bad records to a topic. It is an aggregator.DeadLetter,
// safe for all tasks at once. It connects with the first Flush.
//
// Key and value go as they came. A record that the topic does not take for its
// size goes without its value, and its header tidemark.error says so: a bad
// record never stops the stream.
type DeadLetter struct {
	cfg   Config
	topic string
	turn  chan struct{} // holds one token while records are produced

	mu      sync.Mutex
	pending []*sarama.ProducerMessage
	bytes   int

	// of who has the turn
	dial     *dialer
	producer sarama.SyncProducer // for batches
	big      sarama.SyncProducer // for records that are larger
}

var _ aggregator.DeadLetter = (*DeadLetter)(nil)

// NewDeadLetter returns a producer to topic on the client's brokers.
func NewDeadLetter(client *Client, topic string) (*DeadLetter, error) {
	if !validTopic.MatchString(topic) {
		return nil, fmt.Errorf("dead letter topic %q: a topic's name has 1 to 249 letters, digits, '.', '_' and '-'", topic)
	}
	if topic == client.cfg.Topic {
		return nil, fmt.Errorf("dead letter topic %q is the topic that is read", topic)
	}
	return &DeadLetter{cfg: client.cfg, topic: topic, turn: make(chan struct{}, 1)}, nil
}

// Send copies a record into the buffer. Where that is full it flushes first;
// its error says that the topic takes nothing now, and the record is not in the
// buffer then.
func (d *DeadLetter) Send(ctx context.Context, bad aggregator.BadRecord) error {
	d.mu.Lock()
	full := d.bytes >= letterBytes || len(d.pending) >= letterCount
	d.mu.Unlock()
	if full {
		if err := d.Flush(ctx); err != nil {
			return err
		}
	}
	m := d.message(bad)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pending = append(d.pending, m)
	d.bytes += m.ByteSize(2)
	return nil
}

func (d *DeadLetter) message(bad aggregator.BadRecord) *sarama.ProducerMessage {
	m := &sarama.ProducerMessage{Topic: d.topic, Headers: []sarama.RecordHeader{
		header("reason", bad.Reason.String()),
		header("field", bad.Field),
		header("error", bad.Error),
		header("topic", bad.Topic),
		header("partition", strconv.Itoa(int(bad.Partition))),
		header("offset", strconv.FormatInt(bad.Record.Offset, 10)),
	}}
	if bad.Record.Key != nil {
		m.Key = sarama.ByteEncoder(bytes.Clone(bad.Record.Key))
	}
	if bad.Record.Value != nil {
		m.Value = sarama.ByteEncoder(bytes.Clone(bad.Record.Value))
	}
	return m
}

const errorHeader = 2 // in message

func header(name, value string) sarama.RecordHeader {
	return sarama.RecordHeader{Key: []byte("tidemark." + name), Value: []byte(value)}
}

// Flush returns once all records that were sent are in the topic, with all
// in-sync replicas. Where it fails, what is not there stays in the buffer.
func (d *DeadLetter) Flush(ctx context.Context) error {
	select {
	case d.turn <- struct{}{}:
		defer func() { <-d.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	d.mu.Lock()
	batch := d.pending
	d.pending, d.bytes = nil, 0
	d.mu.Unlock()
	if len(batch) == 0 {
		return nil
	}
	left, err := d.produce(ctx, batch)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pending = append(left, d.pending...)
	for _, m := range left {
		d.bytes += m.ByteSize(2)
	}
	if err != nil {
		return fmt.Errorf("produce to dead letter topic %s: %w", d.topic, err)
	}
	return nil
}

// produce sends a batch and returns what did not get in.
func (d *DeadLetter) produce(ctx context.Context, batch []*sarama.ProducerMessage) ([]*sarama.ProducerMessage, error) {
	var small, large []*sarama.ProducerMessage
	for _, m := range batch {
		if m.ByteSize(2) < batchBytes {
			small = append(small, m)
		} else {
			large = append(large, m)
		}
	}
	left, err := d.send(ctx, &d.producer, batchBytes, small)
	if err != nil && tooLarge(err) { // for the topic: one of them, or all together
		large, left, err = append(large, left...), nil, nil
	}
	if err != nil {
		return append(left, large...), err
	}
	for i, m := range large {
		_, err := d.send(ctx, &d.big, bigBytes, large[i:i+1])
		if err != nil && tooLarge(err) {
			stub := d.stub(m)
			if _, err = d.send(ctx, &d.producer, batchBytes, []*sarama.ProducerMessage{stub}); err != nil && tooLarge(err) {
				return large[i:], fmt.Errorf("not even without its value: %w", err)
			}
		}
		if err != nil {
			return large[i:], err
		}
	}
	return nil, nil
}

// stub is m without its value.
func (d *DeadLetter) stub(m *sarama.ProducerMessage) *sarama.ProducerMessage {
	size := 0
	if m.Value != nil {
		size = m.Value.Length()
	}
	s := &sarama.ProducerMessage{Topic: m.Topic, Key: m.Key, Headers: append([]sarama.RecordHeader(nil), m.Headers...)}
	text := fmt.Sprintf("%s; its value of %d bytes is left out, topic %s takes no record of this size", m.Headers[errorHeader].Value, size, d.topic)
	s.Headers[errorHeader] = header("error", text)
	d.cfg.logger().Error("a bad record is too large for the dead letter topic; it goes there without its value",
		"topic", d.topic, "bytes", size, "partition", string(m.Headers[4].Value), "offset", string(m.Headers[5].Value))
	return s
}

// tooLarge says that a broker, or sarama itself, refused a record's size.
func tooLarge(err error) bool {
	var conf sarama.ConfigurationError
	var enc sarama.PacketEncodingError
	return errors.Is(err, sarama.ErrMessageSizeTooLarge) || errors.Is(err, sarama.ErrMessageSetSizeTooLarge) ||
		errors.As(err, &conf) || errors.As(err, &enc)
}

// send gives messages to a producer and returns those that failed. An error
// that is about size comes only where none of them has another.
func (d *DeadLetter) send(ctx context.Context, p *sarama.SyncProducer, limit int, messages []*sarama.ProducerMessage) ([]*sarama.ProducerMessage, error) {
	if len(messages) == 0 {
		return nil, nil
	}
	if *p == nil {
		if err := d.connect(ctx, p, limit); err != nil {
			return messages, err
		}
	}
	for _, m := range messages { // sarama keeps its state in them
		*m = sarama.ProducerMessage{Topic: m.Topic, Key: m.Key, Value: m.Value, Headers: m.Headers}
	}
	stop := context.AfterFunc(ctx, d.dial.sever)
	err := (*p).SendMessages(messages)
	if !stop() {
		d.disconnect()
	}
	if err == nil {
		return nil, nil
	}
	if ctx.Err() != nil {
		return messages, ctx.Err()
	}
	var failed sarama.ProducerErrors
	if !errors.As(err, &failed) || len(failed) == 0 {
		return messages, err
	}
	left := make([]*sarama.ProducerMessage, len(failed))
	err = failed[0].Err
	for i, f := range failed {
		left[i] = f.Msg
		if tooLarge(err) && !tooLarge(f.Err) {
			err = f.Err
		}
	}
	if !tooLarge(err) {
		// After some failures a producer asks nobody for a while, and says no
		// more than that: the next try is to be told why it fails.
		d.disconnect()
	}
	return left, err
}

func (d *DeadLetter) connect(ctx context.Context, p *sarama.SyncProducer, limit int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if d.dial == nil {
		d.dial = newDialer(ctx, answerTimeout)
	}
	conf, err := d.cfg.sarama(d.dial)
	if err != nil {
		return err
	}
	conf.Metadata.AllowAutoTopicCreation = true // the brokers decide, as with any producer
	conf.Producer.RequiredAcks = sarama.WaitForAll
	conf.Producer.Idempotent = true
	conf.Producer.Return.Successes = true
	conf.Producer.Return.Errors = true
	conf.Producer.MaxMessageBytes = limit
	conf.Producer.Retry.Max = 5
	conf.Producer.Transaction.Retry.Max = 5 // of asking for a producer's id, 100 ms apart: nothing else ends it, and who flushes repeats it
	stop := context.AfterFunc(ctx, d.dial.sever)
	made, err := newProducer(d.cfg.Brokers, conf)
	if err == nil {
		*p = made
	}
	if !stop() {
		d.disconnect()
		return ctx.Err()
	}
	return err
}

// producer has a client of its own: sarama leaves one that it makes behind where it
// gets no producer's id.
type producer struct {
	sarama.SyncProducer
	client sarama.Client
}

func newProducer(brokers []string, conf *sarama.Config) (*producer, error) {
	client, err := sarama.NewClient(brokers, conf)
	if err != nil {
		return nil, err
	}
	p, err := sarama.NewSyncProducerFromClient(client)
	if err != nil {
		_ = client.Close() // nothing was sent
		return nil, err
	}
	return &producer{p, client}, nil
}

// Close implements sarama.SyncProducer.
func (p *producer) Close() error { return errors.Join(p.SyncProducer.Close(), p.client.Close()) }

// disconnect ends the producers; the next send makes others.
func (d *DeadLetter) disconnect() {
	for _, p := range []*sarama.SyncProducer{&d.producer, &d.big} {
		if *p != nil {
			_ = (*p).Close() // what was not sent is still in the buffer
			*p = nil
		}
	}
	if d.dial != nil {
		d.dial.sever()
		d.dial = nil
	}
}

// Close ends the connections. What was not flushed is not sent.
func (d *DeadLetter) Close() {
	d.turn <- struct{}{}
	defer func() { <-d.turn }()
	d.disconnect()
}
