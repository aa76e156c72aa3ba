// Package integration drives the real binary against a real Kafka and a real
// search node, through nothing but its configuration file, its signals and
// HTTP, as a user does. The tests carry the build tag integration:
//
//	make integration
//
// The tests on object stores are `make stores`, and carry the tag stores too.
// The page is looked at in a Chromium, which `make setup` installs; PAGE_SHOTS=DIR
// keeps pictures of it.
//
// `make soak` does the soak for an hour and not for seconds, lets every crash
// point stand for itself, and makes the crash runs longer.
package integration
