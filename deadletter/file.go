// Package deadletter keeps bad records in a file, for who looks into them: one
// JSON line each. The topic for the same purpose is in source/kafka.
package deadletter

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"unicode/utf8"

	"tidemark/aggregator"
)

// bufferBytes are kept before they are written.
const bufferBytes = 64 << 10

// File appends bad records to a file. It is an aggregator.DeadLetter, safe for
// all tasks at once.
//
// Records that are folded again after a crash are in the file again; a line
// says topic, partition and offset, so they can be told.
type File struct {
	path string

	mu      sync.Mutex
	file    *os.File
	regular bool   // a pipe or terminal knows no sync
	pending []byte // not written yet; may begin inside a line
	dirty   bool   // something was written since the last sync
	err     error  // of a sync: what was written is in doubt for good
	scratch bytes.Buffer
}

var _ aggregator.DeadLetter = (*File)(nil)

// Open opens path for appending, and creates it where it does not exist, its
// folder included. A last line that a crash cut off is ended.
func Open(path string) (*File, error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of dead letter file %s: %w", path, err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the dead letter file: %w", err)
	}
	f := &File{path: path, file: file}
	whole := true
	info, err := file.Stat()
	if err == nil && info.Mode().IsRegular() {
		f.regular = true
		if whole, err = endsWhole(file, info.Size()); err == nil {
			err = syncFolder(dir)
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open dead letter file %s: %w", path, err), file.Close())
	}
	if !whole {
		f.pending = append(f.pending, '\n')
	}
	return f, nil
}

// endsWhole says whether a file is empty or ends where a line does.
func endsWhole(file *os.File, size int64) (bool, error) {
	if size == 0 {
		return true, nil
	}
	var last [1]byte
	_, err := file.ReadAt(last[:], size-1)
	return last[0] == '\n', err
}

// syncFolder makes the name of a new file durable.
func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// line is one line. A key or value of null is null, of UTF-8 a text, and of
// other bytes base64 under another name.
type line struct {
	Reason      string          `json:"reason"`
	Field       string          `json:"field"`
	Error       string          `json:"error"`
	Topic       string          `json:"topic"`
	Partition   int32           `json:"partition"`
	Offset      int64           `json:"offset"`
	Key         json.RawMessage `json:"key,omitempty"`
	KeyBase64   string          `json:"key_base64,omitempty"`
	Value       json.RawMessage `json:"value,omitempty"`
	ValueBase64 string          `json:"value_base64,omitempty"`
}

// Send takes a record into the buffer. An error says that the file takes
// nothing now; the record is not in the buffer then.
func (f *File) Send(_ context.Context, bad aggregator.BadRecord) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return f.err
	}
	if len(f.pending) >= bufferBytes {
		if err := f.write(); err != nil {
			return err
		}
	}
	l := line{
		Reason: bad.Reason.String(), Field: bad.Field, Error: bad.Error,
		Topic: bad.Topic, Partition: bad.Partition, Offset: bad.Record.Offset,
	}
	var err error
	if l.Key, l.KeyBase64, err = f.text(bad.Record.Key); err != nil {
		return fmt.Errorf("encode the key: %w", err)
	}
	if l.Value, l.ValueBase64, err = f.text(bad.Record.Value); err != nil {
		return fmt.Errorf("encode the value: %w", err)
	}
	b, err := f.json(l)
	if err != nil {
		return fmt.Errorf("encode a dead letter: %w", err)
	}
	f.pending = append(f.pending, b...)
	return nil
}

// text is b as a JSON value, or in base64.
func (f *File) text(b []byte) (json.RawMessage, string, error) {
	if b == nil {
		return json.RawMessage("null"), "", nil
	}
	if !utf8.Valid(b) {
		return nil, base64.StdEncoding.EncodeToString(b), nil
	}
	text, err := f.json(string(b))
	return bytes.Clone(bytes.TrimSuffix(text, []byte("\n"))), "", err
}

// json is v in JSON with a line's end, valid until the next call. It leaves
// '<', '>' and '&' as they are.
func (f *File) json(v any) ([]byte, error) {
	f.scratch.Reset()
	enc := json.NewEncoder(&f.scratch)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return f.scratch.Bytes(), err
}

// write writes what is pending. What did not get in stays pending.
func (f *File) write() error {
	if len(f.pending) == 0 {
		return nil
	}
	n, err := f.file.Write(f.pending)
	f.pending = append(f.pending[:0], f.pending[n:]...)
	f.dirty = f.dirty || n > 0
	if err != nil {
		return fmt.Errorf("write to dead letter file %s: %w", f.path, err)
	}
	return nil
}

// Flush returns once all records that were sent are on disk. After a failed
// sync it fails for good: the system may have dropped what it could not write,
// and says so once. A new process sends the records again.
func (f *File) Flush(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.flush()
}

func (f *File) flush() error {
	if f.err != nil {
		return f.err
	}
	if err := f.write(); err != nil {
		return err
	}
	if !f.dirty || !f.regular {
		return nil
	}
	if err := f.file.Sync(); err != nil {
		f.err = fmt.Errorf("sync dead letter file %s: %w; start the process again once the disk is well", f.path, err)
		return f.err
	}
	f.dirty = false
	return nil
}

// Close flushes and closes the file.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := errors.Join(f.flush(), f.file.Close())
	f.err = fmt.Errorf("dead letter file %s is closed", f.path)
	return err
}
