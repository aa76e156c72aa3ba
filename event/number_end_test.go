package event

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

// A number ends where the grammar says, wherever in a word its point and its end
// lie, and however little follows it.
func TestNumberEnd(t *testing.T) {
	longest := regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]*)?([eE][+-]?[0-9]*)?`)
	check := func(text string) {
		want := len(longest.FindString(text))
		if !json.Valid([]byte(text[:want])) {
			want = -1
		}
		if got := numberEnd([]byte(text), 0); got != want {
			t.Fatalf("numberEnd(%q) is %d, not %d", text, got, want)
		}
		if got := numberEnd([]byte("["+text), 1); want >= 0 && got != want+1 || want < 0 && got >= 0 {
			t.Fatalf("numberEnd(%q) behind a bracket is %d, not %d", text, got, want+1)
		}
	}
	parts := []string{"", "-", "0", "7", "10", "1234567", "12345678", "123456789012345678"}
	for _, whole := range parts {
		for _, minus := range []string{"", "-"} {
			for _, fraction := range []string{"", ".", ".0", ".25", ".123456", ".1234567890", "..1", ".\xff1"} {
				for _, exponent := range []string{"", "e", "E5", "e+", "e-12", "e123456789"} {
					for _, behind := range []string{"", ",", "]}", "\xff\xff", "x1", "/", ":", "9", " ", ".5"} {
						for n := range 10 {
							if text := minus + whole + fraction + exponent + behind + strings.Repeat("}", n); text != "" {
								check(text)
							}
						}
					}
				}
			}
		}
	}
}
