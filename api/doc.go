// Package api answers over HTTP: rows, listings, top lists, watches, status,
// health and metrics.
//
// A request goes through four rooms. Server (server.go) guards the door:
// tokens, origins, limits, draining. A handler (rows.go, list.go, top.go,
// batch.go, watch.go) turns it into a question. ask.go puts the question to
// every member that owns partitions, once and in parallel: each is a source,
// this member's own (local.go) or another one over the internal routes
// (peers.go, internal.go). What comes back is merged by key, and an answer is
// given only where every partition that may hold the key has spoken
// (holders.go).
//
// The package knows totals only through its Reader, and the group only through
// its Group.
package api
