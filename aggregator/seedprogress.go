package aggregator

import (
	"fmt"
	"time"
)

// Rate is in documents a second, since the beginning.
func (p SeedProgress) Rate() float64 {
	if p.Took <= 0 {
		return 0
	}
	return float64(p.Documents) / p.Took.Seconds()
}

// Share is how much of the history has been read, 0 to 1; false where that is
// not known.
func (p SeedProgress) Share() (float64, bool) {
	if p.Total <= 0 {
		return 0, false
	}
	return min(float64(p.Read)/float64(p.Total), 1), true
}

// Remaining is about how long the rest takes; false where that is not known.
func (p SeedProgress) Remaining() (time.Duration, bool) {
	if p.Total <= 0 || p.Read <= 0 {
		return 0, false
	}
	left := max(0, float64(p.Total-p.Read))
	return time.Duration(float64(p.Took) * left / float64(p.Read)), true
}

// String says it for people: documents, rate, share and time left.
func (p SeedProgress) String() string {
	text := fmt.Sprintf("%d documents, %.0f a second", p.Documents, p.Rate())
	if share, ok := p.Share(); ok {
		text += fmt.Sprintf(", %.0f %%", 100*share)
	}
	if left, ok := p.Remaining(); ok {
		text += fmt.Sprintf(", about %s left", max(left.Round(time.Second), time.Second))
	}
	return text
}

// Attrs says it for a log.
func (p SeedProgress) Attrs() []any {
	attrs := []any{"documents", p.Documents, "documents_per_second", int64(p.Rate())}
	if share, ok := p.Share(); ok {
		attrs = append(attrs, "percent", int64(100*share))
	}
	if left, ok := p.Remaining(); ok {
		attrs = append(attrs, "remaining", left.Round(time.Second))
	}
	return attrs
}
