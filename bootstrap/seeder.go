package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"tidemark/aggregator"
	"tidemark/event"
	"tidemark/internal/crashpoint"
)

// What becomes of one key in two documents.
const (
	DuplicatesError = "error" // the history is refused
	DuplicatesSum   = "sum"   // they are added up
	DuplicatesLast  = "last"  // the later one counts; for sources that have an order
)

// DefaultMemory is the bytes of totals, and again of guards, that are gathered
// before they are written.
const DefaultMemory = 64 << 20

// Options of a Seeder. Program and Log are always wanted; Source, Mapping and
// what follows them only with a history.
type Options struct {
	Program *aggregator.Program
	Log     Log
	Cut     Cut

	Source          Source // nil without a history
	Mapping         aggregator.Mapping
	Partitioner     string  // murmur2, fnv1a, crc32, or auto: as the topic's newest records say
	MaxMissingShare float64 // of the documents, 0 to 1, that may lack a field or be skipped
	Duplicates      string  // DuplicatesError where it is empty
	Memory          int     // bytes; 0 is DefaultMemory

	Logger   *slog.Logger // nil logs nothing
	Observer Observer     // nil observes nothing
}

// Log is the log as a Seeder sees it.
type Log interface {
	Offsets
	Newest
}

// Observer is told what a bootstrap does, for metrics.
type Observer interface {
	Documents(n int)      // n more documents were read
	Missing(field string) // one of them lacks the field
	Retried()             // something is asked for again, or read again from its beginning
	Seeded(seconds float64)
}

// Seeder resolves cuts and fills the seeds of partitions from the history. It
// implements aggregator.Seeder. It starts no goroutine.
type Seeder struct {
	o   Options
	log *slog.Logger

	mu     sync.Mutex
	placed map[aggregator.Topic]aggregator.Partitioner // found by partitioner auto
}

var _ aggregator.Seeder = (*Seeder)(nil)

