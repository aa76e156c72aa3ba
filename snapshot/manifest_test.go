package snapshot

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"tidemark/aggregator"
)

var update = flag.Bool("update", false, "write the fixture of the present version anew")

// resealed is m's object with its inner text changed and the sum made to fit.
func resealed(t testing.TB, m *Manifest, change func(string) string) []byte {
	t.Helper()
	inner, err := json.Marshal(recordOf(m))
	if err != nil {
		t.Fatal(err)
	}
	text := change(string(inner))
	if text == string(inner) {
		t.Fatalf("nothing is changed in %s", inner)
	}
	sum := sha256.Sum256([]byte(text))
	object, err := json.Marshal(envelope{json.RawMessage(text), hex.EncodeToString(sum[:])})
	if err != nil {
		t.Fatal(err)
	}
	return object
}

// drawManifest draws one with every field of identity and progress, also those
// that are added later.
func drawManifest(t *rapid.T) *Manifest {
	count := rapid.Int64Range(0, 1<<60)
	m := &Manifest{
		Seq: count.Draw(t, "seq"), Epoch: count.Draw(t, "epoch"), Parent: rapid.Int64Min(-1).Draw(t, "parent"),
		Writer: rapid.String().Draw(t, "writer"), Created: time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "created"), 5).UTC(),
		Format:   rapid.Int().Draw(t, "format"),
		Identity: rapid.Make[aggregator.Identity]().Draw(t, "identity"),
		Progress: rapid.Make[aggregator.Progress]().Draw(t, "progress"),
	}
	m.Progress.Position = count.Draw(t, "position")
	m.Lineage = Lineage{rapid.String().Draw(t, "group"), m.Identity.Topic, m.Identity.TopicID, m.Identity.Partition}
	names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-zA-Z0-9][a-zA-Z0-9._-]{0,20}`), 1, 8, rapid.ID).Draw(t, "names")
	slices.Sort(names)
	for _, name := range names {
		sum := sha256.Sum256([]byte(name))
		f := File{Name: name, Size: rapid.Int64Range(0, 1<<40).Draw(t, "size"), SHA256: hex.EncodeToString(sum[:])}
		f.Object = f.SHA256 + rapid.SampledFrom([]string{"", ".00ff"}).Draw(t, "suffix")
		m.Files = append(m.Files, f)
	}
	return m
}

// What is written is read back, all of it.
func TestManifestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawManifest(t)
		// JSON has Unicode text alone, and so have Kafka's names and queries.
		body, err := m.encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := decode(m.Lineage, m.Seq, body)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(m, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
		if !got.sameFiles(m) || !m.Identity.Same(got.Identity) {
			t.Error("it is not like itself")
		}
	})
}

// Any one byte that is changed is noticed, or changes nothing that is read.
func TestManifestFlips(t *testing.T) {
	s := openStore(t, buckets["mem"](t)(), Options{})
	m := publish(t, claim(t, s, 3), 10).Manifest
	body, err := m.encode()
	if err != nil {
		t.Fatal(err)
	}
	for i := range body {
		for bit := range 8 {
			bad := slices.Clone(body)
			bad[i] ^= 1 << bit
			got, err := decode(lineage(3), 0, bad)
			switch {
			case err == nil && !cmp.Equal(got, m):
				t.Fatalf("byte %d, bit %d: read as another", i, bit)
			case err != nil && !errors.Is(err, ErrDamaged):
				t.Fatalf("byte %d, bit %d: %v", i, bit, err)
			}
		}
		if _, err := decode(lineage(3), 0, body[:i]); !errors.Is(err, ErrDamaged) {
			t.Fatalf("cut at byte %d: %v", i, err)
		}
	}
}

// A manifest that would lead a restore out of its folder is none.
func TestManifestsThatAreRefused(t *testing.T) {
	s := openStore(t, buckets["mem"](t)(), Options{})
	m := publish(t, claim(t, s, 3), 10).Manifest
	for name, change := range map[string]func(*Manifest){
		"path":         func(m *Manifest) { m.Files[0].Name = "../" + m.Files[0].Name },
		"back path":    func(m *Manifest) { m.Files[0].Name = `..\x` },
		"dot":          func(m *Manifest) { m.Files[0].Name = "." },
		"no name":      func(m *Manifest) { m.Files[0].Name = "" },
		"twice":        func(m *Manifest) { m.Files[1].Name = m.Files[0].Name },
		"order":        func(m *Manifest) { slices.Reverse(m.Files) },
		"no sum":       func(m *Manifest) { m.Files[0].SHA256, m.Files[0].Object = "ab", "ab" },
		"no hex":       func(m *Manifest) { s := strings.Repeat("x", 64); m.Files[0].SHA256, m.Files[0].Object = s, s },
		"other object": func(m *Manifest) { m.Files[0].Object = m.Files[1].Object },
		"object path":  func(m *Manifest) { m.Files[0].Object += "/.." },
		"size":         func(m *Manifest) { m.Files[0].Size, m.Files[1].Size = -1, m.Files[1].Size+m.Files[0].Size+1 },
		"no files":     func(m *Manifest) { m.Files = nil },
		"position":     func(m *Manifest) { m.Progress.Position = -1 },
		"epoch":        func(m *Manifest) { m.Epoch = -1 },
	} {
		bad := *m
		bad.Files = slices.Clone(m.Files)
		change(&bad)
		body, err := bad.encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decode(lineage(3), 0, body); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	m := &Manifest{Lineage: lineage(3), Identity: identity(3), Progress: state(3, 9).Progress, Files: []File{{Name: "a", SHA256: strings.Repeat("0a", 32)}}}
	m.Files[0].Object = m.Files[0].SHA256
	body, err := m.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(body)
	f.Add([]byte(`{"manifest":{"version":1},"sha256":""}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		m, err := decode(lineage(3), 0, body)
		if (m == nil) == (err == nil) {
			t.Errorf("%v and %v", m, err)
		}
		if err != nil && !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNewer) {
			t.Error(err)
		}
	})
}

