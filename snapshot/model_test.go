package snapshot

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tidemark/aggregator"
)

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// Whatever goes wrong with calls, a publish that succeeds is the newest, whole
// snapshot; one that is fenced has been by somebody; and no clean-up takes
// what is kept.
func TestOwnersUnderFaults(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newModel(t, seed)
				for range 25 {
					m.step()
				}
				m.done()
			})
		})
	}
}

type model struct {
	t        *testing.T
	rng      *rand.Rand
	bucket   bucket
	clean    *Store // without faults
	chaos    *chaos
	owners   []*Owner
	position int64
	publishes, fenced,
	reaps int
}

func newModel(t *testing.T, seed uint64) *model {
	b := buckets["mem"](t)()
	return &model{
		t: t, rng: seeded(seed), bucket: b, clean: openStore(t, b, Options{}), position: 10,
		chaos: &chaos{rng: seeded(seed + 1000), rate: 0.04 * float64(seed%3), delay: time.Second},
	}
}

func (m *model) store() *Store {
	return openStore(m.t, m.chaos.through(m.bucket), Options{Settle: 5 * time.Second})
}

func (m *model) step() {
	switch n := m.rng.IntN(10); {
	case n == 0 || len(m.owners) == 0:
		o, err := m.store().Claim(m.t.Context(), lineage(3), 0)
		if err == nil {
			m.owners = append(m.owners, o)
		}
	case n < 6:
		m.publish(m.owners[len(m.owners)-1])
	case n == 6:
		m.publish(m.owners[m.rng.IntN(len(m.owners))])
	case n == 7:
		if _, err := m.store().Reap(m.t.Context(), lineage(3), 2); err == nil {
			m.reaps++
		}
	case n == 8:
		_, err := m.owners[m.rng.IntN(len(m.owners))].Reap(m.t.Context(), 2)
		if errors.Is(err, aggregator.ErrFenced) {
			m.fenced++
		}
	case n == 9:
		pass(m.t, time.Duration(m.rng.Int64N(int64(2*time.Hour))))
	}
	m.check()
}

func (m *model) publish(o *Owner) {
	m.position++
	p, err := try(m.t, o, m.position)
	newest, nerr := m.clean.Newest(m.t.Context(), lineage(3))
	switch {
	case err == nil:
		m.publishes++
		if nerr != nil || newest.Seq != p.Seq || newest.Position() != m.position || newest.Epoch != o.Epoch() {
			m.t.Errorf("published %d at %d in epoch %d; the newest is %+v, %v", p.Seq, m.position, o.Epoch(), newest, nerr)
		}
		if err := m.clean.Verify(m.t.Context(), p.Manifest, nil); err != nil {
			m.t.Error(err)
		}
	case errors.Is(err, aggregator.ErrFenced):
		m.fenced++
		if nerr != nil || newest.Epoch < o.Epoch() || newest.Writer == o.writer {
			m.t.Errorf("fenced by nobody: own epoch %d, newest %+v, %v", o.Epoch(), newest, nerr)
		}
	}
}

// check looks at what is in the store without faults.
func (m *model) check() {
	all, err := m.clean.List(m.t.Context(), lineage(3))
	if err != nil || len(all.Unreadable) > 0 {
		m.t.Fatalf("list: %v, %v", err, all.Unreadable)
	}
	if len(all.Manifests) == 0 {
		return
	}
	stay, _ := choose(all.Manifests, 2, func(*Manifest) bool { return true })
	for _, one := range all.Manifests {
		if stay[one.Seq] {
			if err := m.clean.Verify(m.t.Context(), one, nil); err != nil {
				m.t.Errorf("of snapshots %v: %v", seqs(all.Manifests), err)
			}
		}
	}
}

// done cleans up without faults and looks for orphans.
func (m *model) done() {
	pass(m.t, 2*time.Hour)
	if _, err := m.clean.Reap(m.t.Context(), lineage(3), 2); err != nil {
		m.t.Fatal(err)
	}
	m.check()
	orphans(m.t, m.bucket, m.clean, 2)
	if m.publishes == 0 {
		m.t.Error("nothing was ever published")
	}
}

// orphans fails where the store holds more than keep snapshots and their
// files.
func orphans(t testing.TB, b bucket, s *Store, keep int) {
	t.Helper()
	all, err := s.List(t.Context(), lineage(3))
	if err != nil {
		t.Fatal(err)
	}
	if len(all.Manifests) > keep || len(all.Unreadable) > 0 {
		t.Errorf("%d snapshots are kept, %d asked for; %v", len(all.Manifests), keep, all.Unreadable)
	}
	var want []string
	for _, m := range all.Manifests {
		want = append(want, lineage(3).manifest(m.Seq))
		for _, f := range m.Files {
			if f.Size > 0 {
				want = append(want, lineage(3).file(f.Object))
			}
		}
	}
	slices.Sort(want)
	if got := keys(t, b, ""); !slices.Equal(got, slices.Compact(want)) {
		t.Errorf("objects\n%q, named are\n%q", got, want)
	}
}

// Publishers and clean-ups at the same time, with uploads that take longer
// than files are safe: what is published stays whole.
func TestS11CleanUpsWhilePublishing(t *testing.T) {
	for seed := range uint64(10) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { cleanUpsWhilePublishing(t, seed) })
		})
	}
}

func cleanUpsWhilePublishing(t *testing.T, seed uint64) {
	b := buckets["mem"](t)()
	clean := openStore(t, b, Options{})
	c := &chaos{rng: seeded(seed), delay: 3 * time.Second, slow: 0.1}
	ctx, cancel := context.WithCancel(t.Context())
	var cleaners sync.WaitGroup
	for range 2 {
		cleaners.Go(func() {
			s := newStore(c.through(b), "cleaner", Options{})
			for ctx.Err() == nil {
				if _, err := s.Reap(ctx, lineage(3), 1); err != nil && ctx.Err() == nil && !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
				if sleep(ctx, time.Duration(c.n(int64(10*time.Minute)))) != nil {
					return
				}
			}
		})
	}
	// Uploads that are cut off leave files that later ones rely on.
	o := claim(t, openStore(t, c.through(b), Options{}), 3)
	for position := int64(10); position < 20; position++ {
		cut, stop := context.WithTimeout(t.Context(), time.Duration(c.n(int64(20*time.Second))))
		p, err := o.Publish(cut, state(3, position), at(position), filepath.Join(t.TempDir(), "x"))
		stop()
		if err != nil {
			pass(t, time.Duration(c.n(int64(90*time.Minute))))
			p = publish(t, o, position)
		}
		if err := clean.Verify(t.Context(), p.Manifest, nil); err != nil {
			t.Error(err)
		}
	}
	cancel()
	cleaners.Wait()
}
