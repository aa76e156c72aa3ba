package api

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// Held is what the states of this member take besides their bytes on disk.
type Held struct {
	Memory   int64           // bytes of cached blocks and of write buffers
	Limit    int64           // what state.memory allows them, in bytes
	Obsolete map[int32]int64 // bytes of files that are no longer part of the state, by partition
}

// StateCollector shows what the states hold, as PartitionCollector shows how the
// partitions stand.
type StateCollector struct{ held func() Held }

// NewStateCollector makes a collector that asks held at each scrape.
func NewStateCollector(held func() Held) StateCollector { return StateCollector{held} }

var (
	descMemory      = description("state_memory_bytes", "Memory of the states' caches and write buffers.")
	descMemoryLimit = description("state_memory_limit_bytes", "What state.memory allows them.")
	descObsolete    = description("state_obsolete_bytes", "State on disk that is no longer needed and not removed yet.", "partition")
)

// Describe implements prometheus.Collector.
func (StateCollector) Describe(out chan<- *prometheus.Desc) {
	out <- descMemory
	out <- descMemoryLimit
	out <- descObsolete
}

// Collect implements prometheus.Collector.
func (c StateCollector) Collect(out chan<- prometheus.Metric) {
	h := c.held()
	gauge := func(d *prometheus.Desc, v int64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
	}
	gauge(descMemory, h.Memory)
	gauge(descMemoryLimit, h.Limit)
	for p, n := range h.Obsolete {
		gauge(descObsolete, n, strconv.Itoa(int(p)))
	}
}