// New returns a Seeder. Its error says which of the options do not fit the
// program.
func New(o Options) (*Seeder, error) {
	if o.Memory == 0 {
		o.Memory = DefaultMemory
	}
	if o.Duplicates == "" {
		o.Duplicates = DuplicatesError
	}
	if o.Observer == nil {
		o.Observer = unobserved{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Seeder{o: o, log: o.Logger, placed: map[aggregator.Topic]aggregator.Partitioner{}}
	if o.Source == nil {
		return s, nil
	}
	if _, ok := aggregator.PartitionerNamed(o.Partitioner); !ok && o.Partitioner != "" && o.Partitioner != "auto" {
		return nil, fmt.Errorf("partitioner %q is not known: auto, murmur2, fnv1a or crc32 is wanted", o.Partitioner)
	}
	switch o.Duplicates {
	case DuplicatesError, DuplicatesSum, DuplicatesLast:
	default:
		return nil, fmt.Errorf("duplicates %q is not known: error, sum or last is wanted", o.Duplicates)
	}
	if _, err := o.Program.NewDocuments(o.Mapping); err != nil {
		return nil, fmt.Errorf("read documents for the query: %w", err)
	}
	return s, nil
}

// Configured is the cut as the configuration has it, with no number where it
// names none.
func (s *Seeder) Configured(partition int32) aggregator.Cut { return s.o.Cut.configured(partition) }

// HasHistory says whether there is a source.
func (s *Seeder) HasHistory() bool { return s.o.Source != nil }

// Cut resolves where the stream takes over in partition, and by which
// partitioner the history is spread.
func (s *Seeder) Cut(ctx context.Context, topic aggregator.Topic, partition int32, later bool) (aggregator.Cut, error) {
	cut, err := s.o.Cut.resolve(ctx, s.o.Log, topic, partition, later)
	if err != nil || s.o.Source == nil {
		return cut, err
	}
	place, err := s.partitioner(ctx, topic)
	cut.Partitioner = place.String()
	return cut, err
}

// Seed reads the whole history and puts the documents whose keys belong to one
// of the stores' partitions, by partitioner and out of topic.Partitions, there. A partition above
// those gets no documents, and in cut mode guard the guards, as all do.
//
// The stores hold the seed on return, not yet durably. An error wraps
// aggregator.ErrHopeless where no retry mends it: the source cannot be read,
// too much is missing or bad, or a key is there twice. told is called from the
// reading goroutine, about once a second and at the end.
func (s *Seeder) Seed(ctx context.Context, topic aggregator.Topic, partitioner string, stores map[int32]aggregator.SeedStore, told func(aggregator.SeedProgress)) (map[int32]aggregator.Seed, error) {
	pass, err := s.pass(topic, partitioner, stores, told)
	if err != nil {
		return nil, err
	}
	if err := pass.run(ctx); err != nil {
		return nil, err
	}
	return pass.seeds(), nil
}

// pass makes a pass that has not begun.
func (s *Seeder) pass(topic aggregator.Topic, partitioner string, stores map[int32]aggregator.SeedStore, told func(aggregator.SeedProgress)) (*pass, error) {
	begin := time.Now()
	place, ok := aggregator.PartitionerNamed(partitioner)
	if !ok {
		return nil, fmt.Errorf("%w: partitioner %q of the cut is not known to this version", aggregator.ErrHopeless, partitioner)
	}
	documents, err := s.o.Program.NewDocuments(s.o.Mapping)
	if err != nil {
		return nil, fmt.Errorf("read documents for the query: %w", err)
	}
	pass := &pass{
		Seeder: s, topic: topic, place: place, documents: documents, begin: begin, shown: begin, show: told,
		shares: newShares(s.o.Source.Name(), s.log, s.o.Observer),
	}
	if s.o.Mapping.Guard != nil {
		pass.guards = newGuards(stores, s.o.Memory, s.o.Duplicates == DuplicatesSum)
	}
	pass.open(stores)
	return pass, nil
}

// partitioner is the one that places documents: the configured one, or what
// the topic's newest records say. What was found once holds for the process,
// so that two passes spread the history alike.
func (s *Seeder) partitioner(ctx context.Context, topic aggregator.Topic) (aggregator.Partitioner, error) {
	if p, ok := aggregator.PartitionerNamed(s.o.Partitioner); ok {
		return p, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p, ok := s.placed[topic]; ok || topic.Partitions <= 1 {
		return p, nil
	}
	p, told, err := findPartitioner(ctx, s.o.Log, topic)
	if err != nil {
		return p, err
	}
	s.placed[topic] = p
	s.log.Info("history documents are placed by partitioner", "partitioner", p.String(), "told_by_records", told)
	return p, nil
}

// pass is one reading of the history.
type pass struct {
	*Seeder
	topic     aggregator.Topic
	place     aggregator.Partitioner
	documents *aggregator.Documents
	shares    *shares
	guards    *guards  // nil in other modes than guard
	parts     []*share // by partition; nil where the partition is not wanted
	all       map[int32]*share

	show         func(aggregator.SeedProgress)
	whole        bool // the source was read to its end
	flushes      int  // of totals to the stores
	begin, shown time.Time
	read, total  int64 // as of the newest document
	told         int64 // documents the observer has been told of
}

// share is one partition's part of the history.
type share struct {
	store aggregator.SeedStore
	delta *aggregator.Delta // nil where the partition gets no documents
	seed  aggregator.Seed
}

// everyPartitioner is the placement that no key has spoken against.
const everyPartitioner aggregator.Placement = 1<<aggregator.NumPartitioners - 1

func (p *pass) open(stores map[int32]aggregator.SeedStore) {
	p.parts = make([]*share, max(p.topic.Partitions, 1))
	p.all = make(map[int32]*share, len(stores))
	for partition, store := range stores {
		part := &share{store: store, seed: aggregator.Seed{Placement: everyPartitioner}}
		p.all[partition] = part
		if partition < p.topic.Partitions {
			part.delta = p.o.Program.NewDelta(partition, p.topic.Partitions)
			p.parts[partition] = part
		}
	}
}

// checkEvery is after how many documents memory and clock are looked at.
const checkEvery = 256

// run reads the history, whole, and judges it.
func (p *pass) run(ctx context.Context) error {
	if err := p.o.Source.Read(ctx, p.take); err != nil {
		return err
	}
	p.whole = true
	if err := p.shares.verdict(p.o.MaxMissingShare); err != nil {
		return err
	}
	return p.finish(ctx)
}

// take reads one document into its partition's delta.
func (p *pass) take(doc *Document) error {
	p.shares.documents++
	p.read, p.total = doc.Read, doc.Total
	if p.shares.documents%checkEvery == 0 {
		crashpoint.Hit("history documents")
		p.tick()
		if err := p.relieve(); err != nil {
			return err
		}
	}
	if doc.Reason != event.OK {
		p.shares.skip(doc, doc.Reason, doc.Field)
		return nil
	}
	d := p.documents.Read(doc.Source)
	if d.Reason != event.OK {
		p.shares.skip(doc, d.Reason, d.Field)
		return nil
	}
	for _, field := range d.Missing {
		p.shares.lacks(field)
	}
	if p.guards != nil {
		if d.Guard == nil {
			p.unguarded(doc, d.Missing)
		} else if err := p.guards.add(d.Key, *d.Guard); err != nil {
			return err
		}
	}
	part := p.parts[p.place.Partition(d.Key, p.topic.Partitions)]
	if part == nil {
		return nil // another member's
	}
	part.seed.Documents++
	if p.o.Duplicates == DuplicatesLast {
		p.documents.SetIn(part.delta)
	} else {
		p.documents.AddTo(part.delta)
	}
	return nil
}

// unguarded counts a document that does not say up to when it goes, where that
// is not a column's field, which is counted already.
func (p *pass) unguarded(doc *Document, counted []string) {
	field := strings.Join(p.o.Mapping.Guard, ".")
	if !slices.Contains(counted, field) {
		p.shares.lacks(field)
	}
	if p.shares.missing[field] <= linesPerReason {
		p.log.Warn("history document has no guard: all events of its key count", "document", p.shares.place(doc), "field", field)
	}
}

// relieve writes the deltas where they hold more than the memory given.
func (p *pass) relieve() error {
	held := 0
	for _, part := range p.parts {
		if part != nil && part.delta.Len() > 0 {
			held += part.delta.Bytes()
		}
	}
	if held < p.o.Memory {
		return nil
	}
	return p.flush()
}

// flush writes the deltas, in order of keys, and empties them.
func (p *pass) flush() error {
	p.flushes++
	for partition, part := range p.parts {
		if part == nil || part.delta.Len() == 0 {
			continue
		}
		if p.o.Duplicates == DuplicatesError {
			for key, total := range part.delta.Sorted(nil) {
				if aggregator.Duplicate(total) {
					return p.duplicate(key)
				}
			}
		}
		if err := part.store.Seed(part.delta.Sorted(nil), p.o.Duplicates == DuplicatesLast); err != nil {
			return fmt.Errorf("write the history of partition %d: %w", partition, err)
		}
		part.seed.Placement &= part.delta.Placement
		part.delta.Reset(0)
	}
	return nil
}

// finish writes what is left, and looks for keys that came twice.
func (p *pass) finish(ctx context.Context) error {
	if err := p.flush(); err != nil {
		return err
	}
	if p.guards != nil {
		if err := p.guards.flush(); err != nil {
			return err
		}
	}
	if p.o.Duplicates == DuplicatesError && p.flushes > 1 {
		for partition, part := range p.parts {
			if part == nil {
				continue
			}
			if err := p.scan(ctx, part.store); err != nil {
				return fmt.Errorf("look for keys that came twice in partition %d: %w", partition, err)
			}
		}
	}
	p.o.Observer.Seeded(time.Since(p.begin).Seconds())
	p.tell(true)
	return nil
}

// scan looks through a store for a key whose documents were in different
// flushes.
func (p *pass) scan(ctx context.Context, store aggregator.SeedStore) error {
	view, err := store.View()
	if err != nil {
		return err
	}
	n := 0
	for key, total := range view.Scan(nil) {
		if aggregator.Duplicate(total) {
			err = p.duplicate(key)
			break
		}
		if n++; n%checkEvery == 0 && ctx.Err() != nil {
			err = ctx.Err()
			break
		}
	}
	return errors.Join(err, view.Err(), view.Close())
}

func (p *pass) duplicate(key []byte) error {
	return fmt.Errorf("%w: read the history %s: the key %q is in two documents: remove one, or set history.duplicates to sum%s", aggregator.ErrHopeless, p.o.Source.Name(), key, p.orLast())
}

// orLast is for sources that have an order.
func (p *pass) orLast() string {
	if _, ok := p.o.Source.(*File); ok {
		return " or last"
	}
	return ""
}

// tick tells how far it is, about once a second.
func (p *pass) tick() {
	if time.Since(p.shown) < time.Second {
		return
	}
	p.shown = time.Now()
	p.tell(false)
}

func (p *pass) tell(done bool) {
	n := p.shares.documents
	p.o.Observer.Documents(int(n - p.told))
	p.told = n
	if done && p.total > 0 {
		p.read = p.total
	}
	p.show(aggregator.SeedProgress{Documents: n, Read: p.read, Total: p.total, Took: time.Since(p.begin), Done: done})
}

// seeds is what each partition got.
func (p *pass) seeds() map[int32]aggregator.Seed {
	seeds := make(map[int32]aggregator.Seed, len(p.all))
	for partition, part := range p.all {
		seeds[partition] = part.seed
	}
	return seeds
}

// unobserved is the observer of those who do not look.
type unobserved struct{}

func (unobserved) Documents(int)  {}
func (unobserved) Missing(string) {}
func (unobserved) Retried()       {}
func (unobserved) Seeded(float64) {}
