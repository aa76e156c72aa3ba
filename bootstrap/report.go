package bootstrap

import (
	"context"
	"maps"

	"tidemark/aggregator"
)

// Report is what a history was found to hold.
type Report struct {
	Source    string
	Documents int64            // all of them, also those that were skipped
	Missing   map[string]int64 // documents in which a field is missing or null, by field
	Skipped   []Skipped        // the most frequent first
	Whole     bool             // it was read to its end
}

// Skipped is why some documents are left out.
type Skipped struct {
	Reason    string
	Field     string // at fault, "" for the document as a whole
	Documents int64
}

// Try reads the whole history into one store, as the only partition's, and
// reports what there was, also beside an error; errors are Seed's.
func (s *Seeder) Try(ctx context.Context, store aggregator.SeedStore, told func(aggregator.SeedProgress)) (Report, error) {
	pass, err := s.pass(aggregator.Topic{Partitions: 1}, aggregator.Murmur2.String(), map[int32]aggregator.SeedStore{0: store}, told)
	if err != nil {
		return Report{}, err
	}
	err = pass.run(ctx)
	found := Report{
		Source: pass.shares.source, Documents: pass.shares.documents,
		Missing: maps.Clone(pass.shares.missing), Whole: pass.whole,
	}
	for _, f := range pass.shares.frequent() {
		found.Skipped = append(found.Skipped, Skipped{f.reason.String(), f.field, pass.shares.reasons[f]})
	}
	return found, err
}
