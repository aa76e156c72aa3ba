package aggregator

import (
	"iter"
	"time"

	"tidemark/event"
	"tidemark/query"
)

// Options are what a fold depends on besides the query.
type Options struct {
	Zone     *time.Location // for timestamps without a zone; nil is UTC
	SetLimit int            // members of a set per key; 0 is DefaultSetLimit
	MaxBytes int            // of a record; 0 is DefaultMaxBytes
}

const (
	DefaultSetLimit = 10_000
	DefaultMaxBytes = 64 << 20
)

// Program is a definition compiled for folding, merging and answering. It is
// immutable and shared by all goroutines.
type Program struct {
	def  *query.Definition
	opts Options
}

// Compile makes a program of a definition.
func Compile(def *query.Definition, opts Options) (*Program, error) { panic("aggregator: not built") }

// Query is the definition that p was compiled from.
func (p *Program) Query() *query.Definition { return p.def }

// Definition identifies p in a state: the query's clauses, and the time zone
// where the query reads timestamps.
func (p *Program) Definition() Definition { panic("aggregator: not built") }

// Key joins the texts of the key columns to a key: the text itself for one
// column, else each percent-encoded (all but RFC 3986's unreserved) and joined
// by "/". Keys sort by bytes. An error says how many columns are wanted.
func (p *Program) Key(texts []string) ([]byte, error) { panic("aggregator: not built") }

// KeyTexts is the inverse of Key.
func (p *Program) KeyTexts(key []byte) []string { panic("aggregator: not built") }

// Decoder decodes the records of one partition and folds them. It belongs to
// one goroutine.
type Decoder struct{}

// NewDecoder returns a decoder for a partition with the cut. guard looks up a
// key's instant in the history; it is called once per key and delta, in cut
// mode guard alone, and may be nil in the others.
func (p *Program) NewDecoder(cut DecodeCut, guard func(key []byte) (event.Time, bool, error)) (*Decoder, error) {
	panic("aggregator: not built")
}

// DecodeCut is what a decoder must know of the cut.
type DecodeCut struct {
	Before    *event.Time // events before it are BeforeCut; nil for none
	EventTime event.Path  // of the event's time, nil for the record's timestamp
	Guard     bool        // per key, events at or before its guard are BeforeCut
}

// Fold decodes r, folds it into delta and counts it there. An error is one of
// the guard's; the record is then not counted.
func (d *Decoder) Fold(delta *Delta, partition int32, r *Record) (Outcome, error) {
	panic("aggregator: not built")
}

// Delta is the change of one partition's totals by the records in
// [First, Next). One goroutine at a time.
type Delta struct {
	First, Next int64
	Counts      Counts
	// Placement holds the partitioners that agree with every key of the delta.
	Placement Placement
}

// NewDelta returns an empty delta for partition, one of partitions.
func (p *Program) NewDelta(partition, partitions int32) *Delta { panic("aggregator: not built") }

// Len is the number of keys; Bytes the memory in use for them.
func (d *Delta) Len() int { panic("aggregator: not built") }

// Bytes is the memory in use, an estimate.
func (d *Delta) Bytes() int { panic("aggregator: not built") }

// Get appends the key's encoded total to dst; false where the delta has none.
func (d *Delta) Get(dst, key []byte) ([]byte, bool) { panic("aggregator: not built") }

// Sorted yields all keys >= from with their encoded totals, in key order. Both
// slices are valid until the next step. The delta must not change meanwhile.
func (d *Delta) Sorted(from []byte) iter.Seq2[[]byte, []byte] { panic("aggregator: not built") }

// Smallest yields, in key order, the first limit keys >= from as Sorted would,
// in time proportional to Len.
func (d *Delta) Smallest(from []byte, limit int) iter.Seq2[[]byte, []byte] {
	panic("aggregator: not built")
}

// Reset empties the delta and keeps its memory for the next.
func (d *Delta) Reset(first int64) { panic("aggregator: not built") }

// Total is one key's accumulators in memory, for merging and answering. The
// zero total is what a key has before its first event.
type Total struct{}

// NewTotal returns a zero total.
func (p *Program) NewTotal() *Total { panic("aggregator: not built") }

// Reset makes t the zero total again.
func (t *Total) Reset() { panic("aggregator: not built") }

// Merge adds an encoded total. An error means bytes that no version of this
// program wrote, or a newer one did; it names both versions.
func (t *Total) Merge(encoded []byte) error { panic("aggregator: not built") }

// Append appends the encoding of t: the same bytes for the same total, however
// it came about.
func (t *Total) Append(dst []byte) []byte { panic("aggregator: not built") }

// AppendRow appends t as the JSON object of an answer's row. quoted puts every
// number in quotes.
func (t *Total) AppendRow(dst, key []byte, quoted bool) []byte { panic("aggregator: not built") }

// Capped names the columns whose set has lost members to the limit.
func (t *Total) Capped() []string { panic("aggregator: not built") }

// Value is the answer of one column, for ordering: Null, False, True, Decimal,
// Text, Timestamp; for a set its number of members.
func (t *Total) Value(column int, key []byte) event.Value { panic("aggregator: not built") }

// Mapping says where a history document holds what a result row holds.
type Mapping struct {
	Keys   []event.Path          // one for each key column
	Fields map[string]event.Path // by result name, or NAME.sum, NAME.count, NAME.by; absent: the result name itself
	Guard  event.Path            // of cut mode guard; nil in other modes
}

// Documents reads history documents into deltas. It belongs to one goroutine.
type Documents struct{}

// NewDocuments compiles a reader of documents. Its error says what a mapping
// lacks for the definition (avg needs .sum and .count, min_by and max_by .by),
// or which of its names the definition does not have.
func (p *Program) NewDocuments(m Mapping) (*Documents, error) { panic("aggregator: not built") }

// Document is what a document says, besides its totals.
type Document struct {
	Key     []byte      // valid until the next Read
	Guard   *event.Time // of cut mode guard, nil where the document has none
	Missing []string    // result names whose field is missing or null
	Reason  event.Reason
	Field   string // at fault, where Reason is not OK
}

// Read reads one document and holds its totals until the next Read.
func (d *Documents) Read(source []byte) Document { panic("aggregator: not built") }

// AddTo adds the totals of the document just read to its key in delta; SetIn
// puts them there in place of what the delta has of the key.
func (d *Documents) AddTo(delta *Delta) { panic("aggregator: not built") }

// SetIn is AddTo, replacing.
func (d *Documents) SetIn(delta *Delta) { panic("aggregator: not built") }

// Duplicate says whether an encoded total came from more than one document.
func Duplicate(encoded []byte) bool { panic("aggregator: not built") }
