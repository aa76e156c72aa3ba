package event

import (
	"bytes"
	"encoding/binary"
)

// node is one object on the way of a path: the fields wanted of it, and the
// order in which the names of such objects came last. Records of one producer
// have the same names in the same order, so most names are found by one
// comparison of bytes, quotes and colon included, without looking for their end.
type node struct {
	fields []field
	byName map[string]int // into fields, where there are many

	order    []expectation
	names    []byte // the names of order, as they stood there
	learning bool   // the object being read is the new order
	strange  int    // objects in a row that did not follow the order
}

// field is a wanted field of a node.
type field struct {
	name  string
	slot  int    // into the values, -1 where the field is only passed through
	path  int    // the first path that reads the name
	child *node  // the wanted fields of its object, else nil
	seen  uint64 // number of the last Scan that came across it
}

// expectation is one name in an order, with its quotes, and with the colon where
// that followed at once: names[start:start+size].
type expectation struct {
	start, size int
	field       *field // nil where the name is not wanted
	// The first eight bytes and the last eight, which are the whole of up to
	// sixteen; for less than eight, both are all of them, under a mask.
	head, tail, mask uint64
	tailAt           int // of tail, from start on
}

const (
	// fewFields is how many names are compared one by one.
	fewFields = 8
	// maxOrder and maxNames bound what is remembered of an object's names:
	// their number, and their bytes.
	maxOrder = 256
	maxNames = 8 << 10
	// lookAhead is how many names of the order may be left out in one place
	// before a name is looked up: optional fields.
	lookAhead = 4
	// relearnAfter is after how many objects in a row with names out of order
	// the next one becomes the order. An order that has an optional field
	// serves objects without it, so orders grow until they have them all.
	relearnAfter = 8
)

func newNode() *node { return &node{learning: true} }

// add adds a path to a slot, and returns the slot that has the path already,
// else slot.
func (n *node) add(path Path, slot int) int {
	i := n.index(path[0])
	if i < 0 {
		i = len(n.fields)
		n.fields = append(n.fields, field{name: path[0], slot: -1, path: slot})
	}
	f := &n.fields[i]
	if len(path) > 1 {
		if f.child == nil {
			f.child = newNode()
		}
		return f.child.add(path[1:], slot)
	}
	if f.slot >= 0 {
		return f.slot
	}
	f.slot = slot
	return slot
}

func (n *node) index(name string) int {
	for i := range n.fields {
		if n.fields[i].name == name {
			return i
		}
	}
	return -1
}

// seal ends the adding of paths.
func (n *node) seal() {
	if len(n.fields) > fewFields {
		n.byName = make(map[string]int, len(n.fields))
		for i := range n.fields {
			n.byName[n.fields[i].name] = i
		}
	}
	for i := range n.fields {
		if child := n.fields[i].child; child != nil {
			child.seal()
		}
	}
}

// find returns the field of the name, nil where it is not wanted.
func (n *node) find(name []byte) *field {
	if n.byName != nil {
		if i, ok := n.byName[string(name)]; ok {
			return &n.fields[i]
		}
		return nil
	}
	for i := range n.fields {
		if f := &n.fields[i]; string(name) == f.name {
			return f
		}
	}
	return nil
}

// expected compares what begins at b[i] with the names that the order has from
// *at on, and moves *at behind the one that fits. No name has a place in an
// order in the making: *at is maxOrder then. end is the index behind what
// fits, -1 where none does.
func (n *node) expected(b []byte, i int, at *int) (f *field, end int) {
	head := word(b, i)
	for k := *at; k < len(n.order) && k <= *at+lookAhead; k++ {
		e := &n.order[k]
		if (head^e.head)&e.mask != 0 {
			continue
		}
		end = i + e.size
		if end <= len(b) && (e.size <= 8 || binary.LittleEndian.Uint64(b[end-8:]) == e.tail) &&
			(e.size <= 16 || bytes.Equal(b[i:end], n.names[e.start:e.start+e.size])) {
			*at = k + 1
			return e.field, end
		}
	}
	return nil, -1
}

// fits says whether the name stands at b[i]. It is inlined, and so says no
// within the last eight bytes of b, of which expected knows.
func (n *node) fits(e *expectation, b []byte, i int) bool {
	tail := i + e.tailAt
	if tail+8 > len(b) {
		return false
	}
	return ((binary.LittleEndian.Uint64(b[i:])^e.head)|(binary.LittleEndian.Uint64(b[tail:])^e.tail))&e.mask == 0 &&
		(e.size <= 16 || bytes.Equal(b[i:i+e.size], n.names[e.start:e.start+e.size]))
}

// learn adds a name, in quotes and without escapes, to an order in the making,
// with the colon if it follows at once.
func (n *node) learn(quoted []byte, f *field) {
	if !n.learning || len(n.order) == maxOrder || len(n.names)+len(quoted) > maxNames {
		return
	}
	e := expectation{start: len(n.names), size: len(quoted), field: f}
	n.names = append(n.names, quoted...)
	var head [8]byte
	copy(head[:], quoted)
	e.head = binary.LittleEndian.Uint64(head[:])
	e.tail, e.mask = e.head, ^uint64(0)
	if e.tailAt = len(quoted) - 8; e.tailAt >= 0 {
		e.tail = binary.LittleEndian.Uint64(quoted[e.tailAt:])
	} else {
		e.tailAt, e.mask = 0, e.mask>>(64-8*len(quoted))
	}
	n.order = append(n.order, e)
}

// done ends an object. strange says whether a name was out of order.
func (n *node) done(strange bool) {
	switch {
	case n.learning:
		n.learning, n.strange = false, 0
	case !strange:
		n.strange = 0
	default:
		if n.strange++; n.strange == relearnAfter {
			n.learning = true
			n.order, n.names = n.order[:0], n.names[:0]
		}
	}
}
