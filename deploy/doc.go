// Package deploy holds what Tidemark is operated with: dashboard, rules,
// compose file and chart. It has no code, only the tests that keep those true
// to the service: every metric and label that they name is one that a running
// service shows. What foreign tools have to say (promtool, helm and others) is
// asked by check, which make deploy-check runs.
package deploy

//go:generate go test . -run Generated -update
