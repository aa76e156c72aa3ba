package bootstrap

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"tidemark/aggregator"
	"tidemark/event"
)

func gzipped(t testing.TB, text []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func zstandard(t testing.TB, text []byte) []byte {
	t.Helper()
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return z.EncodeAll(text, nil)
}

// writeFile writes a history and returns its path.
func writeFile(t testing.TB, name string, text []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// readAll reads a file's documents as LINE ID REASON FIELD SOURCE.
func readAll(t testing.TB, path string) (documents []string, err error) {
	t.Helper()
	err = NewFile(path).Read(t.Context(), func(d *Document) error {
		documents = append(documents, fmt.Sprintf("%d|%s|%s|%s|%s", d.Line, d.ID, d.Reason, d.Field, d.Source))
		if d.Total <= 0 || d.Read <= 0 || d.Read > d.Total {
			t.Errorf("line %d: %d of %d bytes are read", d.Line, d.Read, d.Total)
		}
		return nil
	})
	return documents, err
}

// TestFileForms: bare and dumped documents, line ends, blank lines, a byte
// order mark; plain, gzip and zstd, whatever the name says.
func TestFileForms(t *testing.T) {
	text := "\uFEFF" + strings.Join([]string{
		`{"userId":"U-1","totalRevenue":1.50}` + "\r",
		``,
		"  \t\r",
		`{"_index":"sales","_id":"a\u0031","_score":1,"_source":{"userId" : "U-2", "n":1e400, "x":"é\u00e9"}}`,
		` {"_source":{}} `,
		`{"_source":{"_source":{"userId":1}},"_id":7}`,
		`{"userId":"U-3","_source":"a field of its own"}`,
		`{"userId":"U-4","note":"says \"_source\" and \"_index\""}`,
		`{"_index":"sales","_id":"b"}`,
		`{"_index":"sales","_id":"c","_source":null}`,
		`{"_index":"sales","_id":"d","_source":[]}`,
		`{"_source":{},"_source":{"userId":1}}`,
		`{"_source":{"userId":1}`,
		`not JSON, with "_source" in it`,
		`{"userId":"U-5"}`,
	}, "\n")
	want := []string{
		`1||||{"userId":"U-1","totalRevenue":1.50}`,
		`4|a1|||{"userId" : "U-2", "n":1e400, "x":"é\u00e9"}`,
		`5||||{}`,
		`6||||{"_source":{"userId":1}}`,
		`7||||{"userId":"U-3","_source":"a field of its own"}`,
		`8||||{"userId":"U-4","note":"says \"_source\" and \"_index\""}`,
		`9|b|missing_field|_source|`,
		`10|c|null_field|_source|`,
		`11|d|wrong_type|_source|`,
		`12||duplicate_field|_source|`,
		`13||||{"_source":{"userId":1}`,
		`14||||not JSON, with "_source" in it`,
		`15||||{"userId":"U-5"}`,
	}
	half := len(text) / 2
	for name, content := range map[string][]byte{
		"plain.ndjson":   []byte(text),
		"ended.ndjson":   []byte(text + "\n"),
		"a.ndjson.gz":    gzipped(t, []byte(text)),
		"members.gz":     append(gzipped(t, []byte(text[:half])), gzipped(t, []byte(text[half:]))...),
		"a.ndjson.zst":   zstandard(t, []byte(text)),
		"frames.zst":     append(zstandard(t, []byte(text[:half])), zstandard(t, []byte(text[half:]))...),
		"skippable.zst":  append([]byte{0x50, 0x2A, 0x4D, 0x18, 1, 0, 0, 0, 'x'}, zstandard(t, []byte(text))...),
		"lies.gz":        []byte(text),
		"lies.zst":       gzipped(t, []byte(text)),
		"gzip.ndjson":    gzipped(t, []byte(text)),
		"zstd.ndjson.gz": zstandard(t, []byte(text)),
	} {
		have, err := readAll(t, writeFile(t, name, content))
		if err != nil || !slices.Equal(have, want) {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, strings.Join(have, "\n"), strings.Join(want, "\n"))
		}
	}
}

// TestFileLongLines: lines around and far above the buffer, and after them.
func TestFileLongLines(t *testing.T) {
	for _, n := range []int{readAhead - 1, readAhead, readAhead + 1, 3 * readAhead, 65 << 20} {
		long := `{"a":"` + strings.Repeat("x", n-8) + `"}`
		path := writeFile(t, "long.ndjson", []byte(long+"\n{\"b\":1}\n"+long))
		var have []int
		err := NewFile(path).Read(t.Context(), func(d *Document) error {
			have = append(have, len(d.Source))
			return nil
		})
		if err != nil || !slices.Equal(have, []int{n, 7, n}) {
			t.Errorf("lines of %d, 7 and %d bytes are read as %v, %v", n, n, have, err)
		}
	}
}

// TestFileErrors: files that no retry mends.
func TestFileErrors(t *testing.T) {
	text := []byte(strings.Repeat(`{"userId":"U-1"}`+"\n", 10_000))
	broken := gzipped(t, text)
	broken[len(broken)/2] ^= 0xFF
	brokenZstd := zstandard(t, text)
	brokenZstd[len(brokenZstd)-1] ^= 0xFF // of the checksum
	for name, c := range map[string]struct {
		content []byte
		want    string
	}{
		"array.ndjson":   {[]byte(`[{"a":1},` + "\n" + `{"a":2}]`), ":1: the file is a JSON array"},
		"cut.ndjson.gz":  {gzipped(t, text)[:50], "ends in the middle"},
		"cut.ndjson.zst": {zstandard(t, text)[:30], "ends in the middle"},
		"broken.gz":      {broken, "read line"},
		"broken.zst":     {brokenZstd, "read line"},
		"trailing.gz":    {append(gzipped(t, text), "more"...), "read line"},
		"notgzip.gz":     {[]byte{0, 1, 2, 3, 4}, "neither the gzip or zstd of its name nor text"},
		"header.gz":      {[]byte{0x1F, 0x8B, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0, 0}, "read the history"},
		"cutheader.gz":   {[]byte{0x1F, 0x8B, 8}, "ends in the middle"},
	} {
		path := writeFile(t, name, c.content)
		_, err := readAll(t, path)
		if !errors.Is(err, aggregator.ErrHopeless) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s gives %v, want %q", name, err, c.want)
		}
	}
	for _, path := range []string{filepath.Join(t.TempDir(), "nowhere.ndjson"), t.TempDir()} {
		if _, err := readAll(t, path); !errors.Is(err, aggregator.ErrHopeless) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s gives %v", path, err)
		}
	}
	stop := errors.New("stop")
	path := writeFile(t, "good.ndjson", text)
	if err := NewFile(path).Read(t.Context(), func(d *Document) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("reading ends with %v, not with the reader's error", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	err := NewFile(path).Read(ctx, func(d *Document) error { n++; cancel(); return nil })
	if !errors.Is(err, context.Canceled) || errors.Is(err, aggregator.ErrHopeless) || n != 1 {
		t.Errorf("after its end is asked for, %d documents are read, and %v", n, err)
	}
	for _, empty := range []string{"", "\n\n", "\uFEFF"} {
		if documents, err := readAll(t, writeFile(t, "empty.ndjson", []byte(empty))); err != nil || len(documents) != 0 {
			t.Errorf("a file of %q gives %v, %v", empty, documents, err)
		}
	}
}

// FuzzUnwrap: taking documents out of lines neither fails nor makes anything up.
func FuzzUnwrap(f *testing.F) {
	for _, line := range []string{`{"_source":{"a":1},"_id":"x","_index":"y"}`, `{"_source":1}`, `{}`, `"_source"`, `{"_index":"","_id":""}`} {
		f.Add([]byte(line))
	}
	u := newUnwrapper()
	f.Fuzz(func(t *testing.T, line []byte) {
		var doc Document
		u.document(&doc, line)
		if doc.Reason == event.OK && !bytes.Contains(line, doc.Source) || doc.Reason != event.OK && doc.Source != nil {
			t.Errorf("%q becomes %q, %v", line, doc.Source, doc.Reason)
		}
	})
}

func BenchmarkFile(b *testing.B) {
	line := `{"_index":"sales","_id":"U-%07d","_score":1,"_source":{"userId":%d,"latestSaleTimestamp":"2015-07-29T09:17:12.000Z","totalRevenue":267.64,"totalPoints":299,"productList":[47,1484],"sales":3}}` + "\n"
	var text bytes.Buffer
	const n = 50_000
	for i := range n {
		fmt.Fprintf(&text, line, i, i)
	}
	for name, content := range map[string][]byte{"plain": text.Bytes(), "gzip": gzipped(b, text.Bytes()), "zstd": zstandard(b, text.Bytes())} {
		b.Run(name, func(b *testing.B) {
			path := writeFile(b, "h", content)
			b.SetBytes(int64(text.Len()))
			b.ReportAllocs()
			for b.Loop() {
				if err := NewFile(path).Read(b.Context(), func(*Document) error { return nil }); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "documents/s")
		})
	}
}
