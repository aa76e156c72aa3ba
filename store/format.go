package store

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"

	"tidemark/aggregator"
	"tidemark/event"
)

// FormatVersion is the number of the on-disk format that this program writes.
// It reads all from 1 to this. FORMAT.md says when it rises.
const FormatVersion = 1

// The keys. A total lies under totalPrefix and the key's bytes, a guard under
// guardPrefix and the key's bytes.
var (
	totalPrefix = []byte("k/")
	totalEnd    = []byte("k0") // the first key above all totals: '0' follows '/'
	guardPrefix = []byte("g/")
	guardEnd    = []byte("g0")

	formatKey   = []byte("m/format")
	identityKey = []byte("m/identity")
	progressKey = []byte("m/progress")
)

// totalKey is the store's key of the total of key.
func totalKey(key []byte) []byte { return prefixed(totalPrefix, key) }

// guardKey is the store's key of the guard of key.
func guardKey(key []byte) []byte { return prefixed(guardPrefix, key) }

func prefixed(prefix, key []byte) []byte {
	return append(append(make([]byte, 0, len(prefix)+len(key)), prefix...), key...)
}

func encodeFormat() []byte { return strconv.AppendInt(nil, FormatVersion, 10) }

// checkFormat returns ErrNewerFormat for a marker of a newer program.
func checkFormat(marker []byte) (version int, err error) {
	version, err = strconv.Atoi(string(marker))
	if err != nil || version < 1 {
		return 0, fmt.Errorf("format marker %q is no version number: %w", marker, ErrCorrupt)
	}
	if version > FormatVersion {
		return version, fmt.Errorf("%w: it is %d, this program reads up to %d", ErrNewerFormat, version, FormatVersion)
	}
	return version, nil
}

// identityRecord is the JSON form of an aggregator.Identity.
type identityRecord struct {
	Topic      string           `json:"topic"`
	TopicID    string           `json:"topic_id"`
	Partition  int32            `json:"partition"`
	Partitions int32            `json:"partitions"`
	Definition definitionRecord `json:"definition"`
	Cut        cutRecord        `json:"cut"`
	HasHistory bool             `json:"has_history"`
	SeedParts  int32            `json:"seed_partitions"`
}

type definitionRecord struct {
	SQL         string         `json:"sql"`
	Fingerprint string         `json:"fingerprint"`
	Clauses     []clauseRecord `json:"clauses"`
}

type clauseRecord struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

type cutRecord struct {
	Mode        string      `json:"mode"`
	Start       int64       `json:"start"`
	Before      *timeRecord `json:"before,omitempty"`
	EventTime   []string    `json:"event_time,omitempty"`
	Partitioner string      `json:"partitioner,omitempty"`
}

type timeRecord struct {
	Sec  int64 `json:"sec"`
	Nsec int32 `json:"nsec"`
}

func encodeIdentity(id aggregator.Identity) ([]byte, error) {
	r := identityRecord{
		Topic: id.Topic, TopicID: id.TopicID,
		Partition: id.Partition, Partitions: id.Partitions,
		Definition: definitionRecord{SQL: id.Definition.SQL, Fingerprint: id.Definition.Fingerprint},
		Cut:        cutRecord{Mode: id.Cut.Mode, Start: id.Cut.Start, EventTime: id.Cut.EventTime, Partitioner: id.Cut.Partitioner},
		HasHistory: id.HasHistory, SeedParts: id.SeedPartitions,
	}
	for _, c := range id.Definition.Clauses {
		r.Definition.Clauses = append(r.Definition.Clauses, clauseRecord(c))
	}
	if b := id.Cut.Before; b != nil {
		r.Cut.Before = &timeRecord{b.Sec, b.Nsec}
	}
	return json.Marshal(r)
}

func decodeIdentity(value []byte) (id aggregator.Identity, err error) {
	var r identityRecord
	if err := strictJSON(value, &r); err != nil {
		return id, fmt.Errorf("identity of the state: %w: %w", ErrCorrupt, err)
	}
	id = aggregator.Identity{
		Topic: r.Topic, TopicID: r.TopicID,
		Partition: r.Partition, Partitions: r.Partitions,
		Definition: aggregator.Definition{SQL: r.Definition.SQL, Fingerprint: r.Definition.Fingerprint},
		Cut:        aggregator.Cut{Mode: r.Cut.Mode, Start: r.Cut.Start, EventTime: r.Cut.EventTime, Partitioner: r.Cut.Partitioner},
		HasHistory: r.HasHistory, SeedPartitions: r.SeedParts,
	}
	for _, c := range r.Definition.Clauses {
		id.Definition.Clauses = append(id.Definition.Clauses, aggregator.Clause(c))
	}
	if b := r.Cut.Before; b != nil {
		id.Cut.Before = &event.Time{Sec: b.Sec, Nsec: b.Nsec}
	}
	return id, nil
}

