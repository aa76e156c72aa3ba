package snapshot

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
)

// A folder that vanishes while it is used, as with its disk, is an error of all
// that is done, and not made anew; it is gone on with once it is back. An empty
// folder in its place, as a mount point is, and one that another member has made
// meanwhile, are not taken for it.
func TestFolderThatVanishes(t *testing.T) {
	for name, instead := range map[string]func(t *testing.T, root string){
		"missing": func(*testing.T, string) {},
		"empty": func(t *testing.T, root string) {
			if err := os.Mkdir(root, 0o755); err != nil {
				t.Fatal(err)
			}
		},
		"another": func(t *testing.T, root string) { pin(t, root) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				root := filepath.Join(t.TempDir(), "a", "store")
				s := openStore(t, pin(t, root), Options{})
				o := claim(t, s, 3)
				m := publish(t, o, 10).Manifest
				away := filepath.Join(t.TempDir(), "away")
				if err := os.Rename(root, away); err != nil {
					t.Fatal(err)
				}
				instead(t, root)
				_, publishErr := try(t, o, 11)
				_, claimErr := s.Claim(t.Context(), lineage(3), 0)
				for what, err := range map[string]error{
					"publish": publishErr, "claim": claimErr,
					"restore": s.Restore(t.Context(), m, filepath.Join(t.TempDir(), "state"), RestoreOptions{}),
				} {
					if !errors.Is(err, errGone) {
						t.Errorf("%s: %v", what, err)
					}
				}
				if name == "missing" {
					if _, err := os.Stat(root); !errors.Is(err, os.ErrNotExist) {
						t.Errorf("the folder was made anew: %v", err)
					}
				}
				if err := errors.Join(os.RemoveAll(root), os.Rename(away, root)); err != nil {
					t.Fatal(err)
				}
				restored(t, s, publish(t, o, 11).Manifest)
			})
		})
	}
}

// Members that start at the same time on a folder that is not there agree on it.
func TestFolderIsPinnedByMany(t *testing.T) {
	root := filepath.Join(t.TempDir(), "a", "store")
	pinned := make(chan *folder)
	for range 8 {
		go func() {
			f, err := openFolder(root)
			if err == nil {
				err = f.pin(t.Context())
			}
			if err != nil {
				t.Error(err)
			}
			pinned <- f
		}()
	}
	for range 8 {
		f := <-pinned
		if err := openStore(t, f, Options{}).Check(t.Context()); err != nil {
			t.Error(err)
		}
		if err := f.pinned(); err != nil {
			t.Error(err)
		}
	}
}

// pin opens and pins a folder.
func pin(t testing.TB, root string) *folder {
	t.Helper()
	f, err := openFolder(root)
	if err == nil {
		err = f.pin(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}
