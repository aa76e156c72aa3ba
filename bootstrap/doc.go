// Package bootstrap brings the history: it resolves the cut where the stream
// takes over, reads documents in the shape of a result row, and fills the
// seeds of partitions with them.
package bootstrap