// progressRecord is the JSON form of an aggregator.Progress but its position,
// which stands before it. Results and reasons go by name, so that their order
// in the program is not part of the format; those at zero are left out.
type progressRecord struct {
	Seeded    bool             `json:"seeded"`
	Documents int64            `json:"documents,omitempty"`
	Epoch     int64            `json:"epoch"`
	Gap       int64            `json:"gap,omitempty"`
	Placement uint8            `json:"placement"`
	Results   map[string]int64 `json:"results,omitempty"`
	Reasons   map[string]int64 `json:"reasons,omitempty"`
}

// appendProgress appends p: the position as uvarint, then the rest as JSON.
func appendProgress(dst []byte, p aggregator.Progress) ([]byte, error) {
	r := progressRecord{
		Seeded: p.Seeded, Documents: p.Documents, Epoch: p.Epoch, Gap: p.Gap,
		Placement: uint8(p.Placement),
		Results:   make(map[string]int64), Reasons: make(map[string]int64),
	}
	for i, n := range p.Counts.Results {
		if n != 0 {
			r.Results[aggregator.Result(i).String()] = n
		}
	}
	for i, n := range p.Counts.Reasons {
		if n != 0 {
			r.Reasons[event.Reason(i).String()] = n
		}
	}
	rest, err := json.Marshal(r)
	if err != nil {
		return dst, err
	}
	return append(binary.AppendUvarint(dst, uint64(p.Position)), rest...), nil
}

// decodePosition reads the position alone.
func decodePosition(value []byte) (position int64, rest []byte, err error) {
	n, width := binary.Uvarint(value)
	if width <= 0 || int64(n) < 0 {
		return 0, nil, fmt.Errorf("progress of the state: no position: %w", ErrCorrupt)
	}
	return int64(n), value[width:], nil
}

func decodeProgress(value []byte) (p aggregator.Progress, err error) {
	position, rest, err := decodePosition(value)
	if err != nil {
		return p, err
	}
	var r progressRecord
	if err := strictJSON(rest, &r); err != nil {
		return p, fmt.Errorf("progress of the state: %w: %w", ErrCorrupt, err)
	}
	p = aggregator.Progress{
		Position: position, Seeded: r.Seeded, Documents: r.Documents, Epoch: r.Epoch, Gap: r.Gap,
		Placement: aggregator.Placement(r.Placement),
	}
	for i := range p.Counts.Results {
		name := aggregator.Result(i).String()
		p.Counts.Results[i] = r.Results[name]
		delete(r.Results, name)
	}
	for i := range p.Counts.Reasons {
		name := event.Reason(i).String()
		p.Counts.Reasons[i] = r.Reasons[name]
		delete(r.Reasons, name)
	}
	for _, left := range []map[string]int64{r.Results, r.Reasons} {
		for name := range left {
			return p, fmt.Errorf("progress of the state: counts records as %q, which this program does not know: %w", name, ErrCorrupt)
		}
	}
	return p, nil
}

// strictJSON decodes one value and refuses names that it does not know: a
// later write would lose them.
func strictJSON(value []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(value))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if d.More() {
		return fmt.Errorf("bytes follow the value")
	}
	return nil
}

const guardLen = 12

// appendGuard appends t: seconds as 8 bytes and nanoseconds as 4, big-endian.
func appendGuard(dst []byte, t event.Time) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(t.Sec))
	return binary.BigEndian.AppendUint32(dst, uint32(t.Nsec))
}

func decodeGuard(value []byte) (event.Time, error) {
	if len(value) != guardLen {
		return event.Time{}, fmt.Errorf("guard of %d bytes instead of %d: %w", len(value), guardLen, ErrCorrupt)
	}
	return event.Time{
		Sec:  int64(binary.BigEndian.Uint64(value)),
		Nsec: int32(binary.BigEndian.Uint32(value[8:])),
	}, nil
}
