package deploy

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"tidemark/aggregator"
	"tidemark/api"
	"tidemark/query"
)

// metric is one metric as a running service shows it.
type metric struct {
	name, help, kind string // kind in Prometheus' words
	labels           []string
	bounds           []float64           // of a histogram's buckets
	values           map[string][]string // of each label, as far as seen here
}

// standing is a member with one partition, of which there is a snapshot.
type standing struct{ api.Reader }

func (standing) Status() []aggregator.PartitionStatus {
	return []aggregator.PartitionStatus{{Topic: "sales", Partition: 0, State: aggregator.Live, Answers: true, Snapshot: &aggregator.Snapshot{Created: time.Now()}}}
}

func (standing) View() api.View { return api.View{} }

// exposed gathers every metric that the service has, by its name, from the
// registry that /metrics shows. Those that exist only once something has
// happened are made to.
func exposed(t *testing.T) map[string]metric {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	metrics := api.NewMetrics(registry, "v1.2.3", "abc")
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		api.NewPartitionCollector(standing{}.Status), api.NewStateCollector(func() api.Held { return api.Held{Obsolete: map[int32]int64{0: 0}} }))
	metrics.Missing("totalRevenue")
	def, err := query.Parse("SELECT userId, count(*) AS sales FROM sales GROUP BY userId")
	if err != nil {
		t.Fatal(err)
	}
	program, err := aggregator.Compile(def, aggregator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	server, err := api.New(program, standing{}, standing{}, api.Options{Metrics: metrics, Gatherer: registry})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	for _, path := range []string{"/healthz", "/readyz"} {
		server.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	}

	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]metric{}
	for _, f := range families {
		m := metric{name: f.GetName(), help: f.GetHelp(), kind: kinds[f.GetType().String()], values: map[string][]string{}}
		for _, series := range f.GetMetric() {
			for _, l := range series.GetLabel() {
				if !slices.Contains(m.labels, l.GetName()) {
					m.labels = append(m.labels, l.GetName())
				}
				m.values[l.GetName()] = append(m.values[l.GetName()], l.GetValue())
			}
			for i, b := range series.GetHistogram().GetBucket() {
				if i == len(m.bounds) {
					m.bounds = append(m.bounds, b.GetUpperBound())
				}
			}
		}
		all[m.name] = m
	}
	return all
}

var kinds = map[string]string{"COUNTER": "counter", "GAUGE": "gauge", "HISTOGRAM": "histogram", "SUMMARY": "summary"}

// series are the names under which Prometheus stores a metric, each with its
// labels; those of the target are added to them.
func series(m metric) map[string][]string {
	labels := append([]string{"job", "instance", "namespace", "pod"}, m.labels...)
	if m.kind != "histogram" {
		return map[string][]string{m.name: labels}
	}
	return map[string][]string{
		m.name + "_bucket": append([]string{"le"}, labels...),
		m.name + "_sum":    labels,
		m.name + "_count":  labels,
	}
}
