// Package config reads the configuration file: strict YAML with environment
// expansion, every error with file and line. It is read by cmd alone, which
// hands the values on.
//
// One table (keys.go) names every key with its type, default, unit and
// meaning. It drives the reading, the search for unknown keys and
// docs/configuration.md. Load walks the YAML nodes by it (tree.go), reads each
// text by its kind (kinds.go), merges the result over the defaults into a
// Config, and then looks at what the settings are together (rules.go,
// definition.go). All problems are reported at once, in order of their lines.
//
// Load depends on the file, the files that it names and the environment, never
// on the network, so that `check` and `serve` come to one verdict.
package config

//go:generate go test . -run TestPage -update
