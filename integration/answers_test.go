//go:build integration

package integration

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"
)

var client = &http.Client{Timeout: 15 * time.Second}

// row is one answer; numbers keep their digits.
type row struct {
	Key       any              `json:"key"`
	Row       map[string]any   `json:"row"`
	Positions map[string]int64 `json:"positions"`
	Complete  bool             `json:"complete"`
}

type status struct {
	Member     string
	Generation int32
	Partitions []partition
	Members    []struct {
		Member     string
		Address    string
		Partitions []int32
	}
	History *struct {
		Mode      string
		Documents int64
		Complete  bool
	}
}

type partition struct {
	Topic         string
	Partition     int32
	State         string
	Reason        string
	Position      int64
	HighWatermark int64 `json:"high_watermark"`
	LogStart      int64 `json:"log_start"`
	Lag           int64
	Counts        struct {
		Folded    int64
		Filtered  int64
		Bad       int64
		Tombstone int64
		BeforeCut int64 `json:"before_cut"`
	}
	Snapshot *struct {
		Seq      int64
		Position int64
		Age      float64 `json:"age_seconds"`
	}
}

func (p partition) consumed() int64 {
	c := p.Counts
	return c.Folded + c.Filtered + c.Bad + c.Tombstone + c.BeforeCut
}

// get asks for a path and returns the status and the body.
func (s *service) get(path string) (int, []byte, error) {
	resp, err := client.Get(s.url + path)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, body, err
}

// ask reads the answer to a path, which must be a 200, into v.
func (s *service) ask(path string, v any) error {
	code, body, err := s.get(path)
	if err != nil {
		return err
	}
	if code != http.StatusOK {
		return fmt.Errorf("GET %s: %d %s", path, code, body)
	}
	return decode(body, v)
}

func decode(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return d.Decode(v)
}

func (s *service) status() (st status, err error) {
	err = s.ask("/v1/status", &st)
	return st, err
}

// row asks for one key.
func (s *service) row(key string) (r row, err error) {
	err = s.ask("/v1/aggregates/"+url.PathEscape(key), &r)
	return r, err
}

// rows pages through the whole listing.
func (s *service) rows() (map[string]map[string]any, error) {
	all := map[string]map[string]any{}
	for cursor := ""; ; {
		var page struct {
			Rows     []row
			Next     string `json:"next_cursor"`
			Complete bool
		}
		path := "/v1/aggregates?limit=1000"
		if cursor != "" {
			path += "&cursor=" + url.QueryEscape(cursor)
		}
		if err := s.ask(path, &page); err != nil {
			return nil, err
		}
		for _, r := range page.Rows {
			key := fmt.Sprint(r.Key)
			if _, twice := all[key]; twice {
				return nil, fmt.Errorf("key %s is in the listing twice", key)
			}
			all[key] = r.Row
		}
		if !page.Complete {
			return nil, fmt.Errorf("the listing is not complete")
		}
		if cursor = page.Next; cursor == "" {
			return all, nil
		}
	}
}

// caughtUp waits until the service has folded all of the topic that is
// readable now, and is live.
func (s *service) caughtUp(topic string) {
	s.t.Helper()
	ends := ends(s.t, topic)
	s.until(120*time.Second, "caught up", func() error {
		st, err := s.status()
		if err != nil {
			return err
		}
		at := map[int32]partition{}
		for _, p := range st.Partitions {
			at[p.Partition] = p
		}
		for i, end := range ends {
			p, ok := at[i]
			if !ok || p.State != "live" || p.Position < end {
				return fmt.Errorf("partition %d: %+v, want live at %d", i, p, end)
			}
		}
		return nil
	})
}

// want checks the columns of one row, given as JSON.
func (s *service) want(key, columns string) {
	s.t.Helper()
	got, err := s.row(key)
	if err != nil {
		s.t.Error(err)
		return
	}
	var want map[string]any
	if err := decode([]byte(columns), &want); err != nil {
		s.t.Fatal(err)
	}
	for name, v := range want {
		if g := got.Row[name]; text(g) != text(v) {
			s.t.Errorf("key %s: %s is %s, want %s", key, name, text(g), text(v))
		}
	}
}

// eventuallyWant waits for the row that want checks.
func (s *service) eventuallyWant(key, columns string) {
	s.t.Helper()
	var want map[string]any
	if err := decode([]byte(columns), &want); err != nil {
		s.t.Fatal(err)
	}
	s.until(60*time.Second, "row of "+key, func() error {
		got, err := s.row(key)
		if err != nil {
			return err
		}
		for name, v := range want {
			if g := got.Row[name]; text(g) != text(v) {
				return fmt.Errorf("key %s: %s is %s, want %s", key, name, text(g), text(v))
			}
		}
		return nil
	})
}

// metric sums the series of a metric whose labels contain all of labels.
func (s *service) metric(t testing.TB, name string, labels ...string) string {
	t.Helper()
	code, body, err := s.get("/metrics")
	if err != nil || code != http.StatusOK {
		t.Fatalf("GET /metrics: %d %v", code, err)
	}
	sum := 0.0
	for line := range metricLines(bytes.NewReader(body)) {
		if line.base != name {
			continue
		}
		all := true
		for _, l := range labels {
			all = all && strings.Contains(line.labels, l)
		}
		if all {
			sum += line.value
		}
	}
	return fmt.Sprint(sum)
}

// metricLine is one series.
type metricLine struct {
	base, labels string
	value        float64
}

// metricLines are the series of an answer of /metrics.
func metricLines(body io.Reader) iter.Seq[metricLine] {
	return func(yield func(metricLine) bool) {
		for in := bufio.NewScanner(body); in.Scan(); {
			series, number, _ := strings.Cut(in.Text(), " ")
			base, labels, _ := strings.Cut(series, "{")
			value, err := strconv.ParseFloat(number, 64)
			if err == nil && !yield(metricLine{base, labels, value}) {
				return
			}
		}
	}
}

// text is a value of a row as JSON.
func text(v any) string {
	out, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(out)
}
