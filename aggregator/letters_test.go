package aggregator

import (
	"errors"
	"strings"
	"testing"

	"tidemark/event"
)

// TestDeadLetterBeforePosition: no position is stored that is past a bad
// record which the dead letter has not stored.
func TestDeadLetterBeforePosition(t *testing.T) {
	r := newRig(t, 1)
	r.letters.refuses = errors.New("no leader")
	r.start(0)
	r.log.produce(0, sale(1, "5.00"), "", `{"userId":"U-1"`, sale(1, "7.00"))
	r.until(0, "paused", func(s PartitionStatus) bool { return s.State == Paused && strings.Contains(s.Reason, "no leader") })
	if at := r.stored(0); at != 0 {
		t.Errorf("position %d is stored", at)
	}
	r.letters.mu.Lock()
	r.letters.refuses = nil
	r.letters.mu.Unlock()
	r.caughtUp(0)
	r.expect(0, "1", `{"userId":1,"sales":2,"revenue":12}`)
	r.stop()
	if len(r.letters.sent) != 1 || r.letters.stored != 1 || r.letters.sent[0].Record.Offset != 2 || r.letters.sent[0].Error == "" {
		t.Errorf("dead letters: %+v", r.letters.sent)
	}
}

// TestDeadLetterWhileItIsSent: an apply that comes between the folding of a bad
// record and its letter waits for the letter.
func TestDeadLetterWhileItIsSent(t *testing.T) {
	r := newRig(t, 2)
	sending, goOn := make(chan struct{}), make(chan struct{})
	r.letters.takes = func() error {
		close(sending)
		<-goOn
		return nil
	}
	r.start(0, 1)
	r.caughtUp(0)
	r.caughtUp(1)
	r.log.produce(0, sale(1, "5.00"), `{"userId":"U-1"`)
	<-sending
	for n := range int64(20) { // the other one applies again and again meanwhile
		r.log.produce(1, sale(1, "1"))
		r.until(1, "stored", func(PartitionStatus) bool { return r.stored(1) > n })
	}
	if at := r.stored(0); at != 0 {
		t.Errorf("position %d is stored, and the letter of record 1 is not sent", at)
	}
	close(goOn)
	r.caughtUp(0)
	r.until(0, "stored", func(PartitionStatus) bool { return r.stored(0) == 2 })
	r.stop()
	if r.letters.stored != 1 {
		t.Errorf("%d letters are stored, want 1", r.letters.stored)
	}
}

// TestDeadLetterNotSent: a partition that is let go of while the dead letter
// takes nothing stores no position past what it did not take.
func TestDeadLetterNotSent(t *testing.T) {
	r := newRig(t, 1)
	r.letters.takes = func() error { return errors.New("not now") }
	r.start(0)
	r.log.produce(0, sale(1, "5.00"), `{"userId":"U-1"`)
	r.until(0, "paused", func(s PartitionStatus) bool { return s.State == Paused && strings.Contains(s.Reason, "not now") })
	r.stop()
	if at := r.stored(0); at != 0 {
		t.Errorf("position %d is stored, and the letter of record 1 is not", at)
	}
	r.letters.takes = nil
	r.start(0)
	r.caughtUp(0)
	r.expect(0, "1", `{"userId":1,"sales":1,"revenue":5}`)
	r.stop()
	if len(r.letters.sent) != 1 || r.letters.stored != 1 {
		t.Errorf("dead letters: %+v", r.letters.sent)
	}
}

// TestD14NullKafkaKey: the value decides, whatever the record's own key is.
func TestD14NullKafkaKey(t *testing.T) {
	r := newRig(t, 1)
	r.log.produce(0, `{"userId":"U-14","revenue":4.00}`, `{"revenue":4.00}`)
	r.log.edit(func() { r.log.parts[0].records[1].Key = []byte("U-14") })
	r.start(0)
	r.caughtUp(0)
	r.expect(0, "U-14", `{"userId":"U-14","sales":1,"revenue":4}`)
	if s := r.p.Status()[0]; s.Counts.Results[Bad] != 1 || s.Counts.Reasons[event.MissingField] != 1 {
		t.Errorf("counts %+v", s.Counts)
	}
}
