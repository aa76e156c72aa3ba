// Package pages holds the tests that keep two pages of docs/ true: troubles.md
// is written from a table and from the names of the tests; each message that
// errors.md quotes is looked for in the code, and each sentence with which an
// error begins, each exported error, each warning of the log, each reason and
// each type of problem is looked for on the page.
package pages

//go:generate go test . -run TestTroublesPage -update
