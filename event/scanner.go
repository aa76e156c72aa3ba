package event

// Path is a path to a field: the names from the outermost object inward. It
// never leads through an array.
type Path []string

// Scanner reads records. It belongs to one goroutine.
type Scanner struct {
	// Values holds, after a Scan that returned OK, the value of each path in
	// the order given to NewScanner; Missing where the path leads nowhere.
	Values []Value
}

// NewScanner compiles a scanner for paths. One path may lead through another
// (user and user.id). maxBytes bounds a record; 0 is no bound.
func NewScanner(paths []Path, maxBytes int) *Scanner { panic("event: not built") }

// Scan reads one record: a whole JSON object in UTF-8, a leading byte order
// mark allowed. It returns OK, or the first of Empty, TooLarge, NotUTF8,
// NotJSON, NotObject and DuplicateField that fits; for DuplicateField, path is
// the index of the path whose name was there twice, else -1. Nothing is
// allocated once the scanner has warmed up, and record is not kept beyond the
// Values that point into it.
func (s *Scanner) Scan(record []byte) (reason Reason, path int) { panic("event: not built") }
