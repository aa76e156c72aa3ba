// Package event turns the bytes of a record into the values of the few paths
// that a definition names. Scanner is compiled once from those paths and reads
// a record in one pass: named paths become Values, everything else is
// validated as strict JSON and skipped without conversion. Numbers stay text
// until they become exact decimals. The same rules read history documents.
package event
