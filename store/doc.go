// Package store keeps the state of partitions on disk: a Dir is the state
// directory of one member, a Partition in it is one Pebble database. It is the
// only package that imports Pebble. FORMAT.md shows every file, key and value.
//
// There is no write-ahead log: the log is the topic. The position lies in the
// same batch as the totals, so a crash loses a suffix of the applies, each
// whole, and rewinds totals and position together; the task folds the rest
// again. Nothing in here wipes a state in order to get going.
//
// All partitions of a Dir share one block cache, one file cache, one limit on
// compactions, one floor of free disk and one ballast file.
package store
