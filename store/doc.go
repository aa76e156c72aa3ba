// Package store keeps the totals of one partition in one Pebble database. It
// is the only package that imports Pebble. FORMAT.md shows every key and
// value. Without a write-ahead log: the log is Kafka, the position is in the
// same batch as the totals, so a crash rewinds both together.
package store
