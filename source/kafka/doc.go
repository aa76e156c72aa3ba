// Package kafka reads a topic as a member of a consumer group. It is the only
// package that imports sarama.
//
// Group keeps the membership, by sarama's ConsumerGroup, whose own reading is
// paused. Fetcher reads whole record batches on connections of its own (feed.go
// is one partition, worker.go one leader). Client asks the questions in between:
// topic, offsets, commits, and Check. DeadLetter produces what could not be
// folded.
//
// Each request outside of sarama's group and producers goes over a link: one
// connection, one request at a time, which ends with its context. cluster.go
// finds out which broker to ask.
package kafka
