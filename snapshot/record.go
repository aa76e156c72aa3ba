package snapshot

import (
	"fmt"
	"time"

	"tidemark/aggregator"
)

// manifestRecord is the JSON form of a Manifest. FORMAT.md describes it.
type manifestRecord struct {
	Version  int                       `json:"version"`
	Group    string                    `json:"group"`
	Seq      int64                     `json:"seq"`
	Epoch    int64                     `json:"epoch"`
	Parent   int64                     `json:"parent"`
	Writer   string                    `json:"writer"`
	Created  time.Time                 `json:"created"`
	Format   int                       `json:"format"`
	Identity aggregator.IdentityRecord `json:"identity"`
	Progress progressRecord            `json:"progress"`
	Bytes    int64                     `json:"bytes"`
	Files    []fileRecord              `json:"files"`
}

type fileRecord struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	Object string `json:"object,omitempty"` // where it is not the sum
}

// progressRecord is the JSON form of an aggregator.Progress.
type progressRecord struct {
	Position int64 `json:"position"`
	aggregator.ProgressRecord
}

func recordOf(m *Manifest) manifestRecord {
	r := manifestRecord{
		Version: ManifestVersion, Group: m.Lineage.Group, Seq: m.Seq, Epoch: m.Epoch, Parent: m.Parent,
		Writer: m.Writer, Created: m.Created.UTC(), Format: m.Format,
		Identity: m.Identity.Record(), Progress: progressRecord{m.Progress.Position, m.Progress.Record()}, Bytes: m.Bytes(),
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
		Identity: r.Identity.Identity(),
	}
	for _, f := range r.Files {
		if f.Object == "" {
			f.Object = f.SHA256
		}
		m.Files = append(m.Files, File(f))
	}
	var err error
	m.Progress, err = r.Progress.Progress(r.Progress.Position)
	if n := m.Bytes(); err == nil && n != r.Bytes {
		err = fmt.Errorf("its files have %d bytes, it says %d", n, r.Bytes)
	}
	return m, err
}
