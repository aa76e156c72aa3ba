// Package search is a search server in memory for tests: as much of
// Elasticsearch and OpenSearch as a reader of whole indices asks for, with the
// answers that the real ones give, and faults on request.
package search
