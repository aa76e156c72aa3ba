package snapshot

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tidemark/aggregator"
)

// A create that succeeds while its answer is lost is a success, and uploads
// nothing twice.
func TestLostAnswers(t *testing.T) {
	for _, what := range []string{"/m/", "/sst/", ""} {
		t.Run("of "+what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := buckets["mem"](t)()
				lost := 0
				s := openStore(t, &hooked{bucket: b, onCreate: func(key string, create func() error) error {
					if err := create(); err != nil || !strings.Contains(key, what) {
						return err
					}
					lost++
					return errFault
				}}, Options{Transfers: 1})
				o := claim(t, s, 3)
				for position := int64(10); position < 13; position++ {
					p := publish(t, o, position)
					if p.Seq != position-10 {
						t.Errorf("snapshot %d at position %d", p.Seq, position)
					}
					restored(t, s, p.Manifest)
				}
				if lost == 0 {
					t.Error("no answer was lost")
				}
				if _, err := s.Claim(t.Context(), lineage(3), 0); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A publish whose manifest is there although the call failed for good is gone
// on from, by the same owner; and a rival of the same epoch is fenced by it.
func TestLostPublish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := buckets["mem"](t)()
		down := false
		s := openStore(t, &hooked{
			bucket: b,
			onCreate: func(key string, create func() error) error {
				if err := create(); err != nil || !strings.Contains(key, "/m/") {
					return err
				}
				down = true
				return errFault
			},
			onOpen: func(_ string, body io.ReadCloser, err error) (io.ReadCloser, error) {
				if err == nil && down {
					return nil, errors.Join(errFault, body.Close())
				}
				return body, err
			},
		}, Options{})
		o, rival := claim(t, s, 3), claim(t, openStore(t, b, Options{}), 3)
		if _, err := try(t, o, 10); !errors.Is(err, errFault) && !strings.Contains(err.Error(), errFault.Error()) {
			t.Fatalf("publish without an answer: %v", err)
		}
		s.bucket = b
		if _, err := try(t, rival, 10); !errors.Is(err, aggregator.ErrFenced) {
			t.Errorf("the rival: %v", err)
		}
		p := publish(t, o, 11)
		if p.Seq != 1 || p.Parent != 0 {
			t.Errorf("after a lost publish: snapshot %d after %d", p.Seq, p.Parent)
		}
	})
}

// S3 answers one of two creates at the same moment with 409, which is neither
// yes nor no.
func TestConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conflicts := 0
		s := openStore(t, &hooked{bucket: buckets["mem"](t)(), onCreate: func(_ string, create func() error) error {
			if conflicts++; conflicts%2 == 1 {
				return errors.New("ConditionalRequestConflict") // nothing was written
			}
			return create()
		}}, Options{Transfers: 1})
		restored(t, s, publish(t, claim(t, s, 3), 10).Manifest)
	})
}

// A store that refuses is not asked again.
func TestRefusal(t *testing.T) {
	var asked atomic.Int64
	s := openStore(t, &hooked{bucket: buckets["mem"](t)(), onCreate: func(string, func() error) error {
		asked.Add(1)
		return errRefused
	}}, Options{Transfers: 1})
	if _, err := try(t, claim(t, s, 3), 10); !errors.Is(err, errRefused) {
		t.Errorf("publish without permission: %v", err)
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

// An upload that is cut off is gone on with: what is there is not uploaded
// again, also by another process.
func TestUploadIsGoneOnWith(t *testing.T) {
	eachBucket(t, func(t *testing.T, open func() bucket) {
		b, left := open(), 3
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s := openStore(t, &hooked{bucket: b, onCreate: func(_ string, create func() error) error {
			if left--; left < 0 {
				cancel()
				return ctx.Err()
			}
			return create()
		}}, Options{Transfers: 1})
		_, err := claim(t, s, 3).Publish(ctx, state(3, 10), at(10), filepath.Join(t.TempDir(), "x"))
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("a cancelled publish: %v", err)
		}
		if _, err := s.Newest(t.Context(), lineage(3)); !errors.Is(err, ErrNoSnapshot) {
			t.Errorf("half a publish is a snapshot: %v", err)
		}
		var there int64
		for _, key := range keys(t, b, lineage(3).files()) {
			o, err := b.stat(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			there += o.size
		}
		p := publish(t, claim(t, openStore(t, open(), Options{}), 3), 10)
		if there == 0 || p.Uploaded != at(10).bytes()-there {
			t.Errorf("uploaded %d of %d with %d there", p.Uploaded, at(10).bytes(), there)
		}
		restored(t, s, p.Manifest)
	})
}

// late shows objects, and lists them, only 10 s after they were written, in
// random order.
func late(b bucket, c *chaos) bucket {
	old := func(o object) bool { return time.Since(o.modified) >= 10*time.Second }
	return &hooked{
		bucket: b,
		onOpen: func(key string, body io.ReadCloser, err error) (io.ReadCloser, error) {
			if err != nil {
				return nil, err
			}
			if o, err := b.stat(context.Background(), key); err != nil || !old(o) {
				return nil, errors.Join(errNotFound, body.Close())
			}
			return body, nil
		},
		onStat: func(key string, o object, err error) (object, error) {
			if err == nil && !old(o) {
				return o, errNotFound
			}
			return o, err
		},
		onList: func(_ string, all []object) ([]object, error) {
			c.shuffle(all)
			return slices.DeleteFunc(all, func(o object) bool { return !o.dir() && !old(o) }), nil
		},
	}
}

func TestS12ObjectsThatShowLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := late(buckets["mem"](t)(), &chaos{rng: seeded(1)})
		s := openStore(t, b, Options{Settle: DefaultSettle})
		o := claim(t, s, 3)
		var newest *Manifest
		for position := int64(10); position < 16; position++ {
			newest = publish(t, o, position).Manifest
			restored(t, s, newest) // whoever was told of it finds it
		}
		if newest.Seq != 5 {
			t.Errorf("six publishes made snapshot %d", newest.Seq)
		}
		if err := s.Verify(t.Context(), newest, nil); err != nil {
			t.Error(err)
		}
		pass(t, time.Minute)
		other := claim(t, openStore(t, b, Options{Settle: DefaultSettle}), 3)
		if m := other.Newest(); m.Position() != 15 {
			t.Errorf("claimed position %d", m.Position())
		}
		if _, err := try(t, o, 16); !errors.Is(err, aggregator.ErrFenced) {
			t.Errorf("the old owner publishes: %v", err)
		}
		publish(t, other, 16)
	})
}

// A manifest that is listed and never found is passed over, loudly.
func TestS12ListedButNeverFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := buckets["mem"](t)()
		o := claim(t, openStore(t, b, Options{}), 3)
		publish(t, o, 10)
		lost := lineage(3).manifest(publish(t, o, 11).Seq)
		var said said
		s := openStore(t, &hooked{bucket: b, onOpen: func(key string, body io.ReadCloser, err error) (io.ReadCloser, error) {
			if key == lost && err == nil {
				return nil, errors.Join(errNotFound, body.Close())
			}
			return body, err
		}}, Options{Settle: DefaultSettle, Logger: said.logger()})
		began := time.Now()
		m, err := s.Newest(t.Context(), lineage(3))
		if err != nil || m.Position() != 10 {
			t.Errorf("newest: %+v, %v", m, err)
		}
		if d := time.Since(began); d < DefaultSettle || d > 2*DefaultSettle {
			t.Errorf("asked for %s", d)
		}
		said.has(t, "damaged and passed over")
	})
}
