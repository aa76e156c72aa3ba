// Package api answers over HTTP: rows, listings, top lists, watches, status,
// health and metrics. It knows totals only through its Reader.
package api
