package aggregator

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"tidemark/event"
)

// The JSON forms of Identity and Progress: what states and manifests of
// snapshots keep of them. store/FORMAT.md describes them. The order of the
// fields is that of the bytes.

// IdentityRecord is the JSON form of an Identity.
type IdentityRecord struct {
	Topic          string           `json:"topic"`
	TopicID        string           `json:"topic_id"`
	Partition      int32            `json:"partition"`
	Partitions     int32            `json:"partitions"`
	Definition     definitionRecord `json:"definition"`
	Cut            cutRecord        `json:"cut"`
	HasHistory     bool             `json:"has_history"`
	SeedPartitions int32            `json:"seed_partitions"`
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

// Record is id for JSON.
func (id Identity) Record() IdentityRecord {
	r := IdentityRecord{
		Topic: id.Topic, TopicID: id.TopicID, Partition: id.Partition, Partitions: id.Partitions,
		Definition: definitionRecord{SQL: id.Definition.SQL, Fingerprint: id.Definition.Fingerprint},
		Cut:        cutRecord{Mode: id.Cut.Mode, Start: id.Cut.Start, EventTime: id.Cut.EventTime, Partitioner: id.Cut.Partitioner},
		HasHistory: id.HasHistory, SeedPartitions: id.SeedPartitions,
	}
	for _, c := range id.Definition.Clauses {
		r.Definition.Clauses = append(r.Definition.Clauses, clauseRecord(c))
	}
	if b := id.Cut.Before; b != nil {
		r.Cut.Before = &timeRecord{b.Sec, b.Nsec}
	}
	return r
}

// Identity is what r is the JSON of.
func (r IdentityRecord) Identity() Identity {
	id := Identity{
		Topic: r.Topic, TopicID: r.TopicID, Partition: r.Partition, Partitions: r.Partitions,
		Definition: Definition{SQL: r.Definition.SQL, Fingerprint: r.Definition.Fingerprint},
		Cut:        Cut{Mode: r.Cut.Mode, Start: r.Cut.Start, EventTime: r.Cut.EventTime, Partitioner: r.Cut.Partitioner},
		HasHistory: r.HasHistory, SeedPartitions: r.SeedPartitions,
	}
	for _, c := range r.Definition.Clauses {
		id.Definition.Clauses = append(id.Definition.Clauses, Clause(c))
	}
	if b := r.Cut.Before; b != nil {
		id.Cut.Before = &event.Time{Sec: b.Sec, Nsec: b.Nsec}
	}
	return id
}

// ProgressRecord is the JSON form of a Progress but its Position, which each
// user keeps in a place of its own. Results and reasons go by name, so that
// their order in the program is no part of the format; those at zero are left
// out.
type ProgressRecord struct {
	Seeded    bool             `json:"seeded"`
	Documents int64            `json:"documents,omitempty"`
	Epoch     int64            `json:"epoch"`
	Gap       int64            `json:"gap,omitempty"`
	Placement uint8            `json:"placement"`
	Results   map[string]int64 `json:"results,omitempty"`
	Reasons   map[string]int64 `json:"reasons,omitempty"`
}

// Record is p for JSON, without its Position.
func (p Progress) Record() ProgressRecord {
	r := ProgressRecord{
		Seeded: p.Seeded, Documents: p.Documents, Epoch: p.Epoch, Gap: p.Gap, Placement: uint8(p.Placement),
		Results: make(map[string]int64), Reasons: make(map[string]int64),
	}
	for i, n := range p.Counts.Results {
		if n != 0 {
			r.Results[Result(i).String()] = n
		}
	}
	for i, n := range p.Counts.Reasons {
		if n != 0 {
			r.Reasons[event.Reason(i).String()] = n
		}
	}
	return r
}

// Progress is what r is the JSON of, at position. It is an error where r counts
// records by a name that this program does not know: to go on would lose them.
func (r ProgressRecord) Progress(position int64) (Progress, error) {
	p := Progress{
		Position: position, Seeded: r.Seeded, Documents: r.Documents, Epoch: r.Epoch, Gap: r.Gap,
		Placement: Placement(r.Placement),
	}
	results, reasons := maps.Clone(r.Results), maps.Clone(r.Reasons)
	for i := range p.Counts.Results {
		name := Result(i).String()
		p.Counts.Results[i] = results[name]
		delete(results, name)
	}
	for i := range p.Counts.Reasons {
		name := event.Reason(i).String()
		p.Counts.Reasons[i] = reasons[name]
		delete(reasons, name)
	}
	for _, left := range []map[string]int64{results, reasons} {
		for name := range left {
			return p, fmt.Errorf("it counts records as %q, which this program does not know", name)
		}
	}
	return p, nil
}

// UnmarshalStrict decodes one JSON value and refuses names that into does not
// have: what is written later would lose them.
func UnmarshalStrict(value []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(value))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if d.More() {
		return errors.New("bytes follow the value")
	}
	return nil
}
