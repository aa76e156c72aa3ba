package aggregator

// Partitioner is how producers place keys.
type Partitioner uint8

const (
	Murmur2 Partitioner = iota // Java's default
	FNV1a                      // sarama's hash partitioner
	CRC32                      // librdkafka's consistent partitioner
	NumPartitioners
)

// Partition is the partition, of n, in which the partitioner places key.
func (p Partitioner) Partition(key []byte, n int32) int32 { panic("aggregator: not built") }
