package api

import (
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tidemark/aggregator"
	"tidemark/event"
)

// Metrics holds all of the service's metrics. What happens is told to it by
// its methods, which are called from many goroutines and fit the small
// observers that other packages ask for; how partitions stand it reads from a
// status at each scrape. Counters count from the start of the process, the
// number of records lost in gaps alone travels with the state.
type Metrics struct {
	fold, apply, applyRecords                   prometheus.Histogram
	snapshot, snapshotBytes, restore, rebalance prometheus.Histogram
	bootstrap                                   prometheus.Histogram
	rebalances, documents, retries, fenced      prometheus.Counter
	commits, missing, failures                  *prometheus.CounterVec
	requests                                    *prometheus.HistogramVec
}

var (
	quick   = prometheus.ExponentialBuckets(20e-6, 4, 10) // 20 µs to 5 s
	slow    = prometheus.ExponentialBuckets(0.01, 4, 9)   // 10 ms to 11 min
	records = prometheus.ExponentialBuckets(1, 10, 7)     // 1 to a million
	sizes   = prometheus.ExponentialBuckets(1<<10, 16, 7) // 1 KiB to 16 GiB
	answers = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
)

// NewMetrics registers the metrics with r.
func NewMetrics(r prometheus.Registerer, version, commit string) *Metrics {
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "tidemark", Name: name, Help: help, Buckets: buckets})
		r.MustRegister(h)
		return h
	}
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: "tidemark", Name: name, Help: help})
		r.MustRegister(c)
		return c
	}
	counters := func(name, help, label string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "tidemark", Name: name, Help: help}, []string{label})
		r.MustRegister(c)
		return c
	}
	m := &Metrics{
		fold:          histogram("fold_seconds", "Time to fold one fetched batch of records.", quick),
		apply:         histogram("apply_seconds", "Time to write one batch of totals with its position.", quick),
		applyRecords:  histogram("apply_records", "Records behind one batch of totals.", records),
		snapshot:      histogram("snapshot_seconds", "Time to publish one snapshot of a partition.", slow),
		snapshotBytes: histogram("snapshot_bytes", "Bytes uploaded for one snapshot of a partition.", sizes),
		restore:       histogram("restore_seconds", "Time to restore the state of a partition.", slow),
		rebalances:    counter("rebalances_total", "Rebalances of the group that this member took part in."),
		rebalance:     histogram("rebalance_seconds", "Time from the start of a rebalance to the assignment.", slow),
		commits:       counters("commits_total", "Offset commits of partitions, by result.", "result"),
		documents:     counter("bootstrap_documents_total", "Documents of the history that were read."),
		missing:       counters("bootstrap_missing_total", "Documents of the history that lack a field.", "field"),
		retries:       counter("bootstrap_retries_total", "Requests for the history that were repeated."),
		bootstrap:     histogram("bootstrap_seconds", "Time to load the history.", slow),
		failures:      counters("snapshot_failures_total", "Snapshots of partitions that could not be published, and clean-ups of old ones that failed; each is tried again.", "reason"),
		fenced:        counter("fenced_total", "Partitions lost to another owner before they were revoked."),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "tidemark", Name: "http_request_seconds", Buckets: answers,
			Help: "Time to answer an HTTP request; of a watch, to its first event.",
		}, []string{"route", "code"}),
	}
	r.MustRegister(m.requests)
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: "tidemark", Name: "build_info", Help: "What runs; always 1.",
		ConstLabels: prometheus.Labels{"version": version, "commit": commit, "go_version": runtime.Version()},
	})
	info.Set(1)
	r.MustRegister(info)
	m.failures.WithLabelValues(failedPublish)
	m.failures.WithLabelValues(failedCleanUp)
	for _, result := range []bool{true, false} {
		m.commits.WithLabelValues(commitResult(result))
	}
	return m
}

// Folded implements aggregator.Observer.
func (m *Metrics) Folded(_ int, seconds float64) { m.fold.Observe(seconds) }

// Applied implements aggregator.Observer.
func (m *Metrics) Applied(n int, seconds float64) {
	m.apply.Observe(seconds)
	m.applyRecords.Observe(float64(n))
}

// Published notes a published snapshot of a partition and what was uploaded
// for it.
func (m *Metrics) Published(bytes int64, seconds float64) {
	m.snapshot.Observe(seconds)
	m.snapshotBytes.Observe(float64(bytes))
}

// Restored notes a restored partition.
func (m *Metrics) Restored(seconds float64) { m.restore.Observe(seconds) }

// Rebalanced notes a rebalance that ended with an assignment.
func (m *Metrics) Rebalanced(seconds float64) {
	m.rebalances.Inc()
	m.rebalance.Observe(seconds)
}

// Committed notes the commit of one partition's offset.
func (m *Metrics) Committed(ok bool) { m.commits.WithLabelValues(commitResult(ok)).Inc() }

