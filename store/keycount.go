package store

import (
	"bytes"
	"fmt"
	"math"
	"math/bits"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

// keysKey holds the registers of the key count.
var keysKey = []byte("m/keys")

const (
	keyCountBits = 12                // of the hash that name a register
	keyCountLen  = 1 << keyCountBits // registers, a byte each
)

// keyCount estimates how many keys a state has, as merges never learn whether
// a key is new: a HyperLogLog sketch (Flajolet et al. 2007) with the estimator
// of Ertl ("New cardinality estimation algorithms for HyperLogLog sketches",
// 2017, algorithm 6). The standard error is 1.6 %, less below some thousand
// keys. It depends on the set of keys alone, and is written with the applies
// that change it.
//
// add, pending and committed belong to the goroutine that applies; estimate to all.
type keyCount struct {
	registers [keyCountLen]byte
	changed   bool // since committed
	sum       atomic.Int64
}

func newKeyCount() *keyCount { return new(keyCount) }

// add counts key, once.
func (c *keyCount) add(key []byte) {
	h := hash(key)
	register := h >> (64 - keyCountBits)
	// The rank of the first one bit of the rest, from 1.
	rank := byte(bits.LeadingZeros64(h<<keyCountBits|1<<(keyCountBits-1))) + 1
	if rank > c.registers[register] {
		c.registers[register] = rank
		c.changed = true
	}
}

// pending is what is to be written under keysKey, nil where nothing has changed.
func (c *keyCount) pending() []byte {
	if !c.changed {
		return nil
	}
	return c.registers[:]
}

// committed says that what was pending is written.
func (c *keyCount) committed() {
	if c.changed {
		c.changed = false
		c.sum.Store(c.compute())
	}
}

// load takes over the registers of a state.
func (c *keyCount) load(db *pebble.DB) error {
	value, ok, err := get(db, nil, keysKey)
	if err != nil || !ok {
		return err
	}
	if err := c.decode(value); err != nil {
		return err
	}
	c.sum.Store(c.compute())
	return nil
}

func (c *keyCount) decode(value []byte) error {
	if len(value) != keyCountLen || bytes.ContainsFunc(value, func(r rune) bool { return r > 64-keyCountBits+1 }) {
		return fmt.Errorf("key count of the state: %d bytes that are no registers: %w", len(value), ErrCorrupt)
	}
	copy(c.registers[:], value)
	return nil
}

// estimate is the number of keys as of the last commit.
func (c *keyCount) estimate() int64 { return c.sum.Load() }

func (c *keyCount) compute() int64 {
	const most = 64 - keyCountBits // the highest rank but one
	var with [most + 2]float64
	for _, rank := range c.registers {
		with[rank]++
	}
	const m = float64(keyCountLen)
	z := m * tau(1-with[most+1]/m)
	for rank := most; rank >= 1; rank-- {
		z = 0.5 * (z + with[rank])
	}
	z += m * sigma(with[0]/m)
	return int64(math.Round(m * m / (2 * math.Ln2) / z))
}

func sigma(x float64) float64 {
	if x == 1 {
		return math.Inf(1)
	}
	y, z := 1.0, x
	for {
		x *= x
		was := z
		z += x * y
		y += y
		if z == was {
			return z
		}
	}
}

func tau(x float64) float64 {
	if x == 0 || x == 1 {
		return 0
	}
	y, z := 1.0, 1-x
	for {
		x = math.Sqrt(x)
		was := z
		y *= 0.5
		z -= (1 - x) * (1 - x) * y
		if z == was {
			return z / 3
		}
	}
}

// hash is FNV-1a followed by Stafford's mixer 13 (the finalizer of SplitMix64),
// without which its high bits are poor. It is part of the format.
func hash(key []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, b := range key {
		h = (h ^ uint64(b)) * 1099511628211
	}
	h ^= h >> 30
	h *= 0xbf58476d1ce4e5b9
	h ^= h >> 27
	h *= 0x94d049bb133111eb
	return h ^ h>>31
}
