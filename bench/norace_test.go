//go:build !race

package bench

var buildFlags []string
