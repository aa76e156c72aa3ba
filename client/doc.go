// Package client asks a Tidemark service for totals: one row, several, a
// listing, the first by a result, or a row whenever it changes.
//
// A Client knows one or several members of the group, any of which answers for
// every key. Where one cannot be reached, or answers that it cannot tell now,
// the next is asked. Errors that the service answers with are of type *Error;
// errors.Is(err, ErrNotFound) and the like tell them apart.
//
// Numbers keep their digits: they are texts of type Number.
package client
