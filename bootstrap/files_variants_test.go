package bootstrap

import (
	"bytes"
	"fmt"
	"maps"
	"strings"
	"testing"
)

// TestB03B12OddFiles: history files as tools write, cut and join them. Each is
// read whole, or refused; a part is never taken for the whole.
func TestB03B12OddFiles(t *testing.T) {
	p := compile(t, "SELECT userId, sum(revenue) AS revenue FROM sales GROUP BY userId")
	doc := func(i int) string { return fmt.Sprintf(`{"userId":"U-%d","revenue":%d.50}`, i, i) }
	two := []byte(doc(1) + "\n" + doc(2) + "\n")
	large := func() []byte {
		var b bytes.Buffer
		for i := range 20_000 {
			b.WriteString(doc(i%2+1) + strings.Repeat(" ", i%50) + "\n")
		}
		return b.Bytes()
	}()
	whole := map[string]string{"U-1": `{"userId":"U-1","revenue":1.5}`, "U-2": `{"userId":"U-2","revenue":2.5}`}
	thousands := map[string]string{"U-1": `{"userId":"U-1","revenue":15000}`, "U-2": `{"userId":"U-2","revenue":25000}`}
	for _, c := range []struct {
		name, file string
		text       []byte
		want       map[string]string
		refused    string
	}{
		{"no end of line", "h.ndjson", two[:len(two)-1], whole, ""},
		{"lines of Windows", "h.json", bytes.ReplaceAll(two, []byte("\n"), []byte("\r\n")), whole, ""},
		{"blank lines", "h", append([]byte("\n \n\t\r\n"), bytes.ReplaceAll(two, []byte("\n"), []byte("\n\n"))...), whole, ""},
		{"a mark at its head", "h.ndjson", append([]byte("\xef\xbb\xbf"), two...), whole, ""},
		{"gzip", "h.ndjson.gz", gzipped(t, two), whole, ""},
		{"gzip of several parts", "h.gz", append(gzipped(t, two[:len(doc(1))+1]), gzipped(t, two[len(doc(1))+1:])...), whole, ""},
		{"gzip parts that meet in a line", "h.gz", append(gzipped(t, two[:20]), gzipped(t, two[20:])...), whole, ""},
		{"zstd of several frames", "h.zst", append(zstandard(t, two[:20]), zstandard(t, two[20:])...), whole, ""},
		{"a name of gzip, and text", "h.ndjson.gz", two, whole, ""},
		{"a large one", "h.ndjson", large, thousands, ""},
		{"a large gzip", "h.ndjson.gz", gzipped(t, large), thousands, ""},
		{"a large zstd", "h.ndjson.zst", zstandard(t, large), thousands, ""},
		{"gzip, cut in the middle", "h.gz", gzipped(t, large)[:len(gzipped(t, large))/2], nil, "in the middle of its compressed data"},
		{"gzip, cut by its sum", "h.gz", gzipped(t, two)[:len(gzipped(t, two))-4], nil, "compressed"},
		{"gzip with a byte changed", "h.gz", func() []byte { b := gzipped(t, large); b[len(b)/2] ^= 0x55; return b }(), nil, "h.gz"},
		{"zstd, cut in the middle", "h.zst", zstandard(t, large)[:len(zstandard(t, large))/2], nil, "h.zst"},
		{"gzip and rubbish behind", "h.gz", append(gzipped(t, two), "rubbish"...), nil, "h.gz"},
		{"a zip by its name of gzip", "h.gz", []byte("PK\x03\x04rubbish that is no text \x00\x01"), nil, "neither the gzip"},
		{"an array", "h.json", []byte("[" + doc(1) + "," + doc(2) + "]"), nil, "is a JSON array"},
		{"an array over lines", "h.json", []byte("[\n" + doc(1) + ",\n" + doc(2) + "\n]"), nil, "is a JSON array"},
		{"a dump cut in a line", "h.ndjson", two[:len(two)-5], nil, "max_missing_share"},
		{"a pretty document", "h.json", []byte("{\n  \"userId\": \"U-1\",\n  \"revenue\": 1.5\n}\n"), nil, "max_missing_share"},
		{"a bulk file", "h.ndjson", []byte(`{"index":{"_id":"1"}}` + "\n" + doc(1) + "\n"), nil, "max_missing_share"},
		{"an error page", "h.ndjson", []byte("<html>\n<h1>502</h1>\n</html>\n"), nil, "max_missing_share"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := bootstrap(t, p, 3, nil, func(o *Options) {
				o.Source, o.Duplicates, o.MaxMissingShare = NewFile(writeFile(t, c.file, c.text)), "sum", 0.01
			})
			if c.refused != "" {
				if err == nil || !strings.Contains(err.Error(), c.refused) {
					t.Errorf("it is refused with %v, want %q", err, c.refused)
				}
				if len(r.seeds) > 0 {
					t.Errorf("a part is taken for the whole: %+v", r.seeds)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if have := rows(t, p, r.stores); !maps.Equal(have, c.want) {
				t.Errorf("it gives %v, want %v", have, c.want)
			}
		})
	}
}
