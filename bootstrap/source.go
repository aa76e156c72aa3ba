package bootstrap

import (
	"context"

	"tidemark/event"
)

// Source is where the documents of a history come from.
type Source interface {
	// Name is the source in messages: a file, or an index.
	Name() string
	// Read reads the history from its beginning and calls yield for each
	// document, from one goroutine at a time; the document is valid during the
	// call. It ends with yield's error, with ctx's, or with one of its own,
	// which wraps aggregator.ErrHopeless where no retry mends it. nil means
	// that the history was read whole.
	Read(ctx context.Context, yield func(*Document) error) error
}

// Document is one document of a history as its source has it.
type Document struct {
	Source []byte // its JSON text, the bytes as they were stored
	ID     []byte // as the source names it; empty where it has no name
	Index  []byte // that holds it, where the source reads several
	Line   int64  // in a file, from 1; else 0
	// Reason says what is wrong with what stands round the document, of which
	// Field is at fault; Source is then empty.
	Reason event.Reason
	Field  string
	// Read is how much of Total has been read, in bytes of a file or in
	// documents of an index; Total is 0 where it is not known.
	Read, Total int64
}
