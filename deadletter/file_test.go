package deadletter

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"tidemark/aggregator"
	"tidemark/event"
)

func open(t testing.TB, path string) *File {
	t.Helper()
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// lines are the file's lines, each of which must be JSON.
func lines(t testing.TB, path string) (list []map[string]any) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for text := range strings.Lines(string(b)) {
		dec := json.NewDecoder(strings.NewReader(text))
		dec.UseNumber()
		var m map[string]any
		if err := dec.Decode(&m); err != nil {
			t.Fatalf("line %q: %v", text, err)
		}
		list = append(list, m)
	}
	return list
}

// given is key or value as a line has it.
func given(t testing.TB, m map[string]any, name string) []byte {
	t.Helper()
	plain, isPlain := m[name]
	coded, isCoded := m[name+"_base64"]
	if isPlain == isCoded {
		t.Fatalf("%v has %s both ways, or none", m, name)
	}
	if isCoded {
		b, err := base64.StdEncoding.DecodeString(coded.(string))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	if plain == nil {
		return nil
	}
	return []byte(plain.(string))
}

// Any bytes come back from the file as they were.
func TestKeyAndValueAreKept(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		path := filepath.Join(t.TempDir(), "bad.ndjson")
		f := open(t, path)
		content := rapid.Custom(func(r *rapid.T) []byte {
			switch rapid.IntRange(0, 3).Draw(r, "kind") {
			case 0:
				return nil
			case 1:
				return []byte(rapid.String().Draw(r, "text"))
			case 2:
				return []byte(`{"a":"<b>&` + "\u2028" + `"}`)
			}
			return rapid.SliceOf(rapid.Byte()).Draw(r, "bytes")
		})
		var sent []aggregator.BadRecord
		for range rapid.IntRange(0, 5).Draw(r, "n") {
			bad := aggregator.BadRecord{
				Topic: "sales", Partition: rapid.Int32().Draw(r, "partition"),
				Reason: event.Reason(rapid.IntRange(1, event.NumReasons-1).Draw(r, "reason")),
				Field:  rapid.String().Draw(r, "field"), Error: rapid.String().Draw(r, "error"),
				Record: aggregator.Record{Offset: rapid.Int64().Draw(r, "offset"), Key: content.Draw(r, "key"), Value: content.Draw(r, "value")},
			}
			if err := f.Send(t.Context(), bad); err != nil {
				t.Fatal(err)
			}
			sent = append(sent, bad)
		}
		if err := f.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := lines(t, path)
		if len(got) != len(sent) {
			t.Fatalf("%d lines for %d records", len(got), len(sent))
		}
		for i, m := range got {
			bad := sent[i]
			for name, want := range map[string]string{
				"reason": bad.Reason.String(), "field": bad.Field, "error": bad.Error, "topic": bad.Topic,
				"partition": fmt.Sprint(bad.Partition), "offset": fmt.Sprint(bad.Record.Offset),
			} {
				if fmt.Sprint(m[name]) != want {
					t.Fatalf("%s is %q, want %q", name, m[name], want)
				}
			}
			for name, want := range map[string][]byte{"key": bad.Record.Key, "value": bad.Record.Value} {
				if b := given(t, m, name); !bytes.Equal(b, want) || (b == nil) != (want == nil) {
					t.Fatalf("%s is %q, want %q", name, b, want)
				}
			}
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestTasksShareTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "er", "bad.ndjson")
	f := open(t, path)
	var tasks sync.WaitGroup
	const n = 300
	for p := range int32(4) {
		tasks.Go(func() {
			for i := range int64(n) {
				bad := aggregator.BadRecord{Partition: p, Reason: event.Empty, Record: aggregator.Record{Offset: i, Value: bytes.Repeat([]byte("x"), 300)}}
				if err := f.Send(t.Context(), bad); err != nil {
					t.Error(err)
				}
				if i%97 == 0 {
					if err := f.Flush(t.Context()); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	tasks.Wait()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	next := make(map[string]int)
	for _, m := range lines(t, path) {
		p := fmt.Sprint(m["partition"])
		if fmt.Sprint(m["offset"]) != fmt.Sprint(next[p]) {
			t.Fatalf("partition %s: offset %v after %d", p, m["offset"], next[p])
		}
		next[p]++
	}
	for p, got := range next {
		if got != n {
			t.Errorf("partition %s: %d lines", p, got)
		}
	}
}

func TestACutLineIsEnded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bad.ndjson")
	if err := os.WriteFile(path, []byte("{}\n{\"reason\":\"emp"), 0o644); err != nil {
		t.Fatal(err)
	}
	f := open(t, path)
	if err := f.Send(t.Context(), aggregator.BadRecord{Reason: event.NotJSON}); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	last := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	if len(last) != 3 || last[1] != `{"reason":"emp` || !json.Valid([]byte(last[2])) {
		t.Errorf("the file is %q", b)
	}
}

// A file that takes nothing says so, and takes all once it can: nothing is
// lost, and nothing is there twice.
func TestAFullDiskLosesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bad.ndjson")
	f := open(t, path)
	whole := f.file
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	f.file = full
	bad := aggregator.BadRecord{Reason: event.Empty, Record: aggregator.Record{Value: bytes.Repeat([]byte("v"), 1000)}}
	sent := 0
	for {
		if err := f.Send(t.Context(), bad); err != nil {
			break
		}
		if sent++; sent > 1000 {
			t.Fatal("all is taken")
		}
	}
	if err := f.Flush(t.Context()); err == nil || !strings.Contains(err.Error(), path) {
		t.Fatalf("flush: %v", err)
	}
	f.file = whole
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if got := len(lines(t, path)); got != sent {
		t.Errorf("%d lines for %d records", got, sent)
	}
	if f.Send(t.Context(), bad) == nil || f.Flush(t.Context()) == nil {
		t.Error("a closed file takes records")
	}
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("a folder opens: %v", err)
	}
}
