package api

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"tidemark/aggregator"
)

var _ Reader = (*aggregator.Processor)(nil)

// bench answers a request over and over, without a network.
func bench(b *testing.B, path string) {
	m := one(b, salesQuery, 4, Options{})
	for i := range 2000 {
		key := fmt.Sprint(i)
		m.reader.fold(placedAt(key, 4), sale(key, "255.59"))
	}
	b.ReportAllocs()
	for b.Loop() {
		w := httptest.NewRecorder()
		m.server.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != 200 {
			b.Fatal(w.Body)
		}
	}
}

func BenchmarkRow(b *testing.B) { bench(b, "/v1/aggregates/23") }

func BenchmarkPage(b *testing.B) { bench(b, "/v1/aggregates?limit=1000") }

func BenchmarkTop(b *testing.B) { bench(b, "/v1/aggregates?order=-totalRevenue&limit=10") }
