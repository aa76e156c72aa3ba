package aggregator

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"tidemark/event"
)

// TestBadShare: of the last thousand records, or of all while they are fewer.
func TestBadShare(t *testing.T) {
	var s badShare
	add := func(n int, bad bool) {
		for range n {
			s.add(bad)
		}
	}
	expect := func(want float64) {
		t.Helper()
		if got := s.share(); got != want {
			t.Errorf("share %v, want %v", got, want)
		}
	}
	expect(0)
	add(3, true)
	expect(1)
	add(1, false)
	expect(0.75)
	add(996, false)
	expect(0.003)
	add(3, false) // the bad ones are out of sight
	expect(0)
	add(600, true)
	expect(0.6)
	add(5000, false)
	expect(0)
}

// TestO07BadLog: twenty lines a minute for each reason, and the number of
// records that were held back.
func TestO07BadLog(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(1_438_160_000, 0)
	l := badLog{log: slog.New(slog.NewTextHandler(&out, nil)), now: func() time.Time { return now }}
	for i := range 10_000 {
		l.write(BadRecord{Topic: "sales", Partition: 3, Record: Record{Offset: int64(i)}, Reason: event.NotJSON, Error: "the record is not one whole JSON value"})
	}
	l.write(BadRecord{Reason: event.NullField, Field: "revenue"})
	lines := strings.Count(out.String(), "\n")
	if lines != badLines+1 || !strings.Contains(out.String(), "offset=19") || !strings.Contains(out.String(), "field=revenue") {
		t.Errorf("%d lines:\n%s", lines, out.String())
	}
	out.Reset()
	l.settle(false)
	if out.Len() > 0 {
		t.Errorf("before the minute is over: %s", out.String())
	}
	now = now.Add(time.Minute)
	l.settle(false)
	if !strings.Contains(out.String(), "reason=not_json records=9980") || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("at the end of the minute: %s", out.String())
	}
	out.Reset()
	l.write(BadRecord{Reason: event.NotJSON})
	if strings.Count(out.String(), "\n") != 1 {
		t.Errorf("in the next minute: %s", out.String())
	}
}

// The last few of each reason are remembered, also of those that were not
// logged, and over the minute's end.
func TestNewestBadRecords(t *testing.T) {
	now := time.Unix(1_438_160_000, 0)
	l := badLog{log: slog.New(slog.DiscardHandler), now: func() time.Time { return now }}
	write := func(reason event.Reason, offset int64) {
		now = now.Add(time.Second)
		l.write(BadRecord{Topic: "sales", Record: Record{Offset: offset, Value: []byte("{")}, Reason: reason, Error: "it is bad"})
	}
	write(event.NullField, 7)
	for offset := range int64(200) {
		write(event.NotJSON, offset)
	}
	write(event.Empty, 300)
	got := l.newest()
	var offsets []int64
	for i, b := range got {
		offsets = append(offsets, b.Offset)
		if i > 0 && b.Seen.After(got[i-1].Seen) {
			t.Errorf("offset %d is not older than the one before", b.Offset)
		}
	}
	if want := []int64{300, 199, 198, 197, 196, 195, 7}; !slices.Equal(offsets, want) {
		t.Errorf("got offsets %v, want %v", offsets, want)
	}
}
