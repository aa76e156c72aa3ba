package snapshot

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
)

// tableSuffix is how the names of tables end: files that never change once
// written, so that a sum need not be taken twice and hard links share them.
const tableSuffix = ".sst"

// sums remembers the sums of tables, by name. A checkpoint's tables are hard
// links, so a table that was seen before is the same file.
type sums map[string]sum

type sum struct {
	info fs.FileInfo
	hex  string
}

// scan lists the files in dir with their sums, and forgets those that are no
// longer there.
func (s *sums) scan(ctx context.Context, dir string) ([]File, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	known := make(sums)
	var files []File
	for _, e := range entries {
		if !e.Type().IsRegular() {
			return nil, fmt.Errorf("%s is no file", filepath.Join(dir, e.Name()))
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		info, err := e.Info()
		if err != nil {
			return nil, err
		}
		one, ok := (*s)[e.Name()]
		if !ok || !os.SameFile(one.info, info) || one.info.Size() != info.Size() || !one.info.ModTime().Equal(info.ModTime()) {
			n, hex, err := hashFile(filepath.Join(dir, e.Name()))
			if err != nil {
				return nil, err
			}
			if n != info.Size() {
				return nil, fmt.Errorf("%s changed while it was read", filepath.Join(dir, e.Name()))
			}
			one = sum{info, hex}
		}
		if isTable(e.Name()) {
			known[e.Name()] = one
		}
		files = append(files, File{Name: e.Name(), Size: info.Size(), SHA256: one.hex, Object: one.hex})
	}
	slices.SortFunc(files, func(a, b File) int { return cmp.Compare(a.Name, b.Name) })
	*s = known
	return files, nil
}

func isTable(name string) bool { return filepath.Ext(name) == tableSuffix }

// sumBuffer, in bytes, is how much is read and summed at a time.
const sumBuffer = 256 << 10

var sumBuffers = sync.Pool{New: func() any { return new([sumBuffer]byte) }}

// hashFile returns the size and the SHA-256 of a file.
func hashFile(path string) (n int64, sum string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, "", err
	}
	defer f.Close() // it was read alone
	buffer := sumBuffers.Get().(*[sumBuffer]byte)
	defer sumBuffers.Put(buffer)
	for h := sha256.New(); ; {
		m, err := f.Read(buffer[:])
		h.Write(buffer[:m]) // never fails
		n += int64(m)
		if err == io.EOF {
			return n, hex.EncodeToString(h.Sum(nil)), nil
		}
		if err != nil {
			return n, "", err
		}
		// Folding, on as few cores, is to wait for one buffer, not for a file.
		runtime.Gosched()
	}
}
