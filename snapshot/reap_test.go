package snapshot

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

// inTwoHours is a clock.
func inTwoHours() time.Time { return time.Now().Add(2 * time.Hour) }

// The troubles' own example: keep 2, ten snapshots, two killed uploads, two
// cleaning at once.
func TestS11TwoCleanUps(t *testing.T) {
	eachBucket(t, func(t *testing.T, open func() bucket) {
		b := open()
		o := claim(t, openStore(t, b, Options{}), 3)
		for position := int64(10); position < 20; position++ {
			publish(t, o, position)
		}
		for _, n := range []int{1, 3} {
			stop := &stopper{name: "upload file", n: n, seen: make(map[string]int)}
			dying := claim(t, openStore(t, open(), Options{step: stop.step, Transfers: 1}), 3)
			if _, err := try(t, dying, int64(100*n)); err == nil {
				t.Fatal("the upload was not cut off")
			}
		}
		young := openStore(t, open(), Options{})
		before := len(keys(t, b, lineage(3).files()))
		if r, err := young.Reap(t.Context(), lineage(3), 2); err != nil || r.Files != 0 || r.Manifests != 10 {
			t.Errorf("cleaned up %+v, %v; want no file younger than an hour, and ten manifests", r, err)
		}
		if after := len(keys(t, b, lineage(3).files())); after != before {
			t.Errorf("files before %d, after %d", before, after)
		}
		var g sync.WaitGroup
		for range 2 {
			s := openStore(t, open(), Options{Clock: inTwoHours})
			g.Go(func() {
				if _, err := s.Reap(t.Context(), lineage(3), 2); err != nil {
					t.Error(err)
				}
			})
		}
		g.Wait()
		s := openStore(t, b, Options{})
		orphans(t, b, s, 2)
		all, err := s.List(t.Context(), lineage(3))
		if err != nil || len(all.Manifests) != 2 {
			t.Fatalf("list: %v, %v", seqs(all.Manifests), err)
		}
		for i, position := range []int64{19, 18} {
			if all.Manifests[i].Position() != position {
				t.Errorf("snapshot %d is of position %d, want %d", i, all.Manifests[i].Position(), position)
			}
			restored(t, s, all.Manifests[i])
		}
	})
}

