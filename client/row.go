package client

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"strconv"
)

// Key is the texts of the key's columns, in the order of GROUP BY.
type Key []string

// MarshalJSON writes one text as it is, several as an array.
func (k Key) MarshalJSON() ([]byte, error) {
	if len(k) == 1 {
		return json.Marshal(k[0])
	}
	return json.Marshal([]string(k))
}

// UnmarshalJSON reads either.
func (k *Key) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '[' {
		return json.Unmarshal(text, (*[]string)(k))
	}
	var one string
	if err := json.Unmarshal(text, &one); err != nil {
		return err
	}
	*k = Key{one}
	return nil
}

// Positions are, by partition, the next offset that a row does not hold.
type Positions map[int32]int64

// Row is the totals of one key.
type Row struct {
	Key       Key             `json:"key"`
	Results   json.RawMessage `json:"row"`       // an object with the results; null where the key is absent
	Capped    []string        `json:"capped"`    // sets that have lost members to the limit
	Positions Positions       `json:"positions"` // of each partition that may hold the key
	Complete  bool            `json:"complete"`  // nothing is missing; always so without Partial

	body []byte
}

// UnmarshalJSON keeps the text beside what it says.
func (r *Row) UnmarshalJSON(text []byte) error {
	type plain Row
	if err := json.Unmarshal(text, (*plain)(r)); err != nil {
		return err
	}
	r.body = bytes.Clone(text)
	return nil
}

// JSON is the row as the service gave it, with key, positions and complete.
func (r *Row) JSON() []byte { return r.body }

// Found says whether the key has a row. It has one wherever no error says
// otherwise, but with Partial and in a Watch.
func (r *Row) Found() bool { return len(r.Results) > 0 && string(r.Results) != "null" }

// Decode reads the results into v as encoding/json does: a pointer to a struct
// with fields of type Number for exact numbers, time.Time for timestamps. It
// changes nothing where the key is absent.
func (r *Row) Decode(v any) error {
	if !r.Found() {
		return nil
	}
	if err := json.Unmarshal(r.Results, v); err != nil {
		return fmt.Errorf("decode the results of key %q: %w", r.Key, err)
	}
	return nil
}

// Number is a number with all its digits, as text: a sum may have more than a
// float64 or an int64 holds. Null is "".
type Number string

// String is the number's text.
func (n Number) String() string { return string(n) }

// Rat is the number for calculating; false where it is null.
func (n Number) Rat() (*big.Rat, bool) { return new(big.Rat).SetString(string(n)) }

// Int64 is the number as a whole one; an error where it has a fraction, is too
// large or null.
func (n Number) Int64() (int64, error) { return strconv.ParseInt(string(n), 10, 64) }

// UnmarshalJSON reads a number, a text that is one, or null.
func (n *Number) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*n = ""
		return nil
	}
	var number json.Number // checks both forms
	if err := json.Unmarshal(text, &number); err != nil {
		return err
	}
	*n = Number(number)
	return nil
}

// MarshalJSON writes the digits, and null for "".
func (n Number) MarshalJSON() ([]byte, error) {
	if n == "" {
		return []byte("null"), nil
	}
	return json.Marshal(json.Number(n))
}
