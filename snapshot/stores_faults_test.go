//go:build integration && stores

package snapshot

import (
	"errors"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync/atomic"
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

// Answers of requests that had succeeded do not come: the drivers, or the
// retries here, send them again and are refused by their own first write. No
// owner takes that for another's.
func answersAreLost(t *testing.T, e *emulator) {
	direct := e.newURL(t)
	var asked, lost atomic.Int64
	url := e.front(t, direct, nil, nil, func(r *http.Response) error {
		method := r.Request.Method
		if method != http.MethodPut && method != http.MethodPost || r.StatusCode/100 != 2 || asked.Add(1)%3 != 0 {
			return nil
		}
		lost.Add(1)
		return errors.New("the answer is lost")
	})
	var said counted
	s := reach(t, url, Options{Logger: slog.New(&said)})
	failed := 0
	for partition := range int32(4) {
		o, err := s.Claim(t.Context(), lineage(partition), 0)
		for position := int64(10); position < 14 && err == nil; position++ {
			for try := 0; ; try++ {
				_, err = o.Publish(t.Context(), state(partition, position), at(position), filepath.Join(t.TempDir(), "checkpoint"))
				if err == nil || try == 3 {
					break
				}
				neverFenced(t, err)
				failed++
			}
			if err == nil && position%2 == 1 { // a claim over its own snapshots
				o, err = s.Claim(t.Context(), lineage(partition), 0)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := verifyNewest(t, s, partition, 13); err != nil {
			t.Error(err)
		}
	}
	// Of several parts each has an answer, and so has their end.
	c := large{"MANIFEST-1": 100, "000001.sst": 2*partSize + 17}
	var err error
	for try := 0; try < 4; try++ {
		if _, err = claim(t, s, 9).Publish(t.Context(), state(9, 10), c, filepath.Join(t.TempDir(), "checkpoint")); err == nil {
			break
		}
		neverFenced(t, err)
		failed++
	}
	if err == nil {
		err = verifyNewest(t, s, 9, 10)
	}
	if err != nil {
		t.Error(err)
	}
	own := said.of("a create succeeded though its answer said otherwise")
	t.Logf("%d of %d answers were lost, %d publishes failed, %d manifests were their own rivals", lost.Load(), asked.Load(), failed, own)
	if lost.Load() < 10 || own == 0 {
		t.Error("too few for a test")
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

// The store takes connections and says nothing: calls end by themselves.
func silentStore(t *testing.T, e *emulator) {
	silent(t, e, time.Second)
}

func silent(t *testing.T, e *emulator, patience time.Duration) {
	url := e.newURL(t)
	s := reach(t, url, Options{patience: patience})
	o := claim(t, s, 3)
	m := publish(t, o, 10).Manifest
	dir := filepath.Join(t.TempDir(), "restored")
	e.fault(t, toxic("timeout", "downstream", "timeout", 0))
	defer e.mend(t)
	for _, call := range []struct {
		name string
		run  func() error
	}{
		{"open", func() error { return opens(t, url, patience) }},
		{"check", func() error { return s.Check(t.Context()) }},
		{"newest", func() error { _, err := s.Newest(t.Context(), lineage(3)); return err }},
		{"publish", func() error { _, err := try(t, o, 11); return err }},
		{"restore", func() error { return s.Restore(t.Context(), m, dir, RestoreOptions{}) }},
		{"verify", func() error { return s.Verify(t.Context(), m, nil) }},
		{"reap", func() error { _, err := s.Reap(t.Context(), lineage(3), 1); return err }},
	} {
		began := time.Now()
		err := call.run()
		took := time.Since(began)
		if err == nil || errors.Is(err, ErrDamaged) || errors.Is(err, ErrNoSnapshot) {
			t.Errorf("%s of a silent store: %v", call.name, err)
		}
		neverFenced(t, err)
		oneLine(t, err)
		if most := attempts*(patience+maxWait) + 10*time.Second; took > most {
			t.Errorf("%s took %s, want %s at most", call.name, took, most)
		}
	}
	e.mend(t)
	publish(t, o, 11)
	if err := verifyNewest(t, s, 3, 11); err != nil {
		t.Error(err)
	}
	if err := s.Restore(t.Context(), m, dir, RestoreOptions{}); err != nil {
		t.Error(err)
	}
}

func opens(t *testing.T, url string, patience time.Duration) error {
	s, err := Open(t.Context(), url, Options{patience: patience})
	if err != nil {
		return err
	}
	return s.Close()
}

// A longer silence, and a minute without the store.
func longSilence(t *testing.T, e *emulator) {
	silent(t, e, 10*time.Second)
	tr := newTrail(t, e)
	if err := e.Proxy.Close(); err != nil {
		t.Fatal(err)
	}
	tr.publish(little, time.Minute)
	t.Logf("away for a minute: %d publishes failed", tr.failed)
}
