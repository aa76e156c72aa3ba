package main

import (
	"testing"
	"time"
)

// TestFlushesKeepUpWithSnapshots: a heavy stream is applied with the flush, so that
// where snapshots come more often most of them would have nothing new.
func TestFlushesKeepUpWithSnapshots(t *testing.T) {
	for _, c := range []struct{ apply, snapshots, want time.Duration }{
		{2 * time.Second, 30 * time.Second, 30 * time.Second},
		{2 * time.Second, 5 * time.Minute, 30 * time.Second},
		{2 * time.Second, 5 * time.Second, 5 * time.Second},
		{time.Hour, 10 * time.Second, 10 * time.Second},
		{time.Millisecond, time.Minute, time.Second},
		{time.Second, 100 * time.Millisecond, time.Second},
	} {
		if got := flushInterval(c.apply, c.snapshots); got != c.want {
			t.Errorf("with applies each %v and snapshots each %v, flushes come each %v, want %v", c.apply, c.snapshots, got, c.want)
		}
	}
}
