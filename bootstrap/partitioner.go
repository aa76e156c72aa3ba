package bootstrap

import (
	"context"
	"fmt"

	"tidemark/aggregator"
)

// Newest is what finding the producers' partitioner asks of the log.
type Newest interface {
	// Newest reads the newest records of a partition, n or fewer.
	Newest(ctx context.Context, partition int32, n int) ([]aggregator.Record, error)
}

const (
	// sampleSize is how many of the newest records of a partition are looked at.
	sampleSize = 32
	// sampleParts is in how many partitions, at the most.
	sampleParts = 16
)

// findPartitioner looks at the newest records of the topic and returns the
// first partitioner, Murmur2 before the others, that places every key where it
// lies; false where there are no keys, or none does.
func findPartitioner(ctx context.Context, log Newest, topic aggregator.Topic) (aggregator.Partitioner, bool, error) {
	var against [aggregator.NumPartitioners]bool
	keys := 0
	for partition := range min(topic.Partitions, sampleParts) {
		records, err := log.Newest(ctx, partition, sampleSize)
		if err != nil {
			return aggregator.Murmur2, false, fmt.Errorf("look how the producers place keys in partition %d of %s: %w", partition, topic.Name, err)
		}
		for _, r := range records {
			if len(r.Key) == 0 {
				continue // placed by turns
			}
			keys++
			for p := range aggregator.NumPartitioners {
				against[p] = against[p] || p.Partition(r.Key, topic.Partitions) != partition
			}
		}
	}
	for p := range aggregator.NumPartitioners {
		if keys > 0 && !against[p] {
			return p, true, nil
		}
	}
	return aggregator.Murmur2, false, nil
}
