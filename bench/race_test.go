//go:build race

package bench

// buildFlags build the program as the tests are built, so that its packages are
// compiled once.
var buildFlags = []string{"-race"}
