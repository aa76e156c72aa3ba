package snapshot

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestOpenURLs(t *testing.T) {
	root := t.TempDir()
	file := filepath.Join(root, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for raw, want := range map[string]string{ // "" is fine
		"file://" + root:                         "",
		"file://localhost" + root:                "",
		"file://" + root + "/not/there/yet":      "",
		"file://" + root + "?prefix=a/b":         "",
		"file://" + root + "?no_tmp_dir=1":       "",
		"mem://":                                 "",
		"mem://?prefix=x":                        "",
		"file://" + file:                         "is not a folder",
		"file://" + file + "/in/it":              "not a directory",
		"file://./relative":                      "absolute path",
		"file:relative":                          "absolute path",
		"file://" + root + "?prefiks=a":          `"prefiks"`,
		"ftp://host/x":                           "none of file, s3, gs, azblob",
		"/var/lib/x":                             "none of file, s3, gs, azblob",
		"s3://":                                  "names no bucket",
		"s3://user:secret@bucket":                "holds no login",
		"s3://buck et\x7f?key=secret":            "invalid",
		"s3://bucket?unheard_of=secret&region=x": "unheard_of",
		"azblob://container?unheard_of=secret":   "unheard_of",
	} {
		s, err := Open(t.Context(), raw, Options{})
		if want == "" {
			if err != nil {
				t.Errorf("%s: %v", raw, err)
				continue
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want one with %q", raw, err, want)
		} else if strings.Contains(err.Error(), "secret@") || strings.Contains(err.Error(), "=secret") {
			t.Errorf("%s: a secret is told: %v", raw, err)
		}
	}
	if _, err := os.Stat(filepath.Join(root, "not")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("opening makes a folder: %v", err)
	}
}

// A path behind the bucket is a folder in it, as everybody expects of an S3
// URL, and stands before the parameter prefix.
func TestPrefixes(t *testing.T) {
	for raw, want := range map[string]string{
		"mem://": "", "mem://?prefix=a": "a/", "mem://?prefix=a/b/": "a/b/", "mem:///x/y?prefix=/z": "x/y/z/", "mem:///x/": "x/",
	} {
		b, _, err := openBucket(t.Context(), raw, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if got := b.(*cloud).prefix; got != want {
			t.Errorf("%s: prefix %q, want %q", raw, got, want)
		}
		if err := b.close(); err != nil {
			t.Error(err)
		}
	}
	root := t.TempDir()
	s, err := Open(t.Context(), (&url.URL{Scheme: "file", Path: root, RawQuery: "prefix=a%2Fb"}).String(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	publish(t, claim(t, s, 3), 10)
	if _, err := os.Stat(filepath.Join(root, "a", "b", "tidemark-sales", lineage(3).TopicID, "3", "m", "00000000000000000000")); err != nil {
		t.Error(err)
	}
}

func TestCheck(t *testing.T) {
	eachBucket(t, func(t *testing.T, open func() bucket) {
		b := open()
		if err := openStore(t, b, Options{}).Check(t.Context()); err != nil {
			t.Error(err)
		}
		if left := keys(t, b, ""); left != nil {
			t.Errorf("left: %v", left)
		}
		overwrites := &hooked{bucket: b, onCreate: func(key string, create func() error) error {
			err := create()
			if errors.Is(err, errExists) {
				err = nil // as stores do that do not know the condition
			}
			return err
		}}
		if err := openStore(t, overwrites, Options{}).Check(t.Context()); !errors.Is(err, ErrNotCreateOnly) {
			t.Errorf("a store that overwrites: %v", err)
		}
		for what, broken := range map[string]*hooked{
			"create an object": {onCreate: func(string, func() error) error { return errRefused }},
			"read an object": {onOpen: func(_ string, body io.ReadCloser, err error) (io.ReadCloser, error) {
				if err == nil {
					err = body.Close()
				}
				return nil, errors.Join(errRefused, err)
			}},
			"list objects":     {onList: func(string, []object) ([]object, error) { return nil, errRefused }},
			"delete an object": {onDelete: func(context.Context, string, func() error) error { return errRefused }},
		} {
			broken.bucket = b
			if err := openStore(t, broken, Options{}).Check(t.Context()); !errors.Is(err, errRefused) || !strings.Contains(err.Error(), what) {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}
