// Package pages holds the tests that keep two pages of docs/ true: troubles.md
// is written from a table and from the names of the tests, and each message
// that errors.md quotes is looked for in the code.
package pages

//go:generate go test . -run TestTroublesPage -update
