package snapshot

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
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

// hashFile returns the size and the SHA-256 of a file.
func hashFile(path string) (n int64, sum string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, "", err
	}
	h := sha256.New()
	n, err = io.Copy(h, f)
	return n, hex.EncodeToString(h.Sum(nil)), errors.Join(err, f.Close())
}
