//go:build integration && stores

package snapshot

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"
)

// front is a server before the store that changes requests and answers. It
// returns the URL by which a bucket is reached through it. refuse, where not
// nil, says which requests get 403.
func (e *emulator) front(t *testing.T, bucketURL string, refuse func(*http.Request) bool, request func(*http.Request), answer func(*http.Response) error) string {
	t.Helper()
	u, err := url.Parse(bucketURL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: e.Proxy.Address})
			if e.Scheme != "gs" {
				r.Out.Host = r.In.Host // it is signed
			}
			if request != nil {
				request(r.Out)
			}
		},
		ModifyResponse: func(r *http.Response) error {
			if answer == nil {
				return nil
			}
			return answer(r)
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) {
			panic(http.ErrAbortHandler) // the connection ends without an answer
		},
		ErrorLog:  slog.NewLogLogger(slog.DiscardHandler, 0),
		Transport: &http.Transport{DisableKeepAlives: true},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refuse != nil && refuse(r) {
			e.refuse(w)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	address := strings.TrimPrefix(server.URL, "http://")
	for name, value := range e.EnvironAt(address) {
		t.Setenv(name, value)
	}
	return e.through(e.URLAt(address, u.Host))
}

// through is the URL of the folder that newURL chose.
func (e *emulator) through(url string) string {
	if strings.Contains(url, "?") {
		return url + "&prefix=some/folder"
	}
	return url + "?prefix=some/folder"
}

// refuse answers as the cloud does to a login that lacks a permission.
func (e *emulator) refuse(w http.ResponseWriter) {
	body := `<?xml version="1.0"?><Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>`
	w.Header().Set("Content-Type", "application/xml")
	switch e.Scheme {
	case "gs":
		w.Header().Set("Content-Type", "application/json")
		body = `{"error":{"code":403,"message":"any does not have the permission","errors":[{"reason":"forbidden","message":"any does not have the permission"}]}}`
	case "azblob":
		w.Header().Set("x-ms-error-code", "AuthorizationPermissionMismatch")
		body = `<?xml version="1.0"?><Error><Code>AuthorizationPermissionMismatch</Code><Message>This request is not authorized to perform this operation using this permission.</Message></Error>`
	}
	w.WriteHeader(http.StatusForbidden)
	io.WriteString(w, body)
}

// What a store refuses, or does not refuse, is said in one line, at once, and
// is taken for nothing else.
func refusals(t *testing.T, e *emulator) {
	missing := e.through(e.URL("there-is-none"))
	if _, err := Open(t.Context(), missing, Options{}); !errors.Is(err, ErrNoBucket) {
		t.Errorf("a bucket that is missing: %v", err)
	}

	t.Run("overwrites", func(t *testing.T) {
		s := reach(t, e.front(t, e.newURL(t), nil, func(r *http.Request) {
			if e.Scheme == "azblob" {
				return // the condition is signed
			}
			r.Header.Del("If-None-Match")
			q := r.URL.Query()
			q.Del("ifGenerationMatch")
			r.URL.RawQuery = q.Encode()
		}, func(r *http.Response) error {
			if r.StatusCode == http.StatusConflict || r.StatusCode == http.StatusPreconditionFailed {
				r.StatusCode = http.StatusCreated
				r.Header.Del("x-ms-error-code")
			}
			return nil
		}), Options{})
		if err := s.Check(t.Context()); !errors.Is(err, ErrNotCreateOnly) {
			t.Errorf("a store that overwrites: %v", err)
		}
	})

	// Each permission by itself.
	isList := func(r *http.Request) bool {
		q := r.URL.Query()
		return r.Method == http.MethodGet && (q.Has("list-type") || q.Get("comp") == "list" || strings.HasSuffix(r.URL.Path, "/o"))
	}
	for _, one := range []struct {
		name   string
		refuse func(*http.Request) bool
	}{
		{"list", isList},
		{"create", func(r *http.Request) bool { return r.Method == http.MethodPut || r.Method == http.MethodPost }},
		{"read", func(r *http.Request) bool {
			return (r.Method == http.MethodGet || r.Method == http.MethodHead) && !isList(r)
		}},
		{"delete", func(r *http.Request) bool { return r.Method == http.MethodDelete }},
	} {
		t.Run("may not "+one.name, func(t *testing.T) {
			direct := e.newURL(t)
			whole := reach(t, direct, Options{})
			o := claim(t, whole, 3)
			publish(t, o, 10)
			newest := publish(t, o, 11)

			url := e.front(t, direct, one.refuse, nil, nil)
			began := time.Now()
			s, err := Open(t.Context(), url, Options{Settle: DefaultSettle, Clock: inTwoHours})
			if one.name == "list" {
				if !errors.Is(err, errRefused) || errors.Is(err, ErrNoBucket) {
					t.Errorf("open: %v", err)
				}
				oneLine(t, err)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			err = s.Check(t.Context())
			if !errors.Is(err, errRefused) {
				t.Errorf("the check says %v", err)
			}
			oneLine(t, err)
			switch one.name {
			case "create":
				_, err := s.Claim(t.Context(), lineage(3), 0)
				if !errors.Is(err, errRefused) {
					t.Errorf("claim: %v", err)
				}
				neverFenced(t, err)
				oneLine(t, err)
			case "read":
				_, err := s.Newest(t.Context(), lineage(3))
				if !errors.Is(err, errRefused) || errors.Is(err, ErrNoSnapshot) {
					t.Errorf("newest: %v", err)
				}
				oneLine(t, err)
				if err := s.Verify(t.Context(), newest.Manifest, nil); !errors.Is(err, errRefused) || errors.Is(err, ErrDamaged) {
					t.Errorf("verify: %v", err)
				}
			case "delete":
				r, err := s.Reap(t.Context(), lineage(3), 1)
				if !errors.Is(err, errRefused) || r.Manifests > 0 {
					t.Errorf("a clean-up removed %+v, %v", r, err)
				}
				oneLine(t, err)
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("it took %s to be refused", took)
			}
		})
	}
}

// oneLine fails where an error is no sentence.
func oneLine(t testing.TB, err error) {
	t.Helper()
	if err != nil && strings.Contains(err.Error(), "\n") {
		t.Errorf("several lines:\n%v", err)
	}
	t.Log(err)
}
