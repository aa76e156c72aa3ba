package main

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tidemark/aggregator"
	"tidemark/config"
)

// TestProgress: a line that is written over on a terminal, and taken away;
// elsewhere a line in the log now and then.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var line, logged bytes.Buffer
		p := &program{stderr: &logged}
		elsewhere := p.progress(newLogger(&logged, config.Log{Format: "json"}))
		terminal := &progress{line: &line}
		for i := range int64(301) { // 30 seconds
			elsewhere.told("reading", i, 300, "bytes")
			terminal.told("reading", i, 300, "bytes")
			<-time.After(100 * time.Millisecond)
		}
		elsewhere.done()
		terminal.done()
		terminal.done()
		if n := strings.Count(logged.String(), "\n"); n != 3 || !strings.Contains(logged.String(), `"bytes":100,"of":300,"percent":33`) {
			t.Errorf("%d lines in the log:\n%s", n, logged.String())
		}
		shown := strings.Split(line.String(), "\r\x1b[K")
		if len(shown) != 1+301+1 || shown[1+150] != "reading: 150 of 300 bytes, 50 %" || shown[302] != "" {
			t.Errorf("%d lines on the terminal, %q", len(shown), shown[max(0, len(shown)-3):])
		}
		terminal.told("reading", 0, 0, "bytes") // of nothing, all is there
		if !strings.Contains(line.String(), "0 of 0 bytes, 100 %") {
			t.Errorf("%q", line.String())
		}
	})
}

// TestProgressOfAReading: documents, rate, share and time left, on a line that
// is no wider than the terminal, or in the log.
func TestProgressOfAReading(t *testing.T) {
	reading := aggregator.SeedProgress{Documents: 412_000, Read: 41, Total: 100, Took: 5 * time.Second}
	var line bytes.Buffer
	g := &progress{line: &line}
	g.reads(reading)
	g.reads(reading) // at once: not shown
	g.says(strings.Repeat("x", 200))
	g.done()
	want := "\r\x1b[Kreading the history: 412000 documents, 82400 a second, 41 %, about 7s left" +
		"\r\x1b[K" + strings.Repeat("x", 79) + "\r\x1b[K"
	if line.String() != want {
		t.Errorf("the terminal gets %q, want %q", line.String(), want)
	}
	var logged bytes.Buffer
	g = &progress{log: slog.New(slog.NewTextHandler(&logged, nil)), last: time.Now().Add(-time.Minute)}
	g.reads(reading)
	g.reads(reading)
	if got := logged.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "documents=412000 documents_per_second=82400 percent=41 remaining=7s") {
		t.Errorf("the log gets %q", got)
	}
}
