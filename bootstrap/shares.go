package bootstrap

import (
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"tidemark/aggregator"
	"tidemark/event"
)

// linesPerReason is how many skipped documents are logged one by one for each
// reason, and documents without a guard.
const linesPerReason = 20

// shares counts what a history lacks, and says at its end whether that is too
// much.
type shares struct {
	source    string
	log       *slog.Logger
	observer  Observer
	documents int64
	missing   map[string]int64 // by field
	skipped   int64
	reasons   map[fault]int64
}

// fault is why documents were skipped.
type fault struct {
	reason event.Reason
	field  string
}

func newShares(source string, log *slog.Logger, observer Observer) *shares {
	return &shares{source: source, log: log, observer: observer, missing: map[string]int64{}, reasons: map[fault]int64{}}
}

// lacks counts a document whose field is missing or null.
func (s *shares) lacks(field string) {
	s.missing[field]++
	s.observer.Missing(field)
}

// skip counts a document that is left out, and logs the first of each kind.
func (s *shares) skip(doc *Document, reason event.Reason, field string) {
	s.skipped++
	f := fault{reason, field}
	s.reasons[f]++
	if s.reasons[f] <= linesPerReason {
		s.log.Warn("history document is skipped", "document", s.place(doc), "reason", reason.String(), "field", field)
	}
}

// place names a document: by its id, by its line, or by both.
func (s *shares) place(doc *Document) string {
	at := s.source
	if doc.Line > 0 {
		at += ":" + strconv.FormatInt(doc.Line, 10)
	}
	if len(doc.ID) > 0 {
		at += " (_id " + strconv.Quote(string(doc.ID))
		if len(doc.Index) > 0 {
			at += " of index " + string(doc.Index)
		}
		at += ")"
	}
	return at
}

// verdict is what the counts come to. Above the share, of all documents, that
// is accepted it is an error that wraps aggregator.ErrHopeless; below, what is
// lacking is logged.
func (s *shares) verdict(accepted float64) error {
	if s.documents == 0 {
		s.log.Warn("the history has no documents: the totals start at zero", "history", s.source)
		return nil
	}
	for _, field := range sortedKeys(s.missing) {
		n := s.missing[field]
		if s.above(n, accepted) {
			return fmt.Errorf("%w: read the history %s: %s is missing or null in %s, and max_missing_share accepts %s", aggregator.ErrHopeless, s.source, field, s.of(n), percent(accepted))
		}
		s.log.Warn("history documents lack a field", "history", s.source, "field", field, "documents", n, "of", s.documents)
	}
	if s.skipped == 0 {
		return nil
	}
	if s.above(s.skipped, accepted) {
		return fmt.Errorf("%w: read the history %s: no key or a bad value in %s (%s), and max_missing_share accepts %s", aggregator.ErrHopeless, s.source, s.of(s.skipped), s.faults(), percent(accepted))
	}
	s.log.Warn("history documents were skipped", "history", s.source, "documents", s.skipped, "of", s.documents, "reasons", s.faults())
	return nil
}

func (s *shares) above(n int64, accepted float64) bool {
	return float64(n) > accepted*float64(s.documents)
}

// of is n documents for people.
func (s *shares) of(n int64) string {
	return fmt.Sprintf("%d of %d documents (%s)", n, s.documents, percent(float64(n)/float64(s.documents)))
}

// frequent are the reasons why documents were skipped, the most frequent first.
func (s *shares) frequent() []fault {
	all := make([]fault, 0, len(s.reasons))
	for f := range s.reasons {
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b fault) int {
		if n := s.reasons[b] - s.reasons[a]; n != 0 {
			return int(min(max(n, -1), 1))
		}
		return strings.Compare(a.reason.String()+a.field, b.reason.String()+b.field)
	})
	return all
}

// faults lists why documents were skipped.
func (s *shares) faults() string {
	all := s.frequent()
	texts := make([]string, 0, 5)
	for i, f := range all {
		if i == cap(texts) {
			texts = append(texts[:i-1], "and others")
			break
		}
		text := f.reason.String()
		if f.field != "" {
			text += " of " + f.field
		}
		texts = append(texts, fmt.Sprintf("%d %s", s.reasons[f], text))
	}
	return strings.Join(texts, ", ")
}

func percent(share float64) string {
	return strconv.FormatFloat(share*100, 'g', 4, 64) + " %"
}

func sortedKeys(m map[string]int64) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
