package web

import (
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The page is whole by itself: it loads nothing, and its policy lets it run
// what it was sent with alone.
func TestPageLoadsNothing(t *testing.T) {
	page := string(Page)
	if !strings.HasPrefix(page, "<!doctype html>") || !strings.Contains(page, "</html>") || strings.Contains(page, "{{") {
		t.Error("the page is not whole")
	}
	bad := []string{`https?://[a-z0-9]`, `<script[^>]+src`, `<link[^>]+stylesheet`, `@import`, `innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b`, `<[a-z][^>]* on[a-z]+=`, `<[a-z][^>]* style=`}
	for _, bad := range bad {
		for _, found := range regexp.MustCompile(bad).FindAllString(page, -1) {
			if !strings.HasPrefix(found, "http://w") { // the namespace of drawings, which nobody loads
				t.Errorf("the page has %q", found)
			}
		}
	}
	if !strings.HasPrefix(Policy, "default-src 'none';") || strings.Contains(Policy, "unsafe") {
		t.Errorf("the policy is %s", Policy)
	}
	scripts := regexp.MustCompile(`(?s)<script[^>]*>(.*?)</script>`).FindAllStringSubmatch(page, -1)
	if len(scripts) != 2 {
		t.Fatalf("the page has %d scripts", len(scripts))
	}
	for _, s := range scripts {
		if !strings.Contains(Policy, hash(s[1])) {
			t.Errorf("the policy has no hash of the script that begins with %.40q", s[1])
		}
	}
}

// Every file has its place in the page, and a module stands behind those that
// it imports: joined, they mean what they mean as files.
func TestPageHoldsEveryFile(t *testing.T) {
	entries, err := files.ReadDir("page")
	if err != nil {
		t.Fatal(err)
	}
	imports := regexp.MustCompile(`(?m)^import .* from "\./(.*)";$`)
	names := regexp.MustCompile(`(?m)^(?:export )?(?:async )?(?:const|let|class|function) (\w+)`)
	owner := map[string]string{}
	for _, name := range slices.Concat(modules, []string{"index.html", "page.css", "theme.js"}) {
		if part(name) == "" {
			t.Errorf("there is no %s", name)
		}
	}
	for _, e := range entries {
		if path.Ext(e.Name()) != ".js" || e.Name() == "theme.js" {
			continue
		}
		at := slices.Index(modules, e.Name())
		if at < 0 {
			t.Errorf("%s is not in the page", e.Name())
		}
		for _, m := range imports.FindAllStringSubmatch(part(e.Name()), -1) {
			if i := slices.Index(modules, m[1]); i < 0 || i >= at {
				t.Errorf("%s imports %s, which does not stand before it", e.Name(), m[1])
			}
		}
		for _, m := range names.FindAllStringSubmatch(part(e.Name()), -1) {
			if other := owner[m[1]]; other != "" {
				t.Errorf("%s and %s both name something %s", other, e.Name(), m[1])
			}
			owner[m[1]] = e.Name()
		}
	}
}

// A browser that has the page is told so.
func TestPageIsKept(t *testing.T) {
	ask := func(method, tag string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, "/", nil)
		r.Header.Set("If-None-Match", tag)
		w := httptest.NewRecorder()
		Serve(w, r)
		return w
	}
	first := ask(http.MethodGet, "")
	tag := first.Header().Get("ETag")
	if first.Code != 200 || first.Body.String() != string(Page) || tag == "" || first.Header().Get("Cache-Control") != "no-cache" {
		t.Errorf("got %d %v", first.Code, first.Header())
	}
	for _, have := range []string{tag, `"other", ` + tag, "W/" + tag} {
		if again := ask(http.MethodGet, have); again.Code != 304 || again.Body.Len() != 0 || again.Header().Get("Content-Security-Policy") == "" {
			t.Errorf("If-None-Match %s: got %d with %d bytes", have, again.Code, again.Body.Len())
		}
	}
	if other := ask(http.MethodGet, `"other"`); other.Code != 200 {
		t.Errorf("another tag: got %d", other.Code)
	}
	if head := ask(http.MethodHead, ""); head.Code != 200 || head.Body.Len() != 0 {
		t.Errorf("HEAD: got %d with %d bytes", head.Code, head.Body.Len())
	}
}
