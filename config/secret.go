package config

import (
	"fmt"
	"log/slog"
)

// hidden is what every printed form of a Secret reads.
const hidden = "***"

// Secret is a text that is never printed: whichever way it, or what holds it,
// is formatted, logged or encoded, it reads *** or is an address. Reveal is
// the way to the text itself. nil is the empty text.
//
// It is a function because fmt prints the text of a string, whatever its
// methods, when it complains of a verb that does not fit what holds it.
type Secret func() string

var (
	_ fmt.Formatter  = Secret(nil)
	_ slog.LogValuer = Secret(nil)
)

// NewSecret hides text.
func NewSecret(text string) Secret { return func() string { return text } }

// Reveal is the text.
func (s Secret) Reveal() string {
	if s == nil {
		return ""
	}
	return s()
}

// String is ***.
func (s Secret) String() string { return hidden }

// Format writes *** for every verb.
func (s Secret) Format(f fmt.State, verb rune) { _, _ = f.Write([]byte(hidden)) }

// MarshalText is ***, for JSON, YAML and XML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// LogValue is ***.
func (s Secret) LogValue() slog.Value { return slog.StringValue(hidden) }
