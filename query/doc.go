// Package query reads the SQL of a definition: a small, whole grammar, bound
// to types, with errors that carry line and column. A Definition says which
// paths an event is read for, which events count, what the key is and which
// aggregates are kept. Expressions evaluate with SQL's three-valued logic over
// the values of one event.
package query
