// Package web holds the page at the root of the HTTP interface. The page uses
// the public interface alone.
//
// Its parts are files below page/: one document, one style sheet and a module
// a subject. They are sent as one document, so that a page is always of one
// version, whichever members a load balancer asks, and so that nothing but "/"
// is open where the service has tokens.
package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"regexp"
	"strings"
	"time"
)

//go:embed page
var files embed.FS

// modules are the page's scripts, each behind those that it imports.
var modules = []string{"json.js", "dom.js", "server.js", "values.js", "plot.js", "lookup.js", "top.js", "listing.js", "partitions.js", "group.js", "main.js"}

// Page is the page, one document without anything to load. Policy is its
// content security policy: the style and the scripts that it was sent with, and
// requests to where it came from.
var Page, Policy = assemble()

var tag = func() string {
	sum := sha256.Sum256(Page)
	return `"` + hex.EncodeToString(sum[:16]) + `"`
}()

// importLine is what joins the modules as files, and is not needed in one
// script; exportWord stands before what others import.
var (
	importLine = regexp.MustCompile(`(?m)^import .*\n`)
	exportWord = regexp.MustCompile(`(?m)^export `)
)

func assemble() (page []byte, policy string) {
	style, theme := part("page.css"), part("theme.js")
	var script strings.Builder
	for _, name := range modules {
		text := importLine.ReplaceAllString(part(name), "")
		script.WriteString(exportWord.ReplaceAllString(text, ""))
	}
	document := strings.NewReplacer("{{style}}", style, "{{theme}}", theme, "{{script}}", script.String()).Replace(part("index.html"))
	policy = "default-src 'none'; style-src " + hash(style) + "; script-src " + hash(theme) + " " + hash(script.String()) +
		"; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'" +
		"; require-trusted-types-for 'script'; trusted-types 'none'"
	return []byte(document), policy
}

// part is one of the embedded files.
func part(name string) string {
	text, err := files.ReadFile("page/" + name)
	if err != nil {
		return "" // they are all in the binary: a test compares
	}
	return string(text)
}

// hash is how a policy names an inline style or script.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// Serve answers with the page. A browser asks each time, and is told when it
// has it already.
func Serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", Policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", tag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(Page))
}
