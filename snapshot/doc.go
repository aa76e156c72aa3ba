// Package snapshot keeps the state of partitions in an object store: it
// publishes what has changed, restores it elsewhere, and throws away what is
// old. FORMAT.md shows the objects.
//
// A snapshot is a manifest, written last, and the files that it names by their
// SHA-256. All objects are create-only: none is ever written over.
//
// Who may publish is decided by the numbers of the manifests. A new owner
// first creates the next number with a higher epoch over the same files
// (Store.Claim); the old owner's next publish finds its number taken by a
// higher epoch and gets aggregator.ErrFenced. So a snapshot can be old, never
// of two owners.
//
// Three things are not what they seem in object stores, and handled here: a
// create that is refused may have been refused by its own first attempt, whose
// answer was lost, so it is read back and compared; an object that was just
// written or listed may not be found for a while, so it is asked for again; and
// create-only writes of gocloud.dev's folders hold within one process alone, so
// folders have a writer of their own.
//
// Methods of a Store may be called from any goroutine. Nothing here runs in
// the background: what is started has ended when the call returns.
package snapshot
