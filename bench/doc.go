// Package bench holds no code of the program: its tests are the harness behind
// `make bench`. Each measurement has a file, and runs the real binary in a
// process of its own against a real Kafka (or, where there is no Java, against
// a broker in the harness's own process, which the report says).
//
// `go test ./bench` runs every measurement at a small size on the broker in
// memory, so that the harness itself stays true; its figures mean nothing.
// `go test -tags bench ./bench` measures. docs/performance.md says how to read
// what comes out, and sizes_test.go which environment variables say how much.
package bench