// Stores that earlier versions wrote are read by this one. Each lies in
// testdata, written once, before its number was released.
func TestS14OldManifests(t *testing.T) {
	present := filepath.Join("testdata", fmt.Sprint("v", ManifestVersion))
	if *update {
		if err := os.RemoveAll(present); err != nil {
			t.Fatal(err)
		}
		s, err := Open(t.Context(), "file://"+absolute(t, present), Options{})
		if err != nil {
			t.Fatal(err)
		}
		o := claim(t, s, 3)
		publish(t, o, 10)
		publish(t, o, 11)
		claim(t, s, 3)
		if err := os.Remove(filepath.Join(present, tempFolder)); err != nil {
			t.Fatal(err)
		}
	}
	versions, err := filepath.Glob(filepath.Join("testdata", "v*"))
	if err != nil || len(versions) != ManifestVersion {
		t.Fatalf("%d versions, fixtures %v, %v", ManifestVersion, versions, err)
	}
	for _, dir := range versions {
		s, err := Open(t.Context(), "file://"+absolute(t, dir), Options{})
		if err != nil {
			t.Fatal(err)
		}
		all, err := s.ListGroup(t.Context(), "tidemark-sales")
		if err != nil || len(all.Unreadable) > 0 || !slices.Equal(seqs(all.Manifests), []int64{2, 1, 0}) {
			t.Fatalf("%s: %v, %v, %v", dir, seqs(all.Manifests), all.Unreadable, err)
		}
		for _, m := range all.Manifests {
			if !m.Identity.Same(identity(3)) || m.Progress.Counts != state(3, m.Position()).Progress.Counts {
				t.Errorf("%s: %+v", dir, m)
			}
			if err := s.Verify(t.Context(), m, nil); err != nil {
				t.Error(err)
			}
			restored(t, s, m)
			if dir != present {
				continue
			}
			was, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(m.Lineage.manifest(m.Seq))))
			if err != nil {
				t.Fatal(err)
			}
			if is, err := m.encode(); err != nil || !bytes.Equal(was, is) {
				t.Errorf("written now, %v\n%s\nwas\n%s", err, is, was)
			}
		}
	}
}

