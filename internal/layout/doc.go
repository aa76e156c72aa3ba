// Package layout holds the test of the import rules: which package may import
// which, and which library has one room only. docs/design.md gives the map.
package layout
