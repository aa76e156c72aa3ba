package web

import (
	"regexp"
	"strings"
	"testing"
)

// The page is whole by itself: it loads nothing, and its policy says so.
func TestPageLoadsNothing(t *testing.T) {
	page := string(Page)
	if !strings.HasPrefix(page, "<!doctype html>") || !strings.Contains(page, "</html>") {
		t.Error("the page is not whole")
	}
	for _, bad := range []string{`https?://`, `<script[^>]+src`, `<link[^>]+stylesheet`, `innerHTML`, ` on[a-z]+=`} {
		if found := regexp.MustCompile(bad).FindString(page); found != "" {
			t.Errorf("the page has %q", found)
		}
	}
	if !strings.HasPrefix(Policy, "default-src 'none';") {
		t.Errorf("the policy is %s", Policy)
	}
}