func absolute(t testing.TB, path string) string {
	t.Helper()
	abs, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return abs
}

func TestKeys(t *testing.T) {
	for text, want := range map[string]string{
		"tidemark-sales": "tidemark-sales", "a.b": "a.b", "a_b": "a_b",
		".": "=2E", "..": "=2E=2E", ".a": "=2Ea", "a.": "a=2E", "a/b": "a=2Fb", "a=b": "a=3Db", "~": "=7E",
		"a__b": "a_=5Fb", "ü": "=C3=BC", "\xff": "=FF", "a b": "a=20b",
	} {
		if got := escape(text); got != want {
			t.Errorf("escape(%q) = %q, want %q", text, got, want)
		}
	}
	if got := lineage(3).manifest(42); got != "tidemark-sales/AAAAAAAAAAAAAAAAAAAAAQ/3/m/00000000000000000042" {
		t.Errorf("manifest key %s", got)
	}
}

// Every text is a part of a key that says which text it is, and that no store
// or file system takes otherwise.
func TestEscape(t *testing.T) {
	seen := make(map[string]string)
	rapid.Check(t, func(t *rapid.T) {
		text := string(rapid.OneOf(
			rapid.SliceOfN(rapid.Byte(), 1, 300),
			rapid.SliceOfN(rapid.SampledFrom([]byte("a._-=~/2")), 1, 6),
		).Draw(t, "text"))
		part := escape(text)
		if other, ok := seen[part]; ok && other != text {
			t.Fatalf("%q and %q are both %q", text, other, part)
		}
		seen[part] = text
		if len(part) > 255 || part == "" || strings.ContainsAny(part, "/\\%") || part[0] == '.' || part[len(part)-1] == '.' ||
			strings.Contains(part, "__") || part[0] == '~' {
			t.Fatalf("%q is %q", text, part)
		}
		if got, ok := unescape(part); ok && got != text || !ok && len(part) <= maxPart {
			t.Fatalf("%q is %q is %q, %v", text, part, got, ok)
		}
	})
}

// Lineages are found by their keys, with and without UUIDs.
func TestLineages(t *testing.T) {
	eachBucket(t, func(t *testing.T, open func() bucket) {
		s := openStore(t, open(), Options{})
		var want []string
		for _, topic := range []Lineage{
			{Topic: "sales", TopicID: "BBBBBBBBBBBBBBBBBBBBBB"}, {Topic: "no.uuid"}, {Topic: "a__b"}, {Topic: "sales", TopicID: "-_8BBBBBBBBBBBBBBBBBBB"},
		} {
			for _, partition := range []int32{0, 3, 11} {
				l := Lineage{"my/group", topic.Topic, topic.TopicID, partition}
				st := state(partition, 10)
				st.Identity.Topic, st.Identity.TopicID = l.Topic, l.TopicID
				o, err := s.Claim(t.Context(), l, 0)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := o.Publish(t.Context(), st, small("x"), filepath.Join(t.TempDir(), "x")); err != nil {
					t.Fatal(err)
				}
				want = append(want, l.prefix())
			}
		}
		lineages, err := s.Lineages(t.Context(), "my/group")
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, l := range lineages {
			got = append(got, l.prefix())
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("lineages %v, want %v", got, want)
		}
		all, err := s.ListGroup(t.Context(), "my/group")
		if err != nil || len(all.Manifests) != len(want) {
			t.Errorf("%d manifests, %v", len(all.Manifests), err)
		}
		topics := make(map[string]int)
		for _, m := range all.Manifests {
			topics[m.Lineage.Topic]++
		}
		if !maps.Equal(topics, map[string]int{"sales": 6, "no.uuid": 3, "a__b": 3}) {
			t.Errorf("topics %v", topics)
		}
		if other, err := s.ListGroup(t.Context(), "my"); err != nil || len(other.Manifests) > 0 {
			t.Errorf("of another group: %v, %v", other, err)
		}
	})
}
