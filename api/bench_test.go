package api

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"tidemark/aggregator"
)

var _ Reader = (*aggregator.Processor)(nil)

const benchPartitions = 8

// sinkWriter is a client that takes an answer and keeps how long it is.
type sinkWriter struct {
	header http.Header
	code   int
	n      int
}

func (w *sinkWriter) Header() http.Header  { return w.header }
func (w *sinkWriter) WriteHeader(code int) { w.code = code }

func (w *sinkWriter) Write(b []byte) (int, error) {
	w.n += len(b)
	return len(b), nil
}

// processCPU is what this process has used so far.
func processCPU(b *testing.B) time.Duration {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		b.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// benchReads has a server answer requests, of a state whose totals are on disk and
// of one of which a part is pending, without a network. It tells the CPU beside
// the time, as other work on the machine tells in that alone.
func benchReads(b *testing.B, request func(n int) *http.Request) {
	states := newRealStates(b, 200_000, 3, benchPartitions)
	for _, pending := range []int{0, 20_000} {
		b.Run(fmt.Sprintf("pending=%d", pending*benchPartitions), func(b *testing.B) {
			s := states.open(pending)
			defer s.stop()
			w := &sinkWriter{header: http.Header{}}
			b.ReportAllocs()
			began, n := processCPU(b), 0
			for b.Loop() {
				if n++; n == 1 {
					began = processCPU(b)
				}
				clear(w.header)
				w.code = http.StatusOK
				s.server.ServeHTTP(w, request(n))
				if w.code != http.StatusOK {
					b.Fatal(w.code)
				}
			}
			b.ReportMetric(float64(processCPU(b)-began)/float64(n), "cpu-ns/op")
		})
	}
}

// get is a request that costs next to nothing.
func get(path, query string) *http.Request {
	return &http.Request{Method: http.MethodGet, URL: &url.URL{Path: path, RawQuery: query}, Header: http.Header{}, Body: http.NoBody}
}

// user is one of the 200,000, another for each n.
func user(n int) int { return n * 7919 % 200_000 }

func BenchmarkRow(b *testing.B) {
	benchReads(b, func(n int) *http.Request {
		return get(fmt.Sprintf("/v1/aggregates/%d", user(n)), "")
	})
}

// BenchmarkRowServed is a row over a connection that is kept: what net/http, the
// sockets and a client that does next to nothing take is in it.
func BenchmarkRowServed(b *testing.B) {
	states := newRealStates(b, 200_000, 3, benchPartitions)
	s := states.open(0)
	defer s.stop()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := HTTPServer(s.server, s.server.log)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	defer func() {
		server.Close()
		<-ended
	}()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	room := make([]byte, 64<<10)
	began, n := processCPU(b), 0
	for b.Loop() {
		n++
		if _, err := fmt.Fprintf(conn, "GET /v1/aggregates/%d HTTP/1.1\r\nHost: localhost\r\n\r\n", user(n)); err != nil {
			b.Fatal(err)
		}
		got, err := conn.Read(room) // an answer is one segment
		if err != nil || !bytes.HasPrefix(room[:got], []byte("HTTP/1.1 200 ")) || !bytes.HasSuffix(room[:got], []byte("}\n")) {
			b.Fatalf("%v: %s", err, room[:got])
		}
	}
	b.ReportMetric(float64(processCPU(b)-began)/float64(n), "cpu-ns/op")
}

func BenchmarkBatch(b *testing.B) {
	benchReads(b, func(n int) *http.Request {
		var body strings.Builder
		for i := range 100 {
			fmt.Fprintf(&body, `,"%d"`, user(100*n+i))
		}
		r := get("/v1/aggregates:batchGet", "")
		r.Method, r.Body = http.MethodPost, io.NopCloser(strings.NewReader(`{"keys":[`+body.String()[1:]+`]}`))
		return r
	})
}

func BenchmarkPage(b *testing.B) {
	benchReads(b, func(n int) *http.Request {
		return get("/v1/aggregates", "limit=1000&prefix="+fmt.Sprint(10+n%80))
	})
}

func BenchmarkTop(b *testing.B) {
	benchReads(b, func(int) *http.Request {
		return get("/v1/aggregates", "order=-totalRevenue&limit=10")
	})
}

// BenchmarkTopCold is the first top list after a start: all keys are looked
// through.
func BenchmarkTopCold(b *testing.B) {
	const users = 1_000_000
	states := newRealStates(b, users, 1, benchPartitions)
	var used time.Duration
	n := 0
	for b.Loop() {
		b.StopTimer()
		s := states.open(0)
		w := &sinkWriter{header: http.Header{}, code: http.StatusOK}
		r := get("/v1/aggregates", "order=-totalRevenue&limit=10")
		b.StartTimer()
		began := processCPU(b)
		s.server.ServeHTTP(w, r)
		used += processCPU(b) - began
		n++
		b.StopTimer()
		s.stop()
		if w.code != http.StatusOK {
			b.Fatal(w.code)
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(used)/float64(n)/users, "cpu-ns/key")
}
