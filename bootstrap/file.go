package bootstrap

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"tidemark/aggregator"
	"tidemark/event"
)

const (
	// maxLine is the longest line of a file that is read, in bytes.
	maxLine = 1 << 30
	// readAhead is the buffer between file and lines, in bytes.
	readAhead = 1 << 20
)

// File reads a history from a file of one JSON document a line (NDJSON), bare
// or as elasticdump writes it: {"_index":…,"_id":…,"_source":{…}}, which is
// told by its shape, line by line. Blank lines are skipped, a byte order mark
// at the start and carriage returns at the ends are no part of a line. gzip
// and zstd are told by the first bytes, whatever the name says.
type File struct {
	path string
}

// NewFile returns the source that reads the file at path; it is opened by Read.
func NewFile(path string) *File { return &File{path: path} }

// Name is the file's path.
func (f *File) Name() string { return f.path }

// Read reads the file from its beginning. It wraps aggregator.ErrHopeless
// where the file is not there, may not be read, or is no whole gzip or zstd.
func (f *File) Read(ctx context.Context, yield func(*Document) error) error {
	file, err := os.Open(f.path)
	if err != nil {
		return f.fail("open", err)
	}
	defer func() { _ = file.Close() }() // it was only read
	info, err := file.Stat()
	if err != nil {
		return f.fail("open", err)
	}
	if info.IsDir() {
		return fmt.Errorf("%w: open the history %s: it is a folder; a file of one JSON document a line is wanted", aggregator.ErrHopeless, f.path)
	}
	counted := &counter{r: file}
	plain, err := f.decompress(counted)
	if err != nil {
		return err
	}
	defer func() { _ = plain.Close() }()
	doc := Document{Total: info.Size()}
	unwrap := newUnwrapper()
	lines := newLines(plain)
	for {
		line, err := lines.next()
		switch {
		case errors.Is(err, io.EOF) && line == nil:
			return nil
		case errors.Is(err, errLongLine):
			return fmt.Errorf("%w: %s:%d: the line is longer than %d MiB: one JSON document a line is wanted", aggregator.ErrHopeless, f.path, lines.number, maxLine>>20)
		case err != nil && !errors.Is(err, io.EOF):
			return f.fail(fmt.Sprintf("read line %d of", lines.number), err)
		}
		if lines.number == 1 {
			line = bytes.TrimPrefix(line, []byte("\uFEFF"))
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if line[0] == '[' && lines.number == 1 {
			return fmt.Errorf("%w: %s:1: the file is a JSON array: one JSON document a line is wanted, as `jq -c '.[]'` makes of it", aggregator.ErrHopeless, f.path)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		doc.Line, doc.Read = lines.number, counted.n
		unwrap.document(&doc, line)
		if err := yield(&doc); err != nil {
			return err
		}
	}
}

// Probe reads as far as the first document; its errors are Read's.
func (f *File) Probe(ctx context.Context) error {
	enough := errors.New("enough")
	err := f.Read(ctx, func(*Document) error { return enough })
	if errors.Is(err, enough) {
		return nil
	}
	return err
}

// fail wraps an error of the file. A file that is not there, or may not be
// read, or is broken, stays so; any other error may pass.
func (f *File) fail(verb string, err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: %s the history %s: the file ends in the middle of its compressed data", aggregator.ErrHopeless, verb, f.path)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission), isBroken(err):
		return fmt.Errorf("%w: %s the history %s: %w", aggregator.ErrHopeless, verb, f.path, err)
	}
	return fmt.Errorf("%s the history %s: %w", verb, f.path, err)
}

// isBroken says whether err means compressed data that cannot be read.
func isBroken(err error) bool {
	for _, broken := range []error{
		gzip.ErrHeader, gzip.ErrChecksum,
		zstd.ErrCRCMismatch, zstd.ErrMagicMismatch, zstd.ErrUnexpectedBlockSize, zstd.ErrReservedBlockType,
		zstd.ErrCompressedSizeTooBig, zstd.ErrBlockTooSmall, zstd.ErrWindowSizeExceeded, zstd.ErrUnknownDictionary,
	} {
		if errors.Is(err, broken) {
			return true
		}
	}
	return strings.HasPrefix(err.Error(), "flate: corrupt input")
}

var (
	gzipMagic = []byte{0x1F, 0x8B}
	zstdMagic = []byte{0x28, 0xB5, 0x2F, 0xFD}
	// skippable frames may stand before the first of zstd.
	zstdSkippable = []byte{0x2A, 0x4D, 0x18}
)

// decompress tells by the first bytes what the file is.
func (f *File) decompress(r io.Reader) (io.ReadCloser, error) {
	buffered := bufio.NewReaderSize(r, readAhead)
	head, err := buffered.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, f.fail("read", err)
	}
	switch {
	case bytes.HasPrefix(head, gzipMagic):
		z, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, f.fail("read", err)
		}
		return z, nil
	case bytes.HasPrefix(head, zstdMagic), len(head) == 4 && head[0]&0xF0 == 0x50 && bytes.Equal(head[1:], zstdSkippable):
		z, err := zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, f.fail("read", err)
		}
		return z.IOReadCloser(), nil
	case strings.HasSuffix(f.path, ".gz"), strings.HasSuffix(f.path, ".zst"):
		if len(head) > 0 && strings.IndexByte("{[ \t\r\n\xEF", head[0]) < 0 {
			return nil, fmt.Errorf("%w: read the history %s: it is neither the gzip or zstd of its name nor text", aggregator.ErrHopeless, f.path)
		}
	}
	return io.NopCloser(buffered), nil
}

