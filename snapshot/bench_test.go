package snapshot

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// unshared is a bucket on another disk.
type unshared struct{ bucket }

// BenchmarkRestore restores a snapshot from a folder, and copies the same files
// plainly in the same run: of-copy is the restore's rate against the copy's,
// which reads and writes and syncs nothing.
func BenchmarkRestore(b *testing.B) {
	for _, kind := range []string{"same disk", "other disk"} {
		for _, tables := range []int{2, 32} {
			b.Run(fmt.Sprintf("%s/%d MiB", kind, tables*benchTable>>20), func(b *testing.B) {
				store, m := benchSnapshot(b, tables, kind == "other disk")
				benchRestore(b, store, m)
			})
		}
	}
}

// benchTable, in bytes, is the size of a table.
const benchTable = 2 << 20

// benchSnapshot publishes a state of some tables.
func benchSnapshot(b *testing.B, tables int, other bool) (*Store, *Manifest) {
	files := copies{"marker.a": "", "OPTIONS-1": "same", "MANIFEST-1": "manifest"}
	noise := rand.NewChaCha8([32]byte{})
	for i := range tables {
		table := make([]byte, benchTable)
		noise.Read(table) // never fails
		files[fmt.Sprintf("%06d.sst", i)] = string(table)
	}
	bucket := buckets["folder"](b)()
	if other {
		bucket = unshared{bucket}
	}
	s := openStore(b, bucket, Options{})
	p, err := claim(b, s, 3).Publish(b.Context(), state(3, 10), files, filepath.Join(b.TempDir(), "checkpoint"))
	if err != nil {
		b.Fatal(err)
	}
	return s, p.Manifest
}

func benchRestore(b *testing.B, s *Store, m *Manifest) {
	var restore, plain time.Duration
	home := b.TempDir()
	laid, copied := filepath.Join(home, "laid"), filepath.Join(home, "copied")
	for b.Loop() {
		began := time.Now()
		if err := s.Restore(b.Context(), m, laid, RestoreOptions{}); err != nil {
			b.Fatal(err)
		}
		restore += time.Since(began)
		began = time.Now()
		if err := plainCopy(laid, copied); err != nil {
			b.Fatal(err)
		}
		plain += time.Since(began)
		if err := errors.Join(os.RemoveAll(laid), os.RemoveAll(copied)); err != nil {
			b.Fatal(err)
		}
	}
	mib := float64(m.Bytes()) / (1 << 20) * float64(b.N)
	b.ReportMetric(mib/restore.Seconds(), "restored-MiB/s")
	b.ReportMetric(mib/plain.Seconds(), "copied-MiB/s")
	b.ReportMetric(plain.Seconds()/restore.Seconds(), "of-copy")
}

// plainCopy copies the files of a folder as cp does.
func plainCopy(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	if err := os.Mkdir(to, 0o755); err != nil {
		return err
	}
	buffer := make([]byte, 1<<20)
	for _, e := range entries {
		in, err := os.Open(filepath.Join(from, e.Name()))
		if err != nil {
			return err
		}
		out, err := os.Create(filepath.Join(to, e.Name()))
		if err == nil {
			// The kernel is not asked to do it alone.
			_, err = io.CopyBuffer(struct{ io.Writer }{out}, struct{ io.Reader }{in}, buffer)
			err = errors.Join(err, out.Close())
		}
		if err := errors.Join(err, in.Close()); err != nil {
			return err
		}
	}
	return nil
}