func commitResult(ok bool) string {
	if ok {
		return "ok"
	}
	return "error"
}

// The reasons of failures.
const (
	failedPublish = "publish"
	failedCleanUp = "clean_up"
)

// Unpublished notes a snapshot that could not be published.
func (m *Metrics) Unpublished() { m.failures.WithLabelValues(failedPublish).Inc() }

// Unreaped notes old snapshots that could not be removed.
func (m *Metrics) Unreaped() { m.failures.WithLabelValues(failedCleanUp).Inc() }

// Fenced notes a partition lost to another owner.
func (m *Metrics) Fenced() { m.fenced.Inc() }

// Documents notes n more documents of the history.
func (m *Metrics) Documents(n int) { m.documents.Add(float64(n)) }

// Missing notes a document that lacks a field.
func (m *Metrics) Missing(field string) { m.missing.WithLabelValues(field).Inc() }

// Retried notes a repeated request for the history.
func (m *Metrics) Retried() { m.retries.Inc() }

// Seeded notes a history that was loaded.
func (m *Metrics) Seeded(seconds float64) { m.bootstrap.Observe(seconds) }

// requested notes an answered request.
func (m *Metrics) requested(route string, code int, took time.Duration) {
	m.requests.WithLabelValues(route, strconv.Itoa(code)).Observe(took.Seconds())
}

// PartitionCollector shows how the partitions of this member stand. It asks at
// each scrape, so the series of a partition end when it leaves the member, and
// nothing has to be cleaned up.
//
// The counts of a status belong to the process and are kept over claims, so
// what a partition shows when it comes back is no less than before. Bad
// records by reason have no partition in their labels: those of partitions
// that have left are added as they were last seen.
type PartitionCollector struct {
	status func() []aggregator.PartitionStatus

	mu   sync.Mutex
	seen map[int32]aggregator.Counts // of the process, by partition
}

// NewPartitionCollector makes a collector that asks status, which is an
// *aggregator.Processor's.
func NewPartitionCollector(status func() []aggregator.PartitionStatus) *PartitionCollector {
	return &PartitionCollector{status: status, seen: map[int32]aggregator.Counts{}}
}

func description(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("tidemark_"+name, help, labels, nil)
}

var (
	descEvents      = description("events_total", "Records consumed, by what became of them.", "topic", "partition", "result")
	descBad         = description("bad_events_total", "Bad records, by reason.", "reason")
	descLag         = description("lag_records", "Records between the position and the readable end.", "topic", "partition")
	descPosition    = description("position", "The next offset to fold.", "topic", "partition")
	descSnapshotAge = description("snapshot_age_seconds", "Age of the newest snapshot.", "partition")
	descAssigned    = description("assigned_partitions", "Partitions of this member.")
	descBytes       = description("state_bytes", "State on disk.", "partition")
	descState       = description("partition_state", "1 for the state that the partition is in.", "topic", "partition", "state")
	descKeys        = description("keys", "Keys in the state, an estimate.", "partition")
	descGap         = description("gap_records_total", "Records that retention removed before they were folded; kept with the state.", "partition")
)

// Describe implements prometheus.Collector.
func (c *PartitionCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descEvents, descBad, descLag, descPosition, descSnapshotAge, descAssigned, descBytes, descKeys, descGap, descState,
	} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *PartitionCollector) Collect(out chan<- prometheus.Metric) {
	status := c.status()
	count := func(d *prometheus.Desc, n int64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(descAssigned, float64(len(status)))
	for i := range status {
		st := &status[i]
		p := strconv.Itoa(int(st.Partition))
		for r := range aggregator.NumResults {
			count(descEvents, st.Session.Results[r], st.Topic, p, r.String())
		}
		gauge(descLag, float64(lag(st)), st.Topic, p)
		gauge(descPosition, float64(st.Position), st.Topic, p)
		gauge(descBytes, float64(st.Bytes), p)
		gauge(descKeys, float64(st.Keys), p)
		gauge(descState, 1, st.Topic, p, st.State.String())
		count(descGap, st.Gap, p)
		if st.Snapshot != nil {
			gauge(descSnapshotAge, max(0, time.Since(st.Snapshot.Created).Seconds()), p)
		}
	}
	bad := c.bad(status)
	for i := 1; i < event.NumReasons; i++ {
		count(descBad, bad[i], event.Reason(i).String())
	}
}

// bad adds up bad records by reason over all partitions that this process has
// had.
func (c *PartitionCollector) bad(status []aggregator.PartitionStatus) (sum [event.NumReasons]int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range status {
		c.seen[status[i].Partition] = status[i].Session
	}
	for _, counts := range c.seen {
		for i, n := range counts.Reasons {
			sum[i] += n
		}
	}
	return sum
}
