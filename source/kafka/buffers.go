package kafka

import (
	"math/bits"
	"sync"
)

// buffers are byte slices to be used again, by powers of two. What is not used
// for a while is the garbage collector's.
type buffers struct {
	classes [32]sync.Pool // of *[]byte
}

// leastClass is that of the smallest buffer: 1<<leastClass bytes.
const leastClass = 12

// class is that of the smallest buffer of n bytes or more.
func class(n int) int { return max(bits.Len(uint(n-1)), leastClass) }

// get returns n bytes, more than 0, of any contents.
func (p *buffers) get(n int) []byte {
	c := class(n)
	if c >= len(p.classes) {
		return make([]byte, n)
	}
	if b, ok := p.classes[c].Get().(*[]byte); ok {
		return (*b)[:n]
	}
	return make([]byte, n, 1<<c)
}

// put takes a buffer of get back. nil is none.
func (p *buffers) put(b []byte) {
	c := class(max(cap(b), 1))
	if cap(b) == 0 || c >= len(p.classes) || cap(b) != 1<<c {
		return
	}
	b = b[:0]
	p.classes[c].Put(&b)
}