// Claims stand on the same files: they do not push older snapshots out.
func TestReapCountsClaimsAsOne(t *testing.T) {
	b := buckets["mem"](t)()
	s := openStore(t, b, Options{Clock: inTwoHours})
	o := claim(t, s, 3)
	for position := int64(10); position < 14; position++ {
		publish(t, o, position)
	}
	for range 5 {
		o = claim(t, s, 3)
	}
	if _, err := o.Reap(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	all, err := s.List(t.Context(), lineage(3))
	if err != nil || !slices.Equal(seqs(all.Manifests), []int64{8, 2, 1}) {
		t.Errorf("kept %v, %v; want the newest claim and the two before its files", seqs(all.Manifests), err)
	}
	orphans(t, b, s, 3)
}

// A snapshot that lacks a file, or a part of one, does not push out the last
// that can be restored; once enough newer ones are whole it goes.
func TestS11DamagedSnapshotsDoNotCount(t *testing.T) {
	for _, name := range []string{"missing", "cut by a byte", "longer"} {
		t.Run(name, func(t *testing.T) {
			eachBucket(t, func(t *testing.T, open func() bucket) {
				b := open()
				s := openStore(t, b, Options{Clock: inTwoHours})
				o := claim(t, s, 3)
				for position := int64(10); position < 40; position += 10 { // no two share a table
					publish(t, o, position)
				}
				newest := publish(t, o, 50)
				for _, f := range newest.Files {
					if f.Name == "000050.sst" {
						if err := rewrite(t.Context(), b, lineage(3).file(f.Object), damages[name]); err != nil {
							t.Fatal(err)
						}
					}
				}
				for range 2 { // the second finds nothing to do
					if _, err := openStore(t, open(), Options{Clock: inTwoHours}).Reap(t.Context(), lineage(3), 1); err != nil {
						t.Fatal(err)
					}
					all, err := s.List(t.Context(), lineage(3))
					if err != nil || !slices.Equal(seqs(all.Manifests), []int64{3, 2}) {
						t.Fatalf("kept %v, %v; want the damaged one and the one before", seqs(all.Manifests), err)
					}
				}
				restored(t, s, newestWhole(t, s))
				publish(t, claim(t, openStore(t, open(), Options{}), 3), 60)
				if _, err := openStore(t, open(), Options{Clock: inTwoHours}).Reap(t.Context(), lineage(3), 1); err != nil {
					t.Fatal(err)
				}
				orphans(t, b, s, 1)
				restored(t, s, newestWhole(t, s))
			})
		})
	}
}

// newestWhole is the newest snapshot that verifies.
func newestWhole(t *testing.T, s *Store) *Manifest {
	t.Helper()
	all, err := s.List(t.Context(), lineage(3))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all.Manifests {
		if s.Verify(t.Context(), m, nil) == nil {
			return m
		}
	}
	t.Fatal("none is whole")
	return nil
}

// While one of the kept manifests cannot be read nobody knows what it names.
func TestReapRemovesNoFileBlindly(t *testing.T) {
	b := buckets["mem"](t)()
	s := openStore(t, b, Options{Clock: inTwoHours})
	o := claim(t, s, 3)
	for position := int64(10); position < 14; position++ {
		publish(t, o, position)
	}
	broken := lineage(3).manifest(3)
	err := rewrite(t.Context(), b, broken, func(b []byte) []byte { return b[:10] })
	if err != nil {
		t.Fatal(err)
	}
	before := keys(t, b, lineage(3).files())
	if r, err := s.Reap(t.Context(), lineage(3), 1); err != nil || r.Files > 0 || r.Manifests != 2 {
		t.Errorf("cleaned up %+v, %v", r, err)
	}
	if after := keys(t, b, lineage(3).files()); !slices.Equal(after, before) {
		t.Errorf("files before %d, after %d", len(before), len(after))
	}
	publish(t, o, 14) // above the broken one, which goes with the next clean-up
	if r, err := s.Reap(t.Context(), lineage(3), 1); err != nil || r.Manifests != 2 {
		t.Errorf("cleaned up %+v, %v", r, err)
	}
	orphans(t, b, s, 1)
}

func TestReapRemovesTemporaryFiles(t *testing.T) {
	root := t.TempDir()
	f, err := openFolder(root)
	if err != nil {
		t.Fatal(err)
	}
	publish(t, claim(t, openStore(t, f, Options{}), 3), 10)
	old, young := filepath.Join(root, tempFolder, "OLD"), filepath.Join(root, tempFolder, "YOUNG")
	for _, path := range []string{old, young} {
		if err := os.WriteFile(path, []byte("half"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	past := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(old, past, past); err != nil {
		t.Fatal(err)
	}
	if r, err := openStore(t, f, Options{}).Reap(t.Context(), lineage(3), 1); err != nil || r.Temporary != 1 {
		t.Errorf("cleaned up %+v, %v", r, err)
	}
	if left, err := os.ReadDir(filepath.Join(root, tempFolder)); err != nil || len(left) != 1 || left[0].Name() != "YOUNG" {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestReapKeepsAtLeastOne(t *testing.T) {
	if _, err := openStore(t, buckets["mem"](t)(), Options{}).Reap(t.Context(), lineage(3), 0); err == nil {
		t.Error("all snapshots could be cleaned up")
	}
}

// Prune cleans up the topic's lineages, and removes those of the topic that it
// was before it was created again; other topics of the group stay.
func TestPrune(t *testing.T) {
	eachBucket(t, func(t *testing.T, open func() bucket) {
		b := open()
		s := openStore(t, b, Options{Clock: inTwoHours})
		make := func(topic, id string, snapshots int) Lineage {
			l := Lineage{lineage(0).Group, topic, id, 2}
			o, err := s.Claim(t.Context(), l, 0)
			if err != nil {
				t.Fatal(err)
			}
			for i := range snapshots {
				st := state(2, int64(10+i))
				st.Identity.Topic, st.Identity.TopicID = topic, id
				if _, err := o.Publish(t.Context(), st, at(int64(10+i)), filepath.Join(t.TempDir(), "x")); err != nil {
					t.Fatal(err)
				}
			}
			return l
		}
		is, was, other := make("sales", "new", 4), make("sales", "old", 2), make("returns", "third", 4)
		if groups, err := s.Groups(t.Context()); err != nil || !slices.Equal(groups, []string{is.Group}) {
			t.Errorf("groups %v, %v", groups, err)
		}
		before := keys(t, b, "")
		plan, err := s.PlanPrune(t.Context(), is.Group, "sales", "new", 2, nil)
		if after := keys(t, b, ""); err != nil || !slices.Equal(before, after) {
			t.Errorf("a plan, %v, left %d of %d objects", err, len(after), len(before))
		}
		told := 0
		r, err := s.Prune(t.Context(), is.Group, "sales", "new", 2, func(Lineage, bool, Reaped) { told++ })
		if err != nil || told != 2 || r.Manifests != 2+2 || r.Files == 0 || r.Bytes == 0 {
			t.Errorf("pruned %+v in %d lineages, %v", r, told, err)
		}
		if plan != r {
			t.Errorf("planned %+v, did %+v", plan, r)
		}
		for l, want := range map[Lineage]int{is: 2, was: 0, other: 4} {
			all, err := s.List(t.Context(), l)
			if err != nil || len(all.Manifests) != want {
				t.Errorf("%s has %d snapshots, %v; want %d", l, len(all.Manifests), err, want)
			}
		}
		if left := keys(t, b, was.prefix()); left != nil {
			t.Errorf("left of the old topic: %v", left)
		}
		if lineages, err := s.Lineages(t.Context(), is.Group); err != nil || len(lineages) != 2 {
			t.Errorf("lineages %v, %v", lineages, err)
		}
		// A folder that was removed can be published into again.
		make("sales", "old", 1)
	})
}
