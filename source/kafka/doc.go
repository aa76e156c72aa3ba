// Package kafka reads a topic as a member of a consumer group. It is the only
// package that imports sarama. Group keeps the membership, Fetcher reads whole
// record batches on connections of its own, Client asks the questions in
// between (topic, offsets, commits), DeadLetter produces what could not be
// folded.
package kafka
