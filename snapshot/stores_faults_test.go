//go:build integration

package snapshot

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"tidemark/internal/testkit/servers"
)

// trail is one owner that publishes through a way with faults, position after
// position.
type trail struct {
	t        *testing.T
	e        *emulator
	s        *Store
	o        *Owner
	position int64
	said     counted
	failed   int // publishes that failed while there was a fault
}

func newTrail(t *testing.T, e *emulator) *trail {
	t.Helper()
	tr := &trail{t: t, e: e, position: 10}
	tr.s = reach(t, e.newURL(t), Options{Logger: slog.New(&tr.said)})
	tr.o = claim(t, tr.s, 3)
	publish(t, tr.o, tr.position)
	t.Cleanup(func() { e.mend(t) })
	return tr
}

// bulky is a state with a table that is new at each position, of which the
// upload and the download take a while.
func bulky(position int64) large {
	return large{"MANIFEST-1": 1000 + position, "000001.sst": 1<<20 + position, "000002.sst": 300 << 10}
}

// publish publishes the next position while the toxics are in the way; they go
// after a while. It may fail, but not as if there were another owner; and the
// next one must succeed.
func (tr *trail) publish(c func(position int64) Checkpointer, after time.Duration, toxics ...servers.Toxic) {
	tr.t.Helper()
	tr.position++
	tr.e.fault(tr.t, toxics...)
	done := make(chan error, 1)
	go func() {
		_, err := tr.o.Publish(tr.t.Context(), state(3, tr.position), c(tr.position), filepath.Join(tr.t.TempDir(), "checkpoint"))
		done <- err
	}()
	pass(tr.t, after)
	tr.e.mend(tr.t)
	if err := <-done; err != nil {
		neverFenced(tr.t, err)
		tr.failed++
		if _, err := tr.o.Publish(tr.t.Context(), state(3, tr.position), c(tr.position), filepath.Join(tr.t.TempDir(), "checkpoint")); err != nil {
			tr.t.Fatalf("publish position %d after the fault: %v", tr.position, err)
		}
	}
	if err := verifyNewest(tr.t, tr.s, 3, tr.position); err != nil {
		tr.t.Fatal(err)
	}
}

// restore restores the newest snapshot while the toxics are in the way; what
// it did not end the next one does.
func (tr *trail) restore(after time.Duration, toxics ...servers.Toxic) (failed bool) {
	tr.t.Helper()
	dir := filepath.Join(tr.t.TempDir(), "restored")
	tr.e.fault(tr.t, toxics...)
	done := make(chan error, 1)
	go func() { done <- tr.s.Restore(tr.t.Context(), tr.o.Newest(), dir, RestoreOptions{}) }()
	pass(tr.t, after)
	tr.e.mend(tr.t)
	if err := <-done; err != nil {
		failed = true
		if errors.Is(err, ErrDamaged) {
			tr.t.Errorf("a cut download makes the snapshot a damaged one: %v", err)
		}
		if err := tr.s.Restore(tr.t.Context(), tr.o.Newest(), dir, RestoreOptions{}); err != nil {
			tr.t.Fatalf("restore after the fault: %v", err)
		}
	}
	for _, f := range tr.o.Newest().Files {
		if n, sum, err := hashFile(filepath.Join(dir, f.Name)); err != nil || n != f.Size || sum != f.SHA256 {
			tr.t.Errorf("%s has %d bytes of sum %s, %v; want %d of %s", f.Name, n, sum, err, f.Size, f.SHA256)
		}
	}
	return failed
}

func bulk(position int64) Checkpointer   { return bulky(position) }
func little(position int64) Checkpointer { return at(position) }

// Answers are cut off after so many bytes that every few creates succeed
// without the client's knowing; it is refused by its own first write then.
func answersAreLost(t *testing.T, e *emulator) {
	tr := newTrail(t, e)
	for i := range 25 {
		// A connection is good for some answers: which one is cut varies.
		tr.publish(little, 300*time.Millisecond, toxic("limit_data", "downstream", "bytes", 200+170*i))
	}
	claims := 0
	for i := range 10 {
		e.fault(t, toxic("limit_data", "downstream", "bytes", 600+300*i))
		done := make(chan error, 1)
		go func() {
			o, err := tr.s.Claim(t.Context(), lineage(3), 0)
			if err == nil {
				tr.o = o
			}
			done <- err
		}()
		pass(t, 300*time.Millisecond)
		e.mend(t)
		if err := <-done; err != nil {
			neverFenced(t, err)
			claims++
			tr.o = claim(t, tr.s, 3)
		}
		tr.publish(little, 0)
	}
	lost := tr.said.of("a create succeeded though its answer said otherwise") + tr.said.of("an earlier publish had succeeded, though its answer did not come")
	t.Logf("25 publishes and 10 claims without some of their answers: %d and %d failed, %d creates were their own rivals", tr.failed, claims, lost)
	if lost == 0 {
		t.Error("no answer of a manifest's create was lost")
	}
}