// counter counts the bytes read.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

var errLongLine = errors.New("line too long")

// lines cuts text into lines, whatever their length.
type lines struct {
	r      *bufio.Reader
	long   []byte // a line that did not fit the reader's buffer
	number int64  // of the line last returned, from 1
}

func newLines(r io.Reader) *lines { return &lines{r: bufio.NewReaderSize(r, readAhead)} }

// next is the next line, with its end, valid until the following call. At the
// end of the text it is io.EOF, with what stands there without a line's end.
func (l *lines) next() ([]byte, error) {
	l.number++
	line, err := l.r.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return whole(line), err
	}
	l.long = l.long[:0]
	for errors.Is(err, bufio.ErrBufferFull) {
		if len(l.long)+len(line) > maxLine {
			return nil, errLongLine
		}
		l.long = append(l.long, line...)
		line, err = l.r.ReadSlice('\n')
	}
	l.long = append(l.long, line...)
	return l.long, err
}

// whole is line, nil where it is empty.
func whole(line []byte) []byte {
	if len(line) == 0 {
		return nil
	}
	return line
}

// The names that elasticdump puts round a document, without their first quote:
// quotes are too many to look for one of them fast.
var (
	sourceName = []byte(`_source"`)
	indexName  = []byte(`_index"`)
)

// unwrapper takes documents out of the lines that elasticdump writes.
type unwrapper struct {
	scanner *event.Scanner
}

func newUnwrapper() unwrapper {
	return unwrapper{event.NewScanner([]event.Path{{"_source"}, {"_id"}, {"_index"}}, 0)}
}

// document fills doc from a line. The bytes of the document are those of the
// line: a number in it keeps its digits.
func (u unwrapper) document(doc *Document, line []byte) {
	doc.Source, doc.ID, doc.Reason, doc.Field = line, nil, event.OK, ""
	if !bytes.Contains(line, sourceName) && !bytes.Contains(line, indexName) {
		return
	}
	if reason, _ := u.scanner.Scan(line); reason != event.OK {
		if reason == event.DuplicateField {
			doc.Source, doc.Reason, doc.Field = nil, reason, "_source"
		}
		return // what reads the document says what is wrong
	}
	source, id, index := &u.scanner.Values[0], &u.scanner.Values[1], &u.scanner.Values[2]
	dumped := id.Kind == event.Text && index.Kind == event.Text
	if dumped {
		doc.ID = id.Bytes
	}
	switch {
	case source.Kind == event.Object:
		doc.Source = source.Bytes
		if id.Kind == event.Text {
			doc.ID = id.Bytes
		}
	case !dumped:
		// A document of its own that has fields of these names.
	case source.Kind == event.Missing:
		doc.Source, doc.Reason, doc.Field = nil, event.MissingField, "_source"
	case source.Kind == event.Null:
		doc.Source, doc.Reason, doc.Field = nil, event.NullField, "_source"
	default:
		doc.Source, doc.Reason, doc.Field = nil, event.WrongType, "_source"
	}
}
