package bench

import (
	"fmt"
	"strings"
)

// rival is another engine on the same totals of ten million of the same events.
type rival struct {
	name          string
	zipf, uniform float64 // CPU-seconds a million events
	peak          string  // MiB, zipf
}

// rivals were measured by hand within eleven minutes of 2026-11-30, 22:31 to 22:42
// UTC, on the machine and in the hour of a drain of ours, with the same events,
// users, partitions and broker, until all was drained; `make bench` does not run
// them.
var rivals = []rival{
	{"Flink 2.2.1, totals on the heap", 3.76, 6.14, "1,946"},
	{"Flink 2.2.1, RocksDB", 8.58, 13.8, "1,509"},
	{"Kafka Streams 4.3.1, at least once", 7.31, 16.3, "2,098"},
	{"Spark 4.2.0, RocksDB", 9.32, 18.8, "2,346"},
}

// against compares what was measured of us with the rivals' figures; "" where what
// was measured is not what they did.
func against(sections []section) string {
	var b strings.Builder
	b.WriteString("Against the JVM engines, in CPU-seconds a million events. Theirs were **measured on 2026-11-30, 22:31 to 22:42 UTC, on the machine of the published table, one run each, not by `make bench`**, up to where all was drained; they hold the JVM's start, 0.6 to 2.4 CPU-s/M:\n\n" +
		"| engine | zipf | ratio | uniform | ratio | peak memory, MiB |\n|---|---|---|---|---|---|\n")
	ours := map[spread]float64{}
	for _, s := range sections {
		if !s.Full || s.Broker != kafkaBroker {
			continue
		}
		for _, f := range s.Figures {
			for _, d := range drains {
				if f.What == fmt.Sprintf("drain, %s: CPU", d.spread) {
					ours[d.spread] = median(f.Values)
				}
			}
		}
	}
	if ours[zipf] == 0 || ours[uniform] == 0 {
		return ""
	}
	fmt.Fprintf(&b, "| tidemark | %s | 1 | %s | 1 | see above |\n", number(ours[zipf]), number(ours[uniform]))
	for _, r := range rivals {
		of := func(v, ours float64) string { return fmt.Sprintf("%s | %s |", number(v), number(v/ours)) }
		fmt.Fprintf(&b, "| %s | %s %s %s |\n", r.name, of(r.zipf, ours[zipf]), of(r.uniform, ours[uniform]), r.peak)
	}
	return b.String()
}
