package snapshot

import (
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// A number that no snapshot has, or none any more, is told as that, with those
// that there are; another snapshot's damage is not in it.
func TestNumberedThatIsMissing(t *testing.T) {
	eachBucket(t, func(t *testing.T, open func() bucket) {
		b := open()
		s := openStore(t, b, Options{})
		_, err := s.Numbered(t.Context(), lineage(3), 0)
		missing(t, err, 0, "there is no snapshot 0 of partition 3, nor any other")
		o := claim(t, s, 3)
		for position := int64(10); position < 14; position++ {
			publish(t, o, position)
		}
		if _, err := s.Reap(t.Context(), lineage(3), 2); err != nil {
			t.Fatal(err)
		}
		if err := rewrite(t.Context(), b, lineage(3).manifest(3), damages["a bit flipped"]); err != nil {
			t.Fatal(err)
		}
		_, err = s.Numbered(t.Context(), lineage(3), 0)
		missing(t, err, 0, "there is no snapshot 0 of partition 3 any more, only 2, 3")
		_, err = s.Numbered(t.Context(), lineage(3), 9)
		missing(t, err, 9, "there is no snapshot 9 of partition 3, only 2, 3")
		if _, err := s.Numbered(t.Context(), lineage(3), 3); !errors.Is(err, ErrDamaged) || errors.Is(err, ErrNoSnapshot) {
			t.Errorf("a damaged manifest: %v", err)
		}
		if m, err := s.Numbered(t.Context(), lineage(3), 2); err != nil || m.Position() != 12 {
			t.Errorf("%+v, %v", m, err)
		}
	})
}

// A snapshot that a clean-up takes while it is read is gone, and not damaged;
// the newest is restored without a word of it.
func TestS11TakenWhileItIsRead(t *testing.T) {
	for name, read := range map[string]func(t *testing.T, s *Store, m *Manifest, dir string) error{
		"restore": func(t *testing.T, s *Store, m *Manifest, dir string) error {
			return s.Restore(t.Context(), m, dir, RestoreOptions{})
		},
		"verify": func(t *testing.T, s *Store, m *Manifest, _ string) error {
			return s.Verify(t.Context(), m, nil)
		},
		"restore newest": func(t *testing.T, s *Store, _ *Manifest, dir string) error {
			m, err := s.RestoreNewest(t.Context(), lineage(3), dir, nil, RestoreOptions{})
			if err == nil && m.Seq != 1 {
				t.Errorf("restored %d", m.Seq)
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := buckets["mem"](t)()
				owner := claim(t, openStore(t, b, Options{Clock: inTwoHours}), 3)
				first := publish(t, owner, 10).Manifest
				var once sync.Once
				var log said
				s := openStore(t, &hooked{bucket: b, onOpen: func(key string, body io.ReadCloser, err error) (io.ReadCloser, error) {
					if strings.Contains(key, "/sst/") {
						once.Do(func() { body, err = nil, overtake(t, owner, 14, body) })
					}
					return body, err
				}}, Options{Logger: log.logger(), Transfers: 1})
				err := read(t, s, first, filepath.Join(t.TempDir(), "state"))
				if name == "restore newest" {
					if err != nil || log.b.Len() > 0 {
						t.Errorf("%v, log: %s", err, &log.b)
					}
					return
				}
				missing(t, err, 0, "there is no snapshot 0 of partition 3 any more, only 1")
			})
		})
	}
}

// overtake publishes the next snapshot and removes the one before, of which the
// next shares no table and body is being read: its error is what the reader finds.
func overtake(t *testing.T, owner *Owner, position int64, body io.Closer) error {
	t.Helper()
	publish(t, owner, position)
	if _, err := owner.Reap(t.Context(), 1); err != nil {
		t.Error(err)
	}
	return errors.Join(errNotFound, body.Close())
}

// missing fails where err is not that of a snapshot that is missing.
func missing(t *testing.T, err error, seq int64, want string) {
	t.Helper()
	var e *MissingError
	if !errors.As(err, &e) || e.Seq != seq || !slices.IsSorted(e.There) || !errors.Is(err, ErrNoSnapshot) || errors.Is(err, ErrDamaged) || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}

// Where each snapshot is removed while it is read, that there is none is not what
// is said: who asks would begin without one.
func TestS11EachTakenWhileItIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := buckets["mem"](t)()
		owner := claim(t, openStore(t, b, Options{Clock: inTwoHours}), 3)
		position := int64(10)
		publish(t, owner, position)
		s := openStore(t, &hooked{bucket: b, onOpen: func(key string, body io.ReadCloser, err error) (io.ReadCloser, error) {
			if err == nil && strings.Contains(key, "/sst/") {
				position += 4
				return nil, overtake(t, owner, position, body)
			}
			return body, err
		}}, Options{Transfers: 1})
		m, err := s.RestoreNewest(t.Context(), lineage(3), filepath.Join(t.TempDir(), "state"), nil, RestoreOptions{})
		if err == nil || errors.Is(err, ErrNoSnapshot) || errors.Is(err, ErrDamaged) {
			t.Errorf("%+v, %v", m, err)
		}
	})
}
