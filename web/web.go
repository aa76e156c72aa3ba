// Package web holds the page at the root of the HTTP interface. The page uses
// the public interface alone.
package web

import _ "embed"

// Page is the page, one file without anything to load.
//
//go:embed index.html
var Page []byte

// Policy is the page's content security policy: its own inline style and
// script, and requests to where it came from.
const Policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
