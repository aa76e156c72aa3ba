package api

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"tidemark/aggregator"
	"tidemark/event"
)

// measured is a service with all metrics.
func measured(t *testing.T) (*member, *Metrics) {
	registry := prometheus.NewPedanticRegistry()
	metrics := NewMetrics(registry, "v1.2.3", "abc")
	m := one(t, salesQuery, 4, Options{Metrics: metrics, Gatherer: registry, Snapshots: &fakeSnapshots{}})
	m.reader.change(0, func(s *aggregator.PartitionStatus) { s.Snapshot = &aggregator.Snapshot{Created: taken.Created} })
	registry.MustRegister(NewPartitionCollector(m.reader.Status))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	return m, metrics
}

func TestMetricsAsInTheContract(t *testing.T) {
	m, metrics := measured(t)
	var observer aggregator.Observer = metrics
	observer.Folded(100, 0.001)
	observer.Applied(200_000, 0.5)
	metrics.Published(1<<20, 1)
	metrics.Restored(2)
	metrics.Rebalanced(3)
	metrics.Committed(true)
	metrics.Committed(false)
	metrics.Fenced()
	metrics.Documents(7)
	metrics.Missing("totalPoints")
	metrics.Retried()
	metrics.Seeded(9)
	m.reader.fold(3, sale("23", "1"), "", sale("24", `"41,70"`))
	m.reader.change(3, func(s *aggregator.PartitionStatus) { s.End, s.Gap = 10, 25 })
	m.get("/v1/aggregates/23")
	m.get("/none")
	got := m.get("/metrics").body
	for _, line := range []string{
		`tidemark_events_total{partition="3",result="folded",topic="sales"} 1`,
		`tidemark_events_total{partition="3",result="bad",topic="sales"} 2`,
		`tidemark_events_total{partition="3",result="tombstone",topic="sales"} 0`,
		`tidemark_events_total{partition="3",result="filtered",topic="sales"} 0`,
		`tidemark_events_total{partition="3",result="before_cut",topic="sales"} 0`,
		`tidemark_bad_events_total{reason="empty"} 1`,
		`tidemark_bad_events_total{reason="bad_number"} 1`,
		`tidemark_bad_events_total{reason="overflow"} 0`,
		`tidemark_lag_records{partition="3",topic="sales"} 7`,
		`tidemark_position{partition="3",topic="sales"} 3`,
		`tidemark_fold_seconds_count 1`,
		`tidemark_apply_seconds_count 1`,
		`tidemark_apply_records_sum 200000`,
		`tidemark_snapshot_seconds_count 1`,
		`tidemark_snapshot_bytes_sum 1.048576e+06`,
		`tidemark_snapshot_age_seconds{partition="0"} `,
		`tidemark_restore_seconds_count 1`,
		`tidemark_rebalances_total 1`,
		`tidemark_rebalance_seconds_sum 3`,
		`tidemark_commits_total{result="ok"} 1`,
		`tidemark_commits_total{result="error"} 1`,
		`tidemark_assigned_partitions 4`,
		`tidemark_state_bytes{partition="3"} 0`,
		`tidemark_keys{partition="3"} 0`,
		`tidemark_bootstrap_documents_total 7`,
		`tidemark_bootstrap_missing_total{field="totalPoints"} 1`,
		`tidemark_bootstrap_retries_total 1`,
		`tidemark_bootstrap_seconds_sum 9`,
		`tidemark_http_request_seconds_count{code="200",route="/v1/aggregates/{key}"} 1`,
		`tidemark_http_request_seconds_count{code="404",route="unknown"} 1`,
		`tidemark_gap_records_total{partition="3"} 25`,
		`tidemark_fenced_total 1`,
		`tidemark_build_info{commit="abc",go_version="go`,
	} {
		if !strings.Contains(got, "\n"+line) {
			t.Errorf("missing: %s", line)
		}
	}
	if t.Failed() {
		t.Log(got)
	}
}

// Series end with ownership, and counters never fall, also when a partition
// comes back.
func TestO10SeriesEndWithOwnership(t *testing.T) {
	m, _ := measured(t)
	m.reader.fold(3, "", "", sale("23", "1"))
	if got := m.get("/metrics").body; !strings.Contains(got, `tidemark_bad_events_total{reason="empty"} 2`) {
		t.Errorf("got %s", got)
	}
	session := m.reader.Status()[3].Session
	m.reader.drop(3)
	got := m.get("/metrics").body
	if strings.Contains(got, `partition="3"`) || !strings.Contains(got, "tidemark_assigned_partitions 3") {
		t.Errorf("a series is left: %s", got)
	}
	if !strings.Contains(got, `tidemark_bad_events_total{reason="empty"} 2`) {
		t.Errorf("a counter has fallen: %s", got)
	}
	m.reader.own(3, 4)
	m.reader.change(3, func(s *aggregator.PartitionStatus) { s.Session = session }) // kept over claims
	m.reader.fold(3, "")
	got = m.get("/metrics").body
	if !strings.Contains(got, `tidemark_bad_events_total{reason="empty"} 3`) || !strings.Contains(got, `{partition="3",result="bad",topic="sales"} 3`) {
		t.Errorf("a counter has fallen: %s", got)
	}
	if strings.Contains(got, "23") && slices.Contains(strings.Fields(got), `key="23"`) {
		t.Error("a key is in a label")
	}
	if event.NumReasons != strings.Count(got, "\ntidemark_bad_events_total{")+1 {
		t.Error("a reason is missing")
	}
}

func TestWatchesAndHangUpsAreCounted(t *testing.T) {
	m, _ := measured(t)
	events, _ := m.events("/v1/aggregates/23/watch")
	next(t, events)
	eventually(t, "the watch is counted while it goes on", func() bool {
		return strings.Contains(m.get("/metrics").body, `tidemark_http_request_seconds_count{code="200",route="/v1/aggregates/{key}/watch"} 1`)
	})
}

// TestK15LagIsWhatCanBeRead: from the position, or the log's start where that
// is higher, to the readable end; never below zero.
func TestK15LagIsWhatCanBeRead(t *testing.T) {
	m, _ := measured(t)
	for _, c := range []struct{ position, start, end, lag int64 }{
		{0, 0, 0, 0}, {11, 0, 11, 0}, {3, 0, 11, 8}, {40, 40, 40, 0},
		{30, 40, 40, 0}, // all that was missing has expired
		{30, 40, 45, 5}, // a gap, and five records behind it
		{500, 900, 1000, 100},
		{50, 0, 40, 0}, // the log has lost its tail
	} {
		m.reader.change(2, func(s *aggregator.PartitionStatus) { s.Position, s.LogStart, s.End = c.position, c.start, c.end })
		if got, want := m.get("/v1/status").body, fmt.Sprintf(`"position":%d,"high_watermark":%d,"log_start":%d,"lag":%d,`, c.position, c.end, c.start, c.lag); !strings.Contains(got, want) {
			t.Errorf("the status lacks %s: %s", want, got)
		}
		if got, want := m.get("/metrics").body, fmt.Sprintf(`tidemark_lag_records{partition="2",topic="sales"} %d`+"\n", c.lag); !strings.Contains(got, want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
}
