package snapshot

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tidemark/aggregator"
)

// ManifestVersion is the number of the manifests that this program writes. It
// reads all from 1 to this.
const ManifestVersion = 1

// Manifest is one snapshot of one partition. It is not changed once made.
type Manifest struct {
	Lineage  Lineage
	Seq      int64 // its number in the lineage, from 0
	Epoch    int64 // of the owner that wrote it
	Parent   int64 // the number of the one before it, as its writer knew, -1 for none
	Writer   string
	Created  time.Time
	Format   int // of the state's files
	Identity aggregator.Identity
	Progress aggregator.Progress
	Files    []File // by name
}

// File is one file of a snapshot.
type File struct {
	Name   string
	Size   int64  // bytes
	SHA256 string // hexadecimal
	// Object is the last part of the key under which the bytes lie: SHA256, or
	// that with a suffix where an object of this name was found damaged. A file
	// without bytes has no object.
	Object string
}

// Position is the next offset after those that the snapshot holds.
func (m *Manifest) Position() int64 { return m.Progress.Position }

// State is what the files of m hold.
func (m *Manifest) State() State { return State{m.Identity, m.Progress, m.Format} }

// Key is the key of the manifest, in a folder its path.
func (m *Manifest) Key() string { return m.Lineage.manifest(m.Seq) }

// FileKey is the key of the object with the bytes of f, which is one of m's
// files; "" where it has none.
func (m *Manifest) FileKey(f File) string {
	if f.Size == 0 {
		return ""
	}
	return m.Lineage.file(f.Object)
}

// Bytes is the size of all its files.
func (m *Manifest) Bytes() (n int64) {
	for _, f := range m.Files {
		n += f.Size
	}
	return n
}

// sameFiles says whether two manifests stand on the same objects.
func (m *Manifest) sameFiles(other *Manifest) bool { return slices.Equal(m.Files, other.Files) }

// holds says whether the manifest is of the state s.
func (m *Manifest) holds(s State) bool {
	return m.Progress.Position == s.Progress.Position && m.Format == s.Format && m.Identity.Same(s.Identity)
}

// envelope is a manifest as it lies in the store. The sum is over the bytes of
// Manifest as they stand there.
type envelope struct {
	Manifest json.RawMessage `json:"manifest"`
	SHA256   string          `json:"sha256"`
}

// encode returns the bytes of the object.
func (m *Manifest) encode() ([]byte, error) {
	inner, err := json.Marshal(recordOf(m))
	if err != nil {
		return nil, fmt.Errorf("encode the manifest of snapshot %d: %w", m.Seq, err)
	}
	sum := sha256.Sum256(inner)
	return json.Marshal(envelope{inner, hex.EncodeToString(sum[:])})
}

// decode reads the object of snapshot seq of l. It returns a *DamagedError, or
// ErrNewer with both numbers.
func decode(l Lineage, seq int64, object []byte) (*Manifest, error) {
	damaged := func(reason string) error {
		return &DamagedError{Lineage: l, Seq: seq, Object: l.manifest(seq), Reason: reason}
	}
	var e envelope
	if err := aggregator.UnmarshalStrict(object, &e); err != nil {
		return nil, damaged(fmt.Sprintf("is no manifest (%v)", err))
	}
	if sum := sha256.Sum256(e.Manifest); hex.EncodeToString(sum[:]) != e.SHA256 {
		return nil, damaged("does not have the sum that is written in it")
	}
	var v struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(e.Manifest, &v); err != nil || v.Version < 1 {
		return nil, damaged("has no version")
	}
	if v.Version > ManifestVersion {
		return nil, fmt.Errorf("manifest %s: %w: it is %d, this program reads up to %d", l.manifest(seq), ErrNewer, v.Version, ManifestVersion)
	}
	var r manifestRecord
	if err := aggregator.UnmarshalStrict(e.Manifest, &r); err != nil {
		return nil, fmt.Errorf("manifest %s: %w: %w", l.manifest(seq), ErrNewer, err)
	}
	m, err := r.manifest()
	if err != nil {
		return nil, fmt.Errorf("manifest %s: %w: %w", l.manifest(seq), ErrNewer, err)
	}
	if m.Seq != seq || !m.Lineage.same(l) {
		return nil, damaged(fmt.Sprintf("is the one of snapshot %d of %s", m.Seq, m.Lineage))
	}
	if err := m.check(); err != nil {
		return nil, damaged(err.Error())
	}
	return m, nil
}

// check looks at what a restore relies on.
func (m *Manifest) check() error {
	if m.Epoch < 0 || m.Progress.Position < 0 || len(m.Files) == 0 {
		return errors.New("lacks an epoch, a position or files")
	}
	for i, f := range m.Files {
		sum, err := hex.DecodeString(f.SHA256)
		suffix, ok := strings.CutPrefix(f.Object, f.SHA256)
		switch {
		case f.Name != filepath.Base(f.Name) || strings.ContainsAny(f.Name, `/\`) || strings.HasPrefix(f.Name, "."):
			return fmt.Errorf("names a file %q", f.Name)
		case i > 0 && cmp.Compare(m.Files[i-1].Name, f.Name) >= 0:
			return fmt.Errorf("has file %q out of order", f.Name)
		case err != nil || len(sum) != sha256.Size || f.Size < 0:
			return fmt.Errorf("has no sum or size for file %q", f.Name)
		case !ok || suffix != "" && !validSuffix(suffix):
			return fmt.Errorf("has file %q in object %q", f.Name, f.Object)
		}
	}
	return nil
}

// validSuffix says whether s is what follows the sum in the name of an object
// that takes the place of a damaged one: a dot and hexadecimal digits.
func validSuffix(s string) bool {
	digits, ok := strings.CutPrefix(s, ".")
	_, err := hex.DecodeString(digits)
	return ok && err == nil && digits != ""
}

// parseObject reads the sum out of the last part of a file's key.
func parseObject(name string) (sum string, ok bool) {
	sum, suffix := name, ""
	if i := strings.IndexByte(name, '.'); i >= 0 {
		sum, suffix = name[:i], name[i:]
	}
	b, err := hex.DecodeString(sum)
	return sum, err == nil && len(b) == sha256.Size && (suffix == "" || validSuffix(suffix))
}
