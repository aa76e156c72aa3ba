package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
)

// ways to damage an object.
var damages = map[string]func([]byte) []byte{
	"cut by a byte":  func(b []byte) []byte { return b[:len(b)-1] },
	"longer":         func(b []byte) []byte { return append(b, 'x') },
	"empty":          func([]byte) []byte { return []byte{} },
	"a bit flipped":  func(b []byte) []byte { b[len(b)/2] ^= 4; return b },
	"missing":        func([]byte) []byte { return nil },
	"its namesake":   func(b []byte) []byte { return bytes.Repeat([]byte("o"), len(b)) },
	"cut to a third": func(b []byte) []byte { return b[:len(b)/3] },
}

// A damaged file of the newest snapshot is found by restore and verify, and
// the snapshot before it is restored instead, loudly.
func TestS10DamagedFile(t *testing.T) {
	eachBucket(t, func(t *testing.T, open func() bucket) {
		for name, damage := range damages {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { damagedFile(t, open(), damage) })
			})
		}
	})
}

func damagedFile(t *testing.T, b bucket, damage func([]byte) []byte) {
	for _, key := range keys(t, b, "") {
		if err := b.delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	var log said
	s := openStore(t, b, Options{Logger: log.logger()})
	o := claim(t, s, 3)
	publish(t, o, 10)
	newest := publish(t, o, 14) // shares no table with the one before
	claim(t, s, 3)              // stands on the same files
	var broken File
	for _, f := range newest.Files {
		if strings.HasSuffix(f.Name, ".sst") {
			broken = f
		}
	}
	if err := rewrite(t.Context(), b, lineage(3).file(broken.Object), damage); err != nil {
		t.Fatal(err)
	}
	var damaged *DamagedError
	dir := filepath.Join(t.TempDir(), "state")
	err := s.Restore(t.Context(), newest.Manifest, dir, RestoreOptions{})
	if !errors.Is(err, ErrDamaged) || !errors.As(err, &damaged) || damaged.Name != broken.Name || damaged.Seq != newest.Seq {
		t.Errorf("restore: %v", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a damaged snapshot is laid out: %v", err)
	}
	damaged = nil
	err = s.Verify(t.Context(), newest.Manifest, nil)
	if !errors.Is(err, ErrDamaged) || !errors.As(err, &damaged) || damaged.Name != broken.Name {
		t.Errorf("verify: %v", err)
	}
	m, err := s.RestoreNewest(t.Context(), lineage(3), dir, nil, RestoreOptions{})
	if err != nil || m.Position() != 10 {
		t.Fatalf("restore the newest that is whole: %+v, %v", m, err)
	}
	compare(t, dir, at(10))
	log.has(t, "cannot be restored")

	// The next publish does not stand on what is known to be damaged.
	again := publish(t, claim(t, s, 3), 14+1)
	if err := s.Verify(t.Context(), again.Manifest, nil); err != nil {
		t.Errorf("published upon a damaged file: %v", err)
	}
	restored(t, s, again.Manifest)
}

// A damaged manifest is passed over, loudly, and its number is not used again.
func TestS10DamagedManifest(t *testing.T) {
	eachBucket(t, func(t *testing.T, open func() bucket) {
		for name, damage := range damages {
			if name == "missing" {
				continue // then there is none
			}
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { damagedManifest(t, open(), damage) })
			})
		}
	})
}

func damagedManifest(t *testing.T, b bucket, damage func([]byte) []byte) {
	for _, key := range keys(t, b, "") {
		if err := b.delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	var log said
	s := openStore(t, b, Options{Logger: log.logger()})
	old := claim(t, s, 3)
	publish(t, old, 10)
	broken := publish(t, old, 11)
	if err := rewrite(t.Context(), b, lineage(3).manifest(broken.Seq), damage); err != nil {
		t.Fatal(err)
	}
	m, err := s.Newest(t.Context(), lineage(3))
	if err != nil || m.Position() != 10 {
		t.Errorf("newest: %+v, %v", m, err)
	}
	log.has(t, "damaged and passed over")
	all, err := s.List(t.Context(), lineage(3))
	if err != nil || len(all.Manifests) != 1 || len(all.Unreadable) != 1 || !errors.Is(all.Unreadable[0], ErrDamaged) {
		t.Errorf("list: %+v, %v", all, err)
	}
	dir := filepath.Join(t.TempDir(), "state")
	if m, err := s.RestoreNewest(t.Context(), lineage(3), dir, nil, RestoreOptions{}); err != nil || m.Position() != 10 {
		t.Errorf("restore: %+v, %v", m, err)
	}
	o := claim(t, s, 3)
	if m := o.Newest(); m.Seq != broken.Seq+1 || m.Position() != 10 {
		t.Errorf("claimed %+v", m)
	}
	if _, err := s.Reap(t.Context(), lineage(3), 1); err != nil {
		t.Error(err)
	}
	restored(t, s, publish(t, o, 12).Manifest)
}

// A manifest copied to the key of another, in its lineage or a neighbour's, is
// damage.
func TestS10SwappedManifests(t *testing.T) {
	b := buckets["mem"](t)()
	s := openStore(t, b, Options{})
	o := claim(t, s, 3)
	publish(t, o, 10)
	body, err := s.readOnce(t.Context(), lineage(3).manifest(0))
	if err != nil {
		t.Fatal(err)
	}
	group := lineage(3)
	group.Group = "another"
	for _, key := range []string{lineage(3).manifest(1), lineage(4).manifest(0), group.manifest(0)} {
		if err := b.create(t.Context(), key, int64(len(body)), bytes.NewReader(body)); err != nil {
			t.Fatal(err)
		}
	}
	if m, err := s.Newest(t.Context(), lineage(3)); err != nil || m.Seq != 0 {
		t.Errorf("newest: %+v, %v", m, err)
	}
	for _, l := range []Lineage{lineage(4), group} {
		if _, err := s.Newest(t.Context(), l); !errors.Is(err, ErrNoSnapshot) || !errors.Is(err, ErrDamaged) {
			t.Errorf("newest of %s: %v", l, err)
		}
	}
}

// All snapshots damaged: the error says so, and which.
func TestNothingWholeIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := buckets["mem"](t)()
		s := openStore(t, b, Options{})
		o := claim(t, s, 3)
		for position := int64(10); position < 13; position++ {
			publish(t, o, position)
		}
		for _, key := range keys(t, b, lineage(3).files()) {
			if err := b.delete(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		}
		_, err := s.RestoreNewest(t.Context(), lineage(3), filepath.Join(t.TempDir(), "x"), nil, RestoreOptions{})
		if !errors.Is(err, ErrNoSnapshot) || !errors.Is(err, ErrDamaged) {
			t.Errorf("restore: %v", err)
		}
		for seq := range 3 {
			if !strings.Contains(err.Error(), fmt.Sprintf(" %d, ", seq)) {
				t.Errorf("snapshot %d is not named: %v", seq, err)
			}
		}
	})
}

