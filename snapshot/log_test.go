package snapshot

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
)

// said keeps what is logged.
type said struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *said) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(s, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// has fails where no warning has the words.
func (s *said) has(t testing.TB, words string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !strings.Contains(s.b.String(), words) {
		t.Errorf("no log line has %q:\n%s", words, s.b.String())
	}
}
