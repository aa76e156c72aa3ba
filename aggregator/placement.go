package aggregator

import (
	"encoding/binary"
	"hash/crc32"
	"slices"
)

// Partitioner is how producers place keys.
type Partitioner uint8

const (
	Murmur2 Partitioner = iota // Java's default
	FNV1a                      // sarama's hash partitioner
	CRC32                      // librdkafka's consistent partitioner
	NumPartitioners
)

var partitionerNames = [NumPartitioners]string{"murmur2", "fnv1a", "crc32"}

// String is the partitioner's name in the configuration.
func (p Partitioner) String() string { return partitionerNames[p] }

// PartitionerNamed returns the partitioner with the name, false where there is
// none.
func PartitionerNamed(name string) (Partitioner, bool) {
	i := slices.Index(partitionerNames[:], name)
	return Partitioner(max(i, 0)), i >= 0
}

// allPartitioners is the placement that no key has spoken against.
const allPartitioners Placement = 1<<NumPartitioners - 1

// Partition is the partition, of n, in which the partitioner places key. n
// below 1 counts as 1.
func (p Partitioner) Partition(key []byte, n int32) int32 {
	if n <= 1 {
		return 0
	}
	switch p {
	case FNV1a:
		// sarama's NewHashPartitioner: the remainder of the signed hash,
		// without its sign.
		r := int32(fnv1a(key)) % n
		if r < 0 {
			r = -r
		}
		return r
	case CRC32:
		// rd_kafka_msg_partitioner_consistent: the IEEE polynomial, unsigned.
		return int32(crc32.ChecksumIEEE(key) % uint32(n))
	}
	// Kafka's BuiltInPartitioner.partitionForKey: toPositive clears the sign.
	return int32(murmur2(key)&0x7fffffff) % n
}

// murmur2 is org.apache.kafka.common.utils.Utils.murmur2: the 32-bit
// MurmurHash2 of Austin Appleby, little-endian, with Kafka's seed.
func murmur2(key []byte) uint32 {
	const m = 0x5bd1e995
	h := uint32(0x9747b28c) ^ uint32(len(key))
	for len(key) >= 4 {
		k := binary.LittleEndian.Uint32(key) * m
		k ^= k >> 24
		h = h*m ^ k*m
		key = key[4:]
	}
	switch len(key) {
	case 3:
		h ^= uint32(key[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(key[1]) << 8
		fallthrough
	case 1:
		h ^= uint32(key[0])
		h *= m
	}
	h ^= h >> 13
	h *= m
	return h ^ h>>15
}

// fnv1a is the 32-bit FNV-1a hash of Fowler, Noll and Vo, as hash/fnv has it.
func fnv1a(key []byte) uint32 {
	h := uint32(2166136261)
	for _, c := range key {
		h = (h ^ uint32(c)) * 16777619
	}
	return h
}

// keep takes the partitioners out of p that place key in another partition, of
// n, than the one given.
func (p Placement) keep(key []byte, partition, n int32) Placement {
	for q := Partitioner(0); q < NumPartitioners; q++ {
		if p&(1<<q) != 0 && q.Partition(key, n) != partition {
			p &^= 1 << q
		}
	}
	return p
}