// A slow way makes publishes and restores slow, and no more.
func slowStore(t *testing.T, e *emulator) {
	tr := newTrail(t, e)
	slow := []servers.Toxic{
		toxic("latency", "downstream", "latency", 150, "jitter", 100),
		toxic("bandwidth", "upstream", "rate", 1000), toxic("bandwidth", "downstream", "rate", 1000),
	}
	tr.publish(bulk, 6*time.Second, slow...)
	if tr.failed > 0 {
		t.Error("a publish failed for a slow way")
	}
	if tr.restore(6*time.Second, slow...) {
		t.Error("a restore failed for a slow way")
	}
}

// Connections break in the middle of uploads and downloads, or fall silent and
// end.
func cutOffStore(t *testing.T, e *emulator) {
	tr := newTrail(t, e)
	restores, n := 0, 0
	for i, after := range []time.Duration{200 * time.Millisecond, 3 * time.Second} {
		for _, cut := range []func(stream string) servers.Toxic{
			func(stream string) servers.Toxic { return toxic("limit_data", stream, "bytes", 250_000*(i+1)) },
			func(stream string) servers.Toxic { return toxic("reset_peer", stream, "timeout", 20*(i+1)) },
			func(stream string) servers.Toxic { return toxic("timeout", stream, "timeout", 100*(i+1)) },
		} {
			for _, stream := range []string{"upstream", "downstream"} {
				tr.publish(bulk, after, cut(stream))
				if tr.restore(after, cut(stream)) {
					restores++
				}
				n++
			}
		}
	}
	t.Logf("%d publishes and restores cut off: %d and %d failed, the others recovered by themselves", n, tr.failed, restores)
}

// The store refuses connections for a while: calls fail in that time, or
// outlast it, and the next ones succeed.
func storeAway(t *testing.T, e *emulator) {
	tr := newTrail(t, e)
	for _, away := range []time.Duration{300 * time.Millisecond, 4 * time.Second} {
		if err := e.Proxy.Close(); err != nil {
			t.Fatal(err)
		}
		tr.publish(little, away)
	}
	t.Logf("2 publishes while the store was away: %d failed", tr.failed)
	// One that would outlast any patience says so within a while.
	if err := e.Proxy.Close(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	_, err := try(t, tr.o, 100)
	if err == nil {
		t.Fatal("a publish succeeded without a store")
	}
	neverFenced(t, err)
	t.Logf("a publish without a store fails after %s: %v", time.Since(began).Round(100*time.Millisecond), err)
	if took := time.Since(began); took > 2*time.Minute {
		t.Errorf("it took %s", took)
	}
	if _, err := tr.s.Newest(t.Context(), lineage(3)); err == nil || errors.Is(err, ErrNoSnapshot) {
		t.Errorf("the newest of a store that is away: %v", err)
	}
	if _, err := tr.s.Claim(t.Context(), lineage(3), 0); err == nil {
		t.Error("a claim succeeded without a store")
	}
	if _, err := tr.s.Reap(t.Context(), lineage(3), 2); err == nil {
		t.Error("a clean-up succeeded without a store")
	}
	e.mend(t)
	tr.publish(little, 0)
}

// The store takes connections and says nothing for more than a minute: calls
// end by themselves.
func silentStore(t *testing.T, e *emulator) {
	tr := newTrail(t, e)
	tr.publish(bulk, 65*time.Second, toxic("timeout", "downstream", "timeout", 0))
	tr.restore(65*time.Second, toxic("timeout", "downstream", "timeout", 0))
	if err := e.Proxy.Close(); err != nil {
		t.Fatal(err)
	}
	tr.publish(little, time.Minute)
	t.Log(fmt.Sprintf("silent for 65 s, away for 60 s: %d of 2 publishes failed", tr.failed))
}