// What several snapshots share is said once, and all of it in one line: it is
// shown as the reason of a partition that waits.
func TestDamageIsSaidOnce(t *testing.T) {
	shared := func(seq int64) error {
		return fmt.Errorf("restore: %w", &DamagedError{Lineage: lineage(3), Seq: seq, Object: "o", Name: "7.sst", Reason: "is missing"})
	}
	manifest := &DamagedError{Lineage: lineage(3), Seq: 4, Object: "m", Reason: "is no manifest"}
	err := noneLeft([]error{shared(9), shared(8), manifest, shared(3)})
	const want = "no snapshot is whole: of 9, 8, 3, file 7.sst (object o) is missing; of 4, its manifest (object m) is no manifest"
	if err.Error() != want || !errors.Is(err, ErrNoSnapshot) || !errors.Is(err, ErrDamaged) {
		t.Errorf("%v, want %s", err, want)
	}
	if err := noneLeft(nil); err != ErrNoSnapshot {
		t.Errorf("without damage: %v", err)
	}
}

// A newer program's manifest is neither damage nor passed over.
func TestS14NewerManifest(t *testing.T) {
	b := buckets["mem"](t)()
	s := openStore(t, b, Options{Format: 1})
	o := claim(t, s, 3)
	first := publish(t, o, 10)
	newest := publish(t, o, 11)
	for name, change := range map[string]func(string) string{
		"version": func(s string) string { return strings.Replace(s, `"version":1`, `"version":7`, 1) },
		"name":    func(s string) string { return strings.Replace(s, `"epoch":`, `"shards":2,"epoch":`, 1) },
		"reason":  func(s string) string { return strings.Replace(s, `"reasons":{`, `"reasons":{"unheard_of":1,`, 1) },
	} {
		err := rewrite(t.Context(), b, lineage(3).manifest(newest.Seq), func(old []byte) []byte {
			return resealed(t, newest.Manifest, change)
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Newest(t.Context(), lineage(3)); !errors.Is(err, ErrNewer) {
			t.Errorf("newest with another %s: %v", name, err)
		} else if name == "version" && (!strings.Contains(err.Error(), "is 7") || !strings.Contains(err.Error(), "up to 1")) {
			t.Errorf("both numbers are not named: %v", err)
		}
		if _, err := s.RestoreNewest(t.Context(), lineage(3), filepath.Join(t.TempDir(), "x"), nil, RestoreOptions{}); !errors.Is(err, ErrNewer) {
			t.Errorf("restore with another %s: %v", name, err)
		}
		if _, err := s.Claim(t.Context(), lineage(3), 0); !errors.Is(err, ErrNewer) {
			t.Errorf("claim with another %s: %v", name, err)
		}
		before := keys(t, b, "")
		if _, err := s.Reap(t.Context(), lineage(3), 1); err != nil {
			t.Errorf("clean up with another %s: %v", name, err)
		}
		if after := keys(t, b, ""); len(after) != len(before) {
			t.Errorf("a newer program's objects are cleaned up: %d of %d left", len(after), len(before))
		}
	}
	newer := *first.Manifest
	newer.Format = 2
	if err := s.Restore(t.Context(), &newer, filepath.Join(t.TempDir(), "x"), RestoreOptions{}); !errors.Is(err, ErrNewer) ||
		!strings.Contains(err.Error(), "format 2") {
		t.Errorf("restore of a newer state: %v", err)
	}
}
