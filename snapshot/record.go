package snapshot

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"tidemark/aggregator"
	"tidemark/event"
)

// manifestRecord is the JSON form of a Manifest. FORMAT.md describes it.
type manifestRecord struct {
	Version  int            `json:"version"`
	Group    string         `json:"group"`
	Seq      int64          `json:"seq"`
	Epoch    int64          `json:"epoch"`
	Parent   int64          `json:"parent"`
	Writer   string         `json:"writer"`
	Created  time.Time      `json:"created"`
	Format   int            `json:"format"`
	Identity identityRecord `json:"identity"`
	Progress progressRecord `json:"progress"`
	Bytes    int64          `json:"bytes"`
	Files    []fileRecord   `json:"files"`
}

type fileRecord struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	Object string `json:"object,omitempty"` // where it is not the sum
}

type identityRecord struct {
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

// progressRecord names results and reasons, so that their order in the program
// is not part of the format; those at zero are left out.
type progressRecord struct {
	Position  int64            `json:"position"`
	Seeded    bool             `json:"seeded"`
	Documents int64            `json:"documents,omitempty"`
	Epoch     int64            `json:"epoch"`
	Gap       int64            `json:"gap,omitempty"`
	Placement uint8            `json:"placement"`
	Results   map[string]int64 `json:"results,omitempty"`
	Reasons   map[string]int64 `json:"reasons,omitempty"`
}

func recordOf(m *Manifest) manifestRecord {
	r := manifestRecord{
		Version: ManifestVersion, Group: m.Lineage.Group, Seq: m.Seq, Epoch: m.Epoch, Parent: m.Parent,
		Writer: m.Writer, Created: m.Created.UTC(), Format: m.Format,
		Identity: identityRecordOf(m.Identity), Progress: progressRecordOf(m.Progress), Bytes: m.Bytes(),
	}
	for _, f := range m.Files {
		of := fileRecord(f)
		if of.Object == of.SHA256 {
			of.Object = ""
		}
		r.Files = append(r.Files, of)
	}
	return r
}

func (r *manifestRecord) manifest() (*Manifest, error) {
	m := &Manifest{
		Lineage: Lineage{Group: r.Group, Topic: r.Identity.Topic, TopicID: r.Identity.TopicID, Partition: r.Identity.Partition},
		Seq:     r.Seq, Epoch: r.Epoch, Parent: r.Parent, Writer: r.Writer, Created: r.Created, Format: r.Format,
		Identity: r.Identity.identity(),
	}
	for _, f := range r.Files {
		if f.Object == "" {
			f.Object = f.SHA256
		}
		m.Files = append(m.Files, File(f))
	}
	var err error
	m.Progress, err = r.Progress.progress()
	if n := m.Bytes(); err == nil && n != r.Bytes {
		err = fmt.Errorf("its files have %d bytes, it says %d", n, r.Bytes)
	}
	return m, err
}

func identityRecordOf(id aggregator.Identity) identityRecord {
	r := identityRecord{
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

func (r *identityRecord) identity() aggregator.Identity {
	id := aggregator.Identity{
		Topic: r.Topic, TopicID: r.TopicID, Partition: r.Partition, Partitions: r.Partitions,
		Definition: aggregator.Definition{SQL: r.Definition.SQL, Fingerprint: r.Definition.Fingerprint},
		Cut:        aggregator.Cut{Mode: r.Cut.Mode, Start: r.Cut.Start, EventTime: r.Cut.EventTime, Partitioner: r.Cut.Partitioner},
		HasHistory: r.HasHistory, SeedPartitions: r.SeedPartitions,
	}
	for _, c := range r.Definition.Clauses {
		id.Definition.Clauses = append(id.Definition.Clauses, aggregator.Clause(c))
	}
	if b := r.Cut.Before; b != nil {
		id.Cut.Before = &event.Time{Sec: b.Sec, Nsec: b.Nsec}
	}
	return id
}

// sameIdentity compares all that is stored of an identity but the text of the
// query, which may differ where its clauses do not.
func sameIdentity(a, b aggregator.Identity) bool {
	a.Definition.SQL, b.Definition.SQL = "", ""
	x, xerr := json.Marshal(identityRecordOf(a))
	y, yerr := json.Marshal(identityRecordOf(b))
	return xerr == nil && yerr == nil && bytes.Equal(x, y)
}

func progressRecordOf(p aggregator.Progress) progressRecord {
	r := progressRecord{
		Position: p.Position, Seeded: p.Seeded, Documents: p.Documents, Epoch: p.Epoch, Gap: p.Gap,
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
	return r
}

func (r *progressRecord) progress() (aggregator.Progress, error) {
	p := aggregator.Progress{
		Position: r.Position, Seeded: r.Seeded, Documents: r.Documents, Epoch: r.Epoch, Gap: r.Gap,
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
			return p, fmt.Errorf("it counts records as %q, which this program does not know", name)
		}
	}
	return p, nil
}

// strictJSON decodes one value and refuses names that it does not know.
func strictJSON(value []byte, into any) error {
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
