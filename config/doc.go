// Package config reads the configuration file: strict YAML with environment
// expansion, every error with file and line. It is read by cmd alone, which
// hands the values on.
package config
